"""Messages as JSON, and back: for memory that outlives the process, and calls that wait."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any, TypeVar

from .contents import Audio, File, Image, Media
from .messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

__all__ = ["message_from_dict", "message_to_dict", "messages_from_json", "messages_to_json"]

_T = TypeVar("_T", Message, ToolCall)
_KINDS: dict[str, type[Message]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "ai": AiMessage,
    "tool": ToolMessage,
}
_MEDIA: dict[str, type[Media]] = {"image": Image, "audio": Audio, "file": File}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def message_to_dict(message: Message) -> dict[str, Any]:
    """A message as plain JSON: its ``type`` and its fields, those left out that are None or empty."""
    said = {name: getattr(message, name) for name in message.__dataclass_fields__}
    said = {name: value for name, value in said.items() if value not in (None, ())}
    if isinstance(message, UserMessage) and message.contents:
        said["contents"] = [one if isinstance(one, str) else _media_to_dict(one) for one in message.contents]
    if isinstance(message, AiMessage) and message.tool_calls:
        said["tool_calls"] = tuple(asdict(call) for call in message.tool_calls)
    return {"type": _NAMES[type(message)], **said}


def message_from_dict(said: dict[str, Any]) -> Message:
    """The message of ``message_to_dict``. Raises ValueError for what is none."""
    fields = dict(said) if isinstance(said, Mapping) else {}
    name = fields.pop("type", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"no message has the type {name!r}")
    if "contents" in fields:
        parts = fields["contents"]
        fields["contents"] = tuple(one if isinstance(one, str) else _media_from_dict(one) for one in parts)
    try:
        if "tool_calls" in fields:
            fields["tool_calls"] = tuple(_of_text(ToolCall(**call)) for call in fields["tool_calls"])
        return _of_text(kind(**fields))
    except TypeError as error:
        raise ValueError(f"the {said['type']} message has other fields: {error}") from error


def messages_to_json(messages: Iterable[Message]) -> str:
    """Messages as one JSON array."""
    return json.dumps([message_to_dict(message) for message in messages], ensure_ascii=False)


def messages_from_json(text: str) -> list[Message]:
    """The messages of ``messages_to_json``. Raises ValueError for what is none."""
    messages = json.loads(text)
    if not isinstance(messages, list):
        raise ValueError(f"the messages are a list, not {type(messages).__name__}")
    return [message_from_dict(said) for said in messages]


def _of_text(said: _T) -> _T:
    """A message or a call, when all that is to be text in it is. Raises TypeError."""
    for field in fields_of(said):
        value = getattr(said, field.name)
        optional = field.default is None and value is None
        if field.name not in ("tool_calls", "contents") and not isinstance(value, str) and not optional:
            raise TypeError(f"{field.name} is {value!r}; it must be text")
    return said


def _media_to_dict(media: Media) -> dict[str, Any]:
    """Media as plain JSON: the type, and the fields that say something; the data in base 64."""
    said: dict[str, Any] = {"type": type(media).__name__.lower()}
    fields = {"media_type": media.media_type, "url": media.url, "name": media.name}
    if media.data is not None:
        fields["data"] = media.base64
    if isinstance(media, Image):
        fields["detail"] = media.detail
    return said | {name: value for name, value in fields.items() if value is not None}


def _media_from_dict(said: Any) -> Media:
    """The media of ``_media_to_dict``. Raises ValueError for what is none."""
    fields = dict(said) if isinstance(said, Mapping) else {}
    kind = fields.pop("type", None)
    cls = _MEDIA.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ValueError(f"no content of a message has the type {kind!r}")
    if "data" in fields:
        fields["data"] = b64decode(fields["data"], validate=True)
    try:
        return cls(**fields)
    except TypeError as error:
        raise ValueError(f"the {kind} has other fields: {error}") from error
