"""Retrieval by meaning: texts become vectors, and those near to a query's are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .content import Content, Query
from .store import EmbeddingStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EmbeddingModel", "EmbeddingRetriever", "VectorStore", "Where"]

Where: TypeAlias = Mapping[str, Any] | Callable[[Query], Mapping[str, Any]]
_BATCH = 256


class EmbeddingModel(Protocol):
    """Turns texts into vectors: a float32 matrix with a row for each. Blocking, and safe in threads."""

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]: ...


class VectorStore(Protocol):
    """Keeps contents with their vectors, and finds those whose vectors are nearest to one by their angle.

    A content that has the id of one that is kept takes its place. ``search`` gives the best first, with the
    cosine (-1 to 1) as its score; ``where`` says which values the metadata must have.
    """

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None: ...
    def search(
        self, vector: NDArray[np.float32], limit: int, /, *, where: Mapping[str, Any] | None = None
    ) -> list[Content]: ...


class EmbeddingRetriever:
    """Finds the contents that are nearest in meaning: at most ``limit``, with a score of ``at_least``.

    Without a ``store`` they are kept in this process. ``where`` says which values the metadata must have;
    a function of the query can say so for each call, by its memory id or its arguments.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        store: VectorStore | None = None,
        *,
        limit: int = 4,
        at_least: float = -1.0,
        where: Where | None = None,
    ) -> None:
        self._model = model
        self._store: VectorStore = EmbeddingStore() if store is None else store
        self._limit = limit
        self._at_least = at_least
        self._where = where

    def add(self, contents: Sequence[Content]) -> None:
        """Embed contents and keep them."""
        for start in range(0, len(contents), _BATCH):
            batch = contents[start : start + _BATCH]
            self._store.add(batch, self._model.embed([content.text for content in batch]))

    def retrieve(self, query: Query, /) -> list[Content]:
        """The nearest contents, the best first, each with its cosine as its score."""
        [vector] = self._model.embed([query.text])
        where = self._where(query) if callable(self._where) else self._where
        found = self._store.search(vector, self._limit, where=where)
        return [content for content in found if (content.score or 0.0) >= self._at_least]
