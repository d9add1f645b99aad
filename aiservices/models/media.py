"""What a message may hold beside its text: images, sound and files."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BOXES = {b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"M4A ": "audio/mp4"}
_OFFICE = "application/vnd.openxmlformats-officedocument"
# a table of our own, since that of the standard library differs from machine to machine
_EXTENSIONS = {
    **{f".{name}": f"image/{name}" for name in ("png", "jpeg", "gif", "webp", "bmp", "tiff", "avif", "heic")},
    **{f".{name}": f"audio/{name}" for name in ("wav", "flac", "ogg", "aac", "webm")},
    ".jpg": "image/jpeg",
    ".tif": "image/tiff",
    ".svg": "image/svg+xml",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".pdf": "application/pdf",
    ".json": "application/json",
    ".xml": "application/xml",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".html": "text/html",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
}
_OTHER_NAMES = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg"} | dict.fromkeys(
    ("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"
)


@dataclass(frozen=True, slots=True, repr=False)
class _Media:
    """Either ``data`` with its ``media_type``, or the ``url`` that it is at; ``name`` is that of its file."""

    data: bytes | None = None
    media_type: str | None = None
    url: str | None = None
    name: str | None = None

    kind: ClassVar[str] = "a file"
    _prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        cls = type(self).__name__
        if (self.data is None) == (self.url is None):
            raise ValueError(f"{self.kind} is made by {cls}.from_path, {cls}.from_bytes or {cls}.from_url")
        if self.data is not None and not isinstance(self.data, bytes):
            raise TypeError(f"the data of {self.kind} is {type(self.data).__name__}; it must be bytes")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"the url of {self.kind} must begin with http:// or https://, or be a data URL")
        media_type = self.media_type or (None if self.data is None else _of_bytes(self.data))
        if media_type is None and self.data is not None:
            raise ValueError(f"the media type of {self.name or self.kind} is not known; pass media_type")
        media_type = media_type and media_type.partition(";")[0].strip().lower()
        media_type = media_type and _OTHER_NAMES.get(media_type, media_type)
        if media_type is not None and not media_type.startswith(self._prefix):
            raise ValueError(f"{self.name or 'it'} is {media_type}, which is not {self.kind}")
        object.__setattr__(self, "media_type", media_type)

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], media_type: str | None = None, *, max_bytes: int | None = None
    ) -> Self:
        """What a file holds. Raises FileNotFoundError; ValueError for an unknown type, or one too large."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{cls.kind} cannot be read: there is no file {str(path)!r}")
        _check_size(path.stat().st_size, max_bytes, path.name)
        data, by_name = path.read_bytes(), _EXTENSIONS.get(path.suffix.lower())
        # a text may begin as an image does, but nobody names an image .csv
        known = (_of_bytes(data) or by_name) if cls._prefix else (by_name or _of_bytes(data))
        return cls(data, media_type or known, name=path.name)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str | None = None,
        *,
        name: str | None = None,
        max_bytes: int | None = None,
    ) -> Self:
        """Bytes; most types are known by how they begin. Raises ValueError as ``from_path`` does."""
        _check_size(len(data), max_bytes, name or cls.kind)
        return cls(data, media_type, name=name)

    @classmethod
    def from_url(cls, url: str, media_type: str | None = None) -> Self:
        """What is at an address, which the provider fetches; a data URL is taken as the bytes in it."""
        if not url.startswith("data:"):
            path = urlsplit(url).path
            known = media_type or _EXTENSIONS.get(os.path.splitext(path)[1].lower())
            return cls(None, known, url, path.rpartition("/")[2] or None)
        head, _, body = url[5:].partition(",")
        data = b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
        return cls(data, media_type or head.partition(";")[0] or None)

    @property
    def base64(self) -> str:
        """The data in base 64; "" of what is at an address."""
        return b64encode(self.data or b"").decode()

    @property
    def address(self) -> str:
        """The address: its own, or a data URL that holds the data."""
        return self.url or f"data:{self.media_type};base64,{self.base64}"

    def __str__(self) -> str:
        """As previews and errors show it, without the data: ``[image/png, 12 KB]``."""
        if self.data is not None:
            return f"[{self.media_type}, {_size(len(self.data))}]"
        parts = urlsplit(self.url or "")  # without credentials and query, which may be secret
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"[{self.media_type or self.kind}, {place}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self)[1:-1]}>"


@dataclass(frozen=True, slots=True, repr=False)
class Image(_Media):
    """An image for a model to look at. ``detail`` is how closely, where the provider has such a choice."""

    detail: Literal["auto", "low", "high", "original"] | None = None

    kind: ClassVar[str] = "an image"
    _prefix: ClassVar[str] = "image/"

    def with_detail(self, detail: Literal["auto", "low", "high", "original"]) -> Image:
        """The same image, to be looked at as closely as this."""
        return replace(self, detail=detail)


@dataclass(frozen=True, slots=True, repr=False)
class Audio(_Media):
    """Sound for a model to listen to."""

    kind: ClassVar[str] = "audio"
    _prefix: ClassVar[str] = "audio/"


@dataclass(frozen=True, slots=True, repr=False)
class File(_Media):
    """A file for a model to read, such as a PDF."""

    @property
    def file_name(self) -> str:
        """Its name; one that fits its type where it has none, since providers go by the extension."""
        known = (end for end, media_type in _EXTENSIONS.items() if media_type == self.media_type)
        return self.name or f"file{next(known, '')}"


Media: TypeAlias = Image | Audio | File


def _of_bytes(data: bytes) -> str | None:
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _BOXES.get(data[8:12])
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


def _check_size(size: int, limit: int | None, what: str) -> None:
    if limit is not None and size > limit:
        raise ValueError(f"{what} has {size} bytes; {limit} are the most that are permitted")


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.0f} KB" if count < 1024 * 1000 else f"{count / 1024 / 1024:.1f} MB"


def interleaved(text: str, contents: Sequence[str | Media]) -> Iterator[str | Media]:
    """The text, with the media at their places in it.

    The texts among ``contents`` are the text as it was when media were put into it; without any the media
    come after it. When it was changed since, media stay beside the text that stayed, and follow what was
    changed around them.
    """
    was = "".join(part for part in contents if isinstance(part, str))
    place_of = _moved(was, text) if was else lambda at: len(text)
    at = done = 0
    for part in contents:
        if isinstance(part, str):
            at += len(part)
        else:
            place = place_of(at)
            yield text[done:place]
            yield part
            done = place
    yield text[done:]


def _moved(was: str, text: str) -> Callable[[int], int]:
    """Where a place in the text as it was is now: text was put around it, cut off, or changed once."""
    inside, around = text.find(was), was.find(text)
    if inside >= 0:
        return lambda at: at + inside
    if around >= 0:
        return lambda at: min(max(at - around, 0), len(text))
    before = _same(was, text)
    after = min(_same(was[::-1], text[::-1]), len(was) - before, len(text) - before)
    return lambda at: at if at <= before else len(text) - min(len(was) - at, after)


def _same(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
