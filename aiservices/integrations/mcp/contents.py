"""Convert MCP contents to this library's text, media and messages, and back."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from urllib.parse import quote, unquote

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    Role,
    SamplingMessageContentBlock,
    TextContent,
    TextResourceContents,
)
from pydantic_core import to_json

from ...models.media import Audio, File, Image, Media, detect_media_type
from ...models.messages import AiMessage, Message, UserMessage
from ...tools.tool import ToolAnswer, ToolException

_UNKNOWN_TYPE = "application/octet-stream"
# The C0 and C1 control characters and DEL, except newline and tab. They can change what a terminal shows.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def content_block(part: str | Media) -> ContentBlock:
    """Convert text, an image, a sound or a file to a block of an MCP message."""
    if isinstance(part, str):
        return TextContent(text=part)
    name = part.name or part.kind
    if part.url is not None:
        return ResourceLink(name=name, uri=part.url, mime_type=part.media_type)
    media_type = part.media_type or _UNKNOWN_TYPE
    if isinstance(part, Image):
        return ImageContent(data=part.base64, mime_type=media_type)
    if isinstance(part, Audio):
        return AudioContent(data=part.base64, mime_type=media_type)
    contents = BlobResourceContents(
        uri=f"file:///{quote(part.name or 'file')}", blob=part.base64, mime_type=media_type
    )
    return EmbeddedResource(resource=contents)


def prompt_messages(messages: Sequence[Message]) -> list[PromptMessage]:
    """Convert messages to MCP prompt messages, with one message for each part.

    MCP has no system messages, so system messages become user messages.
    """
    prompt: list[PromptMessage] = []
    for message in messages:
        role: Role = "assistant" if isinstance(message, AiMessage) else "user"
        parts = message.parts if isinstance(message, UserMessage) else (message.text,)
        prompt += [PromptMessage(role=role, content=content_block(part)) for part in parts]
    return prompt


def message_of(role: Role, parts: Sequence[str | Media]) -> Message:
    """Convert MCP content to a message with text and media.

    Raises ValueError for media in a message from the model.
    """
    texts = [part for part in parts if isinstance(part, str)]
    if role == "user":
        if len(texts) == len(parts):
            return UserMessage("\n".join(texts))
        return UserMessage("".join(texts), contents=tuple(parts))
    if len(texts) < len(parts):
        raise ValueError("a message of the assistant contains media, which no model accepts")
    return AiMessage("\n".join(texts))


def part_of(block: ContentBlock | SamplingMessageContentBlock) -> str | Media:
    """Convert a block of an MCP message to text or media.

    A link becomes a note. Raises ValueError for unknown blocks.
    """
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return Image(_decoded(block.data), block.mime_type)
        case AudioContent():
            return Audio(_decoded(block.data), block.mime_type)
        case EmbeddedResource():
            return resource_part(block.resource)
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
    raise ValueError(f"content of the type {block.type} is not supported")


def resource_part(contents: TextResourceContents | BlobResourceContents) -> str | Media:
    """Convert a resource's contents to text, an image, a sound or a file."""
    if isinstance(contents, TextResourceContents):
        return contents.text
    data, media_type = _decoded(contents.blob), contents.mime_type or _UNKNOWN_TYPE
    name = unquote(contents.uri.rstrip("/").rpartition("/")[2]) or None
    if media_type == _UNKNOWN_TYPE:
        media_type = detect_media_type(data) or media_type
    for cls in (Image, Audio):
        if media_type.startswith(cls.__name__.lower() + "/"):
            return cls(data, media_type, name=name)
    return File(data, media_type, name=name)


def _decoded(base64: str) -> bytes:
    """Decode base64, in which some servers break lines; raise ValueError for other characters."""
    return b64decode("".join(base64.split()), validate=True)


# --- Results for the model ---

_TEXT_TYPE = re.compile(
    r"text/.*|application/([\w.-]+\+)?(json|xml|(x-)?yaml|toml|sql|(x-)?(ndjson|javascript))"
)
# The types that models accept. For a type that a model does not accept, the dialect of its API sends a note.
_MODEL_MEDIA = frozenset(
    "image/png image/jpeg image/gif image/webp audio/wav audio/mpeg application/pdf".split()
)


def answer_of_result(result: CallToolResult) -> str | ToolAnswer:
    """Convert an MCP tool's result for the model: structured content as JSON, other content as it is.

    Content that no model accepts is replaced with a note. Raises ToolException with the text if the result is
    an error.
    """
    # The text of an error is written for the model, so that it can correct its arguments.
    if result.is_error:
        texts = [str(_model_part(block)) for block in result.content]
        raise ToolException(without_control_characters("\n".join(texts)) or "The tool failed.")
    if result.structured_content is None:
        return _answer([_model_part(block) for block in result.content], "Done.")
    # The texts repeat the structured content for clients that do not support it.
    blocks = [block for block in result.content if block.type != "text"]
    text = to_json(result.structured_content).decode()
    for block in blocks:  # the structured content may repeat them, too
        if data := _base64_of(block):
            text = text.replace(f'"{data}"', f'"[{block.type}]"')
    return _answer([text, *map(_model_part, blocks)], "", result.structured_content)


def answer_of_resource(result: ReadResourceResult) -> str | ToolAnswer:
    """Convert the contents of an MCP resource for the model."""
    blocks = [EmbeddedResource(resource=contents) for contents in result.contents]
    return _answer([_model_part(block) for block in blocks], "It is empty.")


def without_control_characters(text: str) -> str:
    """Remove control characters, except newlines and tabs, from text that an MCP server sent."""
    return _CONTROL_CHARACTERS.sub("", text)


def _answer(parts: Sequence[str | Media], default: str, data: object = None) -> str | ToolAnswer:
    media = [part for part in parts if not isinstance(part, str)]
    text = "\n".join([part for part in parts if isinstance(part, str)] or map(str, media))
    text = without_control_characters(text) or default
    return ToolAnswer(text, media, text if data is None else data) if media else text


def _model_part(block: ContentBlock) -> str | Media:
    """Convert a block of a result to text or media that models accept, or to a note."""
    try:
        part = part_of(block)
    except ValueError:
        part = ""
    if isinstance(part, str):
        return part or ("" if isinstance(block, TextContent) else _note(block))
    if part.data and _TEXT_TYPE.fullmatch(str(part.media_type)):
        return part.data.decode(errors="replace")
    return part if part.data and part.media_type in _MODEL_MEDIA else _note(block)


def _base64_of(block: ContentBlock) -> str | None:
    data: str | None = getattr(getattr(block, "resource", block), "blob", None) or getattr(
        block, "data", None
    )
    return data


def _note(block: ContentBlock) -> str:
    if isinstance(block, EmbeddedResource):
        kind = block.resource.mime_type or "of an unknown type"
        return f"[resource left out: {block.resource.uri}, {kind}]"
    return f"[{block.type} left out: {getattr(block, 'mime_type', None)}]"
