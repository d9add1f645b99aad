"""What is said to a model and by it: messages, whole replies, and the pieces of one that is being written."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields as fields_of
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .media import Audio, File, Image, Media, interleaved


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """What the model is told about its job; a conversation has one at most, and it comes first."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a user says; ``name`` tells several users of one conversation apart.

    ``text`` is all of the text. ``contents`` are the images, sound and files that belong to it: they come
    after the text, or where they stand when ``contents`` has the texts around them too.
    """

    text: str
    name: str | None = None
    contents: tuple[str | Media, ...] = ()

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """Text and media in the order in which a model is sent them, without blank texts."""
        told = interleaved(self.text, self.contents)
        trimmed = (part.strip("\n") if isinstance(part, str) else part for part in told)
        return tuple(part for part in trimmed if not isinstance(part, str) or part.strip())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to have a tool run; ``arguments`` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AiMessage:
    """What a model says: its text ("" when it only calls tools), tool calls, and its reasoning if shown."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What a tool answered to the call ``call_id`` of the message before."""

    call_id: str
    name: str
    text: str


Message: TypeAlias = SystemMessage | UserMessage | AiMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or of several added up."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class FinishReason(StrEnum):
    """Why the model stopped; OTHER is what a provider says that none of the rest means."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A model's whole answer to one request.

    ``refusal`` is the provider's own refusal text (None when it did not refuse), ``model`` the name
    that the provider gave, ``raw`` the provider's answer as it came (JSON bytes; None where it is not JSON).
    """

    message: AiMessage
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    model: str = ""
    id: str = ""
    refusal: str | None = None
    raw: bytes | None = None

    @property
    def text(self) -> str:
        return self.message.text


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call that is being written: ``index`` says of which, ``arguments`` is what is new."""

    index: int
    name: str
    arguments: str


class ReplyDelta(NamedTuple):
    """A piece of an answer that is being written. The last one carries ``reply``, the whole answer."""

    text: str = ""
    reasoning: str = ""
    reply: ChatReply | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()


_T = TypeVar("_T", Message, ToolCall)
_KINDS: dict[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "ai": AiMessage,
    "tool": ToolMessage,
}
_MEDIA: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def message_to_dict(message: Message) -> dict[str, Any]:
    """A message as plain JSON: its ``type`` and its fields, those left out that are None or empty."""
    said = {name: getattr(message, name) for name in message.__dataclass_fields__}
    said = {name: value for name, value in said.items() if value not in (None, ())}
    if isinstance(message, UserMessage) and message.contents:
        said["contents"] = [one if isinstance(one, str) else _media_to_dict(one) for one in message.contents]
    if isinstance(message, AiMessage) and message.tool_calls:
        said["tool_calls"] = tuple(asdict(call) for call in message.tool_calls)
    return {"type": _NAMES[type(message)], **said}


def message_from_dict(said: dict[str, Any]) -> Message:
    """The message of ``message_to_dict``. Raises ValueError for what is none."""
    fields = dict(said) if isinstance(said, Mapping) else {}
    name = fields.pop("type", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"no message has the type {name!r}")
    if "contents" in fields:
        parts = fields["contents"]
        fields["contents"] = tuple(one if isinstance(one, str) else _media_from_dict(one) for one in parts)
    try:
        if "tool_calls" in fields:
            fields["tool_calls"] = tuple(_of_text(ToolCall(**call)) for call in fields["tool_calls"])
        return _of_text(kind(**fields))
    except TypeError as error:
        raise ValueError(f"the {said['type']} message has other fields: {error}") from error


def messages_to_json(messages: Iterable[Message]) -> str:
    """Messages as one JSON array."""
    return json.dumps([message_to_dict(message) for message in messages], ensure_ascii=False)


def messages_from_json(text: str) -> list[Message]:
    """The messages of ``messages_to_json``. Raises ValueError for what is none."""
    messages = json.loads(text)
    if not isinstance(messages, list):
        raise ValueError(f"the messages are a list, not {type(messages).__name__}")
    return [message_from_dict(said) for said in messages]


def _of_text(said: _T) -> _T:
    """A message or a call, when all that is to be text in it is. Raises TypeError."""
    for field in fields_of(said):
        value = getattr(said, field.name)
        optional = field.default is None and value is None
        if field.name not in ("tool_calls", "contents") and not isinstance(value, str) and not optional:
            raise TypeError(f"{field.name} is {value!r}; it must be text")
    return said


def _media_to_dict(media: Media) -> dict[str, Any]:
    """Media as plain JSON: the type, and the fields that say something; the data in base 64."""
    said: dict[str, Any] = {"type": type(media).__name__.lower()}
    fields = {"media_type": media.media_type, "url": media.url, "name": media.name}
    if media.data is not None:
        fields["data"] = media.base64
    if isinstance(media, Image):
        fields["detail"] = media.detail
    return said | {name: value for name, value in fields.items() if value is not None}


def _media_from_dict(said: Any) -> Media:
    """The media of ``_media_to_dict``. Raises ValueError for what is none."""
    fields = dict(said) if isinstance(said, Mapping) else {}
    kind = fields.pop("type", None)
    cls = _MEDIA.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ValueError(f"no content of a message has the type {kind!r}")
    if "data" in fields:
        fields["data"] = b64decode(fields["data"], validate=True)
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"the {kind} has other fields: {error}") from error
