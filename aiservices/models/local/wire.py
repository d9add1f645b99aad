"""Turns a request into llama.cpp's chat body, its chunks into a reply, its errors into ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

from aiservices.errors import BadRequestError, InvalidReplyError, ModelError, ModelServerError
from aiservices.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from aiservices.requests import ChatOptions, ChatRequest, JsonObjectFormat, JsonSchemaFormat, ResponseFormat

from .calls import CallReading
from .grammar import Form
from .telling import repeated, result_of, said_with, section_of

__all__ = ["Answer", "body_of", "error_of", "form_of"]

_MAX_TOKENS = 1024
_FINISHES = {reason.value: reason for reason in FinishReason}
# Every request is streamed, since only between chunks can one be stopped; return_progress makes a chunk of
# every batch of the prompt too.
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}


def body_of(request: ChatRequest, options: ChatOptions, system_prompt: str) -> dict[str, Any]:
    """The body of a streamed chat completion, without the constraint on its form."""
    messages = _turns(request, system_prompt)
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


def _turns(request: ChatRequest, system_prompt: str) -> list[dict[str, Any]]:
    """The messages as the turns that each chat template has: of the system, the user and the model."""
    messages, tooling = request.messages, request.tooling
    turns: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, message in enumerate(messages):
        if isinstance(message, AiMessage):
            calls |= {call.id: call for call in message.tool_calls}
            turns.append({"role": "assistant", "content": said_with(message, tooling)})
        elif isinstance(message, ToolMessage):
            told = result_of(message, calls)
            if at and isinstance(messages[at - 1], ToolMessage):  # a template may want turns to alternate
                turns[-1]["content"] += f"\n{told}"
            else:
                turns.append({"role": "user", "content": told})
        else:
            turns.append(_told(message))
    return _with_system(turns, system_prompt, "" if tooling is None else section_of(tooling, messages))


def _with_system(turns: list[dict[str, Any]], system_prompt: str, section: str) -> list[dict[str, Any]]:
    system = next((turn for turn in turns if turn["role"] == "system"), None)
    if system is not None:
        told = "\n\n".join(part for part in (system["content"], section) if part)
        return [turn if turn is not system else {**turn, "content": told} for turn in turns]
    told = "\n\n".join(part for part in (system_prompt, section) if part)
    # A template without a system message puts its own in, and SmolLM2's makes its answers worse.
    return [{"role": "system", "content": told}, *turns] if told else turns


def _told(message: SystemMessage | UserMessage) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if message.contents:
        _refuse_media(message)
    named = {} if message.name is None else {"name": message.name}
    return {"role": "user", "content": message.text, **named}


def _refuse_media(message: UserMessage) -> None:
    for part in message.contents:
        if not isinstance(part, str):
            raise BadRequestError(
                f"the embedded model reads text alone, and the message holds {part.kind} {part}: "
                'leave it out, or use another model, as in create(..., model="openai:NAME")'
            )


def form_of(request: ChatRequest) -> Form:
    """What the reply may be. Raises BadRequestError where a tool is to be called that is not offered."""
    wanted, tooling = _format_of(request.response_format), request.tooling
    if tooling is None:
        return Form(wanted)
    if not tooling.tools:
        raise BadRequestError("the request has tooling without tools: name one at least, or leave it out")
    again = repeated(request.messages)
    if tooling.choice == "auto":
        return Form(wanted, tooling.tools, tooling.parallel, calls=not again)
    named = tuple(tool for tool in tooling.tools if tooling.choice in (tool.name, "required"))
    if not named:
        offered = ", ".join(tool.name for tool in tooling.tools)
        raise BadRequestError(f"the tool {tooling.choice} is to be called, but the tools are: {offered}")
    fresh = tuple(tool for tool in named if tool.name not in again)
    return Form(None, fresh or named, tooling.parallel, answers=False)


def _format_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """The ``response_format`` of the reply's form; None for free text."""
    if isinstance(wanted, JsonSchemaFormat):
        return {"type": "json_schema", "json_schema": {"name": wanted.name, "schema": dict(wanted.schema)}}
    return {"type": "json_object"} if isinstance(wanted, JsonObjectFormat) else None


@dataclass(slots=True)
class Answer:
    """A reply that is put together from its chunks; ``calls`` says that it may call tools."""

    label: str
    context_tokens: int
    calls: InitVar[bool] = False
    _calls: CallReading | None = field(init=False)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finish: str | None = None
    _usage: Usage | None = None
    _id: str = ""

    def __post_init__(self, calls: bool) -> None:
        self._calls = CallReading() if calls else None

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
                return self._added(text, reasoning)
        return None

    def _added(self, text: str, reasoning: str) -> ReplyDelta | None:
        read = ReplyDelta(text) if self._calls is None else self._calls.take(text) or ReplyDelta()
        self._text.append(read.text)
        self._reasoning.append(reasoning)
        added = read._replace(reasoning=reasoning)
        return None if added == ReplyDelta() else added

    def reply(self) -> ChatReply:
        """The whole reply, when no chunk is to come any more."""
        if self._finish is None:
            raise InvalidReplyError(
                f"the embedded model {self.label} ended its reply without saying why: ask again",
                retryable=True,
            )
        finish = _FINISHES.get(self._finish, FinishReason.OTHER)
        calls: tuple[ToolCall, ...] = ()
        if self._calls is not None:
            calls = self._calls.calls
            self._text.append(self._calls.end())
        if calls and finish is FinishReason.STOP:
            finish = FinishReason.TOOL_CALLS
        message = AiMessage("".join(self._text), calls, "".join(self._reasoning) or None)
        return ChatReply(message, finish, self._usage, self.label, self._id)


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
