"""Convert MCP message contents to this library's text, media and messages, and back."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence

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

from ...models.media import Audio, File, Image, Media
from ...models.messages import AiMessage, Message, UserMessage
from ...tools.tool import ToolException

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
        uri=f"file:///{part.name or 'file'}", blob=part.base64, mime_type=media_type
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
    """Convert MCP content to a message with text and media; raise ValueError for media from the model.

    Raises ValueError.
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
    """Convert a block of an MCP message to text or media; a link becomes a note. Raises ValueError."""
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return Image(b64decode(block.data), block.mime_type)
        case AudioContent():
            return Audio(b64decode(block.data), block.mime_type)
        case EmbeddedResource():
            return resource_part(block.resource)
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
    raise ValueError(f"content of the type {block.type} is not supported")


def resource_part(contents: TextResourceContents | BlobResourceContents) -> str | Media:
    """Convert a resource's contents to text, an image, a sound or a file."""
    if isinstance(contents, TextResourceContents):
        return contents.text
    data, media_type = b64decode(contents.blob), contents.mime_type or _UNKNOWN_TYPE
    name = contents.uri.rstrip("/").rpartition("/")[2] or None
    for cls in (Image, Audio):
        if media_type.startswith(cls.__name__.lower() + "/"):
            return cls(data, media_type, name=name)
    return File(data, media_type, name=name)


# --- Results as text ---


def text_of_result(result: CallToolResult) -> str:
    """Convert an MCP tool's result to text: structured content as JSON, other content as its text parts.

    Images and other content are replaced with a note. Raises ToolException with the text if the result is an
    error.
    """
    texts = [block.text for block in result.content if block.type == "text"]
    notes = [_note(block) for block in result.content if block.type != "text"]
    # The text of an error is written for the model, so that it can correct its arguments.
    if result.is_error:
        raise ToolException("\n".join(texts + notes) or "The tool failed.")
    if result.structured_content is not None:
        # The texts repeat the structured content for clients that do not support it.
        texts = [to_json(result.structured_content).decode()]
    return without_control_characters("\n".join(texts + notes)) or "Done."


def text_of_resource(result: ReadResourceResult) -> str:
    """Convert the contents of an MCP resource to text."""
    return without_control_characters("\n".join(map(_resource_text, result.contents))) or "It is empty."


def without_control_characters(text: str) -> str:
    """Remove control characters, except newlines and tabs, from text that an MCP server sent."""
    return _CONTROL_CHARACTERS.sub("", text)


def _note(block: ContentBlock) -> str:
    if block.type == "resource":
        return _resource_text(block.resource)
    if block.type == "resource_link":
        return f"[resource {block.name}: {block.uri}]"
    return f"[{block.type} left out: {getattr(block, 'mime_type', None)}]"


def _resource_text(contents: TextResourceContents | BlobResourceContents) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    return f"[resource left out: {contents.uri}, {contents.mime_type or 'of an unknown type'}]"
