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

    Its metadata are texts, numbers, truth values and lists of one of them. Needs chromadb.
    """

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    @staticmethod
    def at(path: str | Path | None = None, name: str = "contents", *, client: Any = None) -> ChromaStore:
        """The collection ``name`` in a folder, of a client, or, without either, in memory.

        Stores in memory with the same name are one and the same while the process runs.
        """
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
        """Keep contents, one for each row; of those with the same id the last one."""
        last = {content.key: at for at, content in enumerate(contents)}
        if not last:
            return
        kept = self._collection.get(ids=list(last), include=["metadatas"])
        old = dict(zip(kept["ids"], kept["metadatas"], strict=True))
        self._collection.upsert(
            ids=list(last),
            embeddings=[vectors[at] for at in last.values()],
            documents=[contents[at].text for at in last.values()],
            metadatas=[_instead(old.get(key), contents[at].metadata) for key, at in last.items()],
        )

    def remove(self, ids: Sequence[str]) -> None:
        """Forget the contents with these ids."""
        if ids:
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


def _instead(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any] | None:
    """The new metadata as Chroma takes them: what was there before stays, but where it becomes None."""
    return {**dict.fromkeys(old or ()), **new} or None
