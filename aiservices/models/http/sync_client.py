"""Requests that block, over connections of urllib3 that all threads share."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from queue import Empty, Full
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError, ProxyError as ProxyFailure
from urllib3.util import Retry, Timeout, make_headers

from .base import (
    CONNECT_SECONDS,
    DRAIN_SECONDS,
    IDLE_SECONDS,
    MOST_REDIRECTS,
    READ_SECONDS,
    Base,
    ProxyError,
    StatusError,
    checked,
    headers_for,
    proxy_of,
    redirected,
    ssl_context,
)

_KEPT = 100
_PIECE = 65536
_SOCKET: Final = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]


class _Unasked(float):
    """The seconds of connecting where a call has no timeout: one that asks for as many is another call."""


PATIENCE: Final = Timeout(connect=_Unasked(CONNECT_SECONDS), read=READ_SECONDS)


class _Patient(HTTPConnection):
    """Sends in pieces, each of which may take as long as the server may think.

    urllib3 gives a whole body the seconds of connecting, which an image over a slow line exceeds.
    """

    used_at = 0.0

    @property
    def is_connected(self) -> bool:
        return time.monotonic() - self.used_at < IDLE_SECONDS and super().is_connected

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        sock: Any = self.sock
        # the timeout of a call bounds each wait; a call without one has another for connecting
        sock.settimeout(READ_SECONDS if isinstance(self.timeout, _Unasked) else self.timeout)
        for start in range(0, len(data), _PIECE):
            super().send(data[start : start + _PIECE])

    def getresponse(self) -> Any:
        response = super().getresponse()
        self.used_at = time.monotonic()
        return response


class _PatientTls(_Patient, HTTPSConnection):
    pass


class _Free:
    """The connections that are free, the last used first.

    It has no lock: a process that is forked while a thread holds one would wait for it for ever.
    """

    def __init__(self, maxsize: int) -> None:
        self._most = maxsize
        self._free: deque[Any] = deque()

    def put(self, connection: Any, block: bool = False) -> None:
        if len(self._free) >= self._most:
            raise Full
        self._free.append(connection)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            raise Empty from None

    def qsize(self) -> int:
        return len(self._free)


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = _Patient
    QueueCls: Any = _Free


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls: Any = _PatientTls
    QueueCls: Any = _Free


def manager_of(proxy: str | None) -> PoolManager:
    """A manager of connections, to servers or to a proxy."""
    settings: dict[str, Any] = {"maxsize": _KEPT, "ssl_context": ssl_context(), "socket_options": _SOCKET}
    manager = _proxied(proxy, settings) if proxy else PoolManager(**settings)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager


def used(connection: Any) -> None:
    """Notes that a connection has just been read from."""
    connection.used_at = time.monotonic()


def _proxied(proxy: str, settings: dict[str, Any]) -> PoolManager:
    user = urlsplit(proxy).netloc.rpartition("@")[0]
    headers = make_headers(proxy_basic_auth=unquote(user)) if user else None
    return ProxyManager(proxy, proxy_headers=headers, proxy_ssl_context=ssl_context(), **settings)


_ONCE: Final = Retry(False, redirect=False)
_FAILURES: Final = (StatusError, HTTPError, HTTPException, OSError)


class Response:
    """An answer of a server; where it was left unread, its beginning."""

    __slots__ = ("_chunks", "_raw", "headers", "status_code")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        # kept, since to leave it closes the connection, while its end may still be read
        self._chunks: Iterator[bytes] | None = raw.read_chunked(decode_content=True) if raw.chunked else None
        self.status_code: int = raw.status
        self.headers: Mapping[str, str] = raw.headers

    @property
    def content(self) -> bytes:
        """All of it; the connection is free once it has been read."""
        try:
            data: bytes = self._raw.data
        except (ValueError, OverflowError) as error:
            raise _lengthless(error) from error
        return data or self._empty()

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def iter_bytes(self) -> Iterator[bytes]:
        """The pieces as they come."""
        try:
            if self._chunks is not None:
                for piece in self._chunks:  # and not "yield from", which would leave it
                    yield piece
            else:
                yield self._raw.read1(_PIECE) or self._empty()
                while piece := self._raw.read1(_PIECE):
                    yield piece
        except (ValueError, OverflowError) as error:
            raise _lengthless(error) from error

    def _empty(self) -> bytes:
        # http.client takes headers that were cut for whole ones, of a body that ends with the connection
        if self._raw.length_remaining is None and not self._raw.chunked:
            raise ProtocolError("Response ended prematurely")
        return b""

    def close(self) -> None:
        """Keeps the connection where nothing but the end is left to read, else closes it."""
        raw = self._raw
        connection = raw.connection
        if connection is None:
            return
        at_end = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(DRAIN_SECONDS)
            at_end = not next(self.iter_bytes(), b"")
        except _FAILURES:
            pass
        finally:
            if not at_end:
                raw.close()
            used(connection)
            raw.release_conn()


def _lengthless(error: Exception) -> ProtocolError:
    return ProtocolError(f"the response has a length that is none: {error}")


class _Way(NamedTuple):
    pool: HTTPConnectionPool
    target: str


class BlockingTransport:
    """Sends to the addresses below one URL. Threads share its connections; a forked process opens its own.

    ``headers`` go out with every request. Raises TransportError where the environment asks for a proxy that
    cannot be used, or a header holds what HTTP does not allow.
    """

    failures: ClassVar = _FAILURES

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._base = Base.of(base_url, headers)
        self._proxy = proxy_of(self._base.url(""))
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        self._manager = manager_of(self._proxy)
        self._ways: dict[str, _Way] = {}

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout: float | None, *, unread: bool
    ) -> Response:
        """The answer, if its status is a success.

        ``timeout`` is in seconds, for connecting and for each wait. Raises one of ``failures``.
        """
        way = self._ways.get(path)
        if way is None:
            way = self._ways[path] = self._way(self._base.url(path))
        sent: Mapping[str, str] = {**self._base.headers, **checked(headers)}
        waits = PATIENCE if timeout is None else Timeout(connect=timeout, read=timeout)
        response = _send(way, body, sent, waits, unread)
        if response.status_code < 300:
            return response
        url = self._base.url(path)
        for _ in range(MOST_REDIRECTS):
            there = redirected(url, response)
            url, sent = there, headers_for(there, url, sent)
            response = _send(self._way(url), body, sent, waits, unread)
            if response.status_code < 300:
                return response
        raise StatusError(response)

    def close(self) -> None:
        """Closes what is not in use."""
        ways, self._ways = self._ways, {}
        self._manager.clear()
        for way in ways.values():  # a pool that was cleared closes only once nobody holds it
            way.pool.close()

    def _way(self, url: str) -> _Way:
        if self._proxy and url.startswith("http:"):  # the proxy wants to know whom it asks
            return _Way(self._manager.connection_from_url(url), url)
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return _Way(self._manager.connection_from_url(url), target)


def _send(way: _Way, body: bytes, headers: Mapping[str, str], waits: Timeout, unread: bool) -> Response:
    try:
        raw = way.pool.urlopen(
            "POST",
            way.target,
            body,
            headers,
            _ONCE,
            redirect=False,
            assert_same_host=False,
            timeout=waits,
            preload_content=False,
            release_conn=False,
        )
    except ProxyFailure as error:
        if "Timeout" in type(error.original_error).__name__:
            raise
        raise ProxyError(str(error.original_error)) from None
    if raw.status < 200:
        # the answer proper comes behind it, and would be taken for that of the next request
        raw.close()
        raise ProtocolError(f"the server answered with the interim status {raw.status}")
    response = Response(raw)
    if not unread or raw.status >= 300:
        response.content  # noqa: B018
    return response


_OPEN: WeakSet[BlockingTransport] = WeakSet()


def _forked() -> None:
    # the connections are the parent's: two processes that read from one get each other's answers
    for transport in tuple(_OPEN):
        transport._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
