"""Keep passages and their vectors in Qdrant: on a server, in a folder, or in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import NAMESPACE_OID, uuid5

from output_parsers.result.reading import JsonObject

from ..models.arguments import checks_arguments
from ..models.errors import import_extra
from .content import Content
from .retrievers import batches_of, check_removal, check_vectors, replaced_sources, stored_content

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@checks_arguments
class QdrantStore:
    """A vector store that keeps passages in a collection of Qdrant (needs qdrant-client).

        store = QdrantStore("guide-index")                                       # in a folder
        store = QdrantStore(client=QdrantClient(url="http://qdrant:6333"))       # on a server

    The collection is created with the first passages. Their payload has ``key``, ``text``, ``metadata`` and
    ``filters``, which are the metadata as searches compare them. A store may be used by several threads;
    a folder only by one store at a time. ``close``, or a ``with`` block, closes a client that the store has
    created.

    Args:
        path: The folder. None keeps the passages in this process, unless there is a ``client``.
        name: The name of the collection.
        client: A ``QdrantClient``, for example of a server.

    Raises MissingExtraError without qdrant-client. The methods raise the errors of Qdrant, and ValueError for
    vectors that do not fit. The metadata must consist of JSON values.
    """

    def __init__(self, path: str | Path | None = None, name: str = "contents", *, client: Any = None) -> None:
        qdrant = import_extra("qdrant_client", "qdrant", "QdrantStore")
        self._models, self._name, self._owns_client = qdrant.models, name, client is None
        if client is None:
            # this class has a lock of its own; the client would refuse other threads than the first
            settings = {"location": ":memory:"} if path is None else {"path": str(path)}
            client = qdrant.QdrantClient(**settings, force_disable_check_same_thread=True)
        self._client = client
        self._lock = threading.RLock()
        self._known_length: int | None = None

    def __len__(self) -> int:
        with self._lock:
            return 0 if self._length() is None else int(self._client.count(self._name, exact=True).count)

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Add passages with their embedding vectors to the collection, replacing passages with the same ids.

        Raises ValueError, and stores nothing, if there is not exactly one row of finite numbers per content,
        or if the length of the vectors differs from the stored vectors.
        """
        if not contents:
            return
        models = self._models
        with self._lock:
            length = self._length()
            matrix = check_vectors(vectors, len(contents), "QdrantStore.add", length)
            points = {
                _point_id(content.key): models.PointStruct(
                    id=_point_id(content.key), vector=row.tolist(), payload=_payload(content)
                )
                for content, row in zip(contents, matrix, strict=True)
            }
            if length is None:
                params = models.VectorParams(size=matrix.shape[1], distance=models.Distance.COSINE)
                self._client.create_collection(self._name, vectors_config=params)
            ids = list(points)
            batches = list(batches_of(ids))
            old = [one for batch in batches for one in self._client.retrieve(self._name, batch)]
            sources = replaced_sources({one.payload["key"]: _content(one.payload) for one in old}, contents)
            for batch in batches:
                self._client.upsert(self._name, [points[key] for key in batch], wait=True)
            for source in sources:
                parts = models.Filter(
                    must=self._conditions({"source": source}), must_not=[models.HasIdCondition(has_id=ids)]
                )
                self._delete(models.FilterSelector(filter=parts))

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove stored passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Unknown ids are ignored. Raises DefinitionError for empty metadata.
        """
        check_removal(ids, metadata, "QdrantStore.remove")
        models = self._models
        with self._lock:
            if self._length() is None:
                return
            if ids:
                self._delete(models.PointIdsList(points=[_point_id(key) for key in ids]))
            if metadata is not None:
                self._delete(models.FilterSelector(filter=models.Filter(must=self._conditions(metadata))))

    def search(
        self,
        vector: NDArray[np.float32],
        max_results: int = 4,
        /,
        *,
        filter: Mapping[str, object] | None = None,
    ) -> list[Content]:
        """Return the stored passages with the nearest vectors, best first, scored by cosine similarity."""
        with self._lock:
            length = self._known_length or self._length()
            [row] = check_vectors([vector], 1, "QdrantStore.search", length)
            if length is None:
                return []
            condition = self._models.Filter(must=self._conditions(filter)) if filter else None
            results = self._client.query_points(
                self._name, query=row.tolist(), query_filter=condition, limit=max_results
            )
        return [_content(point.payload, float(point.score)) for point in results.points]

    def close(self) -> None:
        """Close the client, unless the user created it."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _length(self) -> int | None:
        """The length of the stored vectors; None without a collection. Searches do not read it again."""
        self._known_length = None
        if self._client.collection_exists(self._name):
            self._known_length = int(self._client.get_collection(self._name).config.params.vectors.size)
        return self._known_length

    def _conditions(self, metadata: Mapping[str, object]) -> list[object]:
        models = self._models
        return [
            models.FieldCondition(key="filters", match=models.MatchValue(value=text))
            for text in _filter_texts(metadata)
        ]

    def _delete(self, selector: object) -> None:
        self._client.delete(self._name, selector, wait=True)


def _point_id(key: str) -> str:
    """Return the id of a passage in Qdrant, which accepts only numbers and UUIDs."""
    return str(uuid5(NAMESPACE_OID, key))


def _payload(content: Content) -> dict[str, object]:
    metadata = json.loads(json.dumps(dict(content.metadata)))
    filters = _filter_texts(metadata)
    return {"key": content.key, "text": content.text, "metadata": metadata, "filters": filters}


def _filter_texts(metadata: Mapping[str, object]) -> list[str]:
    """Return a text for each name and value: Qdrant itself compares no lists, fractions or null."""
    texts = []
    for name, value in metadata.items():
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        texts.append(json.dumps([name, value], sort_keys=True))
    return texts


def _content(payload: JsonObject, score: float | None = None) -> Content:
    return stored_content(payload["key"], payload["text"], payload["metadata"], score)
