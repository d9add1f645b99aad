"""Requests and responses of libcurl (pycurl), as the blocking and the asynchronous HTTP client use them."""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from itertools import count
from math import ceil
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import pycurl

from .base import (
    CONNECT_SECONDS,
    ENDED_EARLY,
    IDLE_SECONDS,
    MAX_CACHED_PATHS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    READ_SECONDS,
    BaseHttpClient,
    ContentCodingError,
    Credentials,
    CurlError,
    DeadlineError,
    Headers,
    HttpRequest,
    ProxyError,
    ReplyTooLargeError,
    StatusError,
    TransportError,
    certificates,
    decode_body,
    find_proxy,
    validate_headers,
)

# not all of OSError: the handler of a signal may raise a TimeoutError of its own
FAILURES: Final = (
    StatusError,
    ReplyTooLargeError,
    CurlError,
    DeadlineError,
    TransportError,
    ContentCodingError,
)
# bytes of a stream; without a limit, libcurl ignores a length that is too large for its integers
_ENDLESS = 2**63 - 1
# depending on the version, "SSL certificate problem: X" or "SSL certificate OpenSSL verify result: X (18)"
_VERIFY_RESULT = re.compile(r"(?:problem|verify result): (.*?)(?: \(\d+\))?$")
CLOSED: Final = 32 if sys.platform == "win32" else select.POLLNVAL
_DISTRUST_SECONDS = 60.0
_CHANGE: Final = Struct("=ii??")  # the arguments of the callback for sockets; only the first two are numbers
_SUPPRESS_CONNECT_HEADERS, _QUICK_EXIT = 265, 322  # pycurl has no names for these options of libcurl


class WholeResponse(NamedTuple):
    """An HTTP response whose body has been read completely.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
        content: The body, which is cut off for an error at a length that no message needs.
    """

    status_code: int
    headers: Headers
    content: bytes

    @property
    def text(self) -> str:
        """The body of the HTTP response as text; bytes that are not UTF-8 are replaced."""
        return self.content.decode(errors="replace")

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the whole body of the HTTP response as one piece."""
        yield self.content

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the whole body of the HTTP response as one piece."""
        yield self.content

    def close(self) -> None:
        """Do nothing, because the connection of a complete response is already free for other requests."""

    async def aclose(self) -> None:
        """Do nothing, as ``close``."""


class Transfer:
    """A reusable handle of libcurl, and the state of its current HTTP request.

    pycurl prints and drops the exceptions of callbacks, and the handler of a signal may raise one at the
    start of any Python function. So the callbacks are methods of built-in types, in which no handler runs.

    Args:
        options: The options of libcurl that are the same for all requests.
        is_stream: True if the body is read while it arrives, so that its size is not limited.

    Attributes:
        curl: The handle.
        is_stream: True if the body is read while it arrives.
        url: The URL of the request.
        timeout: The seconds for the whole response; for a stream, for each wait.
        deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        has_proxy: True if the connection goes through a proxy.
        failure: The code and the message of libcurl if the request failed.
        done: True if the whole response has arrived.
        interrupts: The exception of a signal handler that ended the transfer, if there was one.
        is_closed: True if the handle can no longer be used.
    """

    def __init__(self, options: Mapping[int, object], *, is_stream: bool) -> None:
        self.is_stream = is_stream
        self.url = ""
        self.timeout = READ_SECONDS
        self.deadline: float | None = None
        self.has_proxy = bool(options[pycurl.PROXY])
        self.failure: tuple[int, str] | None = None
        self.done = self.is_closed = False
        self.interrupts: list[BaseException] = []
        self._head: list[bytes] = []
        self._pieces: list[bytes] = []
        self._body = BytesIO()
        self._lines: list[bytes] | None = None
        self._method = "POST"
        self._socket = -1  # of the last request, if its connection is kept
        self.curl = pycurl.Curl()
        for option, value in options.items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.MAXFILESIZE_LARGE, _ENDLESS if is_stream else MAX_REPLY_BYTES)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._head.append)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._pieces.append)

    def prepare(
        self,
        url: str,
        lines: list[bytes],
        request: HttpRequest,
        timeout: float | None,
        deadline: float | None,
        *,
        must_connect: bool,
    ) -> None:
        """Set the URL, header lines, body and time limits of the next HTTP request.

        With ``must_connect``, the request has a connection of its own. Raises DeadlineError if the deadline
        has passed.
        """
        curl = self.curl
        curl.setopt(pycurl.FRESH_CONNECT, must_connect or self._has_closed_connection())
        curl.setopt(pycurl.FORBID_REUSE, must_connect)
        self.rewind()
        if url != self.url:
            self.url = url
            curl.setopt(pycurl.URL, url)
        if lines is not self._lines:
            self._lines = lines
            curl.setopt(pycurl.HTTPHEADER, lines)
        if request.method != self._method:
            self._method = request.method
            curl.setopt(pycurl.POST if request.method == "POST" else pycurl.HTTPGET, 1)
            curl.unsetopt(pycurl.CUSTOMREQUEST)
            if request.method == "DELETE":
                curl.setopt(pycurl.CUSTOMREQUEST, "DELETE")
        self.timeout, self.deadline = READ_SECONDS if timeout is None else timeout, deadline
        # libcurl takes 0 for no limit
        connect_timeout = max(1, ceil(1000 * (CONNECT_SECONDS if timeout is None else timeout)))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, connect_timeout)
        if not self.is_stream:
            seconds = self.limit() - time.monotonic()
            curl.setopt(pycurl.TIMEOUT_MS, max(1, ceil(1000 * seconds)))
        # libcurl repeats a request when a reused connection breaks, so the model may be billed twice. It
        # cannot repeat a body that it reads from a function.
        self._body = BytesIO(request.body)
        curl.setopt(pycurl.READFUNCTION, self._body.read)
        curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(request.body))

    def rewind(self) -> None:
        """Forget what happened since the request was prepared."""
        self.failure, self.done = None, False
        self._head.clear()
        self._pieces.clear()
        self._body.seek(0)

    def limit(self) -> float:
        """Return when the wait that begins now must end, in the time of ``time.monotonic()``.

        Raises the failure of the request if it has failed, and DeadlineError if the deadline has passed.
        """
        if self.failure is not None:  # only now, when the pieces that arrived before it have been taken
            raise self.error()
        now = time.monotonic()
        if self.deadline is None:
            return now + self.timeout
        if now >= self.deadline:
            raise DeadlineError
        return min(now + self.timeout, self.deadline)

    def head(self) -> tuple[int, Headers] | None:
        """Return the status and the headers of the HTTP response, or None if they have not all arrived."""
        lines, start = self._head, 0
        while (end := _blank_line(lines, start)) is not None:
            if lines[start].startswith(b"HTTP/"):
                status = int(lines[start].split(None, 2)[1])
                if status >= 200:  # the lines after the blank one are trailers
                    return status, Headers(lines[start + 1 : end])
            start = end + 1  # an interim response, such as 100 Continue, precedes the final one
        return None

    def take(self) -> list[bytes]:
        """Return the pieces of the response body that have arrived, and remove them from the buffer."""
        pieces = self._pieces.copy()
        self._pieces.clear()
        return pieces

    def arrived(self) -> int:
        """Return the number of bytes of the response body that have arrived and have not been taken."""
        self._pieces[:] = [b"".join(self._pieces)]
        return len(self._pieces[0])

    @property
    def has_ended(self) -> bool:
        """True if the whole response has arrived, or the request has failed."""
        return self.done or self.failure is not None

    def response(self) -> WholeResponse:
        """Return the response after the transfer has ended, or raise the error with which it failed."""
        if self.interrupts:
            raise self.interrupts.pop()
        head = self.head()
        if self.failure is not None and (head is None or head[0] < 300):
            raise self.error()
        if head is None:
            raise CurlError("the response has no headers")
        status, headers = head  # an error has its status, whatever happens to its body
        pieces = self.take()
        content = b"".join(pieces) if status < 300 else _start_of(pieces)
        if headers.codings:
            content = decode_body(status, headers.codings, content)
        return WholeResponse(status, headers, content)

    def error(self) -> BaseException:
        """Return the exception for a transfer that failed, or that ended without a response."""
        if self.interrupts:
            return self.interrupts.pop()
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return DeadlineError()
        if self.failure is None:
            return CurlError("the response has no headers")
        return _error(*self.failure, self)

    def end(self, failure: tuple[int, str] | None) -> None:
        """Note that the whole response has arrived, or how the request failed."""
        self.failure, self.done = failure, failure is None
        self._socket = self.curl.getinfo(pycurl.ACTIVESOCKET)

    def _has_closed_connection(self) -> bool:
        """Return True if the server closed the kept connection, or sent data that was not requested.

        libcurl itself looks for closed connections only once a second.
        """
        return self.done and (self._socket < 0 or bool(readable_sockets((self._socket,))))

    def info(self, key: int) -> int:
        """Return a number that libcurl reports about the last HTTP request, such as a proxy's status code."""
        value: int = self.curl.getinfo(key)
        return value

    def close(self) -> None:
        """Release the handle, even in the middle of a request."""
        self.is_closed = True
        self.curl.close()


class ComputedInt:
    """An integer that a function returns, for parameters of built-in functions."""

    __slots__ = ("__index__",)

    __index__: Callable[[], int]


T = TypeVar("T", bound=Transfer)


class Multi(Generic[T]):
    """Transfers that run at the same time, whose sockets and timer their user watches.

    The callbacks of libcurl only record what must be watched, with functions written in C; see ``Transfer``
    for the reason.

    Args:
        connections: The number of idle connections to keep.

    Attributes:
        transfers: The running transfers by their handles.
    """

    def __init__(self, connections: int) -> None:
        self.transfers: dict[pycurl.Curl, T] = {}
        self._changes = bytearray(_CHANGE.size * (4 * connections + 64))
        self._is_resolving = False  # perhaps, after a transfer that ended before its connection was open
        self._start = 0
        self._offset, self._offsets = ComputedInt(), count()
        self._restart()
        self._timer: deque[int] = deque(maxlen=1)
        self._multi = pycurl.CurlMulti()
        record = partial(_CHANGE.pack_into, self._changes, cast("int", self._offset))
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, record)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._timer.append)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)

    def add(self, transfer: T) -> None:
        """Add a transfer that was prepared. It begins with the next call of ``act`` for the timer."""
        self.transfers[transfer.curl] = transfer
        self._multi.add_handle(transfer.curl)

    def remove(self, transfer: T) -> None:
        """End a transfer, and close its connection unless the response is complete."""
        if self.transfers.pop(transfer.curl, None) is not None:
            self._is_resolving |= not transfer.curl.getinfo(pycurl.NAMELOOKUP_TIME)
            self._multi.remove_handle(transfer.curl)

    def act(self, descriptor: int, events: int) -> None:
        """Let libcurl act on the events of a socket, or on those of its timer."""
        _, running = self._multi.socket_action(descriptor, events)
        if running != len(self.transfers):
            _, done, failures = self._multi.info_read()
            for curl in done:
                self._end(curl, None)
            for curl, code, message in failures:
                self._end(curl, (code, message))

    def sockets(self) -> list[tuple[int, int]]:
        """Return the sockets whose watched events have changed, each with the new events: 0, POLL_IN, …"""
        start, end = self._start, next(self._offsets)
        if end > len(self._changes) // 2:
            self._restart()
        else:
            self._start = end + _CHANGE.size
        if start == end:
            return []
        changes = _CHANGE.iter_unpack(self._changes[start:end])
        last: dict[int, int] = {}
        removed: list[tuple[int, int]] = []
        for action, descriptor, _, _ in changes:
            last[descriptor] = action
            if action == pycurl.POLL_REMOVE:
                removed.append((descriptor, 0))
        # a socket that was closed cannot be watched; its number may already belong to the next one
        return removed + [
            (descriptor, action) for descriptor, action in last.items() if action < pycurl.POLL_REMOVE
        ]

    def timer(self) -> int | None:
        """Return the milliseconds after which libcurl wants to act, -1 for never, None if nothing changed."""
        return self._timer.pop() if self._timer else None

    def close(self) -> None:
        """End all transfers and close all connections."""
        for transfer in tuple(self.transfers.values()):
            self.remove(transfer)
        if self._is_resolving:  # libcurl waits for the resolver of names, which may take long
            threading.Thread(target=self._multi.close, daemon=True).start()
        else:
            self._multi.close()

    def _restart(self) -> None:
        self._start = 0
        self._offsets = count(0, _CHANGE.size)
        self._offset.__index__ = self._offsets.__next__

    def _end(self, curl: pycurl.Curl, failure: tuple[int, str] | None) -> None:
        transfer = self.transfers.pop(curl)
        if failure is not None:
            self._is_resolving |= not curl.getinfo(pycurl.NAMELOOKUP_TIME)
        transfer.end(failure)
        self._multi.remove_handle(curl)


class CurlClient(BaseHttpClient):
    """The parts of the HTTP clients that do not depend on how a caller waits.

    Attributes:
        headers: Sent with every request.
        failures: The types of the exceptions that ``post`` and the reading of a response raise.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        super().__init__(base_url, credentials)
        self.failures: tuple[type[Exception], ...] = FAILURES
        self._lines = header_lines(self._base.headers)
        self._options = _connection_options(self._base.url(""))
        self._urls: dict[str, str] = {}
        self._distrusts_until = 0.0  # when connections may be reused again, in the time of time.monotonic()
        _CLIENTS.add(self)

    def _target(self, request: HttpRequest) -> tuple[str, Mapping[str, str], list[bytes]]:
        """Return the URL of a request, its headers, and the same as the lines that libcurl expects."""
        url = self._urls.get(request.path)
        if url is None:
            if len(self._urls) >= MAX_CACHED_PATHS:
                self._urls = {}
            url = self._urls[request.path] = self._base.url(request.path)
        if not request.headers:
            return url, self._base.headers, self._lines
        headers = {**self._base.headers, **validate_headers(request.headers)}
        return url, headers, header_lines(headers)

    def _note_failure(self, transfer: Transfer) -> None:
        """Reuse no connections for some time if a reused one broke before a response arrived.

        It is not noticed otherwise if a server closes connections over TLS right after a response.
        """
        if transfer.failure is not None and transfer.failure[0] == pycurl.E_SEND_FAIL_REWIND:
            self._distrusts_until = time.monotonic() + _DISTRUST_SECONDS

    def _forget(self) -> list[object]:
        """Forget all connections without closing them, and return what holds them."""
        raise NotImplementedError


_CLIENTS: WeakSet[CurlClient] = WeakSet()


def _forget_connections() -> None:
    """Drop the HTTP connections in a forked process; they stay open for the parent process."""
    import ctypes  # late, because few processes fork

    for client in tuple(_CLIENTS):
        for connection in client._forget():
            # closing it, even at the exit of this process, would end the TLS connection of the parent
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


def _blank_line(lines: list[bytes], start: int) -> int | None:
    """Return the index of the blank line that ends the headers; None if it has not arrived."""
    for line_end in (b"\r\n", b"\n"):
        try:
            return lines.index(line_end, start)
        except ValueError:
            pass
    return None


def readable_sockets(descriptors: Collection[int]) -> list[tuple[int, int]]:
    """Return the sockets of idle connections that have data to read or are closed.

    The second part has the bit CLOSED if the socket is closed at this end.
    """
    if sys.platform == "win32":
        return [state for state in map(_readable, descriptors) if state is not None]
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return poll.poll(0)


def _readable(descriptor: int) -> tuple[int, int] | None:
    try:
        return (descriptor, 0) if select.select([descriptor], [], [], 0)[0] else None
    except (OSError, ValueError):
        return descriptor, CLOSED


def header_lines(headers: Mapping[str, str]) -> list[bytes]:
    """Convert HTTP headers to the list of lines that libcurl expects."""
    lines = [
        # libcurl removes a header without a value, unless it has a semicolon instead of the colon
        (f"{name}: {value}" if value else f"{name};").encode("latin-1")
        for name, value in headers.items()
    ]
    return [*lines, b"expect:"]  # it would wait for the status 100 before a large body


def _connection_options(url: str) -> dict[int, object]:
    """Return the libcurl options that are the same for all connections of an HTTP client."""
    trusted = certificates()
    options: dict[int, object] = {
        pycurl.POST: 1,
        pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
        pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
        pycurl.HTTP_CONTENT_DECODING: 0,
        pycurl.PROXY: find_proxy(url) or "",  # not None: libcurl would read the environment itself
        pycurl.NOSIGNAL: 1,
        pycurl.PATH_AS_IS: 1,
        # a model may think for minutes, in which a connection that broke would not be noticed
        pycurl.TCP_KEEPALIVE: 1,
        pycurl.MAXAGE_CONN: IDLE_SECONDS,
        _SUPPRESS_CONNECT_HEADERS: 1,
        _QUICK_EXIT: 1,  # it would wait for the resolver of names after a timeout
    }
    if trusted.file:
        options[pycurl.CAINFO] = options[pycurl.PROXY_CAINFO] = trusted.file
    if trusted.folder:
        options[pycurl.CAPATH] = options[pycurl.PROXY_CAPATH] = trusted.folder
    if trusted.system:
        options[pycurl.SSL_OPTIONS] = options[pycurl.PROXY_SSL_OPTIONS] = pycurl.SSLOPT_NATIVE_CA
    return options


def _start_of(pieces: Iterable[bytes]) -> bytes:
    """Return the start of an error's body, without a copy of the whole body."""
    start = bytearray()
    for piece in pieces:
        start += piece
        if len(start) >= MAX_ERROR_BYTES:
            break
    return bytes(start[:MAX_ERROR_BYTES])


def _error(code: int, message: str, transfer: Transfer) -> Exception:
    """Convert a libcurl error to one of the failures of the client, with its cause."""
    cause = _cause(code, message, transfer)
    if isinstance(cause, FAILURES):
        return cause
    error = CurlError(message)
    error.__cause__ = cause
    return error


def _cause(code: int, message: str, transfer: Transfer) -> Exception:
    """Convert a libcurl error to a Python exception, such as TimeoutError or ``ssl.SSLError``."""
    if code == pycurl.E_FILESIZE_EXCEEDED:
        return ReplyTooLargeError()
    tunnel_status = transfer.info(pycurl.HTTP_CONNECTCODE)
    if tunnel_status >= 300:
        return ProxyError(f"Tunnel connection failed: {tunnel_status}")
    if code == pycurl.E_COULDNT_RESOLVE_PROXY or (code == pycurl.E_COULDNT_CONNECT and transfer.has_proxy):
        return ProxyError(message)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return TimeoutError(message)
    if code == pycurl.E_PARTIAL_FILE:
        return CurlError(f"the response {ENDED_EARLY}: {message}")
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return socket.gaierror(message)
    number = transfer.info(pycurl.OS_ERRNO)
    if number and code in (pycurl.E_COULDNT_CONNECT, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR):
        return OSError(number, message)  # Python makes it a ConnectionRefusedError, for example
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        untrusted = ssl.SSLCertVerificationError(message)
        reason = _VERIFY_RESULT.search(message)
        host = urlsplit(transfer.url).hostname
        # the certificate is valid, but for another host
        untrusted.verify_message = reason[1] if reason else f"certificate is not valid for '{host}'."
        return untrusted
    if "wrong version number" in message:
        not_tls = ssl.SSLError(message)
        not_tls.reason = "WRONG_VERSION_NUMBER"
        return not_tls
    if code == pycurl.E_SSL_CACERT_BADFILE:
        return TransportError(f"the certificates cannot be read: {message}")
    return CurlError(message)
