"""What was said, in the JSON that the conventions have for it; written only where content is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from ..contents import Audio, Image, Media
from ..messages import AiMessage, ChatReply, FinishReason, Message, SystemMessage, ToolCall, ToolMessage
from . import otel_names as names

__all__ = ["captures_content", "replied", "said", "writable"]

_ON = frozenset({"true", "1", "span_only", "span_and_event"})
_OFF = frozenset({"", "false", "0", "no_content", "event_only"})
_ROLES = {SystemMessage: "system", AiMessage: "assistant", ToolMessage: "tool"}


def captures_content() -> bool:
    """Whether the standard environment variable asks for content on spans. Raises ValueError."""
    asked = os.environ.get(names.CAPTURE_CONTENT, "").strip().lower()
    if asked in _ON or asked in _OFF:
        return asked in _ON
    raise ValueError(
        f"{names.CAPTURE_CONTENT} is {asked!r}; it must be one of no_content, span_only, event_only, "
        "span_and_event"
    )


def writable(text: str) -> str:
    """A text without the halves of characters, which UTF-8 has not and exporters fail at."""
    return text.encode("utf-8", "replace").decode()


def said(messages: Sequence[Message]) -> str:
    """The messages of a request. Media are named and not copied."""
    return _json([_message(message) for message in messages])


def replied(reply: ChatReply) -> str:
    """The answer of a model."""
    reason = reply.finish_reason
    finish = "tool_call" if reason is FinishReason.TOOL_CALLS else reason.value
    return _json([{**_message(reply.message), "finish_reason": finish}])


def _json(said: list[dict[str, Any]]) -> str:
    return writable(json.dumps(said, ensure_ascii=False, separators=(",", ":")))


def _message(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": _ROLES.get(type(message), "user"), "parts": list(_parts(message))}
    name = getattr(message, "name", None)
    return shown if name is None or isinstance(message, ToolMessage) else {**shown, "name": name}


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        return [{"type": "tool_call_response", "id": message.call_id, "response": message.text}]
    if isinstance(message, AiMessage):
        thought = [{"type": "reasoning", "content": message.reasoning}] if message.reasoning else []
        text = [_text(message.text)] if message.text else []
        return [*thought, *text, *map(_called, message.tool_calls)]
    if isinstance(message, SystemMessage):
        return [_text(message.text)]
    return [_text(part) if isinstance(part, str) else _medium(part) for part in message.parts]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _called(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = call.arguments  # as the model wrote them
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _medium(medium: Media) -> dict[str, Any]:
    modality = "image" if isinstance(medium, Image) else "audio" if isinstance(medium, Audio) else "document"
    about = {"modality": modality, "mime_type": medium.media_type}
    if medium.url is not None:
        return {"type": "uri", **about, "uri": medium.url}
    return {"type": "media", **about, "name": medium.name, "bytes": len(medium.data or b"")}
