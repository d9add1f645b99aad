"""Makes and holds the SDK's clients of one model: one that blocks, and one for each event loop."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from ..errors import AuthenticationError, DefinitionError, Fault, ModelConnectionError
from .openai_account import checked_key
from .per_loop import PerLoop

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from .openai_place import Place

__all__ = ["Clients"]


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
        self._made_async: PerLoop[AsyncOpenAI] = PerLoop(lambda: self._make("AsyncOpenAI"), _close, _abandon)
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
            no_key = f"{self._name}: no API key; {self._place.key_advice}"
            raise AuthenticationError(no_key) from error
        except ValueError as error:  # how the SDK's Azure client says that a variable is missing
            raise ModelConnectionError(
                f"{self._name}: {error}; set AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION"
            ) from error
        # an administrator's key, which the SDK would send where there is no other, asks no model
        checked_key(self._name, self._place, made.api_key)
        return made


async def _close(client: AsyncOpenAI) -> None:
    await client.close()


def _abandon(client: AsyncOpenAI) -> None:
    """Nothing can be done for it: it closes with the sockets of its loop."""
