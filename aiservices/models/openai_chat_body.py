"""Says a request in the words of the chat completions API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..contents import Audio, Image, Media
from ..messages import Message, SystemMessage, ToolMessage, UserMessage
from ..requests import ChatRequest, JsonSchemaFormat, ResponseFormat, Tooling
from .openai_body import wire_name
from .openai_dialect import UnsayableError
from .openai_place import Place

__all__ = ["chat_body", "chat_messages", "chat_path"]


def chat_path(place: Place, model: str) -> str:
    """The path below the base URL."""
    # the SDK's Azure client puts the deployment into the path only when it can look into the body,
    # and a body that is already bytes cannot be looked into
    deployment = f"/deployments/{quote(model, safe='')}" if place.azure else ""
    return f"{deployment}/chat/completions"


def chat_body(request: ChatRequest, place: Place) -> dict[str, Any]:
    """All but the messages, a None for what is not asked for."""
    options = request.options
    # OpenAI's own models refuse the older name, and other servers often know only that one
    limit = "max_completion_tokens" if place.of_openai else "max_tokens"
    return {
        "model": options.model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        limit: options.max_tokens,
        "stop": options.stop,
        "seed": options.seed,
        "reasoning_effort": options.reasoning_effort,
        "response_format": _wire_format(request.response_format),
        **_wire_tooling(request.tooling, of_openai=place.of_openai),
    }


def _wire_format(form: ResponseFormat | None) -> dict[str, Any] | None:
    if form is None:
        return None
    if not isinstance(form, JsonSchemaFormat):
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": wire_name(form.name), "schema": form.schema, "strict": form.strict},
    }


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


def chat_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages. Raises UnsayableError when they hold media in a form that the API does not take."""
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        said = [_part(part) for part in message.parts] if message.contents else message.text
        if message.name is None:
            return {"role": "user", "content": said}
        return {"role": "user", "content": said, "name": message.name}
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


_SOUNDS = {"audio/wav": "wav", "audio/mpeg": "mp3"}


def _part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Image):
        detail = {} if part.detail is None else {"detail": part.detail}
        return {"type": "image_url", "image_url": {"url": part.address, **detail}}
    if part.data is None:
        raise UnsayableError(
            f"chat completions do not fetch {part.kind} {part}; "
            f"pass its bytes by {type(part).__name__}.from_bytes"
        )
    if isinstance(part, Audio):
        form = _SOUNDS.get(str(part.media_type))
        if form is None:
            raise UnsayableError(f"chat completions take audio as WAV or MP3, and not {part}")
        return {"type": "input_audio", "input_audio": {"data": part.base64, "format": form}}
    return {"type": "file", "file": {"filename": part.file_name, "file_data": part.address}}
