"""The texts in a chat request that callers influence, for input guards and moderation."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.plan import Invocation
from ..models.media import Media, interleave
from ..models.messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage

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

    These are the texts of all messages, of text files and of the arguments of tool calls, and the names of
    users, files and tools. A system message without variables is left out, and what the model wrote in this
    call.
    """
    texts = []
    own = set(map(id, invocation.state.tool_messages))  # what the model wrote in this call
    for position, message in enumerate(invocation.request.messages):
        is_fixed = isinstance(message, SystemMessage) and message.text == invocation.plan.fixed_system
        if (is_fixed and position == 0) or id(message) in own or isinstance(message.text, GuardMessage):
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
            for name in ("arguments", "name", "id"):
                change = partial(_with_field, call, name)
                yield getattr(call, name), _change_item(message, "tool_calls", index, change)
    if isinstance(message, ToolMessage):
        for name in ("name", "call_id"):
            yield getattr(message, name), partial(_with_field, message, name)
    yield from texts_of_contents(message)


def texts_of_contents(
    message: UserMessage | AiMessage | ToolMessage,
) -> Iterator[tuple[str, Callable[[str], Message]]]:
    """Yield the texts in the files of a message, their names and URLs, as ``_texts_of`` does."""
    for index, part in enumerate(message.contents):
        if isinstance(part, str):
            continue
        for name in ("name", "url"):
            if getattr(part, name):
                change = partial(_with_field, part, name)
                yield getattr(part, name), _change_item(message, "contents", index, change)
        if part.data is not None and (decoded := _decoded(part)) is not None:
            text, encoding = decoded
            yield text, _change_item(message, "contents", index, partial(_with_data, part, encoding))


def _with_field(item: Any, name: str, text: str) -> Any:
    return replace(item, **{name: text})


def _decoded(media: Media) -> tuple[str, str] | None:
    """Return the content of a file as text with its encoding, or None if it is not text."""
    data = media.data or b""
    encodings = ["utf-8"]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif media.media_type is not None and media.media_type.startswith("text/"):
        encodings.append("latin-1")
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            return data.decode(encoding), encoding
    return None


def _with_data(media: Media, encoding: str, text: str) -> Media:
    return replace(media, data=text.encode(encoding, "replace"))


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
