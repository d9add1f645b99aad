"""Asks a model over HTTP, by an API of OpenAI's, in whichever dialect a subclass speaks."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, ClassVar, Self

from ..messages import ChatReply, ReplyDelta
from ..requests import ChatOptions, ChatRequest
from .base import Capabilities
from .openai_body import BodyWriter
from .openai_call import Caller
from .openai_channels import Channels
from .openai_dialect import Dialect
from .openai_log import WireLog
from .openai_place import Provider, place_at, place_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = ["OpenAiModel"]

_NO_OPTIONS = ChatOptions()


class OpenAiModel:
    """What every chat model by an API of OpenAI's does; a subclass names its dialect, and its promises.

    Creating one opens nothing: connections are made at the first request. The SDK makes them for Azure and
    for a client that is given, which stays as it is and stays the caller's. Raises ValueError when
    ``base_url`` is no URL, or ``options`` hold what the dialect lacks.
    """

    _dialect: ClassVar[Dialect]

    def __init__(
        self,
        model: str,
        *,
        provider: Provider = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        given = client or async_client
        self._place = place_at(provider, base_url) if given is None else place_of(given)
        if self._place.provider == "ollama":
            api_key = api_key or "ollama"  # the SDK wants one, Ollama does not look at it
        self._capabilities = capabilities or self._place.capabilities
        bodies = BodyWriter(self._dialect, model, options, self._place)
        self._caller = Caller(self._dialect, self._place, bodies, WireLog(log_level))
        self._channels = Channels(self.name, self._place, api_key, client, async_client)

    @classmethod
    def named(cls, name: str) -> Self:
        """A model of OpenAI; OPENAI_BASE_URL may name another server."""
        return cls(cls._some(name, "openai"))

    @classmethod
    def azure(cls, name: str) -> Self:
        """A deployment of Azure's; address, version and key come from the environment."""
        return cls(cls._some(name, "azure"), provider="azure")

    @classmethod
    def ollama(cls, name: str) -> Self:
        """A model of Ollama's; OLLAMA_HOST may name another host."""
        return cls(cls._some(name, "ollama"), provider="ollama")

    @classmethod
    def _some(cls, name: str, provider: str) -> str:
        if not name:
            asked = provider + cls._dialect.suffix
            raise LookupError(
                f'"{asked}:" names no model: write the name after the colon, as in "{asked}:NAME"'
            )
        return name

    @property
    def name(self) -> str:
        return self._caller.named(self._caller.bodies.model)

    @property
    def endpoint(self) -> str:
        """Where requests go, without credentials: what the place refuses is remembered under it."""
        return self._place.shown

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r} at {self._place.shown})"

    def complete(self, request: ChatRequest) -> ChatReply:
        call = self._caller.call(self._channels.blocking(), request, stream=False)
        deadline = request.deadline
        try:
            response = call.send(unread=deadline is not None)
            raw = response.content if deadline is None else call.read_by(deadline, response)
        except call.failures as error:
            raise call.failure(error) from error
        return call.read(response, raw)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        call = self._caller.call(await self._channels.of_this_loop(), request, stream=False)
        try:
            response = await call.send()
        except call.failures as error:
            raise call.failure(error) from error
        return call.read(response, response.content)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        call = self._caller.call(self._channels.blocking(), request, stream=True)
        try:
            response = call.send()
        except call.failures as error:
            raise call.failure(error) from error
        try:
            reading = call.reading(response)
            try:
                for chunk in response.iter_bytes():
                    for delta in call.feed(reading, chunk):
                        yield delta
                    if reading.done:
                        break
            except call.failures as error:
                call.lost(reading, error)
            for delta in call.end(reading):
                yield delta
        finally:
            response.close()

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        call = self._caller.call(await self._channels.of_this_loop(), request, stream=True)
        try:
            response = await call.send()
        except call.failures as error:
            raise call.failure(error) from error
        try:
            reading = call.reading(response)
            try:
                async for chunk in response.aiter_bytes():
                    for delta in call.feed(reading, chunk):
                        yield delta
                    if reading.done:
                        break
            except call.failures as error:
                call.lost(reading, error)
            for delta in call.end(reading):
                yield delta
        finally:
            await response.aclose()

    def close(self) -> None:
        """Lets go of the connections that this model opened; a later request opens new ones."""
        self._channels.close()

    async def aclose(self) -> None:
        """As close, and also those of the running event loop; another loop's go when that loop ends."""
        await self._channels.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
