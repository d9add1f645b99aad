"""Rules for the images, sounds and files that callers pass to a service."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from .arguments import check_settings, checks_arguments, is_at_least
from .errors import MediaNotAllowedError
from .media import Media


@checks_arguments
class MediaPolicy:
    """The images, sounds and files that callers may pass to a service.

    Without arguments, only content is allowed, and no URLs, because a provider would fetch any URL, even in
    its own network.

    Args:
        hosts: The hosts of allowed URLs, such as ``"images.example.com"`` or ``"*.example.com"``, which is
            any host below it; ``"*"`` allows all.
        max_bytes: How large one image, sound or file may be.
        media_types: The allowed types, such as ``"image/png"`` or ``"image/*"``; None for all. A URL needs a
            known type then.
    """

    def __init__(
        self,
        *,
        hosts: Collection[str] = (),
        max_bytes: int | None = None,
        media_types: Collection[str] | None = None,
    ) -> None:
        check_settings(
            "MediaPolicy",
            ("hosts", hosts, _are_texts(hosts), 'it must be a list such as ["images.example.com"]'),
            ("max_bytes", max_bytes, max_bytes is None or is_at_least(max_bytes, 1), "it must be at least 1"),
            (
                "media_types",
                media_types,
                media_types is None or _are_texts(media_types),
                'it must be a list such as ["image/*"]',
            ),
        )
        self._hosts = tuple(_canonical_host(host) for host in hosts)
        self._max_bytes = max_bytes
        self._media_types = None if media_types is None else tuple(one.lower() for one in media_types)

    def check(self, media: Media) -> None:
        """Raise MediaNotAllowedError if callers may not pass an image, sound or file."""
        name = type(media).__name__
        kind = f"{'a' if name == 'File' else 'an'} {name}"
        if media.url is not None:
            host = _canonical_host(urlsplit(media.url).hostname or "")
            if not any(_is_host(host, allowed) for allowed in self._hosts):
                advice = f"a URL of {', '.join(self._hosts)}" if self._hosts else "its data"
                raise MediaNotAllowedError(f"{kind} from {host} is not allowed here; pass {advice}")
        if self._max_bytes is not None and media.data is not None and len(media.data) > self._max_bytes:
            size, most = len(media.data), self._max_bytes
            raise MediaNotAllowedError(f"{kind} of {size:,} bytes is not allowed here; the limit is {most:,}")
        if self._media_types is not None:
            media_type = media.media_type or "unknown"
            group = f"{media_type.partition('/')[0]}/*"
            if not {media_type, group} & set(self._media_types):
                allowed = ", ".join(self._media_types)
                raise MediaNotAllowedError(f"{kind} of the type {media_type} is not allowed; pass {allowed}")


def _are_texts(values: object) -> bool:
    return (
        isinstance(values, Collection)
        and not isinstance(values, str)
        and all(isinstance(one, str) and one for one in values)
    )


def _canonical_host(host: str) -> str:
    host = host.lower().rstrip(".")
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host


def _is_host(host: str, allowed: str) -> bool:
    """Return True if a host is the allowed one, or below it if that begins with ``*.``."""
    if allowed.startswith("*"):
        return host.endswith(allowed[1:])
    return host == allowed
