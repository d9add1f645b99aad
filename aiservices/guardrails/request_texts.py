"""The texts in a chat request that callers influence, for input guards and moderation."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.plan import Invocation
from ..models.media import Media, interleave
from ..models.messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

_MessageT = TypeVar("_MessageT", bound=Message)
_PRIVATE_USE = range(0xE000, 0xF8FF)  # Unicode characters without a meaning of their own


class GuardMessage(str):
    """The text of a user message that requests a new answer after a guard function rejected the previous one.

    Input guards do not check it.
    """

    __slots__ = ()


class MessageText(NamedTuple):
    """A text in a message.

    Attributes:
        text: The text.
        change: Returns a message with another text in its place.
    """

    text: str
    change: Callable[[Any, str], Any]


class RequestText(NamedTuple):
    """A text in a message of a chat request that a caller influences.

    Attributes:
        text: The text, in which one private-use character replaces the mark of the format instructions, so
            that guards cannot see or change the mark.
        position: The index of the message in the request.
        placeholder: That private-use character; "" if the message has no mark.
        change: Returns the message with another text.
    """

    text: str
    position: int
    placeholder: str
    change: Callable[[Any, str], Any]

    def changed(self, message: Message, text: str) -> Message:
        """Return the message with another text in the place of this one."""
        marked = text.replace(self.placeholder, INSTRUCTIONS_MARK) if self.placeholder else text
        result: Message = self.change(message, marked)
        return result


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
                # any character that the text does not contain can replace the mark
                placeholder = next(char for char in map(chr, _PRIVATE_USE) if char not in text)
                text = text.replace(INSTRUCTIONS_MARK, placeholder)
            texts.append(RequestText(text, position, placeholder, change))
    return texts


def _texts_of(message: Message) -> Iterator[MessageText]:
    if message.text or isinstance(message, UserMessage):
        yield MessageText(message.text, with_text)
    if isinstance(message, SystemMessage):
        return
    if isinstance(message, UserMessage) and message.name:
        yield MessageText(message.name, partial(_with_field, "name"))
    if isinstance(message, AiMessage):
        if message.reasoning:
            yield MessageText(message.reasoning, with_reasoning)
        for index, call in enumerate(message.tool_calls):
            for name in ("arguments", "name", "id"):
                change = partial(_with_call, index, partial(_with_field, name))
                yield MessageText(getattr(call, name), change)
    if isinstance(message, ToolMessage):
        for name in ("name", "call_id"):
            yield MessageText(getattr(message, name), partial(_with_field, name))
    yield from texts_of_contents(message)


def texts_of_contents(message: UserMessage | AiMessage | ToolMessage) -> Iterator[MessageText]:
    """Yield the texts in the files of a message, their names and URLs."""
    files = [part for part in message.contents if not isinstance(part, str)]
    for number, file in enumerate(files):
        for name in ("name", "url"):
            if text := getattr(file, name):
                yield MessageText(text, partial(_with_file, number, partial(_with_field, name)))
        if file.data is not None and (decoded := _decoded(file)) is not None:
            text, encoding = decoded
            yield MessageText(text, partial(_with_file, number, partial(_with_data, encoding)))


def _with_field(name: str, item: Any, text: str) -> Any:
    return replace(item, **{name: text})


def _with_call(
    index: int, change: Callable[[ToolCall, str], ToolCall], message: AiMessage, text: str
) -> AiMessage:
    calls = list(message.tool_calls)
    calls[index] = change(calls[index], text)
    return replace(message, tool_calls=tuple(calls))


def _with_file(number: int, change: Callable[[Media, str], Media], message: Any, text: str) -> object:
    """Return a message with another file in the place of a file, by its number among the files."""
    contents = list(message.contents)
    position = [index for index, part in enumerate(contents) if not isinstance(part, str)][number]
    contents[position] = change(contents[position], text)
    return replace(message, contents=tuple(contents))


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


def _with_data(encoding: str, media: Media, text: str) -> Media:
    return replace(media, data=text.encode(encoding, "replace"))


def with_text(message: _MessageT, text: str) -> _MessageT:
    """Return a copy of a message with another text, and with its media at their places."""
    if isinstance(message, SystemMessage):
        return replace(message, text=text)
    contents: tuple[str | Media, ...] = tuple(interleave(text, message.contents)) if message.contents else ()
    if isinstance(message, AiMessage):  # the state contains the text, too
        return replace(message, text=text, contents=contents, state=None)
    return replace(message, text=text, contents=contents)


def with_reasoning(message: AiMessage, reasoning: str | None) -> AiMessage:
    """Return a copy of a model's message with another reasoning, which its state contains, too."""
    return replace(message, reasoning=reasoning, state=None)
