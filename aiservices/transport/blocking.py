"""Requests that block, over connections of urllib3 that all threads share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from urllib3 import HTTPConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.exceptions import ProxyError as ProxyFailure
from urllib3.util import Retry, Timeout

from .base import (
    DRAIN_SECONDS,
    MOST_REDIRECTS,
    Base,
    StatusError,
    checked,
    headers_for,
    redirected,
)
from .connections import PATIENCE, manager_of, used
from .proxies import ProxyError, proxy_of

__all__ = ["BlockingTransport", "Response"]

_PIECE = 65536
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
