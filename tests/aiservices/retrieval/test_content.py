"""Contents are created, fused, re-ranked and added to a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiservices import DefinitionError
from aiservices.engine.drivers import arun, run
from aiservices.retrieval import Content, Injection, Query, ReciprocalRankFusion, ReRank, contents_of

A, B, C = (Content(name * 3, name) for name in "abc")
QUERY = Query("which?")


@dataclass
class Document:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


def ids(contents: Sequence[Content]) -> list[str]:
    return [content.id for content in contents]


def test_contents_of_converts_texts_and_documents() -> None:
    given = [
        "one",
        Document("two", {"page": 2}),
        Document("three", id="x"),
        Content("four"),
        Content("five", "v"),
    ]
    assert contents_of(given, "part") == [
        Content("one", "part-1", {"source": "part"}),
        Content("two", "part-2", {"source": "part", "page": 2}),
        Content("three", "x"),
        Content("four", "part-4", {"source": "part"}),
        Content("five", "v"),
    ]


def test_the_id_of_a_document_may_be_in_its_metadata() -> None:
    documents = [Document("zero", {"page": 0}, id="x"), Content("one", "y", {"page": 1})]
    assert contents_of(documents, id="page") == [
        Content("zero", "0", {"page": 0}),
        Content("one", "1", {"page": 1}),
    ]


@pytest.mark.parametrize(
    ("piece", "found"),
    [
        ("text", "there is no page"),
        (Document("x", {"chapter": 1}), "there is no page"),
        (Document("x", {"page": None}), "page is None"),
        (Document("x", {"page": ""}), "page is ''"),
        (Document("x", {"page": 1.5}), "page is 1.5"),
    ],
)
def test_a_piece_without_the_id_in_its_metadata_is_an_error(piece: Any, found: str) -> None:
    with pytest.raises(ValueError, match="no id") as caught:
        contents_of([Document("zero", {"page": 0}), piece], id="page")
    assert str(caught.value) == (
        f"piece 2 has no id in its metadata: {found}; it must be a text or an integer"
    )


def test_different_texts_with_one_id_are_an_error() -> None:
    documents = [Document("a", {"page": 1}), Document("b", {"page": 2}), Document("c", {"page": 1})]
    with pytest.raises(ValueError, match="same id") as caught:
        contents_of(documents, id="page")
    assert str(caught.value) == (
        "the pieces 1 and 3 have the same id '1' and different texts; a search would return only one of them"
    )
    assert len(contents_of([*documents[:2], Document("a", {"page": 1})], id="page")) == 3


def test_contents_high_in_several_rankings_come_first() -> None:
    fused = ReciprocalRankFusion().fuse([[A, B, C], [B, C], [B]])
    assert ids(fused) == ["b", "c", "a"]
    assert [content.score for content in fused] == [1 / 62 + 1 / 61 + 1 / 61, 1 / 63 + 1 / 62, 1 / 61]


def test_a_content_counts_once_in_a_list_and_equal_ranks_keep_their_order() -> None:
    assert ids(ReciprocalRankFusion(k=1).fuse([[A, A, A], [B]])) == ["a", "b"]


def test_contents_without_ids_are_the_same_when_their_texts_are() -> None:
    fused = ReciprocalRankFusion().fuse([[Content("x")], [Content("y"), Content("x")]])
    assert [content.text for content in fused] == ["x", "y"]


def test_a_single_ranking_stays_unchanged() -> None:
    scored = Content("x", "x", score=0.5)
    assert run(ReciprocalRankFusion(max_results=2)(QUERY, [[], [scored, A, B]])) == [scored, A]


class ByLength:
    def scores(self, query: Query, contents: Sequence[Content], /) -> list[float]:
        return [len(content.text) for content in contents]


class ByLengthLater:
    async def scores(self, query: Query, contents: Sequence[Content], /) -> list[float]:
        return ByLength().scores(query, contents)


def test_a_re_ranker_decides_the_order() -> None:
    rankings = [[Content("x"), Content("xxx")], [Content("xx"), Content("x")]]
    best = [Content("xxx", score=3), Content("xx", score=2)]
    assert run(ReRank(ByLength(), max_results=2)(QUERY, rankings)) == best
    assert asyncio.run(arun(ReRank(ByLengthLater(), min_score=2)(QUERY, rankings))) == best
    assert run(ReRank(ByLength())(QUERY, [[], []])) == []


def test_a_re_ranker_must_return_one_score_per_content() -> None:
    class Lazy:
        def scores(self, query: Query, contents: Sequence[Content], /) -> list[float]:
            return [1.0]

    with pytest.raises(DefinitionError) as caught:
        run(ReRank(Lazy())(QUERY, [[A, B]]))
    assert [str(problem) for problem in caught.value.problems] == [
        "Lazy: it returned 1 scores for 2 contents; return one for each"
    ]


def test_contents_are_listed_below_their_ids_and_the_requested_metadata() -> None:
    contents = [
        Content("one", "a", {"page": 1, "file": "f"}),
        Content("two", metadata={"page": 2}),
        Content("three"),
    ]
    assert Injection(metadata=("page",))("Why?", contents) == (
        "Why?\n\nAnswer using the following information:\n[a; page: 1]\none\n\n[page: 2]\ntwo\n\nthree"
    )


def test_a_template_can_loop_over_the_contents() -> None:
    template = "{% for one in contents %}<{{one.id}}>{{one.text}}{% endfor %}{{user_message}}"
    assert Injection(template)("Why?", [A, B]) == "<a>aaa<b>bbbWhy?"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{query}}", "the template uses {{query}}; its variables are: contents, information, user_message"),
        (" ", "the template is empty"),
    ],
)
def test_an_invalid_template_is_a_definition_error(template: str, expected: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Injection(template)
    assert [str(problem) for problem in caught.value.problems] == [f"Injection: {expected}"]


def test_contents_of_rejects_a_single_text() -> None:
    with pytest.raises(TypeError) as caught:
        contents_of("one text")
    assert (
        str(caught.value) == "contents_of takes a list of texts, not one text; use split to cut a long text"
    )
