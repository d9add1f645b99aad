"""Writes the bytes of a chat completion request, and reads those of a reply."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic_core import from_json, to_json

from ..messages import (
    AiMessage,
    ChatOptions,
    ChatReply,
    ChatRequest,
    FinishReason,
    JsonSchemaFormat,
    Message,
    ResponseFormat,
    SystemMessage,
    ToolCall,
    Usage,
    UserMessage,
)

__all__ = [
    "BodyWriter",
    "PreparedBody",
    "ReportedError",
    "UnreadableReplyError",
    "finish_reason",
    "parse_object",
    "read_reply",
    "text_and_reasoning",
    "usage_of",
]

_PREPARED_AT_MOST = 256
_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class UnreadableReplyError(ValueError):
    """The bytes are no chat completion; the message says what is missing."""


class ReportedError(Exception):
    """The provider put an error where an answer should be; ``payload`` is what it said."""

    def __init__(self, payload: Any) -> None:
        super().__init__("the provider reported an error")
        self.payload = payload


@dataclass(frozen=True, slots=True)
class PreparedBody:
    """The part of a request's body that stays the same from call to call.

    ``options`` are the effective ones, ``model`` the one asked, ``constant`` the JSON object of all
    but the messages, ``whole`` whether it brings messages of its own.
    """

    options: ChatOptions
    model: str
    constant: bytes
    whole: bool
    kept: tuple[object, object]

    def with_messages(self, messages: Sequence[Message]) -> bytes:
        """The whole body. Raises ValueError when a text has no JSON form."""
        if self.whole:
            return self.constant
        return self.constant[:-1] + b',"messages":' + to_json([_wire_message(m) for m in messages]) + b"}"


class BodyWriter:
    """Prepares the constant part once for each pair of options and response format, known by identity.

    An entry keeps the two objects alive, so that their ids cannot come to stand for others.
    ``max_tokens`` is sent as ``max_completion_tokens`` where OpenAI's own models live, which refuse the
    older name, and as ``max_tokens`` elsewhere, because other servers often know only that one.
    """

    def __init__(self, model: str, options: ChatOptions, *, of_openai: bool) -> None:
        self.model = model
        self._options = options
        self._limit = "max_completion_tokens" if of_openai else "max_tokens"
        self._prepared: dict[tuple[int, int, bool], PreparedBody] = {}
        self._lock = Lock()

    def prepare(self, request: ChatRequest, *, stream: bool) -> PreparedBody:
        """Raises ValueError when an option or a schema has no JSON form."""
        key = (id(request.options), id(request.response_format), stream)
        found = self._prepared.get(key)
        if found is None:
            found = self._write(request, stream)
            with self._lock:
                if len(self._prepared) >= _PREPARED_AT_MOST:
                    del self._prepared[next(iter(self._prepared))]
                self._prepared[key] = found
        return found

    def _write(self, request: ChatRequest, stream: bool) -> PreparedBody:
        options = request.options.over(self._options)
        model = options.model or self.model
        body = {
            "model": model,
            "temperature": options.temperature,
            "top_p": options.top_p,
            self._limit: options.max_tokens,
            "stop": options.stop,
            "seed": options.seed,
            "reasoning_effort": options.reasoning_effort,
            "response_format": _wire_format(request.response_format),
            "stream": stream or None,
            "stream_options": {"include_usage": True} if stream else None,
        }
        body = {name: value for name, value in body.items() if value is not None}
        body.update(options.extra_body or {})
        constant = to_json(body, fallback=_plain)
        return PreparedBody(
            options, model, constant, "messages" in body, (request.options, request.response_format)
        )


def _plain(value: Any) -> Any:
    # a read-only mapping, for one, is none of the types that have a JSON form by themselves
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


def _wire_format(form: ResponseFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if not isinstance(form, JsonSchemaFormat):
        return {"type": "json_object"}
    name = _NO_NAME_CHARACTER.sub("_", form.name)[:64] or "answer"
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": form.schema, "strict": form.strict},
    }


def _wire_message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        if message.name is None:
            return {"role": "user", "content": message.text}
        return {"role": "user", "content": message.text, "name": message.name}
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if not message.tool_calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``. Raises UnreadableReplyError, or ReportedError when it is an error."""
    try:
        data = from_json(raw)
    except ValueError:
        raise UnreadableReplyError("it is not JSON") from None
    if not isinstance(data, dict):
        raise UnreadableReplyError("it is no JSON object")
    if data.get("error"):
        raise ReportedError(data["error"])
    if data.get("object") == "error":  # how vLLM reports one
        raise ReportedError(data)
    return data


def read_reply(raw: bytes) -> ChatReply:
    """The reply in the bytes of a chat completion. Raises UnreadableReplyError or ReportedError."""
    data = parse_object(raw)
    choices = data.get("choices")
    if not choices:
        raise UnreadableReplyError("it has no choices")
    try:
        choice = choices[0]
        message = choice["message"]
        text, reasoning = text_and_reasoning(message)
        calls = message.get("tool_calls")
        return ChatReply(
            AiMessage(text, _tool_calls(calls) if calls else (), reasoning or None),
            finish_reason(choice.get("finish_reason")),
            usage_of(data.get("usage")),
            data.get("model") or "",
            data.get("id") or "",
            message.get("refusal"),
            raw,
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its choices have another shape") from None


def text_and_reasoning(message: dict[str, Any]) -> tuple[str, str]:
    """What a message or a delta says and thinks; compatible servers name the latter in two ways.

    Content is a text, null, or a list of parts, some of which may be thoughts.
    """
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if content is None:
        return "", reasoning
    if isinstance(content, str):
        return content, reasoning
    texts = [part.get("text") or "" for part in content if part.get("type") == "text"]
    thoughts = [
        piece.get("text") or ""
        for part in content
        if part.get("type") == "thinking"
        for piece in part["thinking"]
    ]
    return "".join(texts), "".join(thoughts) or reasoning


def _tool_calls(calls: list[dict[str, Any]]) -> tuple[ToolCall, ...]:
    functions = [(call.get("id") or "", call["function"]) for call in calls if "function" in call]
    return tuple(ToolCall(id, made["name"], _arguments(made.get("arguments"))) for id, made in functions)


def _arguments(arguments: Any) -> str:
    # some servers send the object itself instead of its text
    return arguments if isinstance(arguments, str) else to_json(arguments or {}).decode()


def finish_reason(said: str | None) -> FinishReason:
    """OTHER for what is unknown or not said."""
    try:
        return FinishReason(said) if said else FinishReason.OTHER
    except ValueError:
        return FinishReason.OTHER


def usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """None when the provider counted nothing; missing counts are 0."""
    if not usage:
        return None
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens") or 0,
        usage.get("completion_tokens") or 0,
        prompt.get("cached_tokens") or 0,
        completion.get("reasoning_tokens") or 0,
    )
