"""What is said to a model and by it: messages, whole replies, and the pieces of one that is being written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from .contents import Media, interleaved

__all__ = [
    "AiMessage",
    "ChatReply",
    "FinishReason",
    "Message",
    "ReplyDelta",
    "SystemMessage",
    "ToolCall",
    "ToolCallDelta",
    "ToolMessage",
    "Usage",
    "UserMessage",
]


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
