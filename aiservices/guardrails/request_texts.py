"""The texts in a chat request that callers influence, for input guards and moderation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.plan import Invocation
from ..models.media import File, Media, interleave
from ..models.messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

_TEXT_TYPES = frozenset(("application/json", "application/xml", "image/svg+xml"))
_MessageT = TypeVar("_MessageT", bound=UserMessage | AiMessage | ToolMessage)
_PRIVATE_USE = range(0xE000, 0xF8FF)  # Unicode characters without a meaning of their own


class GuardMessage(str):
    """The text of a user message that requests a new answer after a guard function rejected the previous one.

    Input guards do not check it.
    """

    __slots__ = ()


class RequestText(NamedTuple):
    """A text in a message of a chat request that a caller influences.

    Attributes:
        text: The text, in which one private-use character stands for the mark of the format instructions, so
            that guards neither see nor change the mark.
        position: The index of the message in the request.
        placeholder: That private-use character; "" if the message has no mark.
        change: Returns the message with another text.
    """

    text: str
    position: int
    placeholder: str
    change: Callable[[str], Message]

    def replaced(self, text: str, invocation: Invocation) -> Invocation:
        """Return a copy of the service call with another text in the place of this one."""
        if self.placeholder:
            text = text.replace(self.placeholder, INSTRUCTIONS_MARK)
        messages = list(invocation.request.messages)
        messages[self.position] = self.change(text)
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


def request_texts(invocation: Invocation) -> list[RequestText]:
    """Return the texts of a request that callers influence, in the order of the messages.

    These are the texts of the user message and of the messages before it, of text files and of arguments of
    tool calls, and the names of users and files. A system message without variables is left out.
    """
    texts = []
    messages = invocation.request.messages
    end = len(messages)
    while end and not (
        isinstance(messages[end - 1], UserMessage) and type(messages[end - 1].text) is not GuardMessage
    ):
        end -= 1
    for position, message in enumerate(messages[:end]):
        is_fixed = isinstance(message, SystemMessage) and message.text == invocation.plan.fixed_system
        if (is_fixed and position == 0) or isinstance(message.text, GuardMessage):
            continue
        for text, change in _texts_of(message):
            placeholder = ""
            if INSTRUCTIONS_MARK in text:
                # any character that the text does not contain can stand for the mark
                placeholder = next(char for char in map(chr, _PRIVATE_USE) if char not in text)
                text = text.replace(INSTRUCTIONS_MARK, placeholder)
            texts.append(RequestText(text, position, placeholder, change))
    return texts


def _texts_of(message: Message) -> Iterator[tuple[str, Callable[[str], Message]]]:
    """Yield each text of a message with a function that returns the message with another text."""
    if isinstance(message, SystemMessage):
        yield message.text, lambda text: replace(message, text=text)
        return
    if message.text or isinstance(message, UserMessage):
        yield message.text, partial(with_text, message)
    if isinstance(message, UserMessage) and message.name:
        yield message.name, lambda name: replace(message, name=name)
    if isinstance(message, AiMessage):
        if message.reasoning:
            yield message.reasoning, lambda text: replace(message, reasoning=text, state=None)
        for index, call in enumerate(message.tool_calls):
            yield call.arguments, _change_item(message, "tool_calls", index, partial(_with_arguments, call))
    for index, part in enumerate(message.contents):
        if isinstance(part, str):
            continue
        if part.name:
            rename = partial(_with_name, part)
            yield part.name, _change_item(message, "contents", index, rename)
        if isinstance(part, File) and (text := _text_of_file(part)) is not None:
            yield text, _change_item(message, "contents", index, partial(_with_file_text, part))


def _with_arguments(call: ToolCall, arguments: str) -> ToolCall:
    return replace(call, arguments=arguments)


def _with_name(part: Media, name: str) -> Media:
    return replace(part, name=name)


def _text_of_file(file: File) -> str | None:
    """Return the content of a file if it is text."""
    is_text = file.media_type is not None and (
        file.media_type.startswith("text/") or file.media_type in _TEXT_TYPES
    )
    if file.data is None or not is_text:
        return None
    return file.data.decode("utf-8", "replace")


def _with_file_text(file: File, text: str) -> File:
    return replace(file, data=text.encode())


def with_text(message: _MessageT, text: str) -> _MessageT:
    """Return a copy of a message with another text, and with its media at their places."""
    contents: tuple[str | Media, ...] = tuple(interleave(text, message.contents)) if message.contents else ()
    if isinstance(message, AiMessage):  # the state contains the text, too
        return replace(message, text=text, contents=contents, state=None)
    return replace(message, text=text, contents=contents)


def _change_item(
    message: Any, name: str, index: int, change: Callable[[str], object]
) -> Callable[[str], Message]:
    items: Sequence[object] = getattr(message, name)

    def changed(text: str) -> Message:
        result: Message = replace(message, **{name: (*items[:index], change(text), *items[index + 1 :])})
        return result

    return changed
