"""Makes and holds the SDK's clients of one model: one that blocks, and one for each event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..errors import AuthenticationError, DefinitionError, Fault, ModelConnectionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI, OpenAI

    from .openai_place import Place

__all__ = ["Clients", "Post", "load_post"]


@dataclass(frozen=True, slots=True)
class Post:
    """How the installed SDK sends bytes and hands back the response as it came."""

    response: type[Any]
    body_argument: str

    def __call__(self, client: Any, path: str, body: bytes, settings: Mapping[str, Any], stream: bool) -> Any:
        """The response; from an asynchronous client, an awaitable of it."""
        body_argument = {self.body_argument: body}
        return client.post(path, cast_to=self.response, options=settings, stream=stream, **body_argument)


@cache
def load_post() -> Post:
    """Imports the SDK, which takes most of a second, and hence waits for the first request."""
    import openai

    # openai 3 sends with httpx2, openai 2 with httpx; raw bytes were a `body` before they were `content`
    http = openai.DefaultHttpxClient.__mro__[-2].__module__.partition(".")[0]
    takes_content = "content" in signature(openai.OpenAI.post).parameters
    return Post(import_module(http).Response, "content" if takes_content else "body")


@dataclass(frozen=True, slots=True)
class _Held:
    client: AsyncOpenAI
    closer: AsyncGenerator[None]


class Clients:
    """Clients that the user gave stay as they are and stay the user's; others are made when needed.

    Connections of an asynchronous client belong to one event loop. So each loop gets a client, which
    is closed and forgotten when the loop shuts down its asynchronous generators, as asyncio.run does at
    its end; that of a loop which ended otherwise is forgotten when another loop asks for one.
    """

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
        self._made_async: dict[asyncio.AbstractEventLoop, _Held] = {}
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
        loop = asyncio.get_running_loop()
        with self._lock:
            held = self._made_async.get(loop)
            if held is not None:
                return held.client
            for other in [other for other in self._made_async if other.is_closed()]:
                del self._made_async[other]
            client = self._make("AsyncOpenAI")
            held = self._made_async[loop] = _Held(client, _closes_with_loop(client, ref(self)))
        await anext(held.closer)
        return client

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    async def aclose(self) -> None:
        self.close()
        held = self.forget(asyncio.get_running_loop())
        if held is not None:
            await held.closer.aclose()

    def forget(self, loop: asyncio.AbstractEventLoop) -> _Held | None:
        with self._lock:
            return self._made_async.pop(loop, None)

    def _refuse_half(self, missing: str, kind: str, other: object) -> None:
        if other is not None:  # its proxies, certificates and hooks cannot be carried over to the other kind
            raise DefinitionError(
                [Fault(self._name, f"a client was given, but no {missing}; pass {missing}={kind}(...) too")]
            )

    def _make(self, kind: str) -> Any:
        import openai

        azure = self._place.provider == "azure"
        try:
            made = getattr(openai, kind.replace("OpenAI", "AzureOpenAI") if azure else kind)(
                base_url=self._place.base_url or None, api_key=self._api_key, max_retries=0
            )
        except openai.OpenAIError as error:
            raise self._no_key() from error
        except ValueError as error:  # how the SDK's Azure client says that a variable is missing
            raise ModelConnectionError(
                f"{self._name}: {error}; set AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION"
            ) from error
        if not made.api_key:  # an administrator's key, which the SDK would send instead, asks no model
            raise self._no_key()
        if not (made.api_key.isascii() and made.api_key.isprintable()):
            raise AuthenticationError(
                f"{self._name}: the API key holds a line end or another character that no key has; "
                f"{self._place.key_advice}"
            )
        return made

    def _no_key(self) -> AuthenticationError:
        return AuthenticationError(f"{self._name}: no API key; {self._place.key_advice}")


async def _closes_with_loop(client: AsyncOpenAI, clients: ref[Clients]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        owner = clients()
        if owner is not None:
            owner.forget(asyncio.get_running_loop())
        await client.close()
