"""Writes the bytes of a chat completion request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic_core import to_json

from ..messages import Message, SystemMessage, ToolMessage, UserMessage
from ..requests import ChatOptions, ChatRequest, JsonSchemaFormat, ResponseFormat, Tooling

__all__ = ["BodyWriter", "PreparedBody", "wire_name"]

_PREPARED_AT_MOST = 256
_NO_NAME_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


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
    kept: tuple[object, object, object]

    def with_messages(self, messages: Sequence[Message]) -> bytes:
        """The whole body. Raises ValueError when a text has no JSON form."""
        if self.whole:
            return self.constant
        return self.constant[:-1] + b',"messages":' + to_json([_wire_message(m) for m in messages]) + b"}"


class BodyWriter:
    """Prepares the constant part once for each set of options, response format and tools, known by identity.

    An entry keeps the objects alive, so that their ids cannot come to stand for others.
    ``max_tokens`` is sent as ``max_completion_tokens`` where OpenAI's own models live, which refuse the
    older name, and as ``max_tokens`` elsewhere, because other servers often know only that one.
    """

    def __init__(self, model: str, options: ChatOptions, *, of_openai: bool) -> None:
        self.model = model
        self._options = options
        self._of_openai = of_openai
        self._limit = "max_completion_tokens" if of_openai else "max_tokens"
        self._prepared: dict[tuple[int, int, int, bool], PreparedBody] = {}
        self._lock = Lock()

    def prepare(self, request: ChatRequest, *, stream: bool) -> PreparedBody:
        """Raises ValueError when an option or a schema has no JSON form."""
        key = (id(request.options), id(request.response_format), id(request.tooling), stream)
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
            **_wire_tooling(request.tooling, of_openai=self._of_openai),
            "stream": stream or None,
            "stream_options": {"include_usage": True} if stream else None,
        }
        body = {name: value for name, value in body.items() if value is not None}
        body.update(options.extra_body or {})
        constant = to_json(body, fallback=_plain)
        kept = (request.options, request.response_format, request.tooling)
        return PreparedBody(options, model, constant, "messages" in body, kept)


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
    return {
        "type": "json_schema",
        "json_schema": {"name": wire_name(form.name), "schema": form.schema, "strict": form.strict},
    }


def wire_name(name: str) -> str:
    """A name of a schema or a tool with no other characters than OpenAI takes, 64 of them at most."""
    return _NO_NAME_CHARACTER.sub("_", name)[:64] or "answer"


def _wire_tooling(tooling: Tooling | None, *, of_openai: bool) -> dict[str, Any]:
    if tooling is None:
        return {}
    tools = [
        {
            "type": "function",
            "function": {
                "name": wire_name(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
                # servers that do not know the key may refuse it, hence only where it says something
                **({"strict": True} if tool.strict else {}),
            },
        }
        for tool in tooling.tools
    ]
    said: dict[str, Any] = {"tools": tools}
    if tooling.choice == "required":
        said["tool_choice"] = "required"
    elif tooling.choice != "auto":
        said["tool_choice"] = {"type": "function", "function": {"name": wire_name(tooling.choice)}}
    if not tooling.parallel and of_openai:
        said["parallel_tool_calls"] = False
    return said


def _wire_message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        if message.name is None:
            return {"role": "user", "content": message.text}
        return {"role": "user", "content": message.text, "name": message.name}
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if not message.tool_calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
