"""The files of the page, as they are sent: with what a browser may do with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import Response

__all__ = ["DESCRIPTION", "INDEX", "file_response", "names_of_files"]

INDEX = "index.html"
DESCRIPTION = "services.json"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# nothing from elsewhere, no script or style but those of the files, and no text that becomes markup
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FOLDER = files("aiservices.page") / "static"


def names_of_files() -> list[str]:
    """The files that the page asks for."""
    found = (file.name for file in _FOLDER.iterdir() if file.is_file())
    return sorted(name for name in found if name != INDEX and name.rpartition(".")[2] in _TYPES)


def file_response(name: str) -> Callable[[], Awaitable[Response]]:
    """An endpoint that sends a file."""
    content = (_FOLDER / name).read_bytes()
    media_type = _TYPES[name.rpartition(".")[2]]

    async def send() -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return send
