"""What both transports have in common: addresses, timeouts, errors, and where a redirect leads."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Generic, Protocol, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import finalize, ref

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


class ProxyError(OSError):
    """The proxy cannot be reached, or refuses; the message has no credentials."""


def proxy_of(url: str) -> str | None:
    """The proxy for ``url``: by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, or the system's settings.

    Raises TransportError when it is no HTTP proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # NO_PROXY names a host with or without its port, and that of IPv6 without brackets
    hosts = (parts.netloc.rpartition("@")[2], parts.hostname or "")
    if not proxy or any(proxy_bypass(host) for host in hosts):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    kind = urlsplit(proxy).scheme
    if kind not in ("http", "https"):
        raise TransportError(
            f"the environment asks for a {kind.upper()} proxy; set an HTTP proxy, except the host by "
            "NO_PROXY, or pass a client of the SDK's that goes through the proxy"
        )
    return proxy


@cache
def ssl_context() -> ssl.SSLContext:
    """The one context of this process: making one reads hundreds of certificates.

    SSL_CERT_FILE and SSL_CERT_DIR are read when it is made; else the system's own store is asked on macOS and
    Windows, and elsewhere the certificates where OpenSSL has them, or those of certifi where there are none.
    Raises TransportError when what these variables name cannot be read.
    """
    asked = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if any(asked):
        try:
            return ssl.create_default_context(cafile=asked[0] or None, capath=asked[1] or None)
        except OSError as error:
            raise TransportError(
                f"the certificates that SSL_CERT_FILE and SSL_CERT_DIR name cannot be read: {error}"
            ) from error
    if sys.platform in ("darwin", "win32"):
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and os.listdir(paths.capath)):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    made: T
    closer: AsyncGenerator[None]


class PerLoop(Generic[T]):
    """Connections of an asynchronous client belong to one event loop. So each loop gets one.

    It is closed and forgotten when the loop shuts down its asynchronous generators, as asyncio.run does at
    its end; that of a loop which ended otherwise is abandoned when another loop asks for one. When nobody
    can ask any more, all are closed or abandoned.
    """

    def __init__(
        self,
        make: Callable[[], T],
        close: Callable[[T], Awaitable[None]],
        abandon: Callable[[T], None],
    ) -> None:
        self._make = make
        self._close = close
        self._abandon = abandon
        self._held: dict[asyncio.AbstractEventLoop, _Held[T]] = {}
        self._lock = Lock()
        # not __del__: where all is collected as one cycle, what was made would warn of not being closed
        finalize(self, _let_go, self._held, abandon)

    def __len__(self) -> int:
        return len(self._held)

    async def get(self) -> T:
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is not None:
            return held.made
        self._forget_the_closed()
        made = self._make()
        held = _Held(made, _closes_with_loop(made, self._close, ref(self)))
        with self._lock:
            self._held[loop] = held
        await anext(held.closer)
        return made

    async def aclose(self) -> None:
        """Closes that of the running loop."""
        held = self.forget(asyncio.get_running_loop())
        if held is not None:
            await held.closer.aclose()

    def _forget_the_closed(self) -> None:
        with self._lock:
            closed = [self._held.pop(loop) for loop in tuple(self._held) if loop.is_closed()]
        for held in closed:
            self._abandon(held.made)

    def forget(self, loop: asyncio.AbstractEventLoop) -> _Held[T] | None:
        with self._lock:
            return self._held.pop(loop, None)


def _let_go(held: dict[asyncio.AbstractEventLoop, _Held[T]], abandon: Callable[[T], None]) -> None:
    for loop, one in held.items():
        if loop.is_closed():
            abandon(one.made)
        else:
            loop.call_soon_threadsafe(_close_soon, loop, one.closer)


def _close_soon(loop: asyncio.AbstractEventLoop, closer: AsyncGenerator[None]) -> None:
    loop.create_task(closer.aclose())


async def _closes_with_loop(
    made: T, close: Callable[[T], Awaitable[None]], owner: ref[PerLoop[T]]
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        holder = owner()
        if holder is not None:
            holder.forget(asyncio.get_running_loop())
        await close(made)
