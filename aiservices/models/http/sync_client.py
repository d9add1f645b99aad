"""The blocking HTTP client, which uses libcurl (pycurl) and shares its connections between threads."""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Final
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
    MAX_REDIRECTS,
    MAX_REPLY_BYTES,
    READ_SECONDS,
    BaseUrl,
    Credentials,
    DeadlineError,
    Headers,
    HttpRequest,
    ProxyError,
    ReplyTooLargeError,
    StatusError,
    TransportError,
    certificates,
    find_proxy,
    redirect_url,
    validate_headers,
)

_MAX_IDLE_CONNECTIONS = 100  # more threads may send at once; their connections are closed afterwards
_HEAD_ENDS = (b"\r\n", b"\n")
# depending on the version, "SSL certificate problem: X" or "SSL certificate OpenSSL verify result: X (18)"
_VERIFY_RESULT = re.compile(r"(?:problem|verify result): (.*?)(?: \(\d+\))?$")
_SUPPRESS_CONNECT_HEADERS = 265  # pycurl has no name for this option of libcurl


class CurlError(OSError):
    """A request could not be sent, or its response could not be read; the message is that of libcurl."""


_FAILURES: Final = (StatusError, ReplyTooLargeError, OSError)


class CurlResponse:
    """A response whose body may not have been read yet.

    ``content`` reads the whole body, and ``iter_bytes`` reads it in pieces.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
    """

    __slots__ = ("_client", "_connection", "_content", "headers", "status_code")

    def __init__(self, client: SyncHttpClient, connection: _Connection) -> None:
        self._client = client
        self._connection: _Connection | None = connection
        self._content = b""
        self.status_code, self.headers = connection.read_head()

    @property
    def content(self) -> bytes:
        """The whole body of the response; reading it makes the connection free for other requests.

        The body of an error is cut off at a length that no message needs.
        """
        connection = self._connection
        if connection is not None:
            is_error = self.status_code >= 300
            while not connection.done and not (is_error and connection.body.size > MAX_ERROR_BYTES):
                connection.wait()
            self._content = b"".join(connection.body.take())
            self._release(connection)
        return self._content

    @property
    def text(self) -> str:
        """The whole body of the response as text; bytes that are not UTF-8 are replaced."""
        return self.content.decode(errors="replace")

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the response body as they arrive."""
        connection = self._connection
        while connection is not None:
            yield from connection.body.take()
            if connection.done:
                self._release(connection)
                return
            connection.wait()

    def close(self) -> None:
        """Make the connection reusable if the whole response was read; otherwise close the connection."""
        connection = self._connection
        if connection is None:
            return
        try:
            # a stream is left at its last event, before the empty chunk that ends the body
            connection.set_limits(DRAIN_SECONDS, time.monotonic() + DRAIN_SECONDS)
            while not (connection.done or connection.closed):
                connection.wait()
        except OSError:
            pass
        finally:
            self._release(connection)

    def _release(self, connection: _Connection) -> None:
        self._connection = None
        idle = self._client._idle
        if connection.done and len(idle) < _MAX_IDLE_CONNECTIONS and not self._client._closed:
            idle.append(connection)
        else:
            connection.close()


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
        self._lines = _header_lines(self._base.headers)
        self._options = _connection_options(self._base.url(""))
        self._urls: dict[str, str] = {}
        self._idle: deque[_Connection] = deque()  # its operations are atomic, so it needs no lock
        self._closed = False
        _CLIENTS.add(self)

    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> CurlResponse:
        """Send a POST request and return the response if its status is a success.

        The body is read completely unless ``unread`` is set. Redirects of 307 and 308 to the same server are
        followed. Raises one of ``failures``.

        Args:
            request: The request.
            timeout: The seconds for connecting, and for each wait.
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
        redirects = 0
        while True:
            if self._sign is not None:  # last, since a signature may cover the URL and the other headers
                signature = self._sign(url, request.body, headers)
                lines = _header_lines({**headers, **validate_headers(signature)})
            response = self._send(url, lines, request.body, timeout, deadline)
            is_success = response.status_code < 300
            if not (is_success and unread):
                response.content  # noqa: B018  # reads the body, so that the connection becomes free
            if is_success:
                return response
            if redirects == MAX_REDIRECTS:
                raise StatusError(response)
            redirects += 1
            url = redirect_url(url, response)

    def close(self) -> None:
        """Close the connections that no request is using; the others are closed when their request ends."""
        self._closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # a request of another thread took it
                return

    def _send(
        self, url: str, lines: list[bytes], body: bytes, timeout: float | None, deadline: float | None
    ) -> CurlResponse:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = _Connection(self._options)
        try:
            connection.send(url, lines, body, timeout, deadline)
            return CurlResponse(self, connection)
        except BaseException:
            connection.close()
            raise


_CLIENTS: WeakSet[SyncHttpClient] = WeakSet()


def _forget_connections() -> None:
    """Give the clients of a forked process no connections, because those belong to the parent."""
    for client in tuple(_CLIENTS):
        for connection in client._idle:
            connection.leak()
        client._idle = deque()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)


class _Body:
    """The pieces of a response body that have arrived and are not read yet.

    Attributes:
        size: Their length in bytes, unpacked.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > MAX_REPLY_BYTES:
            raise ReplyTooLargeError
        self._pieces.append(piece)

    def take(self) -> list[bytes]:
        """Remove the pieces and return them."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return pieces


class _Connection:
    """A connection to a server, and the request that it carries at the moment.

    libcurl names the socket and this class waits for it, so that a wait can end at a deadline or at Ctrl-C.

    Attributes:
        body: The part of the response body that has arrived and is not read yet.
        done: True if the whole response has arrived.
        closed: True if the connection cannot be used any more.
        url: The URL of the request.
        has_proxy: True if the connection goes through a proxy.
    """

    def __init__(self, options: Mapping[int, object]) -> None:
        self.body = _Body()
        self.done = self.closed = False
        self._head: list[bytes] = []
        self._upload = BytesIO()
        self._timer: deque[int] = deque(maxlen=1)  # the milliseconds after which libcurl wants to act
        self._timer_at: float | None = None  # the same as a time of time.monotonic()
        self._timeout = READ_SECONDS
        self._deadline: float | None = None
        self._failure: OSError | None = None
        self._used_at = time.monotonic()
        self.url = ""
        self._lines: list[bytes] | None = None
        self.has_proxy = bool(options[pycurl.PROXY])
        self._poll = _Poll()
        self._curl = pycurl.Curl()
        self._multi = pycurl.CurlMulti()
        # the callbacks do not refer to this object, so that it is freed at once when nobody needs it
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poll.watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._timer.append)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 1)
        for option, value in options.items():
            self._curl.setopt(option, value)

    def send(
        self, url: str, lines: list[bytes], body: bytes, timeout: float | None, deadline: float | None
    ) -> None:
        """Start a request; ``read_head`` and ``wait`` send it and receive the response."""
        curl = self._curl
        self.done = False
        self._head = []
        self.body = _Body()
        self.set_limits(READ_SECONDS if timeout is None else timeout, deadline)
        if url != self.url:
            self.url = url
            curl.setopt(pycurl.URL, url)
        if lines is not self._lines:
            self._lines = lines
            curl.setopt(pycurl.HTTPHEADER, lines)
        connect_timeout = CONNECT_SECONDS if timeout is None else timeout
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(1, round(connect_timeout * 1000)))
        is_old = time.monotonic() - self._used_at >= IDLE_SECONDS or self._poll.was_closed()
        curl.setopt(pycurl.FRESH_CONNECT, is_old)
        curl.setopt(pycurl.HEADERFUNCTION, self._head.append)
        curl.setopt(pycurl.WRITEFUNCTION, self.body.add)
        # libcurl repeats a request when a reused connection breaks, so the model may be billed twice. It
        # cannot repeat a body that it reads from a function.
        curl.setopt(pycurl.READFUNCTION, BytesIO(body).read)
        curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
        self._multi.add_handle(curl)
        self._act(pycurl.SOCKET_TIMEOUT, 0)

    def set_limits(self, timeout: float, deadline: float | None) -> None:
        """Set the seconds for each wait, and the time at which the whole response must have arrived."""
        self._timeout = timeout
        self._deadline = deadline

    def read_head(self) -> tuple[int, Headers]:
        """Wait for the status and the headers of the response, and return them."""
        while True:
            head = self._head
            if head and head[-1] in _HEAD_ENDS:
                start = max(number for number, line in enumerate(head) if line.startswith(b"HTTP/"))
                status = int(head[start].split(None, 2)[1])
                if status >= 200:  # an interim response, such as 100 Continue, precedes the final one
                    return status, Headers.parse(head[start + 1 : -1])
            if self.done:
                raise CurlError("the response has no headers")
            self.wait()

    def wait(self) -> None:
        """Wait until the server sends or accepts something, and let libcurl process it.

        Raises DeadlineError, TimeoutError or another OSError.
        """
        try:
            if self._failure is not None:  # only now, when the pieces that arrived before it have been taken
                raise self._failure
            now = time.monotonic()
            until = now + self._timeout
            if self._deadline is not None:
                if now >= self._deadline:
                    raise DeadlineError
                until = min(until, self._deadline)
            while not self.done and self._failure is None:
                timer = self._timer_at
                events = self._poll.wait((until if timer is None or until < timer else timer) - now)
                if events:
                    for descriptor, mask in events:
                        self._act(descriptor, mask)
                    return
                now = time.monotonic()
                if now >= until:
                    raise DeadlineError if until == self._deadline else TimeoutError
                self._act(pycurl.SOCKET_TIMEOUT, 0)
        except BaseException:
            self.close()
            raise

    def info(self, key: int) -> int:
        """Return what libcurl knows about the request under a key, such as the status of a proxy."""
        value: int = self._curl.getinfo(key)
        return value

    def close(self) -> None:
        """Close the connection, also in the middle of a request."""
        if not self.closed:
            self.closed = True
            self._multi.close()
            self._curl.close()

    def leak(self) -> None:
        """Never close the connection, because the parent of this process still uses it.

        Closing it would tell the server of the parent, over TLS, that the connection is over.
        """
        _LEAKED.append((self._multi, self._curl))

    def _act(self, descriptor: int, events: int) -> None:
        if self.done or self._failure is not None:
            return
        if descriptor == pycurl.SOCKET_TIMEOUT:
            self._timer_at = None
        _, running = self._multi.socket_action(descriptor, events)
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


_LEAKED: list[object] = []


class _Poll:
    """The sockets that libcurl wants to read from and to write to."""

    def __init__(self) -> None:
        self._actions: dict[int, int] = {}
        self._poll = None if sys.platform == "win32" else select.poll()
        self._descriptor = -1  # that of the last socket, which stays open after a response

    def watch(self, action: int, descriptor: int, multi: object, data: object) -> None:
        """Start or stop waiting for a socket; libcurl calls this function."""
        if action != pycurl.POLL_REMOVE:
            self._descriptor = descriptor
        if self._poll is None:
            self._actions[descriptor] = 0 if action == pycurl.POLL_REMOVE else action
        elif action == pycurl.POLL_REMOVE:
            self._poll.unregister(descriptor)
        else:
            reading = select.POLLIN if action & pycurl.POLL_IN else 0
            writing = select.POLLOUT if action & pycurl.POLL_OUT else 0
            self._poll.register(descriptor, reading | writing)

    def was_closed(self) -> bool:
        """Return True if the server closed the connection, or sent something that nobody asked for."""
        if self._descriptor < 0:
            return False
        self.watch(pycurl.POLL_IN, self._descriptor, None, None)
        try:
            return bool(self.wait(0))
        except (OSError, ValueError):  # select() rejects closed sockets
            return True
        finally:
            self.watch(pycurl.POLL_REMOVE, self._descriptor, None, None)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Return the sockets that are ready within a time, with what ``socket_action`` needs to know."""
        seconds = max(seconds, 0.0)
        if self._poll is not None:
            return [
                (
                    descriptor,
                    (pycurl.CSELECT_IN if events & select.POLLIN else 0)
                    | (pycurl.CSELECT_OUT if events & select.POLLOUT else 0)
                    | (pycurl.CSELECT_ERR if events & ~(select.POLLIN | select.POLLOUT) else 0),
                )
                for descriptor, events in self._poll.poll(seconds * 1000)
            ]
        reading = [number for number, action in self._actions.items() if action & pycurl.POLL_IN]
        writing = [number for number, action in self._actions.items() if action & pycurl.POLL_OUT]
        if not (reading or writing):  # select does not wait without sockets on Windows
            time.sleep(min(seconds, 0.01))
            return []
        ready = select.select(reading, writing, writing, seconds)
        flags = (pycurl.CSELECT_IN, pycurl.CSELECT_OUT, pycurl.CSELECT_ERR)
        return [(number, flag) for numbers, flag in zip(ready, flags, strict=True) for number in numbers]


def _header_lines(headers: Mapping[str, str]) -> list[bytes]:
    """Return the headers in the form that libcurl needs."""
    lines = [
        # libcurl removes a header without a value, unless a semicolon stands for the colon
        (f"{name}: {value}" if value else f"{name};").encode("latin-1")
        for name, value in headers.items()
    ]
    return [*lines, b"expect:"]  # it would wait for the status 100 before a large body


def _connection_options(url: str) -> dict[int, object]:
    """Return the options of libcurl that are the same for all connections of a client."""
    trusted = certificates()
    options: dict[int, object] = {
        pycurl.POST: 1,
        pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
        pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
        pycurl.ACCEPT_ENCODING: "gzip, deflate",
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


def _error(code: int, message: str, connection: _Connection) -> OSError:
    """Return the exception for an error of libcurl, if possible one of the socket and ssl modules."""
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
