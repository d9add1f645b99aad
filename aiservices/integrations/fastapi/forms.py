"""Media and messages as JSON: plain records that stand for them on the wire."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin

from output_parsers.target import Description

from ...contents import Audio, File, Image, Media
from ...messages import AiMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

__all__ = ["from_wire", "to_wire", "wire_form"]


@dataclass(frozen=True)
class _MediaJson:
    """Either ``data`` in base 64 with its ``media_type``, or the ``url`` that the provider fetches."""

    url: Annotated[str | None, Description("http:, https: or data:")] = None
    data: Annotated[str | None, Description("in base 64")] = None
    media_type: str | None = None
    name: str | None = None

    kind: ClassVar[type[Media]] = File

    def __post_init__(self) -> None:
        self.media()

    def media(self) -> Media:
        """What it stands for. Raises ValueError when it stands for nothing."""
        if self.data is None and self.url is not None and self.url.startswith("data:"):
            return self.kind.from_url(self.url, self.media_type)
        data = None if self.data is None else b64decode(self.data, validate=True)
        return self.kind(data, self.media_type, self.url, self.name)


@dataclass(frozen=True)
class ImageJson(_MediaJson):
    """An image: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    detail: Literal["auto", "low", "high", "original"] | None = None

    kind: ClassVar[type[Media]] = Image

    def media(self) -> Media:
        media = super().media()
        return media.with_detail(self.detail) if self.detail and isinstance(media, Image) else media


@dataclass(frozen=True)
class AudioJson(_MediaJson):
    """Sound: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = Audio


@dataclass(frozen=True)
class FileJson(_MediaJson):
    """A file: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = File


@dataclass(frozen=True)
class UserMessageJson:
    """What a user says: a text, and the media that belong to it."""

    text: str
    type: Literal["user"] = "user"
    name: str | None = None
    contents: tuple[str | ImageJson | AudioJson | FileJson, ...] = ()


@dataclass(frozen=True)
class AiMessageJson:
    """What the model said."""

    type: Literal["ai"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True)
class ToolMessageJson:
    """What a tool answered."""

    type: Literal["tool"]
    call_id: str
    name: str
    text: str


# No system message: what the model is told about its job is not for those to say who call from elsewhere.
MessageJson: TypeAlias = UserMessageJson | AiMessageJson | ToolMessageJson
_MEDIA: dict[Any, type[_MediaJson]] = {Image: ImageJson, Audio: AudioJson, File: FileJson}
_FORMS: dict[Any, Any] = {**_MEDIA, UserMessage: UserMessageJson, Message: MessageJson}
_FORMS |= {AiMessage: AiMessageJson, ToolMessage: ToolMessageJson}


def wire_form(hint: Any) -> Any:
    """A type with the records of the wire in the places of media and messages, those inside of others too."""
    if hint in _FORMS if _hashable(hint) else False:
        return _FORMS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(wire_form(args[0]), *hint.__metadata__)]
    if origin in (Union, UnionType):
        members = [arg for arg in args if arg is not SystemMessage]
        return Union[tuple(wire_form(arg) for arg in members)]  # noqa: UP007
    changed = tuple(wire_form(arg) if isinstance(arg, type) or get_origin(arg) else arg for arg in args)
    return hint if changed == args or origin is None or origin is Literal else origin[changed]


def to_wire(value: Any) -> Any:
    """A value with the records of the wire in it. Raises ValueError for a system message."""
    if type(value) in _MEDIA:
        return _media_to_wire(value)
    if isinstance(value, UserMessage):
        return UserMessageJson(value.text, "user", value.name, tuple(map(to_wire, value.contents)))
    if isinstance(value, AiMessage):
        return AiMessageJson("ai", value.text, value.tool_calls, value.reasoning)
    if isinstance(value, ToolMessage):
        return ToolMessageJson("tool", value.call_id, value.name, value.text)
    if isinstance(value, SystemMessage):
        raise ValueError("a system message is not taken from elsewhere; leave it out of the history")
    return type(value)(map(to_wire, value)) if type(value) in (list, tuple) else value


def _media_to_wire(media: Media) -> _MediaJson:
    kind, data = _MEDIA[type(media)], None if media.data is None else media.base64
    more = {"detail": media.detail} if isinstance(media, Image) else {}
    return kind(media.url, data, media.media_type, media.name, **more)


def from_wire(value: Any) -> Any:
    """The other direction."""
    if isinstance(value, _MediaJson):
        return value.media()
    if isinstance(value, UserMessageJson):
        return UserMessage(value.text, value.name, tuple(map(from_wire, value.contents)))
    if isinstance(value, AiMessageJson):
        return AiMessage(value.text, value.tool_calls, value.reasoning)
    if isinstance(value, ToolMessageJson):
        return ToolMessage(value.call_id, value.name, value.text)
    return type(value)(map(from_wire, value)) if type(value) in (list, tuple) else value


def _hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True
