"""The values that travel to a model and back: messages, options, request, reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from .errors import Fault

__all__ = [
    "AiMessage",
    "ChatOptions",
    "ChatReply",
    "ChatRequest",
    "FinishReason",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "Message",
    "ReplyDelta",
    "ResponseFormat",
    "SystemMessage",
    "ToolCall",
    "Usage",
    "UserMessage",
]


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """What the model is told about its job; a conversation has one at most, and it comes first."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a user says; ``name`` tells several users of one conversation apart."""

    text: str
    name: str | None = None


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


Message: TypeAlias = SystemMessage | UserMessage | AiMessage


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
class ReplyDelta:
    """A piece of an answer that is being written. The last one carries ``reply``, the whole answer."""

    text: str = ""
    reasoning: str = ""
    reply: ChatReply | None = None


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a model is to answer; None leaves the choice to whoever is further away.

    Options are set on the model, the service, the method and the call; the nearer one wins, field by
    field. ``timeout`` is in seconds for one request; ``extra_body`` and ``extra_headers`` go to the
    provider as they are and are merged key by key. ``model`` names another model of the same provider.
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def over(self, further: ChatOptions | None) -> ChatOptions:
        """These options where they say something, the further ones where they do not."""
        if further is None or further == ChatOptions():
            return self
        merged: dict[str, Any] = {}
        for field in fields(self):
            near, far = getattr(self, field.name), getattr(further, field.name)
            if isinstance(near, Mapping) and isinstance(far, Mapping):
                merged[field.name] = {**far, **near}
            else:
                merged[field.name] = far if near is None else near
        return ChatOptions(**merged)

    def faults(self, where: str) -> list[Fault]:
        """What is wrong with these values, each with what to do."""
        faults = []
        limits = (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0))
        for name, low, high in limits:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                faults.append(Fault(where, f"{name} is {value!r}; it must be from {low:g} to {high:g}"))
        for name in ("max_tokens", "timeout"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                faults.append(Fault(where, f"{name} is {value!r}; it must be greater than 0"))
        return faults


@dataclass(frozen=True, eq=False)
class JsonSchemaFormat:
    """The answer must be JSON that fits ``schema``; ``strict`` asks the provider to enforce it."""

    name: str
    schema: Mapping[str, Any]
    strict: bool = False


@dataclass(frozen=True, eq=False)
class JsonObjectFormat:
    """The answer must be a JSON object, of whatever shape ("JSON mode")."""


ResponseFormat: TypeAlias = JsonSchemaFormat | JsonObjectFormat


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked: the messages, the options, and the form that the answer must have."""

    messages: tuple[Message, ...]
    options: ChatOptions = ChatOptions()
    response_format: ResponseFormat | None = None

    def plus(self, *messages: Message) -> ChatRequest:
        """The same request with messages added at its end."""
        return replace(self, messages=self.messages + messages)

    @staticmethod
    def of(messages: str | Sequence[Message], **settings: Any) -> ChatRequest:
        """A request from a text (one user message) or from messages."""
        said = (UserMessage(messages),) if isinstance(messages, str) else tuple(messages)
        return ChatRequest(said, **settings)
