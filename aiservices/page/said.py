"""What a call would send, as JSON for the page."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pydantic_core import to_json

from ..messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..previewing import Preview
from ..requests import ChatOptions

__all__ = ["preview_json"]

_ROLES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}
_SECRET = ("extra_headers", "extra_body")  # a key may be in them


def preview_json(preview: Preview) -> str:
    """The JSON text of a preview, without what may hold a key."""
    said = {
        "model": preview.model,
        "strategy": preview.strategy,
        "reasons": preview.reasons,
        "messages": [{"role": _ROLES[type(one)], "parts": _parts(one)} for one in preview.messages],
        "options": _options(preview.options),
        "schema": preview.schema,
        "strict": preview.strict,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in preview.tools
        ],
    }
    return to_json(said, fallback=str).decode()


def _parts(message: Message) -> list[dict[str, str]]:
    """The texts of a message, and what stands for its media and calls."""
    if isinstance(message, UserMessage):
        return [{"text": part} if isinstance(part, str) else {"media": str(part)} for part in message.parts]
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    said = [{"call": f"{call.name}({call.arguments})"} for call in calls]
    return [{"text": message.text}, *said] if message.text or not said else said


def _options(options: ChatOptions) -> dict[str, Any]:
    names = [one.name for one in fields(options) if one.name not in _SECRET]
    return {name: value for name in names if (value := getattr(options, name)) is not None}
