"""The blocking HTTP client, based on libcurl (pycurl), whose connections are shared between threads."""

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
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from math import ceil, lcm
from typing import Final, NamedTuple, SupportsIndex, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakSet

import pycurl

from .base import (
    CONNECT_SECONDS,
    DRAIN_SECONDS,
    ENDED_EARLY,
    IDLE_SECONDS,
    MAX_CACHED_PATHS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    READ_SECONDS,
    Attempts,
    BaseHttpClient,
    BodyDecoder,
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

_MAX_IDLE_CONNECTIONS = 100  # more threads may send at once; their connections are closed afterwards
_SUCCESS = (b"HTTP/1.1 2", b"HTTP/1.0 2")
# depending on the version, "SSL certificate problem: X" or "SSL certificate OpenSSL verify result: X (18)"
_VERIFY_RESULT = re.compile(r"(?:problem|verify result): (.*?)(?: \(\d+\))?$")
_SUPPRESS_CONNECT_HEADERS = 265  # pycurl has no name for this option of libcurl


C = TypeVar("C", bound="_Connection")
# not all of OSError: the handler of a signal may raise a TimeoutError of its own
_FAILURES: Final = (
    StatusError,
    ReplyTooLargeError,
    CurlError,
    DeadlineError,
    TransportError,
    ContentCodingError,
)


class WholeResponse(NamedTuple):
    """An HTTP response of the blocking client, whose body has been read completely.

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

    def close(self) -> None:
        """Do nothing, because the connection of a complete response is already free for other requests."""


@dataclass(slots=True, eq=False)
class StreamedResponse:
    """An HTTP response of the blocking client, whose body is read while it arrives.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
    """

    status_code: int
    headers: Headers
    _client: SyncHttpClient
    _connection: _StreamConnection | None

    @property
    def content(self) -> bytes:
        """The unread rest of the HTTP response body; access waits until all of it has arrived."""
        connection = self._connection
        if connection is None:
            return b""
        try:
            while not connection.done:  # the pieces stay where they are, because there is a limit for them
                connection.wait()
        except _FAILURES:
            if self.status_code < 300:
                raise  # an error has its status, whatever happens to its body
        content = b"".join(connection.take())
        self.close()
        codings = self.headers.codings
        return decode_body(self.status_code, codings, content) if codings else content

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the HTTP response body as they arrive."""
        connection, codings = self._connection, self.headers.codings
        decoder = BodyDecoder(codings) if codings else None
        while connection is not None:
            pieces = connection.take()
            yield from pieces if decoder is None else map(decoder.decode, pieces)
            if connection.done:
                self.close()
                if decoder is not None:
                    decoder.end()
                return
            connection.wait()

    def close(self) -> None:
        """Release the HTTP connection: keep it for reuse if the response has ended, else close it.

        The end of the response may still arrive within a few milliseconds; this method waits that long.
        """
        connection = self._connection
        if connection is None:
            return
        try:
            # a stream is left at its last event, before the empty chunk that ends the body
            connection.deadline = time.monotonic() + DRAIN_SECONDS
            while not (connection.done or connection.closed):
                connection.wait()
        except _FAILURES:
            pass
        finally:
            self._connection = None
            self._client._release(self._client._idle_streams, connection)


class SyncHttpClient(BaseHttpClient):
    """A blocking HTTP client that sends POST requests to one base URL with libcurl.

    Threads share its connections; a forked process opens its own. Raises TransportError if the environment
    sets a proxy that cannot be used, or if HTTP does not allow a header.

    Attributes:
        headers: Sent with every request.
        failures: The types of the exceptions that ``post`` and the reading of a response raise.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        super().__init__(base_url, credentials)
        self.failures: tuple[type[Exception], ...] = _FAILURES
        self._sign = credentials.sign
        self._lines = _header_lines(self._base.headers)
        self._options = _connection_options(self._base.url(""))
        self._urls: dict[str, str] = {}
        # the operations of a deque are atomic, so they need no lock
        self._idle: deque[_Connection] = deque()
        self._idle_streams: deque[_StreamConnection] = deque()
        self._closed = False
        _CLIENTS.add(self)

    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> WholeResponse | StreamedResponse:
        """Send an HTTP POST request and return the response, or raise StatusError for an error status.

        Redirects of 307 and 308 to the same server are followed. Raises one of ``failures``.

        Args:
            request: The request.
            timeout: The seconds for connecting, and for the whole response; for a stream, for each wait.
            unread: Return before the body is read, as a stream needs.
            deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        """
        url = self._urls.get(request.path)
        if url is None:
            if len(self._urls) >= MAX_CACHED_PATHS:
                self._urls = {}
            url = self._urls[request.path] = self._base.url(request.path)
        headers: Mapping[str, str] = self._base.headers
        lines = self._lines
        if request.headers:
            headers = {**headers, **validate_headers(request.headers)}
            lines = _header_lines(headers)
        send = self._start_stream if unread else self._send
        attempts = Attempts()
        while True:
            if self._sign is not None:  # last, since a signature may cover the URL and the other headers
                try:
                    signature = self._sign(url, request.body, headers)
                except OSError as failure:  # it may ask another server for a token
                    raise CurlError(str(failure)) from failure
                lines = _header_lines(self._sign_headers(attempts, headers, signature))
            response = send(url, lines, request.body, timeout, deadline)
            if response.status_code < 300:
                return response
            error = WholeResponse(response.status_code, response.headers, response.content)
            url = attempts.next_url(url, error, signs=self._sign is not None)

    def close(self) -> None:
        """Close all idle HTTP connections now, and each busy connection when its request ends."""
        self._closed = True
        for idle in (self._idle, self._idle_streams):
            while idle:
                try:
                    idle.pop().close()
                except IndexError:  # another thread took the connection
                    break

    def _send(
        self, url: str, lines: list[bytes], body: bytes, timeout: float | None, deadline: float | None
    ) -> WholeResponse:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self._options)
        try:
            connection.prepare(url, lines, body, timeout)
            response = connection.perform(READ_SECONDS if timeout is None else timeout, deadline)
        except BaseException:
            connection.close()
            raise
        self._release(self._idle, connection)
        return response

    def _start_stream(
        self, url: str, lines: list[bytes], body: bytes, timeout: float | None, deadline: float | None
    ) -> StreamedResponse:
        try:
            connection = self._idle_streams.pop()
        except IndexError:
            connection = _StreamConnection(self._options)
        try:
            connection.prepare(url, lines, body, timeout)
            head = connection.start(READ_SECONDS if timeout is None else timeout, deadline)
            return StreamedResponse(*head, self, connection)
        except BaseException:
            connection.close()
            raise

    def _release(self, idle: deque[C], connection: C) -> None:
        if connection.done and len(idle) < _MAX_IDLE_CONNECTIONS and not self._closed:
            idle.append(connection)
        else:
            connection.close()


_CLIENTS: WeakSet[SyncHttpClient] = WeakSet()


def _forget_connections() -> None:
    """Drop the HTTP connections in a forked process; they stay open for the parent process."""
    import ctypes  # late, because few processes fork

    for client in tuple(_CLIENTS):
        for connection in (*client._idle, *client._idle_streams):
            # closing it, even at the exit of this process, would end the TLS connection of the parent
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        client._idle, client._idle_streams = deque(), deque()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


def _collect(
    pieces: list[bytes], head: list[bytes], interrupts: list[BaseException]
) -> Generator[int, bytes, None]:
    """Add the pieces of a body to a list, and yield the length of each, or 0 to make libcurl stop.

    The end of a long error is dropped, because no message needs it. ``head`` are the lines of the headers.
    """
    size = accepted = 0
    try:
        while True:
            piece = yield accepted
            size = size + len(piece) if pieces else len(piece)
            accepted = len(piece) if size <= MAX_REPLY_BYTES else 0
            if size <= MAX_ERROR_BYTES or any(line.startswith(_SUCCESS) for line in head):
                pieces.append(piece)
    except GeneratorExit:
        raise
    except BaseException as error:
        interrupts.append(error)
    raise KeyboardInterrupt


def _progress(interrupts: list[BaseException]) -> Generator[int, None, None]:
    """Yield 0, so that Python handles signals such as Ctrl-C while libcurl waits."""
    try:
        while True:
            yield 0
    except GeneratorExit:
        raise
    except BaseException as error:
        interrupts.append(error)
    raise KeyboardInterrupt


class _Index:
    """An integer that a function returns."""

    __slots__ = ("__index__",)

    __index__: Callable[[], int]


class _Connection:
    """A reusable libcurl connection to a server, and the state of its current HTTP request.

    pycurl prints and drops the exceptions of callbacks, except KeyboardInterrupt. The handler of a signal may
    raise any exception, at the start of a function, before its ``try`` block. So the callbacks are generators
    that continue inside of one, and keep the exception for the caller.

    Attributes:
        done: True if the whole response has arrived.
        closed: True if the connection cannot be used any more.
        url: The URL of the request.
        has_proxy: True if the connection goes through a proxy.
    """

    def __init__(self, options: Mapping[int, object]) -> None:
        self._head: list[bytes] = []
        self._pieces: list[bytes] = []
        self._interrupts: list[BaseException] = []
        self.done = self.closed = False
        self.url = ""
        self.has_proxy = bool(options[pycurl.PROXY])
        self._lines: list[bytes] | None = None
        self._used_at = 0.0
        self._socket = -1
        self._curl = pycurl.Curl()
        for option, value in options.items():
            self._curl.setopt(option, value)
        # the callbacks do not refer to this object, which is therefore freed as soon as it is unused
        collect, progress = _collect(self._pieces, self._head, self._interrupts), _progress(self._interrupts)
        next(collect)
        next(progress)
        self._curl.setopt(pycurl.HEADERFUNCTION, self._head.append)
        self._curl.setopt(pycurl.WRITEFUNCTION, collect.send)
        # it has four arguments, which the least common multiple of 0 ignores
        index = _Index()
        index.__index__ = progress.__next__
        self._curl.setopt(pycurl.XFERINFOFUNCTION, partial(lcm, cast("SupportsIndex", index)))

    def prepare(self, url: str, lines: list[bytes], body: bytes, timeout: float | None) -> None:
        """Set the URL, headers, body and connection timeout of the next HTTP request on this connection."""
        curl = self._curl
        if self.done:  # the connection of the last request is still open
            # a server closes a connection silently, or sends unrequested data
            is_old = time.monotonic() - self._used_at >= IDLE_SECONDS or _is_readable(self._socket)
            curl.setopt(pycurl.FRESH_CONNECT, is_old)
        self.done = False
        self._head.clear()
        self._pieces.clear()
        if url != self.url:
            self.url = url
            curl.setopt(pycurl.URL, url)
        if lines is not self._lines:
            self._lines = lines
            curl.setopt(pycurl.HTTPHEADER, lines)
        # libcurl takes 0 for no limit
        connect_timeout = max(1, ceil(1000 * (CONNECT_SECONDS if timeout is None else timeout)))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, connect_timeout)
        # libcurl repeats a request when a reused connection breaks, so the model may be billed twice. It
        # cannot repeat a body that it reads from a function.
        curl.setopt(pycurl.READFUNCTION, BytesIO(body).read)
        curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))

    def perform(self, timeout: float, deadline: float | None) -> WholeResponse:
        """Send the HTTP request that ``prepare`` set up, and return the whole response."""
        curl = self._curl
        if deadline is not None:
            timeout = min(timeout, deadline - time.monotonic())
            if timeout <= 0:
                raise DeadlineError
        curl.setopt(pycurl.TIMEOUT_MS, max(1, ceil(1000 * timeout)))
        # Python handles Ctrl-C when its main thread runs Python code, so libcurl must call some there
        is_main = threading.get_ident() == threading.main_thread().ident
        curl.setopt(pycurl.NOPROGRESS, not is_main)
        failure: pycurl.error | None = None
        try:
            curl.perform()
        except KeyboardInterrupt:
            if not self._interrupts:
                raise
        except pycurl.error as error:
            failure = error
        if self._interrupts:
            raise self._interrupts.pop()
        head = self.head()
        if failure is None:
            self.done = True
            self._used_at = time.monotonic()
            self._socket = curl.getinfo(pycurl.ACTIVESOCKET)
        elif head is None or head[0] < 300:  # an error has its status, whatever happens to its body
            if deadline is not None and time.monotonic() >= deadline:
                raise DeadlineError
            code, message = cast("tuple[int, str]", failure.args)
            raise _error(code, message, self)
        if head is None:
            raise CurlError("the response has no headers")
        status, headers = head
        content = b"".join(self.take())
        if headers.codings:
            content = decode_body(status, headers.codings, content)
        return WholeResponse(status, headers, content)

    def take(self) -> list[bytes]:
        """Return the pieces of the response body that have arrived, and remove them from the buffer."""
        pieces = self._pieces.copy()
        self._pieces.clear()
        return pieces

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

    def info(self, key: int) -> int:
        """Return a number that libcurl reports about the last HTTP request, such as a proxy's status code."""
        value: int = self._curl.getinfo(key)
        return value

    def close(self) -> None:
        """Close the HTTP connection, even in the middle of a request."""
        self.closed = True
        self._curl.close()


class _StreamConnection(_Connection):
    """A libcurl connection for streaming, whose HTTP response is read while it arrives.

    libcurl names the socket and this class waits for it, so that a wait can end at a deadline or at Ctrl-C.

    Attributes:
        timeout: The seconds for each wait.
        deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
    """

    def __init__(self, options: Mapping[int, object]) -> None:
        super().__init__(options)
        self._timer: deque[int] = deque(maxlen=1)  # the milliseconds after which libcurl wants to act
        self._timer_at: float | None = None  # the same as a time of time.monotonic()
        self.timeout = READ_SECONDS
        self.deadline: float | None = None
        self._failure: Exception | None = None
        self._poll = _Poll()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poll.watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._timer.append)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 1)

    def start(self, timeout: float, deadline: float | None) -> tuple[int, Headers]:
        """Send the HTTP request that ``prepare`` set up, and return the response's status and headers.

        Args:
            timeout: The seconds for each wait.
            deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        """
        self._failure = None
        self.timeout = timeout
        self.deadline = deadline
        self._multi.add_handle(self._curl)
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        while (head := self.head()) is None:
            if self.done:
                raise CurlError("the response has no headers")
            self.wait()
        return head

    def wait(self) -> None:
        """Wait until the connection can send or receive data, and let libcurl process the data.

        Raises one of the failures of the client, such as DeadlineError.
        """
        try:
            if self._failure is not None:  # only now, when the pieces that arrived before it have been taken
                raise self._failure
            now = time.monotonic()
            until = now + self.timeout
            if self.deadline is not None:
                if now >= self.deadline:
                    raise DeadlineError
                until = min(until, self.deadline)
            while not self.done and self._failure is None:
                timer = self._timer_at
                events = self._poll.wait((until if timer is None or until < timer else timer) - now)
                if events:
                    for descriptor, mask in events:
                        self._act(descriptor, mask)
                    return
                now = time.monotonic()
                if now >= until:
                    if until == self.deadline:
                        raise DeadlineError
                    raise _error(pycurl.E_OPERATION_TIMEDOUT, "no data arrived", self)
                self._act(pycurl.SOCKET_TIMEOUT, 0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if not self.closed:
            self._multi.close()
            super().close()

    def _act(self, descriptor: int, events: int) -> None:
        if self.done or self._failure is not None:
            return
        if descriptor == pycurl.SOCKET_TIMEOUT:
            self._timer_at = None
        try:
            _, running = self._multi.socket_action(descriptor, events)
        except KeyboardInterrupt:
            if not self._interrupts:
                raise
            running = 0
        if self._interrupts:
            raise self._interrupts.pop()
        if self._timer:
            milliseconds = self._timer.pop()
            self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000
        if running:
            return
        _, _, failures = self._multi.info_read()
        self._multi.remove_handle(self._curl)
        for _, code, message in failures:
            self._failure = _error(code, message, self)
            return
        self.done = True
        self._used_at = time.monotonic()
        self._socket = self._poll.descriptor


class _Poll:
    """The sockets that libcurl wants to read from or write to.

    Attributes:
        descriptor: The descriptor of the last one, which stays open after a response; -1 if there was none.
    """

    def __init__(self) -> None:
        self._actions: dict[int, int] = {}
        self._poll = None if sys.platform == "win32" else select.poll()
        self.descriptor = -1

    def watch(self, action: int, descriptor: int, multi: object, data: object) -> None:
        """Add or remove a socket that the HTTP client must wait for; libcurl calls this method."""
        if action != pycurl.POLL_REMOVE:
            self.descriptor = descriptor
        if self._poll is None:
            self._actions[descriptor] = 0 if action == pycurl.POLL_REMOVE else action
        elif action == pycurl.POLL_REMOVE:
            self._poll.unregister(descriptor)
        else:
            reading = select.POLLIN if action & pycurl.POLL_IN else 0
            writing = select.POLLOUT if action & pycurl.POLL_OUT else 0
            self._poll.register(descriptor, reading | writing)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait until sockets are ready, and return a list of sockets with their events as libcurl flags."""
        seconds = max(seconds, 0.0)
        if self._poll is not None:
            sockets = []
            for descriptor, events in self._poll.poll(seconds * 1000):
                mask = pycurl.CSELECT_IN if events & select.POLLIN else 0
                mask |= pycurl.CSELECT_OUT if events & select.POLLOUT else 0
                mask |= pycurl.CSELECT_ERR if events & ~(select.POLLIN | select.POLLOUT) else 0
                sockets.append((descriptor, mask))
            return sockets
        reading = [number for number, action in self._actions.items() if action & pycurl.POLL_IN]
        writing = [number for number, action in self._actions.items() if action & pycurl.POLL_OUT]
        if not (reading or writing):  # select does not wait without sockets on Windows
            time.sleep(min(seconds, 0.01))
            return []
        ready = select.select(reading, writing, writing, seconds)
        flags = (pycurl.CSELECT_IN, pycurl.CSELECT_OUT, pycurl.CSELECT_ERR)
        return [(number, flag) for numbers, flag in zip(ready, flags, strict=True) for number in numbers]


def _blank_line(lines: list[bytes], start: int) -> int | None:
    """Return the index of the blank line that ends the headers; None if it has not arrived."""
    for line_end in (b"\r\n", b"\n"):
        try:
            return lines.index(line_end, start)
        except ValueError:
            pass
    return None


def _is_readable(descriptor: int) -> bool:
    """Return True if a socket has data to read or is closed, so that it cannot be reused for a request."""
    try:
        if sys.platform == "win32":
            return descriptor < 0 or bool(select.select([descriptor], [], [], 0)[0])
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _header_lines(headers: Mapping[str, str]) -> list[bytes]:
    """Convert HTTP headers to the list of lines that libcurl expects."""
    lines = [
        # libcurl removes a header without a value, unless a semicolon stands for the colon
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
        _SUPPRESS_CONNECT_HEADERS: 1,
    }
    if trusted.file:
        options[pycurl.CAINFO] = options[pycurl.PROXY_CAINFO] = trusted.file
    if trusted.folder:
        options[pycurl.CAPATH] = options[pycurl.PROXY_CAPATH] = trusted.folder
    if trusted.system:
        options[pycurl.SSL_OPTIONS] = options[pycurl.PROXY_SSL_OPTIONS] = pycurl.SSLOPT_NATIVE_CA
    return options


def _error(code: int, message: str, connection: _Connection) -> Exception:
    """Convert a libcurl error to one of the failures of the client, with its cause."""
    cause = _cause(code, message, connection)
    if isinstance(cause, _FAILURES):
        return cause
    error = CurlError(message)
    error.__cause__ = cause
    return error


def _cause(code: int, message: str, connection: _Connection) -> Exception:
    """Convert a libcurl error to a Python exception, such as TimeoutError or ``ssl.SSLError``."""
    if code == pycurl.E_WRITE_ERROR:  # only _collect writes
        return ReplyTooLargeError()
    tunnel_status = connection.info(pycurl.HTTP_CONNECTCODE)
    if tunnel_status >= 300:
        return ProxyError(f"Tunnel connection failed: {tunnel_status}")
    if code == pycurl.E_COULDNT_RESOLVE_PROXY or (code == pycurl.E_COULDNT_CONNECT and connection.has_proxy):
        return ProxyError(message)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return TimeoutError(message)
    if code == pycurl.E_PARTIAL_FILE:
        return CurlError(f"the response {ENDED_EARLY}: {message}")
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return socket.gaierror(message)
    number = connection.info(pycurl.OS_ERRNO)
    if number and code in (pycurl.E_COULDNT_CONNECT, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR):
        return OSError(number, message)  # Python makes it a ConnectionRefusedError, for example
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        untrusted = ssl.SSLCertVerificationError(message)
        reason = _VERIFY_RESULT.search(message)
        host = urlsplit(connection.url).hostname
        # a certificate that is valid itself is one of another host
        untrusted.verify_message = reason[1] if reason else f"certificate is not valid for '{host}'."
        return untrusted
    if "wrong version number" in message:
        not_tls = ssl.SSLError(message)
        not_tls.reason = "WRONG_VERSION_NUMBER"
        return not_tls
    if code == pycurl.E_SSL_CACERT_BADFILE:
        return TransportError(f"the certificates cannot be read: {message}")
    return CurlError(message)
