"""Convert the contents of MCP messages to texts, media and messages of this library, and back."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    Role,
    SamplingMessageContentBlock,
    TextContent,
    TextResourceContents,
)

from ...models.media import Audio, File, Image, Media
from ...models.messages import AiMessage, Message, UserMessage

_UNKNOWN_TYPE = "application/octet-stream"


def content_block(part: str | Media) -> ContentBlock:
    """Convert a text, image, sound or file to a block of an MCP message."""
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
    """Convert messages to those of an MCP prompt, with one message for each part.

    MCP has no system messages, so they become messages of the user.
    """
    prompt: list[PromptMessage] = []
    for message in messages:
        role: Role = "assistant" if isinstance(message, AiMessage) else "user"
        parts = message.parts if isinstance(message, UserMessage) else (message.text,)
        prompt += [PromptMessage(role=role, content=content_block(part)) for part in parts]
    return prompt


def message_of(role: Role, parts: Sequence[str | Media]) -> Message:
    """Return the message that consists of texts and media; media of the assistant are an error.

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
    """Convert a block of an MCP message to a text or media; a link becomes a note. Raises ValueError."""
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
    """Convert the contents of a resource to a text, an image, a sound or a file."""
    if isinstance(contents, TextResourceContents):
        return contents.text
    data, media_type = b64decode(contents.blob), contents.mime_type or _UNKNOWN_TYPE
    name = contents.uri.rstrip("/").rpartition("/")[2] or None
    for cls in (Image, Audio):
        if media_type.startswith(cls.__name__.lower() + "/"):
            return cls(data, media_type, name=name)
    return File(data, media_type, name=name)
