"""How the requests of one model go out: by the SDK where it is needed, else by connections of our own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

from ..base import Capabilities
from ..errors import AuthenticationError, DefinitionError, DefinitionProblem, ModelConnectionError
from ..http.base import PerLoop, TransportError

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

Provider: TypeAlias = Literal["openai", "azure", "ollama"]

_KEY_ADVICE = {
    "openai": "set OPENAI_API_KEY or pass api_key",
    "azure": "set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or pass api_key",
    "ollama": "pass the api_key that the server asks for",
}
_NO_OLLAMA_HOST = (
    'OLLAMA_HOST must be a host, with http:// or https:// and a port or without, as in "box:11434"'
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go.

    ``base_url`` is "" when the SDK is to find the address itself, as Azure's does. ``azure``: the address
    needs the deployment's name in its path. ``of_openai``: OpenAI's own models and parameters live there.
    """

    provider: Provider
    base_url: str
    azure: bool = False
    of_openai: bool = False

    @property
    def shown(self) -> str:
        """The address for messages and logs: without credentials and query."""
        parts = urlsplit(self.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", ""))
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")

    @property
    def key_advice(self) -> str:
        return _KEY_ADVICE[self.provider]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(json_schema=True, strict_schema=self.of_openai, json_mode=True, tools=True)


def place_at(provider: Provider, base_url: str | None) -> Place:
    """The place that a provider and an address (or, without one, the environment) stand for.

    Raises ValueError when the address is none.
    """
    if provider == "azure":
        if base_url:
            _check(base_url, "base_url")
        return Place(provider, base_url or "", azure="/deployments" not in (base_url or ""), of_openai=True)
    if base_url:
        _check(base_url, "base_url")
    elif provider == "ollama":
        base_url = _ollama_url(os.environ.get("OLLAMA_HOST", ""))
    else:
        base_url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        _check(base_url, "OPENAI_BASE_URL")
    return Place(provider, base_url, of_openai=_is_openai_host(base_url))


def place_of(client: object) -> Place:
    """The place that a client of the SDK is set to."""
    from openai import AsyncAzureOpenAI, AzureOpenAI

    base_url = str(getattr(client, "base_url", ""))
    if isinstance(client, AzureOpenAI | AsyncAzureOpenAI):
        return Place("azure", base_url, azure="/deployments" not in base_url, of_openai=True)
    return Place("openai", base_url, of_openai=_is_openai_host(base_url))


def _check(base_url: str, name: str) -> None:
    """Raises ValueError for what is no address; ``name`` says where it stands."""
    # not quoted in messages, since it may hold credentials
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f'{name} must begin with http:// or https://, as in "http://localhost:8000/v1"')
    try:
        parts = urlsplit(base_url)
        fit = bool(parts.hostname) and parts.port != 0 and " " not in base_url
    except ValueError:
        fit = False
    if not fit:
        raise ValueError(f'{name} must be a URL with a host, as in "http://localhost:8000/v1"') from None


def _is_openai_host(base_url: str) -> bool:
    # OpenAI also has regional hosts (eu.api.openai.com); Azure serves OpenAI's API below azure.com
    host = "." + (urlsplit(base_url).hostname or "")
    return host.endswith((".api.openai.com", ".azure.com"))


def _ollama_url(host: str) -> str:
    """OLLAMA_HOST as Ollama reads it: scheme and port may be missing; 0.0.0.0 listens and is no target."""
    scheme, found, rest = host.strip().rpartition("://")
    default_port = {"http": 80, "https": 443}.get(scheme, 11434)
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or default_port
    except ValueError:
        raise ValueError(_NO_OLLAMA_HOST) from None
    name = {None: "localhost", "": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(
        parts.hostname, parts.hostname or ""
    )
    name = f"[{name}]" if ":" in name else name
    path = parts.path.rstrip("/")
    if " " in rest or (found and scheme not in ("http", "https")):
        raise ValueError(_NO_OLLAMA_HOST)
    return f"{scheme if found else 'http'}://{name}:{port}{path}/v1"


@dataclass(frozen=True, slots=True)
class Account:
    """``headers`` are those of every request, the key among them."""

    key: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, name: str, place: Place, api_key: str | None) -> Account:
        """From the environment, as the SDK reads it: OPENAI_API_KEY, OPENAI_ORG_ID, OPENAI_PROJECT_ID.

        OPENAI_CUSTOM_HEADERS has a "Name: value" in each line. Raises AuthenticationError without a key.
        """
        environment = os.environ.get
        key = checked_key(name, place, environment("OPENAI_API_KEY") if api_key is None else api_key)
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "aiservices",
        }
        for header, variable in (
            ("openai-organization", "OPENAI_ORG_ID"),
            ("openai-project", "OPENAI_PROJECT_ID"),
        ):
            if value := environment(variable):
                headers[header] = value
        for line in (environment("OPENAI_CUSTOM_HEADERS") or "").splitlines():
            header, colon, value = line.partition(":")
            if colon:
                headers[header.strip().lower()] = value.strip()
        return cls(key, headers)


def checked_key(name: str, place: Place, key: str | None) -> str:
    """The key, which must be one. Raises AuthenticationError."""
    if not key:
        raise AuthenticationError(f"{name}: no API key; {place.key_advice}")
    if not (key.isascii() and key.isprintable()):
        raise AuthenticationError(
            f"{name}: the API key holds a line end or another character that no key has; {place.key_advice}"
        )
    return key


class Clients:
    """Clients that the user gave stay as they are and stay the user's; others are made when needed."""

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
        self._given = given
        self._given_async = given_async
        self._made: OpenAI | None = None
        self._made_async: PerLoop[AsyncOpenAI] = PerLoop(
            lambda: self._make("AsyncOpenAI"), _close_sdk, _abandon_sdk
        )
        self._lock = Lock()

    def blocking(self) -> Any:
        if self._given is not None:
            return self._given
        self._refuse_half("client", "OpenAI", self._given_async)
        with self._lock:
            if self._made is None:
                self._made = self._make("OpenAI")
            return self._made

    async def of_this_loop(self) -> Any:
        if self._given_async is not None:
            return self._given_async
        self._refuse_half("async_client", "AsyncOpenAI", self._given)
        return await self._made_async.get()

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    async def aclose(self) -> None:
        self.close()
        await self._made_async.aclose()

    def _refuse_half(self, missing: str, kind: str, other: object) -> None:
        if other is not None:  # its proxies, certificates and hooks cannot be carried over to the other kind
            raise DefinitionError(
                [
                    DefinitionProblem(
                        self._name, f"a client was given, but no {missing}; pass {missing}={kind}(...) too"
                    )
                ]
            )

    def _make(self, kind: str) -> Any:
        import openai

        azure = self._place.provider == "azure"
        try:
            made = getattr(openai, kind.replace("OpenAI", "AzureOpenAI") if azure else kind)(
                base_url=self._place.base_url or None, api_key=self._api_key, max_retries=0
            )
        except openai.OpenAIError as error:
            no_key = f"{self._name}: no API key; {self._place.key_advice}"
            raise AuthenticationError(no_key) from error
        except ValueError as error:  # how the SDK's Azure client says that a variable is missing
            raise ModelConnectionError(
                f"{self._name}: {error}; set AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION"
            ) from error
        # an administrator's key, which the SDK would send where there is no other, asks no model
        checked_key(self._name, self._place, made.api_key)
        return made


async def _close_sdk(client: AsyncOpenAI) -> None:
    await client.close()


def _abandon_sdk(client: AsyncOpenAI) -> None:
    """Nothing can be done for it: it closes with the sockets of its loop."""


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
        from ..http.sync_client import BlockingTransport  # urllib3 is not needed to declare a service

        return self._lean(BlockingTransport)

    def _asynchronous(self) -> Lean:
        from ..http.async_client import AsyncTransport  # nor is aiohttp

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
