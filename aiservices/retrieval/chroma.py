"""Vectors in Chroma: on disk, or on a server of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .content import Content
from .optional import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ChromaStore"]


class ChromaStore:
    """A store in a collection of Chroma, which measures by the cosine; ``ChromaStore.at`` opens one.

    Its metadata are texts, numbers and truth values. Needs chromadb.
    """

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    @staticmethod
    def at(path: str | Path | None = None, name: str = "contents", *, client: Any = None) -> ChromaStore:
        """The collection ``name`` in a folder, of a client, or, without either, in memory."""
        if client is None:
            chroma = needed("chromadb", "chroma")
            settings = chroma.Settings(anonymized_telemetry=False)
            if path is None:
                client = chroma.EphemeralClient(settings=settings)
            else:
                client = chroma.PersistentClient(str(path), settings=settings)
        made = client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        return ChromaStore(made)

    def __len__(self) -> int:
        return int(self._collection.count())

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Keep contents, one for each row."""
        if contents:
            self._collection.upsert(
                ids=[content.key for content in contents],
                embeddings=vectors,
                documents=[content.text for content in contents],
                metadatas=[dict(content.metadata) or None for content in contents],
            )

    def remove(self, ids: Sequence[str]) -> None:
        """Forget the contents with these ids."""
        self._collection.delete(ids=list(ids))

    def search(
        self, vector: NDArray[np.float32], limit: int = 4, /, *, where: Mapping[str, Any] | None = None
    ) -> list[Content]:
        """The nearest contents, the best first, each with its cosine as its score."""
        equal = [{name: {"$eq": value}} for name, value in (where or {}).items()]
        found = self._collection.query(
            query_embeddings=[vector],
            n_results=limit,
            where={"$and": equal} if len(equal) > 1 else equal[0] if equal else None,
            include=["documents", "metadatas", "distances"],
        )
        parts = (found["ids"][0], found["documents"][0], found["metadatas"][0], found["distances"][0])
        return [
            Content(text, "" if key == text else key, dict(metadata or {}), 1 - float(distance))
            for key, text, metadata, distance in zip(*parts, strict=True)
        ]
