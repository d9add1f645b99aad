"""What both transports have in common: addresses, timeouts, errors, and where a redirect leads."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

__all__ = [
    "CONNECT_SECONDS",
    "DRAIN_SECONDS",
    "IDLE_SECONDS",
    "MOST_CONNECTIONS",
    "MOST_REDIRECTS",
    "READ_SECONDS",
    "Answered",
    "Base",
    "StatusError",
    "TransportError",
    "checked",
    "headers_for",
    "redirected",
]

CONNECT_SECONDS = 5.0  # these limits are those of OpenAI's own SDK
READ_SECONDS = 600.0
IDLE_SECONDS = 15.0  # networks forget connections that are idle for minutes, and tell nobody
MOST_CONNECTIONS = 1000
MOST_REDIRECTS = 5
DRAIN_SECONDS = 0.02  # what follows the last event of a stream is there by then, or does not come

_REDIRECTS = (307, 308)  # the others want a GET, which asks no model
_OF_THE_BODY = frozenset(("accept", "accept-encoding", "content-type", "user-agent"))
_PORTS = {"http": 80, "https": 443}
_UNQUOTED = "/%:@!$&'()*+,;=~?"  # what may stand in a path or a query as it is
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110
_FORBIDDEN = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


class Answered(Protocol):
    """A response whose beginning has come."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class TransportError(OSError):
    """A request cannot go out at all; the message says why."""


class StatusError(Exception):
    """The server answered with a status that is no success; ``response`` has all of its answer."""

    def __init__(self, response: Answered) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


@dataclass(frozen=True, slots=True)
class Base:
    """The URL below which requests go, and the headers of them all.

    A name and a password in the URL become basic authorization; a query stays at the end of every address.
    """

    parts: SplitResult
    headers: dict[str, str]

    @classmethod
    def of(cls, url: str, headers: Mapping[str, str]) -> Base:
        """Raises TransportError when a header holds what HTTP does not allow, or the host is no name."""
        try:
            parts = _plain(url)
        except ValueError as error:
            raise TransportError("base_url has a host that is no name") from error
        user, at, host = parts.netloc.rpartition("@")
        sent = {"accept-encoding": "gzip, deflate", **checked(headers)}
        if at:
            sent["authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
        return cls(parts._replace(netloc=host, path=parts.path.strip("/"), fragment=""), sent)

    def url(self, path: str) -> str:
        path = "/".join(part for part in (self.parts.path, path.strip("/")) if part)
        return self.parts._replace(path=f"/{path}").geturl()


def checked(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, named in lower case, if HTTP allows them.

    Raises TransportError, which quotes none: they may be keys.
    """
    for name, value in headers.items():
        if _FORBIDDEN.search(value) or not _NAME.fullmatch(name):
            raise TransportError("a header holds what HTTP does not allow, as a line end")
    return {name.lower(): value for name, value in headers.items()}


def redirected(url: str, response: Answered) -> str:
    """The address to send the same to.

    Raises StatusError where the answer is no redirect, leads nowhere, or asks for another kind of request.
    """
    try:
        parts = _plain(urljoin(url, response.headers.get("location", "")))
    except ValueError:
        raise StatusError(response) from None
    there = parts.geturl()
    if response.status_code not in _REDIRECTS or there == url or parts.scheme not in _PORTS:
        raise StatusError(response)
    return there


def headers_for(there: str, url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers when what was sent to ``url`` is sent ``there``.

    To another origin go those alone that say what the body is and who sends it: a key may have any name.
    """
    if _origin(there) == _origin(url):
        return headers
    return {name: value for name, value in headers.items() if name in _OF_THE_BODY}


def _plain(url: str) -> SplitResult:
    """A URL in the characters that HTTP takes. Raises ValueError when it is none."""
    parts = urlsplit(url)
    host, number = parts.netloc, parts.port
    if not host.isascii() and parts.hostname:
        user, at, _ = host.rpartition("@")
        port = "" if number is None else f":{number}"
        host = f"{user}{at}{parts.hostname.encode('idna').decode()}{port}"
    return urlsplit(
        parts._replace(
            netloc=host, path=quote(parts.path, _UNQUOTED), query=quote(parts.query, _UNQUOTED)
        ).geturl()
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
