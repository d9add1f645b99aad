"""The blocking HTTP client, which uses urllib3 and shares its connections between threads."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from queue import Empty, Full
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError, ProxyError as UrllibProxyError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry, Timeout, make_headers

from .base import (
    CONNECT_SECONDS,
    DRAIN_SECONDS,
    IDLE_SECONDS,
    MAX_CACHED_PATHS,
    MAX_REDIRECTS,
    READ_SECONDS,
    BaseUrl,
    Credentials,
    HttpRequest,
    ProxyError,
    StatusError,
    find_proxy,
    redirect_url,
    same_origin,
    ssl_context,
    validate_headers,
    without_credentials,
)

_MAX_IDLE_CONNECTIONS = 100  # more threads may send at once; their connections are closed afterwards
_PIECE = 65536
_SOCKET_OPTIONS: Final = [
    # headers and body are sent separately, and the body must not wait until the headers are acknowledged
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # a model may think for minutes, in which a connection that broke would not be noticed
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]
# urllib3 and http.client let some errors through that are not their own
_FAILURES: Final = (StatusError, HTTPError, HTTPException, OSError)
# by default urllib3 repeats a failed request, which may then be billed twice
_NO_RETRIES: Final = Retry(False, redirect=False)


class _DefaultTimeout(float):
    """The connection timeout in seconds for calls that do not set a timeout.

    It has its own type because a call may set the same number of seconds as its timeout.
    """


_DEFAULT_TIMEOUT: Final = Timeout(connect=_DefaultTimeout(CONNECT_SECONDS), read=READ_SECONDS)


class Urllib3Response:
    """A urllib3 response whose body may not have been read yet.

    ``content`` reads the whole body, and ``iter_bytes`` reads it in pieces.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
    """

    __slots__ = ("_chunks", "_raw", "headers", "status_code")

    def __init__(self, raw: BaseHTTPResponse) -> None:
        self._raw: Any = raw  # its class has members that are missing in the annotation of urlopen
        # One iterator for all readers. If each reader had its own, leaving the first one would close the
        # connection before close() can read the end of the body.
        self._chunks: Iterator[bytes] | None = (
            self._raw.read_chunked(decode_content=True) if self._raw.chunked else None
        )
        self.status_code: int = raw.status
        self.headers: Mapping[str, str] = raw.headers

    @property
    def content(self) -> bytes:
        """The whole body of the response; reading it makes the connection free for other requests."""
        try:
            data: bytes = self._raw.data
        except (ValueError, OverflowError) as error:  # http.client does not check the sizes of chunks
            raise _invalid_length(error) from error
        return data or self._empty()

    @property
    def text(self) -> str:
        """The whole body of the response as text; bytes that are not UTF-8 are replaced."""
        return self.content.decode(errors="replace")

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the response body as they arrive."""
        try:
            if self._chunks is not None:
                for piece in self._chunks:  # not "yield from", which would close self._chunks too
                    yield piece
            else:
                yield self._raw.read1(_PIECE) or self._empty()
                while piece := self._raw.read1(_PIECE):
                    yield piece
        except (ValueError, OverflowError) as error:
            raise _invalid_length(error) from error

    def _empty(self) -> bytes:
        # http.client accepts headers that were cut off, and reads the body until the connection ends
        if self._raw.length_remaining is None and not self._raw.chunked:
            raise ProtocolError("Response ended prematurely")
        return b""

    def close(self) -> None:
        """Make the connection reusable if the whole response was read; otherwise close the connection."""
        raw = self._raw
        connection = raw.connection
        if connection is None:  # the body was read to its end, so the pool has the connection already
            return
        at_end = False
        try:
            # a stream is left at its last event, before the empty chunk that ends the body
            if connection.sock is not None:
                connection.sock.settimeout(DRAIN_SECONDS)
            at_end = not next(self.iter_bytes(), b"")
        except _FAILURES:
            pass
        finally:
            if not at_end:
                raw.close()
            connection.used_at = time.monotonic()
            raw.release_conn()


def _invalid_length(error: Exception) -> ProtocolError:
    return ProtocolError(f"the response has an invalid length: {error}")


class _PooledUrl(NamedTuple):
    """The connection pool for a URL, and the path that the HTTP request line contains."""

    pool: HTTPConnectionPool
    target: str


class SyncHttpClient:
    """A blocking HTTP client for one base URL.

    Threads share its connections; a forked process opens its own. Raises TransportError if the environment
    sets a proxy that cannot be used, or if HTTP does not allow a header.

    Attributes:
        headers: Sent with every request.
        secrets: Texts that error messages and logs must not contain, such as API keys.
        failures: The types of the exceptions that ``post`` and the reading of a response raise.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        self.failures: tuple[type[Exception], ...] = _FAILURES
        self.headers = credentials.headers
        self.secrets = credentials.secrets
        self._sign = credentials.sign
        self._base = BaseUrl.parse(base_url, credentials.headers)
        self._proxy = find_proxy(self._base.url(""))
        self._open()
        _CLIENTS.add(self)

    def _open(self) -> None:
        self._pools = _pool_manager(self._proxy)
        self._urls: dict[str, _PooledUrl] = {}

    def post(self, request: HttpRequest, timeout: float | None, *, unread: bool) -> Urllib3Response:
        """Send a POST request and return the response if its status is a success.

        ``timeout`` is in seconds, for connecting and for each wait. The body is read completely unless
        ``unread`` is set. Redirects of 307 and 308 are followed. Raises one of ``failures``.
        """
        url = ""  # composed only where it is needed
        pooled = self._urls.get(request.path)
        if pooled is None:
            if len(self._urls) >= MAX_CACHED_PATHS:
                self._urls = {}
            pooled = self._urls[request.path] = self._pooled(self._base.url(request.path))
        headers: Mapping[str, str] = self._base.headers
        if request.headers:
            headers = {**headers, **validate_headers(request.headers)}
        if self._sign is not None:  # last, since a signature may cover the other headers
            url = self._base.url(request.path)
            headers = self._signed(url, request.body, headers)
        timeouts = _DEFAULT_TIMEOUT if timeout is None else Timeout(connect=timeout, read=timeout)
        is_signed = self._sign is not None
        redirects = 0
        while True:
            try:
                raw = pooled.pool.urlopen(
                    "POST",
                    pooled.target,
                    request.body,
                    headers,
                    _NO_RETRIES,
                    redirect=False,  # redirects are followed below, without keys for other hosts
                    assert_same_host=False,  # the target is a whole URL if a proxy forwards the request
                    timeout=timeouts,
                    preload_content=False,  # a stream is read by its consumer
                    release_conn=False,
                )
            except UrllibProxyError as error:
                if "Timeout" in type(error.original_error).__name__:
                    raise
                # without the cause, whose text contains the URL of the proxy with its password
                raise ProxyError(str(error.original_error)) from None
            if raw.status < 200:
                # the final response follows, and would be read as the response to the next request
                raw.close()
                raise ProtocolError(f"the server answered with the interim status {raw.status}")
            response = Urllib3Response(raw)
            is_success = raw.status < 300
            if not (is_success and unread):
                response.content  # noqa: B018  # reads the body, so that the connection becomes free
            if is_success:
                return response
            if redirects == MAX_REDIRECTS:
                raise StatusError(response)
            redirects += 1
            url = url or self._base.url(request.path)
            new_url = redirect_url(url, response)
            if not same_origin(url, new_url):
                headers, is_signed = without_credentials(headers), False
            elif is_signed:  # a signature is valid for one address only
                headers = self._signed(new_url, request.body, headers)
            url, pooled = new_url, self._pooled(new_url)

    def close(self) -> None:
        """Close the connections that no request is using."""
        urls, self._urls = self._urls, {}
        self._pools.clear()  # requests that are being sent keep their pools, and finish
        for pooled in urls.values():  # a pool that was cleared closes only when the last reference is gone
            pooled.pool.close()

    def _signed(self, url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        assert self._sign is not None
        return {**headers, **validate_headers(self._sign(url, body, headers))}

    def _pooled(self, url: str) -> _PooledUrl:
        if self._proxy and url.startswith("http:"):  # a proxy needs the whole address in the request line
            return _PooledUrl(self._pools.connection_from_url(url), url)
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        return _PooledUrl(self._pools.connection_from_url(url), target)


_CLIENTS: WeakSet[SyncHttpClient] = WeakSet()


def _reopen_after_fork() -> None:
    # the connections belong to the parent: two processes that read from one get each other's responses
    for client in tuple(_CLIENTS):
        client._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_after_fork)


class _SlowSendConnection(HTTPConnection):
    """A connection that applies the timeout to each piece of a request body instead of the whole body.

    urllib3 applies the timeout for connecting to the whole body, which is too short for an image on a slow
    network.
    """

    used_at = 0.0

    @property
    def is_connected(self) -> bool:
        return time.monotonic() - self.used_at < IDLE_SECONDS and super().is_connected

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        sock: Any = self.sock
        # a call without a timeout has different limits for connecting and for all other waits
        sock.settimeout(READ_SECONDS if isinstance(self.timeout, _DefaultTimeout) else self.timeout)
        for start in range(0, len(data), _PIECE):
            super().send(data[start : start + _PIECE])

    def getresponse(self) -> Any:
        response = super().getresponse()
        self.used_at = time.monotonic()
        return response


class _SlowSendTlsConnection(_SlowSendConnection, HTTPSConnection):
    pass


class _LifoPool:
    """A connection pool that reuses the most recently returned connection.

    It has no lock, unlike the queue of urllib3: a process that is forked while a thread holds a lock would
    wait for it forever. The operations of a deque are atomic.
    """

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._idle: deque[Any] = deque()

    def put(self, connection: object, block: bool = False) -> None:
        if len(self._idle) >= self._maxsize:
            raise Full
        self._idle.append(connection)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            raise Empty from None

    def qsize(self) -> int:
        return len(self._idle)


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = _SlowSendConnection
    QueueCls: Any = _LifoPool


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls: Any = _SlowSendTlsConnection
    QueueCls: Any = _LifoPool


def _pool_manager(proxy: str | None) -> PoolManager:
    """Return a urllib3 manager that creates one connection pool for each server, with or without a proxy."""
    settings: dict[str, Any] = {
        "maxsize": _MAX_IDLE_CONNECTIONS,
        "ssl_context": ssl_context(),
        "socket_options": _SOCKET_OPTIONS,
    }
    manager: PoolManager
    if proxy:
        user = urlsplit(proxy).netloc.rpartition("@")[0]
        proxy_headers = make_headers(proxy_basic_auth=unquote(user)) if user else None
        manager = ProxyManager(
            proxy, proxy_headers=proxy_headers, proxy_ssl_context=ssl_context(), **settings
        )
    else:
        manager = PoolManager(**settings)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager
