"""Retrieval by meaning: texts become vectors, and those near to a query's are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .content import Content, Query, needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class _Kept:
    """Contents, and their vectors as rows of length 1."""

    contents: tuple[Content, ...]
    rows: NDArray[np.float32]


class EmbeddingStore:
    """Keeps contents with their vectors in memory; each search compares with all of them.

    That takes some milliseconds for ten thousand. Safe to use from several threads. ``save`` writes one
    npz file without pickles, for which the metadata must be JSON. Needs numpy.
    """

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return 0 if self._kept is None else len(self._kept.contents)

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Keep contents, one for each row. Raises ValueError when the rows do not fit to them, or are not as
        long as those that are kept."""
        if not contents:
            return
        rows = _unit(vectors)
        if rows.ndim != 2 or len(rows) != len(contents):
            raise ValueError(
                f"{len(contents)} contents have vectors of shape {rows.shape}; give one row for each"
            )
        with self._lock:
            self._kept = _joined(self._kept, _Kept(tuple(contents), rows))

    def remove(self, ids: Sequence[str]) -> None:
        """Forget the contents with these ids; those that are not kept are passed over."""
        gone = set(ids)
        with self._lock:
            if self._kept is not None:
                self._kept = _chosen(self._kept, [one.key not in gone for one in self._kept.contents])

    def search(
        self, vector: NDArray[np.float32], limit: int = 4, /, *, where: Mapping[str, Any] | None = None
    ) -> list[Content]:
        """The nearest contents, the best first, each with its cosine as its score."""
        kept = self._kept
        if kept is not None and where:
            kept = _chosen(kept, [fits(content, where) for content in kept.contents])
        if kept is None:
            return []
        wanted = _unit(vector)
        if wanted.shape != kept.rows.shape[1:]:
            said = f"the vector has the shape {wanted.shape}, those that are kept {kept.rows.shape[1:]}"
            raise ValueError(f"{said}; embed the query with the model that embedded the contents")
        scores = kept.rows @ wanted
        best = (-scores).argsort(kind="stable")[:limit]
        return [replace(kept.contents[at], score=float(scores[at])) for at in best]

    def save(self, path: str | Path) -> None:
        """Write all that is kept to a file."""
        numpy = needed("numpy", "retrieval")
        kept = self._kept
        contents = [] if kept is None else [[c.text, c.id, dict(c.metadata)] for c in kept.contents]
        rows = numpy.zeros((0, 0), numpy.float32) if kept is None else kept.rows
        with Path(path).open("wb") as file:
            numpy.savez_compressed(file, rows=rows, contents=numpy.array(json.dumps(contents)))

    @staticmethod
    def load(path: str | Path) -> EmbeddingStore:
        """A store with what was saved."""
        store = EmbeddingStore()
        with needed("numpy", "retrieval").load(path, allow_pickle=False) as file:
            contents = [Content(*one) for one in json.loads(str(file["contents"]))]
            store.add(contents, file["rows"])
        return store


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same with a length of 1 in its last axis; zeros stay zeros."""
    numpy = needed("numpy", "retrieval")
    rows = numpy.asarray(vectors, numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = rows / numpy.where(lengths == 0, 1, lengths)
    return unit


def _joined(old: _Kept | None, new: _Kept) -> _Kept:
    """Both, of contents with the same id the last one only."""
    numpy = needed("numpy", "retrieval")
    both = new
    if old is not None:
        if old.rows.shape[1] != new.rows.shape[1]:
            said = f"the vectors have {new.rows.shape[1]} numbers, those that are kept {old.rows.shape[1]}"
            raise ValueError(f"{said}; embed all contents with the same model")
        both = _Kept(old.contents + new.contents, numpy.concatenate([old.rows, new.rows]))
    last = {content.key: at for at, content in enumerate(both.contents)}
    return _chosen(both, [last[content.key] == at for at, content in enumerate(both.contents)]) or both


def _chosen(kept: _Kept, wanted: Sequence[bool]) -> _Kept | None:
    """Those for which ``wanted`` says so; None when there are none."""
    if all(wanted):
        return kept
    contents = tuple(one for one, yes in zip(kept.contents, wanted, strict=True) if yes)
    at = [number for number, yes in enumerate(wanted) if yes]
    return _Kept(contents, kept.rows[at]) if contents else None


def fits(content: Content, where: Mapping[str, Any]) -> bool:
    """Whether its metadata have all the values that are wanted."""
    missing = object()
    return all(content.metadata.get(name, missing) == value for name, value in where.items())


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
