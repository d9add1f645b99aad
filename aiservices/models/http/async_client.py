"""Requests of an event loop, over connections of aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import ClassVar, Final

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
)
from yarl import URL

from .base import (
    CONNECT_SECONDS,
    DRAIN_SECONDS,
    IDLE_SECONDS,
    MOST_CONNECTIONS,
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

_LONGEST_LINE = 65536
_PIECE = 65536
_PATIENCE: Final = ClientTimeout(
    total=None, connect=READ_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
)
_FAILURES: Final = (StatusError, ClientError, OSError, EOFError)


class AsyncResponse:
    """An answer of a server; where it was left unread, its beginning, and no ``content``."""

    __slots__ = ("_raw", "content", "headers", "status_code")

    def __init__(self, raw: ClientResponse, content: bytes) -> None:
        self._raw = raw
        self.content = content
        self.status_code = raw.status
        self.headers: Mapping[str, str] = raw.headers

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The pieces as they come."""
        return self._raw.content.iter_any()

    async def aclose(self) -> None:
        """Keeps the connection where nothing but the end is left to read, else closes it."""
        rest = self._raw.content
        try:
            if not rest.at_eof():
                async with asyncio.timeout(DRAIN_SECONDS):
                    await rest.readany()
        except _FAILURES:
            pass
        finally:
            self._raw.release()  # closes what is not at its end


class AsyncTransport:
    """Sends to the addresses below one URL, in the event loop that runs when it is made.

    ``headers`` go out with every request. Raises TransportError where the environment asks for a proxy that
    cannot be used, or a header holds what HTTP does not allow.
    """

    failures: ClassVar = _FAILURES

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        self._base = Base.of(base_url, headers)
        self._proxy = proxy_of(self._base.url(""))
        self._session = ClientSession(
            connector=TCPConnector(limit=MOST_CONNECTIONS, keepalive_timeout=IDLE_SECONDS, ssl=ssl_context()),
            cookie_jar=DummyCookieJar(),
            timeout=_PATIENCE,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
        )
        self._urls: dict[str, URL] = {}

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout: float | None, *, unread: bool
    ) -> AsyncResponse:
        """The answer, if its status is a success.

        ``timeout`` is in seconds, for connecting and for each wait. Raises one of ``failures``.
        """
        await _caught_up()
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(self._base.url(path), encoded=True)
        sent: Mapping[str, str] = {**self._base.headers, **checked(headers)}
        waits = _PATIENCE if timeout is None else _patience(timeout)
        response = await self._send(url, body, sent, waits, unread)
        if response.status_code < 300:
            return response
        for _ in range(MOST_REDIRECTS):
            there = redirected(str(url), response)
            sent = headers_for(there, str(url), sent)
            url = URL(there, encoded=True)
            response = await self._send(url, body, sent, waits, unread)
            if response.status_code < 300:
                return response
        raise StatusError(response)

    async def close(self) -> None:
        await self._session.close()

    def abandon(self) -> None:
        """For when the event loop is closed, in which nothing can be awaited any more."""
        try:
            self._session.close().send(None)
        except StopIteration:
            pass

    async def _send(
        self, url: URL, body: bytes, headers: Mapping[str, str], waits: ClientTimeout, unread: bool
    ) -> AsyncResponse:
        async with asyncio.timeout(None) as limit:
            data: bytes | AsyncIterator[bytes] = body
            if len(body) > _PIECE:  # what is smaller is taken at once
                data = _pieces(body, limit, waits.sock_read or READ_SECONDS)
                headers = {**headers, "content-length": str(len(body))}
            try:
                raw = await self._session.post(
                    url, data=data, headers=headers, allow_redirects=False, proxy=self._proxy, timeout=waits
                )
            except ClientConnectorCertificateError as error:
                raise error.certificate_error from error.certificate_error.__cause__
            except ClientProxyConnectionError as error:
                raise ProxyError(f"Cannot connect to proxy: {error.os_error}") from None
            except ClientHttpProxyError as error:  # its text quotes the proxy's address, with the password
                raise ProxyError(f"Tunnel connection failed: {error.status} {error.message}") from None
        if unread and raw.status < 300:
            return AsyncResponse(raw, b"")
        async with raw:
            return AsyncResponse(raw, await raw.read())


async def _caught_up() -> None:
    # a loop that was busy elsewhere has not seen yet which servers have hung up meanwhile
    await asyncio.sleep(0)  # the loop finds what has happened
    await asyncio.sleep(0)  # and acts on it


async def _pieces(body: bytes, limit: asyncio.Timeout, seconds: float) -> AsyncIterator[bytes]:
    """The body in pieces, each of which may take so many seconds, as may the beginning of the answer.

    aiohttp begins to count when all has been sent, and so would wait for a server that takes nothing.
    """
    loop = asyncio.get_running_loop()
    for start in range(0, len(body), _PIECE):
        try:
            limit.reschedule(loop.time() + seconds)
        except RuntimeError:
            pass  # the answer came first
        yield body[start : start + _PIECE]


def _patience(seconds: float) -> ClientTimeout:
    return ClientTimeout(total=None, connect=seconds, sock_connect=seconds, sock_read=seconds)
