"""The asynchronous HTTP client for model requests, which uses aiohttp."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from aiohttp import (
    ClientConnectorCertificateError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    hdrs,
)
from yarl import URL

from .base import (
    CONNECT_SECONDS,
    DRAIN_SECONDS,
    IDLE_SECONDS,
    MAX_CACHED_PATHS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    MAX_REPLY_BYTES,
    READ_SECONDS,
    AsyncSigner,
    Attempts,
    BaseHttpClient,
    BodyDecoder,
    Credentials,
    Headers,
    HttpRequest,
    ProxyError,
    ReplyTooLargeError,
    Signer,
    StatusError,
    decode_body,
    find_proxy,
    ssl_context,
    validate_headers,
)

_MAX_HEADER_LINE = 65536  # as in http.client; aiohttp itself accepts 8190 bytes
_PIECE = 65536
_FAILURES: Final = (StatusError, ReplyTooLargeError, ClientError, OSError, EOFError)


class AiohttpResponse:
    """An aiohttp response whose body is either complete or still arriving.

    ``aiter_bytes`` reads an unread body in pieces.

    Attributes:
        content: The whole body; b"" if it was left unread.
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
    """

    __slots__ = ("_on_close", "_raw", "content", "headers", "status_code")

    def __init__(
        self, raw: ClientResponse, content: bytes, on_close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._raw = raw
        self._on_close = on_close
        self.content = content
        self.status_code = raw.status
        self.headers: Mapping[str, str] = raw.headers
        if raw.status >= 300:  # errors are read from all values of a header
            self.headers = Headers(b"%b:%b" % header for header in raw.raw_headers)

    @property
    def text(self) -> str:
        """The whole body of the HTTP response, decoded as UTF-8; invalid bytes are replaced."""
        return self.content.decode(errors="replace")

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the HTTP response body as they arrive."""
        pieces = self._raw.content.iter_any()
        codings = _codings(self._raw)
        return _decoded(pieces, BodyDecoder(codings)) if codings else pieces

    async def aclose(self) -> None:
        """Keep the HTTP connection open for other requests if the whole body was read, else close it."""
        rest = self._raw.content
        try:
            if not rest.at_eof():
                async with asyncio.timeout(DRAIN_SECONDS):
                    await rest.readany()
        except _FAILURES:
            pass
        finally:
            self._raw.release()  # closes the connection unless the body was read to its end
            if self._on_close is not None:
                on_close, self._on_close = self._on_close, None
                await on_close()


class AsyncHttpClient(BaseHttpClient):
    """An asynchronous HTTP client for one base URL and one event loop.

    Raises TransportError if the environment sets a proxy that cannot be used, or if HTTP does not allow a
    header.

    Attributes:
        headers: Sent with every request.
        failures: The types of the exceptions that ``post`` and the reading of a response raise.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        super().__init__(base_url, credentials)
        self.failures: tuple[type[Exception], ...] = _FAILURES
        self._sign = credentials.async_sign or _in_thread(credentials.sign)
        self._proxy = find_proxy(self._base.url(""))
        self._session = ClientSession(
            connector=TCPConnector(limit=MAX_CONNECTIONS, keepalive_timeout=IDLE_SECONDS, ssl=ssl_context()),
            cookie_jar=DummyCookieJar(),  # a cookie of one conversation must not be sent with another
            timeout=_DEFAULT_TIMEOUT,
            auto_decompress=False,  # it does not know all that servers send
            max_line_size=_MAX_HEADER_LINE,
            max_field_size=_MAX_HEADER_LINE,
        )
        self._urls: dict[str, URL] = {}
        self._active = 0  # requests whose response is not read to its end
        self._closing = False

    async def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> AiohttpResponse:
        """Send an HTTP request, usually POST; return the response, or raise an error for an error status.

        The body is read completely unless ``unread`` is set. Redirects of 307 and 308 to the same server are
        followed. Raises one of ``failures``.

        Args:
            request: The request.
            timeout: The seconds for connecting, and for the whole response; for a stream, for each wait.
            unread: Return before the body is read, as a stream needs.
            deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        """
        self._active += 1
        try:
            # a loop that was busy has not noticed yet which servers closed their connections meanwhile
            await asyncio.sleep(0)  # the loop collects the events of the sockets
            await asyncio.sleep(0)  # and runs their callbacks
            url = self._urls.get(request.path)
            if url is None:
                if len(self._urls) >= MAX_CACHED_PATHS:
                    self._urls = {}
                url = self._urls[request.path] = URL(self._base.url(request.path), encoded=True)
            headers: Mapping[str, str] = self._base.headers
            if request.headers:
                headers = {**headers, **validate_headers(request.headers)}
            timeouts = _DEFAULT_TIMEOUT
            if not (timeout is None and deadline is None):
                timeouts = _timeout(timeout, deadline, unread=unread)
            attempts, signed = Attempts(), headers
            while True:
                if self._sign is not None:  # last, since a signature may cover the URL and the other headers
                    signature = await self._sign(str(url), request.body, headers)
                    signed = self._sign_headers(attempts, headers, signature)
                response = await self._send(url, request, signed, timeouts, unread=unread)
                if response.status_code < 300:
                    break
                next_url = attempts.next_url(str(url), response, signs=self._sign is not None)
                url = URL(next_url, encoded=True)
        except BaseException:
            await self._end_request()
            raise
        if not unread:
            await self._end_request()
        return response

    async def close(self) -> None:
        """Close all HTTP connections after the running requests have ended."""
        self._closing = True
        if not self._active:
            await self._session.close()

    async def _end_request(self) -> None:
        self._active -= 1
        if self._closing and not self._active:
            await self._session.close()

    def abandon(self) -> None:
        """Release the HTTP connections when their event loop is already closed and cannot await anything."""
        try:
            self._session.close().send(None)
        except StopIteration:
            pass

    async def _send(
        self,
        url: URL,
        request: HttpRequest,
        headers: Mapping[str, str],
        timeouts: ClientTimeout,
        *,
        unread: bool,
    ) -> AiohttpResponse:
        body = request.body
        async with asyncio.timeout(None) as limit:
            data: bytes | AsyncIterator[bytes] = body
            if len(body) > _PIECE:  # the socket accepts a smaller body at once
                data = _pieces(body, limit, timeouts.sock_read or READ_SECONDS)
                headers = {**headers, "content-length": str(len(body))}
            try:
                raw = await self._session.request(
                    request.method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._proxy,
                    timeout=timeouts,
                )
            except ClientConnectorCertificateError as error:
                raise error.certificate_error from error.certificate_error.__cause__
            except ClientProxyConnectionError as error:
                raise ProxyError(f"Cannot connect to proxy: {error.os_error}") from None
            except ClientHttpProxyError as error:
                # without its text, which contains the URL of the proxy with the password
                raise ProxyError(f"Tunnel connection failed: {error.status} {error.message}") from None
        if unread and raw.status < 300:
            return AiohttpResponse(raw, b"", self._end_request)
        async with raw:
            return AiohttpResponse(raw, await _body(raw))


def _in_thread(sign: Signer | None) -> AsyncSigner | None:
    """Return an async function that signs a request in a thread, because signing may block."""
    if sign is None:
        return None

    async def async_sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        return await asyncio.to_thread(sign, url, body, headers)

    return async_sign


async def _body(response: ClientResponse) -> bytes:
    """Read the body of an HTTP response, but only the beginning of a long error response."""
    length, codings, is_error = response.content_length, _codings(response), response.status >= 300
    if length is not None and length <= MAX_ERROR_BYTES and not (codings or is_error):
        return await response.read()  # which is faster
    pieces, size = [], 0
    try:
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ERROR_BYTES and is_error:
                break
            if size > MAX_REPLY_BYTES:
                raise ReplyTooLargeError
    except (ClientError, OSError):
        if not is_error:
            raise  # an error has its status, whatever happens to its body
    body = b"".join(pieces)
    return decode_body(response.status, codings, body) if codings else body


def _codings(response: ClientResponse) -> str:
    return ",".join(response.headers.getall(hdrs.CONTENT_ENCODING, ()))


async def _decoded(pieces: AsyncIterator[bytes], decoder: BodyDecoder) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield decoder.decode(piece)
    decoder.end()


async def _pieces(body: bytes, limit: asyncio.Timeout, seconds: float) -> AsyncIterator[bytes]:
    """Yield the body of a large HTTP request in pieces; each piece restarts the timeout.

    The timeout after the last piece limits the wait for the headers of the response.

    aiohttp starts its own limit when the whole body has been sent, so it would wait forever for a server that
    does not read.
    """
    loop = asyncio.get_running_loop()
    for start in range(0, len(body), _PIECE):
        try:
            limit.reschedule(loop.time() + seconds)
        except RuntimeError:
            pass  # the response arrived before the body was sent
        yield body[start : start + _PIECE]


def _timeout(seconds: float | None, deadline: float | None, *, unread: bool) -> ClientTimeout:
    """Return aiohttp's timeout settings for a request with a timeout in seconds and a deadline.

    For a streamed body, only each wait is limited.
    """
    wait = READ_SECONDS if seconds is None else seconds
    total = None if unread else seconds
    if deadline is not None:
        remaining = max(deadline - time.monotonic(), 0.001)
        total = remaining if total is None else min(total, remaining)
    connect = CONNECT_SECONDS if seconds is None else seconds
    return ClientTimeout(total, connect=wait, sock_connect=connect, sock_read=wait)


_DEFAULT_TIMEOUT: Final = _timeout(None, None, unread=True)
