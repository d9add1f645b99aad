"""Images, audio and files in messages to and from a model."""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

# The first bytes of a file show its type: https://en.wikipedia.org/wiki/List_of_file_signatures
_SIGNATURES = (
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
# RIFF files and ISO media files are containers: bytes 8 to 12 show what they contain.
_RIFF_TYPES = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_ISO_MEDIA_TYPES = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"M4A ": "audio/mp4",
}
_OFFICE = "application/vnd.openxmlformats-officedocument"
# The mimetypes module reads the tables of the operating system, so its answers differ between machines.
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
# Providers accept only one name for each of these types.
_SYNONYMS = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg"} | dict.fromkeys(
    ("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"
)


@dataclass(frozen=True, slots=True, repr=False)
class _MediaBase:
    """Base class of Image, Audio and File, the parts of a message that are not text.

    Create them with ``from_path``, ``from_bytes`` or ``from_url``. An object has either ``data`` or ``url``.
    Raises ValueError if it has both or neither, if the URL has credentials or characters that URLs do not
    have, and if the media type is unknown or does not match the class. Raises TypeError if the data is not
    bytes.
    These methods also check that the content is not empty, and is what its media type says.

    Attributes:
        data: The content; None if only the URL is known.
        media_type: The MIME type, for example ``"image/png"``; detected from the data if it is not passed.
        url: The address from which the provider fetches the content; None if ``data`` is set.
        name: The file name, if there is one.
    """

    data: bytes | None = None
    media_type: str | None = None
    url: str | None = None
    name: str | None = None

    # For error messages and previews, with the article.
    kind: ClassVar[str] = "a file"
    _media_type_prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        cls = type(self).__name__
        if (self.data is None) == (self.url is None):
            raise ValueError(f"create {self.kind} with {cls}.from_path, {cls}.from_bytes or {cls}.from_url")
        if self.data is not None and not isinstance(self.data, bytes):
            raise TypeError(f"the data of {self.kind} is {type(self.data).__name__}; it must be bytes")
        problem = None if self.url is None else _url_problem(self.url)
        if problem is not None:
            raise ValueError(f"the url of {self.kind} {problem}")
        object.__setattr__(self, "media_type", self._checked_media_type())

    def _checked_media_type(self) -> str | None:
        """Return the media type in its usual spelling; None for a URL without one."""
        media_type = self.media_type or (None if self.data is None else detect_media_type(self.data))
        if media_type is None and self.data is not None:
            raise ValueError(f"the media type of {self.name or self.kind} is unknown; pass media_type")
        media_type = media_type and media_type.partition(";")[0].strip().lower()
        media_type = media_type and _SYNONYMS.get(media_type, media_type)
        if media_type is not None and not media_type.startswith(self._media_type_prefix):
            raise ValueError(f"{self.name or 'it'} is {media_type}, which is not {self.kind}")
        return media_type

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], media_type: str | None = None, *, max_bytes: int | None = None
    ) -> Self:
        """Create an image, audio or file object from a file on this machine.

        The media type is taken from the content or from the extension if it is not passed. Raises
        FileNotFoundError; ValueError if the media type is unknown or the file is larger than ``max_bytes``.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{cls.kind} cannot be read: there is no file {str(path)!r}")
        _check_size(path.stat().st_size, max_bytes, path.name)
        data, by_extension = path.read_bytes(), _EXTENSIONS.get(path.suffix.lower())
        # A text may begin with the same bytes as an image, but an image is never named .csv.
        if cls._media_type_prefix:
            detected = detect_media_type(data) or by_extension
        else:
            detected = by_extension or detect_media_type(data)
        return cls(data, media_type or detected, name=path.name).checked(is_declared=media_type is not None)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        media_type: str | None = None,
        *,
        name: str | None = None,
        max_bytes: int | None = None,
    ) -> Self:
        """Create an image, audio or file object from its bytes.

        The media type is detected from the first bytes if it is not passed. Raises ValueError if it is
        unknown or the data is larger than ``max_bytes``.
        """
        _check_size(len(data), max_bytes, name or cls.kind)
        return cls(data, media_type, name=name).checked(is_declared=True)

    @classmethod
    def from_url(cls, url: str, media_type: str | None = None) -> Self:
        """Create an image, audio or file object from a URL.

        The provider fetches the content of an http(s) URL. A data URL contains the content itself.
        """
        if not url.startswith("data:"):
            problem = _url_problem(url)
            if problem is not None:
                raise ValueError(f"the url of {cls.kind} {problem}")
            path = urlsplit(url).path
            by_extension = _EXTENSIONS.get(os.path.splitext(path)[1].lower())
            return cls(None, media_type or by_extension, url, path.rpartition("/")[2] or None)
        return cls(*read_data_url(url, media_type)).checked(is_declared=True)

    def checked(self, *, is_declared: bool) -> Self:
        """Return this object; raise ValueError if its content is empty or not of its media type.

        With ``is_declared``, the program has chosen the type, and only its kind is checked, such as image.
        """
        if self.data is not None and self.media_type is not None:
            problem = _content_problem(self.data, self.media_type, is_declared=is_declared)
            if problem == "empty":
                raise ValueError(f"{self.name or self.kind} is empty")
            if problem is not None:
                raise ValueError(f"{self.name or 'it'} is not {self.media_type}: its content is {problem}")
        return self

    @property
    def base64(self) -> str:
        """The data of the image, audio or file in base64; "" if only a URL is known."""
        return b64encode(self.data or b"").decode()

    @property
    def address(self) -> str:
        """The URL of the media, or a data URL with its bytes."""
        return self.url or f"data:{self.media_type};base64,{self.base64}"

    def __str__(self) -> str:
        """Return a short description of an image, audio or file, such as ``[image/png, 12 KB]``."""
        if self.data is not None:
            return f"[{self.media_type}, {_format_size(len(self.data))}]"
        parts = urlsplit(self.url or "")  # Credentials and the query are left out: they may be secret.
        address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"[{self.media_type or self.kind}, {address}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self)[1:-1]}>"


@dataclass(frozen=True, slots=True, repr=False)
class Image(_MediaBase):
    """An image in a message. Create it with ``from_path``, ``from_bytes`` or ``from_url``.

    Attributes:
        data: The content; None if only the URL is known.
        media_type: The MIME type, for example ``"image/png"``; detected from the data if it is not passed.
        url: The address from which the provider fetches the image; None if ``data`` is set.
        name: The file name, if there is one.
        detail: The resolution at which the model looks at the image, for providers that have this choice;
            if None, the provider uses its default.
    """

    detail: Literal["auto", "low", "high", "original"] | None = None

    kind: ClassVar[str] = "an image"
    _media_type_prefix: ClassVar[str] = "image/"

    def with_detail(self, detail: Literal["auto", "low", "high", "original"]) -> Image:
        """Return a copy of the image with another ``detail``, the resolution at which the model sees it."""
        return replace(self, detail=detail)


@dataclass(frozen=True, slots=True, repr=False)
class Audio(_MediaBase):
    """A sound recording in a message. Create it with ``from_path``, ``from_bytes`` or ``from_url``.

    Attributes:
        data: The content; None if only the URL is known.
        media_type: The MIME type, for example ``"audio/wav"``; detected from the data if it is not passed.
        url: The address from which the provider fetches the recording; None if ``data`` is set.
        name: The file name, if there is one.
    """

    kind: ClassVar[str] = "audio"
    _media_type_prefix: ClassVar[str] = "audio/"


@dataclass(frozen=True, slots=True, repr=False)
class File(_MediaBase):
    """A file in a message, such as a PDF. Create it with ``from_path``, ``from_bytes`` or ``from_url``.

    Attributes:
        data: The content; None if only the URL is known.
        media_type: The MIME type, for example ``"application/pdf"``; detected if it is not passed.
        url: The address from which the provider fetches the file; None if ``data`` is set.
        name: The file name, if there is one.
    """

    @property
    def file_name(self) -> str:
        """The name of the file, or "file" with the extension of its media type."""
        # Providers look at the extension to find out what a file contains.
        matching = (end for end, media_type in _EXTENSIONS.items() if media_type == self.media_type)
        return self.name or f"file{next(matching, '')}"


Media: TypeAlias = Image | Audio | File


def media_from_base64(data: str, media_type: str | None = None) -> Media:
    """Create an Image, Audio or File from base64 data.

    Its media type or its first bytes decide which.

    Raises ValueError if the data is not base64, or if its media type is unknown.
    """
    content = b64decode(data, validate=True)
    kind = (media_type or detect_media_type(content) or "").partition("/")[0]
    classes: dict[str, type[Media]] = {"image": Image, "audio": Audio}
    return classes.get(kind, File)(content, media_type)


def read_data_url(url: str, media_type: str | None = None) -> tuple[bytes, str | None]:
    """Return the content of a data URL and its media type; raise ValueError if it is not base64."""
    head, _, body = url[5:].partition(",")
    data = unquote_to_bytes(body)
    if head.endswith(";base64"):
        data = b64decode(data, validate=True)
    return data, media_type or head.partition(";")[0] or None


def detect_media_type(data: bytes) -> str | None:
    """Return the media type (MIME type) that the first bytes of a file indicate, or None if unknown."""
    if data[:4] == b"RIFF":
        return _RIFF_TYPES.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _ISO_MEDIA_TYPES.get(data[8:12])
    return next((media_type for start, media_type in _SIGNATURES if data.startswith(start)), None)


# What files of these types contain near their beginning, whatever their name is.
_CONTENTS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"WEBP",
    "application/pdf": b"%PDF-",
}
_HEADER_BYTES = {"application/pdf": 1024}  # readers of PDF accept other bytes before the header


def _content_problem(data: bytes, media_type: str, *, is_declared: bool) -> str | None:
    """Return why data cannot be a file of a type: "empty", or the type that it has.

    A type that the program has declared is only checked for its kind, such as image.
    """
    if not data:
        return "empty"
    kind, detected = media_type.partition("/")[0], detect_media_type(data)
    content = _CONTENTS.get(media_type)
    is_binary = content is not None or (kind in ("image", "audio") and not media_type.endswith("xml"))
    if is_binary and detected is not None and detected.partition("/")[0] != kind:
        return detected
    if is_declared or not is_binary:
        return None
    if content is not None and content not in data[: _HEADER_BYTES.get(media_type, 16)]:
        return detected or "something else"
    return (
        "text" if detected is None and not re.search(rb"[\x00-\x08\x0e-\x1f\x7f-\xff]", data[:512]) else None
    )


_NOT_IN_URLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Others, such as a backslash, are a part of the host for some parsers of URLs and end it for others.
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d*)?")


def _url_problem(url: str) -> str | None:
    """Return what is wrong with the URL of an image or file, without quoting it: it may have a password."""
    if not url.startswith(("http://", "https://")):
        return "must begin with http:// or https://, or be a data URL"
    if _NOT_IN_URLS.search(url):
        return "contains a line break or another control character"
    try:
        parts = urlsplit(url)
        is_valid = _HOST.fullmatch(parts.netloc) and (parts.port is None or parts.hostname)
    except ValueError:
        return "has no valid host"
    if "@" in parts.netloc:
        return "contains a user name or a password, which would be sent to the provider"
    return None if is_valid else "has no valid host"


def _check_size(size: int, max_bytes: int | None, name: str) -> None:
    """Raise ValueError if an image, audio or other file for a message is larger than ``max_bytes``.

    ``name`` is the name of the file in the error message.
    """
    if max_bytes is not None and size > max_bytes:
        raise ValueError(f"{name} has {size} bytes; the limit is {max_bytes}")


def _format_size(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.0f} KB" if size < 1024 * 1000 else f"{size / 1024 / 1024:.1f} MB"


def interleave(text: str, contents: Sequence[str | Media]) -> Iterator[str | Media]:
    """Yield the parts of a message in order: pieces of text, with images and files between them.

    The strings in ``contents`` together are the original text, and show where the media belong in it. Without
    strings, all media follow the text. ``text`` may differ from the original, because interceptors can change
    it: media keep their place next to unchanged text, and follow text that was replaced.
    """
    original = "".join(part for part in contents if isinstance(part, str))
    new_position = _position_mapping(original, text) if original else lambda position: len(text)
    position = end = 0
    for part in contents:
        if isinstance(part, str):
            position += len(part)
        else:
            start, end = end, new_position(position)
            yield text[start:end]
            yield part
    yield text[end:]


def _position_mapping(original: str, text: str) -> Callable[[int], int]:
    """Return a function that converts a position in the original text to one in the edited text.

    Three kinds of change are recognized: text was added around the original, the original was cut at its
    ends, or one passage in it was replaced.
    """
    added_before, cut_before = text.find(original), original.find(text)
    if added_before >= 0:
        return lambda position: position + added_before
    if cut_before >= 0:
        return lambda position: min(max(position - cut_before, 0), len(text))
    prefix = _common_prefix_length(original, text)
    suffix = _common_prefix_length(original[::-1], text[::-1])
    suffix = min(suffix, len(original) - prefix, len(text) - prefix)  # It must not overlap the prefix.

    def new_position(position: int) -> int:
        return position if position <= prefix else len(text) - min(len(original) - position, suffix)

    return new_position


def _common_prefix_length(first: str, second: str) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((position for position, (a, b) in pairs if a != b), min(len(first), len(second)))
