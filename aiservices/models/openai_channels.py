"""How the requests of one model go out: by the SDK where it is needed, else by connections of our own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import ModelConnectionError
from ..transport.base import TransportError
from .openai_account import Account
from .openai_clients import Clients
from .per_loop import PerLoop

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from .openai_place import Place

__all__ = ["Channel", "Channels", "sdk_failures"]


class Channel(Protocol):
    """A way on which requests go out.

    ``headers`` are those of every request, ``key`` is what no message may show, ``failures`` what sending and
    reading raise.
    """

    @property
    def headers(self) -> Mapping[str, object]: ...

    @property
    def key(self) -> object: ...

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout: float | None, *, unread: bool
    ) -> Any:
        """The response as it came; on an asynchronous channel, an awaitable of it. ``timeout`` is in seconds.

        It has a ``status_code``, ``headers``, all of its ``content`` unless it was to be left ``unread``,
        ``iter_bytes`` and ``close``, or ``aiter_bytes`` and ``aclose``.
        """


class Lean(NamedTuple):
    """A transport of our own: the address and the key are all that such a place asks for."""

    account: Account
    transport: Any

    @property
    def headers(self) -> Mapping[str, object]:
        return self.account.headers

    @property
    def key(self) -> object:
        return self.account.key

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        failures: tuple[type[Exception], ...] = self.transport.failures
        return failures

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout: float | None, *, unread: bool
    ) -> Any:
        return self.transport.post(path, body, headers, timeout, unread=unread)


class OfSdk(NamedTuple):
    """A client of the SDK, with all that was set up there: proxies, certificates, hooks, ways to sign in."""

    client: Any

    @property
    def headers(self) -> Mapping[str, object]:
        headers: Mapping[str, object] = self.client.default_headers | self.client.auth_headers
        return headers

    @property
    def key(self) -> object:
        return getattr(self.client, "api_key", None)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return sdk_failures()

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], timeout: float | None, *, unread: bool
    ) -> Any:
        settings: dict[str, Any] = {"max_retries": 0}
        if timeout is not None:
            settings["timeout"] = timeout
        if headers:
            settings["headers"] = headers
        sends = _sends()
        body_argument = {sends.body_argument: body}
        return self.client.post(
            path, cast_to=sends.response, options=settings, stream=unread, **body_argument
        )


class _Sends(NamedTuple):
    """How the installed SDK sends bytes and hands back the response as it came."""

    response: type[Any]
    body_argument: str


@cache
def _sends() -> _Sends:
    """Imports the SDK, which takes most of a second, and hence waits for the first request."""
    import openai

    # openai 3 sends with httpx2, openai 2 with httpx; raw bytes were a `body` before they were `content`
    http = openai.DefaultHttpxClient.__mro__[-2].__module__.partition(".")[0]
    takes_content = "content" in signature(openai.OpenAI.post).parameters
    return _Sends(import_module(http).Response, "content" if takes_content else "body")


def sdk_failures() -> tuple[type[Exception], ...]:
    """The exceptions with which a request of the SDK, or reading its response, can fail.

    Asked for when something failed: the SDK wraps the transport's errors while it sends, but not while
    a stream is read, and a client that the user made may be of another HTTP library than the SDK's.
    """
    import openai

    loaded = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    failures = [error for module in loaded for error in (module.RequestError, module.InvalidURL)]
    if "anyio" in sys.modules:
        failures.append(sys.modules["anyio"].EndOfStream)
    return (openai.OpenAIError, OSError, *failures)


class Channels:
    """The SDK sends for clients that the user gave, and to Azure; for all else it is not even imported."""

    def __init__(
        self,
        name: str,
        place: Place,
        api_key: str | None,
        given: OpenAI | None,
        given_async: AsyncOpenAI | None,
    ) -> None:
        self._name = name
        self._place = place
        self._api_key = api_key
        by_sdk = given is not None or given_async is not None or place.provider == "azure"
        self._clients = Clients(name, place, api_key, given, given_async) if by_sdk else None
        self._made: Lean | None = None
        self._made_async: PerLoop[Lean] = PerLoop(self._asynchronous, _close, _abandon)
        self._lock = Lock()

    def blocking(self) -> Channel:
        if self._clients is not None:
            return OfSdk(self._clients.blocking())
        made = self._made
        if made is None:
            fresh = self._blocking()  # without the lock, which a process forked meanwhile would find locked
            with self._lock:
                made = self._made = self._made or fresh
        return made

    async def of_this_loop(self) -> Channel:
        if self._clients is not None:
            return OfSdk(await self._clients.of_this_loop())
        return await self._made_async.get()

    def close(self) -> None:
        if self._clients is not None:
            self._clients.close()
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.transport.close()

    async def aclose(self) -> None:
        self.close()
        if self._clients is not None:
            await self._clients.aclose()
        await self._made_async.aclose()

    def _blocking(self) -> Lean:
        from ..transport.blocking import BlockingTransport  # urllib3 is not needed to declare a service

        return self._lean(BlockingTransport)

    def _asynchronous(self) -> Lean:
        from ..transport.waiting import AsyncTransport  # nor is aiohttp

        return self._lean(AsyncTransport)

    def _lean(self, transport: Callable[[str, Mapping[str, str]], Any]) -> Lean:
        account = Account.of(self._name, self._place, self._api_key)
        try:
            return Lean(account, transport(self._place.base_url, account.headers))
        except TransportError as error:
            raise ModelConnectionError(f"{self._name}: {error}") from error


async def _close(channel: Lean) -> None:
    await channel.transport.close()


def _abandon(channel: Lean) -> None:
    channel.transport.abandon()
