"""Reads the bytes of a chat completion."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ..messages import AiMessage, ChatReply, FinishReason, ToolCall, Usage
from .openai_payload import UnreadableReplyError, parse_object

__all__ = ["finish_reason", "read_reply", "text_and_reasoning", "usage_of"]


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
