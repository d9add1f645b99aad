"""Reads the bytes of a response of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..messages import AiMessage, ChatReply, FinishReason, ToolCall, Usage
from .openai_payload import ReportedError, UnreadableReplyError, parse_object

__all__ = ["is_aside", "read_response", "reply_of"]

_NOT_YET = ("queued", "in_progress", "cancelled")
_CUT_OFF = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.CONTENT_FILTER}


def read_response(raw: bytes) -> ChatReply:
    """The reply in the bytes of a response. Raises UnreadableReplyError or ReportedError."""
    return reply_of(parse_object(raw), raw)


def reply_of(data: dict[str, Any], raw: bytes | None = None) -> ChatReply:
    """The reply in a response. Raises UnreadableReplyError, or ReportedError when it failed."""
    status, output = data.get("status"), data.get("output")
    if status == "failed":
        raise ReportedError(data.get("error") or {"message": "the response failed"})
    if not isinstance(output, list):
        raise UnreadableReplyError("it has no output")
    if status in _NOT_YET:
        raise UnreadableReplyError(f"it is {status}, and an answer in the background is not waited for")
    try:
        message = AiMessage(
            "".join(_texts(output, "output_text", "text")),
            tuple(_call(item) for item in output if item["type"] == "function_call"),
            "\n\n".join(filter(None, _thoughts(output))) or None,
        )
        return ChatReply(
            message,
            _finish_reason(data, message),
            _usage_of(data.get("usage")),
            data.get("model") or "",
            data.get("id") or "",
            "".join(_texts(output, "refusal", "refusal")) or None,
            raw,
        )
    except (AttributeError, KeyError, TypeError):
        raise UnreadableReplyError("its output has another shape") from None


def is_aside(item: dict[str, Any]) -> bool:
    """Whether an item is a message that the model writes on its way, and no answer."""
    return item["type"] == "message" and item.get("phase") == "commentary"


def _texts(output: list[dict[str, Any]], kind: str, key: str) -> Iterator[str]:
    for item in output:
        if item["type"] == "message" and not is_aside(item):
            yield from (part[key] for part in item["content"] if part["type"] == kind)


def _thoughts(output: list[dict[str, Any]]) -> Iterator[str]:
    for item in output:
        if is_aside(item):
            yield from (part["text"] for part in item["content"] if part["type"] == "output_text")
        elif item["type"] == "reasoning":  # models whose thoughts are open give them as content
            yield from (part["text"] for part in [*(item.get("summary") or ()), *(item.get("content") or ())])


def _call(item: dict[str, Any]) -> ToolCall:
    return ToolCall(item["call_id"], item["name"], item["arguments"])


def _finish_reason(data: dict[str, Any], message: AiMessage) -> FinishReason:
    if data.get("status") == "incomplete":
        why = (data.get("incomplete_details") or {}).get("reason") or ""
        return _CUT_OFF.get(why, FinishReason.OTHER)
    return FinishReason.TOOL_CALLS if message.tool_calls else FinishReason.STOP


def _usage_of(usage: dict[str, Any] | None) -> Usage | None:
    """None when the provider counted nothing; missing counts are 0."""
    if not usage:
        return None
    return Usage(
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
        (usage.get("output_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
