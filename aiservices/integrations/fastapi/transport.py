"""Sends calls to a service elsewhere, and hands on what comes back: an answer, or its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from ssl import SSLContext
from weakref import finalize

import httpx2

from ...errors import ModelConnectionError, ModelTimeoutError
from ...models.per_loop import PerLoop
from .remote_errors import error_of_status

__all__ = ["Transport"]

_LARGEST_EVENT = 64 * 1024 * 1024  # bytes; a value with files in it comes as one event
_JSON = {"Content-Type": "application/json", "Accept": "application/json, application/problem+json"}
_EVENTS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/problem+json"}
_PASSING = (httpx2.NetworkError, httpx2.ProxyError, httpx2.RemoteProtocolError)  # the others come again
_DELTAS = {"events": "deltas"}


class Transport:
    """The way to the methods of one service: a client that blocks, and one for each event loop."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout: float,
        http: httpx2.Client | None,
        async_http: httpx2.AsyncClient | None,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._headers = dict(headers)
        self._timeout = timeout
        self._within = f"within {timeout:g} s" if http is None and async_http is None else "in time"
        self._http = http
        self._async_http = async_http
        self._made = PerLoop(self._new, httpx2.AsyncClient.aclose, _abandon)

    def call(self, where: str, path: str, body: str) -> str:
        """The answer of a method. Raises AiServiceError."""
        with self._faults(where):
            answer = self._blocking().post(self._url(path), content=body, headers={**_JSON, **self._headers})
        return self._checked(answer, where)

    async def acall(self, where: str, path: str, body: str) -> str:
        """As ``call``, awaited."""
        http = await self._waiting()
        with self._faults(where):
            answer = await http.post(self._url(path), content=body, headers={**_JSON, **self._headers})
        return self._checked(answer, where)

    def events(
        self, where: str, path: str, body: str, *, growing: bool
    ) -> Generator[httpx2.ServerSentEvent, None, None]:
        """The events of a method. Raises AiServiceError."""
        params, headers = _DELTAS if growing else None, {**_EVENTS, **self._headers}
        http, url = self._blocking(), self._url(path)
        with (
            self._faults(where),
            http.sse(
                url,
                method="POST",
                content=body,
                params=params,
                headers=headers,
                max_event_size=_LARGEST_EVENT,
            ) as source,
        ):
            if not source.response.is_success:
                source.response.read()
                self._checked(source.response, where)
            yield from source

    async def aevents(
        self, where: str, path: str, body: str, *, growing: bool
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        """As ``events``, for an event loop."""
        params, headers = _DELTAS if growing else None, {**_EVENTS, **self._headers}
        http, url = await self._waiting(), self._url(path)
        with self._faults(where):
            async with http.sse(
                url,
                method="POST",
                content=body,
                params=params,
                headers=headers,
                max_event_size=_LARGEST_EVENT,
            ) as source:
                if not source.response.is_success:
                    await source.response.aread()
                    self._checked(source.response, where)
                async for event in source:
                    yield event

    def _url(self, path: str) -> str:
        return self._base + path

    def _new(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(timeout=self._timeout, verify=_trust())

    def _blocking(self) -> httpx2.Client:
        if self._http is None:
            self._http = made = httpx2.Client(timeout=self._timeout, verify=_trust())
            finalize(self, made.close)
        return self._http

    async def _waiting(self) -> httpx2.AsyncClient:
        return await self._made.get() if self._async_http is None else self._async_http

    def _checked(self, answer: httpx2.Response, where: str) -> str:
        if not answer.is_success:
            raise error_of_status(answer.status_code, answer.text, where, self._base)
        return answer.text

    @contextmanager
    def _faults(self, where: str) -> Generator[None, None, None]:
        """What goes wrong on the way, as the errors of a model that is not reached."""
        try:
            yield
        except httpx2.TimeoutException as error:
            said = f"{where}: {self._base} did not answer {self._within}"
            raise ModelTimeoutError(said, retryable=True) from error
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            said = (
                f"{where}: {self._base} cannot be reached, or the connection broke: {type(error).__name__}; "
                "check the address and that the service runs"
            )
            raise ModelConnectionError(said, retryable=isinstance(error, _PASSING)) from error


@cache
def _trust() -> SSLContext:
    """Whom to trust; it takes long to load, and an event loop would stand still for each of its clients."""
    return httpx2.create_ssl_context()


def _abandon(client: httpx2.AsyncClient) -> None:
    """Nothing can be done for it: it closes with the sockets of its loop."""
