"""Messages to and from a model, the replies of a model, and the conversion of messages to JSON."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields as dataclass_fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .media import Audio, File, Image, Media, interleave


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """A system message: instructions for the model, usually at the start of a conversation.

    A service method adds at most one, at the beginning. Few-shot examples follow all system messages there.

    Attributes:
        text: The instructions.
    """

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of the user, which may contain images, audio and files.

    Attributes:
        text: The whole text.
        name: The name of the user, if a conversation has several users.
        contents: The images, audio and files. They follow the text, unless ``contents`` also has the pieces
            of the text: then they are sent at their positions between the pieces.
    """

    text: str
    name: str | None = None
    contents: tuple[str | Media, ...] = ()

    @property
    def parts(self) -> tuple[str | Media, ...]:
        """The texts, images and files of the user message in the order in which they are sent.

        Blank text is left out.
        """
        # The line breaks around an image in a template are layout, and some providers reject blank pieces of
        # text.
        pieces = interleave(self.text, self.contents)
        trimmed = (part.strip("\n") if isinstance(part, str) else part for part in pieces)
        return tuple(part for part in trimmed if not isinstance(part, str) or part.strip())


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request of the model to run a tool.

    Attributes:
        id: The id by which the ``ToolMessage`` with the result refers to the call.
        name: The name of the tool.
        arguments: The arguments as the JSON text that the model wrote; it may be invalid.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AiMessage:
    """A message that the model wrote, with text, tool calls or both.

    Attributes:
        text: The text; "" if the model only calls tools.
        tool_calls: The tools that the model wants to run before it answers.
        reasoning: The text of the model's reasoning, if the provider returns it.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """A message with the result of a tool call.

    Attributes:
        call_id: The id of the ``ToolCall`` in the message before.
        name: The name of the tool.
        text: The result, or a message about an error.
    """

    call_id: str
    name: str
    text: str


Message: TypeAlias = SystemMessage | UserMessage | AiMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of tokens that one or several requests to a model used.

    Attributes:
        input_tokens: The tokens of the messages and of everything else that was sent.
        output_tokens: The tokens that the model generated, reasoning included.
        cached_tokens: The part of ``input_tokens`` that the provider read from its prompt cache.
        reasoning_tokens: The part of ``output_tokens`` that was spent on reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of the input tokens and the output tokens of a model request."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class FinishReason(StrEnum):
    """The reason why the model stopped generating.

    STOP: the answer is complete. LENGTH: a token limit was reached. TOOL_CALLS: the model calls tools.
    CONTENT_FILTER: the filter of the provider stopped the answer. OTHER: the provider gave another reason.
    """

    # The values, except OTHER, are those of the Chat Completions API.
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The complete reply of a model to one request.

    Attributes:
        message: The message of the model.
        finish_reason: Why the model stopped generating.
        usage: The number of tokens; None if the provider did not report it.
        model: The model that answered, by the name that the provider gave.
        id: The id that the provider gave the reply; "" if none.
        refusal: The text with which the model refused to answer; None if it did not refuse.
        raw: The JSON body of the response, as bytes; None if the provider does not answer with JSON.
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
        """The text of the model's message in this reply."""
        return self.message.text


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call in a streamed reply.

    Attributes:
        index: The position of the call among the tool calls of the reply, from 0.
        name: The name of the tool.
        arguments: The text that was added to the arguments.
    """

    index: int
    name: str
    arguments: str


class ReplyDelta(NamedTuple):
    """A piece of a streamed reply.

    Attributes:
        text: The text that was added to the message.
        reasoning: The text that was added to the reasoning.
        reply: The complete reply, in the last delta of a stream; None in all others.
        tool_calls: The pieces that were added to tool calls.
    """

    text: str = ""
    reasoning: str = ""
    reply: ChatReply | None = None
    tool_calls: tuple[ToolCallDelta, ...] = ()


# Messages as JSON. Memory stores, suspended calls and cassettes save messages in this form, so a change must
# keep the old form readable.

_TextFields = TypeVar("_TextFields", Message, ToolCall)
_MESSAGE_TYPES: dict[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "ai": AiMessage,
    "tool": ToolMessage,
}
_TYPE_NAMES = {cls: name for name, cls in _MESSAGE_TYPES.items()}
_MEDIA_TYPES: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}


def messages_to_json(messages: Iterable[Message]) -> str:
    """Convert chat messages to a text with a JSON array."""
    # Stored conversations stay readable in any script, and shorter, without escapes.
    return json.dumps([message_to_dict(message) for message in messages], ensure_ascii=False)


def messages_from_json(text: str) -> list[Message]:
    """Parse chat messages from a JSON text, or raise ValueError if it is invalid.

    The text is one that ``messages_to_json`` returned.
    """
    data = json.loads(text)
    if not isinstance(data, list):
        raise ValueError(f"messages must be a JSON array, not {type(data).__name__}")
    return [message_from_dict(item) for item in data]


def message_to_dict(message: Message) -> dict[str, Any]:
    """Convert a chat message to a dict with its ``type`` and all fields that are not empty."""
    # Not asdict, which would also convert images and files to dictionaries, with bytes as values.
    data = {name: getattr(message, name) for name in message.__dataclass_fields__}
    data = {name: value for name, value in data.items() if value not in (None, ())}
    if isinstance(message, UserMessage) and message.contents:
        data["contents"] = [
            part if isinstance(part, str) else _media_to_dict(part) for part in message.contents
        ]
    if isinstance(message, AiMessage) and message.tool_calls:
        data["tool_calls"] = tuple(asdict(call) for call in message.tool_calls)
    return {"type": _TYPE_NAMES[type(message)], **data}


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Convert a dict with a ``type``, as stored in JSON, to a chat message, or raise ValueError.

    ``message_to_dict`` returns such a dict.
    """
    fields = dict(data) if isinstance(data, Mapping) else {}
    name = fields.pop("type", None)
    cls = _MESSAGE_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown type of message: {name!r}")
    for field_name in ("contents", "tool_calls"):
        if not isinstance(fields.get(field_name, ()), (list, tuple)):
            raise ValueError(f"{field_name} of a message is {fields[field_name]!r}; it must be a list")
    if "contents" in fields:
        parts = fields["contents"]
        fields["contents"] = tuple(
            part if isinstance(part, str) else _media_from_dict(part) for part in parts
        )
    try:
        if "tool_calls" in fields:
            fields["tool_calls"] = tuple(_checked_texts(ToolCall(**call)) for call in fields["tool_calls"])
        return _checked_texts(cls(**fields))
    except TypeError as error:
        raise ValueError(f"wrong fields in a message of the type {name}: {error}") from error


def _checked_texts(value: _TextFields) -> _TextFields:
    """Return a message unchanged if its text fields are strings, or raise TypeError."""
    # Dataclasses do not check types, and a wrong type here would fail much later, in a request.
    for field in dataclass_fields(value):
        content = getattr(value, field.name)
        is_omitted = field.default is None and content is None
        if field.name not in ("tool_calls", "contents") and not isinstance(content, str) and not is_omitted:
            raise TypeError(f"{field.name} is {content!r}; it must be text")
    return value


def _media_to_dict(media: Media) -> dict[str, Any]:
    """Convert an image, audio or file of a message to a dict for JSON, with the data in base64."""
    fields = {"media_type": media.media_type, "url": media.url, "name": media.name}
    if media.data is not None:
        fields["data"] = media.base64
    if isinstance(media, Image):
        fields["detail"] = media.detail
    set_fields = {name: value for name, value in fields.items() if value is not None}
    return {"type": type(media).__name__.lower(), **set_fields}


def _media_from_dict(data: object) -> Media:
    """Convert a dict from JSON back to an image, audio or file of a message, or raise ValueError."""
    fields = dict(data) if isinstance(data, Mapping) else {}
    name = fields.pop("type", None)
    cls = _MEDIA_TYPES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"unknown type of content in a message: {name!r}")
    if "data" in fields:
        # Without validate=True, b64decode ignores characters that are not base64.
        fields["data"] = b64decode(fields["data"], validate=True)
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"wrong fields in a content of the type {name}: {error}") from error
