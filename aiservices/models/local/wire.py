"""Turns a request into llama.cpp's chat body, its chunks into a reply, its errors into ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiservices.errors import BadRequestError, InvalidReplyError, ModelError, ModelServerError
from aiservices.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
)
from aiservices.requests import ChatOptions, ChatRequest, JsonObjectFormat, JsonSchemaFormat, ResponseFormat

__all__ = ["Answer", "body_of", "error_of", "format_of"]

_MAX_TOKENS = 1024
_FINISHES = {reason.value: reason for reason in FinishReason}
# Every request is streamed, since only between chunks can one be stopped; return_progress makes a chunk of
# every batch of the prompt too.
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}


def body_of(request: ChatRequest, options: ChatOptions, system_prompt: str) -> dict[str, Any]:
    """The body of a streamed chat completion, without the constraint on its form."""
    messages = [_message(message) for message in request.messages]
    if system_prompt and not any(isinstance(message, SystemMessage) for message in request.messages):
        # A template without a system message puts its own in, and SmolLM2's makes its answers worse.
        messages.insert(0, {"role": "system", "content": system_prompt})
    body: dict[str, Any] = {
        "messages": messages,
        "temperature": 0.0 if options.temperature is None else options.temperature,
        "max_tokens": options.max_tokens or _MAX_TOKENS,
    }
    optional = {"top_p": options.top_p, "seed": options.seed, "stop": options.stop and list(options.stop)}
    body |= {name: value for name, value in optional.items() if value is not None}
    if options.reasoning_effort is not None:
        effort = options.reasoning_effort
        body["chat_template_kwargs"] = {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    return {**body, **(options.extra_body or {}), **_STREAMED}


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        if message.contents:
            _refuse_media(message)
        named = {} if message.name is None else {"name": message.name}
        return {"role": "user", "content": message.text, **named}
    if isinstance(message, ToolMessage):  # its templates know no tools yet: what a tool said is told as text
        return {"role": "user", "content": message.text}
    return {"role": "assistant", "content": message.text}


def _refuse_media(message: UserMessage) -> None:
    for part in message.contents:
        if not isinstance(part, str):
            raise BadRequestError(
                f"the embedded model reads text alone, and the message holds {part.kind} {part}: "
                'leave it out, or use another model, as in create(..., model="openai:NAME")'
            )


def format_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """The ``response_format`` of the reply's form; None for free text."""
    if isinstance(wanted, JsonSchemaFormat):
        return {"type": "json_schema", "json_schema": {"name": wanted.name, "schema": dict(wanted.schema)}}
    return {"type": "json_object"} if isinstance(wanted, JsonObjectFormat) else None


@dataclass(slots=True)
class Answer:
    """A reply that is put together from its chunks."""

    label: str
    context_tokens: int
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finish: str | None = None
    _usage: Usage | None = None
    _id: str = ""

    def take(self, chunk: Mapping[str, Any]) -> ReplyDelta | None:
        """What a chunk adds to the reply, None when that is no text. Raises ModelError for an error."""
        if "error" in chunk:
            raise error_of(chunk["error"], self.label, self.context_tokens)
        self._id = chunk.get("id", self._id)
        if "usage" in chunk:
            self._usage = _usage(chunk["usage"])
        for choice in chunk.get("choices", ()):
            self._finish = choice.get("finish_reason") or self._finish
            delta = choice.get("delta", {})
            text, reasoning = delta.get("content") or "", delta.get("reasoning_content") or ""
            if text or reasoning:
                self._text.append(text)
                self._reasoning.append(reasoning)
                return ReplyDelta(text, reasoning)
        return None

    def reply(self) -> ChatReply:
        """The whole reply, when no chunk is to come any more."""
        if self._finish is None:
            raise InvalidReplyError(
                f"the embedded model {self.label} ended its reply without saying why: ask again",
                retryable=True,
            )
        return ChatReply(
            AiMessage("".join(self._text), reasoning="".join(self._reasoning) or None),
            finish_reason=_FINISHES.get(self._finish, FinishReason.OTHER),
            usage=self._usage,
            model=self.label,
            id=self._id,
        )


def _usage(said: Mapping[str, Any]) -> Usage:
    cached = said.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Usage(said["prompt_tokens"], said["completion_tokens"], cached_tokens=cached)


def error_of(said: Mapping[str, Any], label: str, context_tokens: int) -> ModelError:
    """The error that llama.cpp's ``error`` object stands for."""
    status, body = said.get("code"), json.dumps(said)
    if said.get("type") == "exceed_context_size_error":
        return BadRequestError(
            f"the request has {said.get('n_prompt_tokens')} tokens, but the embedded model {label} was "
            f"loaded to read {context_tokens}: shorten it, or raise context_tokens of LocalChatModel",
            status=status,
            body=body,
        )
    if isinstance(status, int) and status < 500:
        return BadRequestError(
            f"the embedded model {label} does not accept the request: {said.get('message')}",
            status=status,
            body=body,
        )
    return ModelServerError(
        f"the embedded model {label} failed: {said.get('message')}", status=status, body=body
    )
