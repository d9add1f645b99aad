"""Moderates over the API of OpenAI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidReplyError
from ..models.openai_channels import sdk_failures
from ..models.openai_clients import Clients
from ..models.openai_errors import Blame
from ..models.openai_place import place_at, place_of
from .results import ModerationResult

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["OpenAiModerator"]


class OpenAiModerator:
    """Asks the moderations API of OpenAI, or of a server that speaks it, over the ``openai`` SDK.

    Nothing is imported or opened before the first text. ``client`` is used as it is, but for its retries.
    Raises ModelErrors. It blocks, and runs in a thread in async calls. ``timeout`` is in seconds.
    """

    def __init__(
        self,
        model: str = "omni-moderation-latest",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._place = place_at("openai", base_url) if client is None else place_of(client)
        self._clients = Clients(self.name, self._place, api_key, client, None)
        self._timeout = timeout

    def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        client = self._clients.blocking().with_options(timeout=self._timeout, max_retries=0)
        where = f"{self.name} at {self._place.shown}"
        try:
            answer = client.moderations.create(model=self._model, input=list(texts))
        except Exception as error:
            if not isinstance(error, sdk_failures()):
                raise
            blame = Blame(where, (client.api_key,), self._place.key_advice, self._timeout)
            raise blame.failure(error) from error
        try:
            return [_result(one) for one in answer.results]
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidReplyError(f"{where}: the answer is no moderation: {error}") from error

    def close(self) -> None:
        """Close the connections of a client that was made here."""
        self._clients.close()


def _result(one: Any) -> ModerationResult:
    flags = one.categories.model_dump(by_alias=True)
    flagged = one.flagged
    if not isinstance(flagged, bool):
        raise ValueError(f"flagged is {flagged!r}")
    return ModerationResult(flagged, tuple(name for name, found in flags.items() if found))
