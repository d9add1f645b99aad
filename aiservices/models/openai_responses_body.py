"""Says a request in the words of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..contents import Audio, Image, Media
from ..messages import AiMessage, Message, SystemMessage, ToolMessage
from ..requests import ChatRequest, JsonSchemaFormat, ResponseFormat, Tooling
from .openai_body import wire_name
from .openai_dialect import UnsayableError
from .openai_place import Place

__all__ = ["responses_body", "responses_items", "responses_path"]


def responses_path(place: Place, model: str) -> str:
    """The path below the base URL; Azure too finds the deployment in the body here."""
    return "/responses"


def responses_body(request: ChatRequest, place: Place) -> dict[str, Any]:
    """All but the messages, a None for what is not asked for."""
    options = request.options
    effort, form = options.reasoning_effort, request.response_format
    return {
        "model": options.model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_output_tokens": options.max_tokens,
        "reasoning": None if effort is None else {"effort": effort},
        "text": None if form is None else {"format": _wire_format(form)},
        **(_wire_tooling(request.tooling) if request.tooling is not None else {}),
        "store": False,  # left out, it would mean that the provider keeps what was said
    }


def _wire_format(form: ResponseFormat) -> dict[str, Any]:
    if not isinstance(form, JsonSchemaFormat):
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": wire_name(form.name),
        "schema": form.schema,
        "strict": form.strict,
    }


def _wire_tooling(tooling: Tooling) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
            # left out, it would mean true here, and change a schema that is not strict
            "strict": tool.strict,
        }
        for tool in tooling.tools
    ]
    said: dict[str, Any] = {"tools": tools}
    if tooling.choice == "required":
        said["tool_choice"] = "required"
    elif tooling.choice != "auto":
        said["tool_choice"] = {"type": "function", "name": wire_name(tooling.choice)}
    if not tooling.parallel:
        said["parallel_tool_calls"] = False
    return said


def responses_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The items of ``input``. Raises UnsayableError when a user has a name, or says something by audio."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
    elif isinstance(message, AiMessage):
        if message.text or not message.tool_calls:
            yield {"role": "assistant", "content": message.text}
        for call in message.tool_calls:
            # without the id of the item, which would refer to a stored one and to the reasoning before it
            yield {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
    elif isinstance(message, SystemMessage):
        # not as `instructions`: JSON mode wants the word JSON in the input, and does not look there
        yield {"role": "system", "content": message.text}
    elif message.name is not None:
        raise UnsayableError(
            f"the Responses API has no names of users ({message.name!r}); "
            "put the name into the text, or use OpenAiChatModel"
        )
    else:
        said = [_part(part) for part in message.parts] if message.contents else message.text
        yield {"role": "user", "content": said}


def _part(part: str | Media) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": part.address, "detail": part.detail or "auto"}
    if isinstance(part, Audio):
        raise UnsayableError(f"the Responses API takes no audio ({part}); use OpenAiChatModel")
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.file_name, "file_data": part.address}
