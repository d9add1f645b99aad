"""KeywordRetriever finds contents by shared words, alone and together with other retrievers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from aiservices import DefinitionError
from aiservices.retrieval import Content, KeywordRetriever, Query, ReciprocalRankFusion

pytest.importorskip("bm25s", reason="bm25s is not installed: install the extra retrieval of aiservices")

PUMP = Content("The pump AB-7 moves water.", "pump", {"year": 1})
VALVE = Content("The valve 5 stops the water in a pipe.", "valve", {"year": 2})
NOTE = Content("Order spare parts early.", "note", {"year": 2})


def ids(contents: Sequence[Content]) -> list[str]:
    return [content.id for content in contents]


def looked(retriever: KeywordRetriever, text: str) -> list[str]:
    return ids(retriever.retrieve(Query(text)))


@pytest.fixture
def retriever() -> KeywordRetriever:
    made = KeywordRetriever()
    made.add([PUMP, VALVE, NOTE])
    return made


def test_only_contents_that_share_a_word_are_found(retriever: KeywordRetriever) -> None:
    assert looked(retriever, "Who has spare parts?") == ["note"]
    assert looked(retriever, "elephants") == []


def test_a_rare_word_counts_more_than_a_common_one(retriever: KeywordRetriever) -> None:
    assert looked(retriever, "water pipe") == ["valve", "pump"]
    assert looked(retriever, "water pump") == ["pump", "valve"]


def test_a_word_of_one_character_is_indexed(retriever: KeywordRetriever) -> None:
    assert looked(retriever, "number 5") == ["valve"]
    assert looked(retriever, "ab-7") == ["pump"]


def test_results_are_the_contents_with_their_scores(retriever: KeywordRetriever) -> None:
    [found] = retriever.retrieve(Query("spare"))
    assert found.score is not None
    assert found.score > 0
    assert found == Content(NOTE.text, "note", NOTE.metadata, found.score)


def test_contents_with_equal_scores_keep_their_order() -> None:
    retriever = KeywordRetriever(max_results=2)
    retriever.add([Content("red", name) for name in "abc"])
    assert looked(retriever, "red") == ["a", "b"]


@pytest.mark.parametrize("text", ["", "the", "?!"])
def test_a_query_without_words_finds_nothing(retriever: KeywordRetriever, text: str) -> None:
    assert looked(retriever, text) == []


@pytest.mark.parametrize("texts", [[], [""], ["the", "?"]])
def test_contents_without_words_are_kept_and_not_found(texts: list[str]) -> None:
    retriever = KeywordRetriever()
    retriever.add([Content(text, f"{at}") for at, text in enumerate(texts)])
    assert len(retriever) == len(texts)
    assert looked(retriever, "anything") == []


def test_a_content_replaces_one_with_the_same_id(retriever: KeywordRetriever) -> None:
    retriever.add([Content("A fan.", "pump")])
    assert len(retriever) == 3
    assert looked(retriever, "water") == ["valve"]
    assert looked(retriever, "fan") == ["pump"]


def test_contents_that_are_removed_are_not_found(retriever: KeywordRetriever) -> None:
    retriever.remove(["pump", "unknown"])
    assert looked(retriever, "water") == ["valve"]
    retriever.remove(["valve", "note"])
    assert (len(retriever), looked(retriever, "water")) == (0, [])


def test_the_metadata_of_results_match_the_filter() -> None:
    retriever = KeywordRetriever(max_results=1, filter={"year": 2})
    retriever.add([PUMP, VALVE, NOTE])
    assert looked(retriever, "water pump") == ["valve"]


def test_a_function_returns_the_filter_for_a_query() -> None:
    retriever = KeywordRetriever(filter=lambda query: {"year": len(query.text.split())})
    retriever.add([PUMP, VALVE])
    assert looked(retriever, "water") == ["pump"]
    assert looked(retriever, "water please") == ["valve"]


def test_stop_words_are_those_of_the_language() -> None:
    retriever = KeywordRetriever(words="german")
    retriever.add([Content("Die Pumpe und das Ventil", "1")])
    assert looked(retriever, "die und das") == []
    assert looked(retriever, "welches ventil") == ["1"]


def test_composed_and_decomposed_accents_match() -> None:
    retriever = KeywordRetriever()
    retriever.add([Content("cafe\N{COMBINING ACUTE ACCENT}", "1")])
    assert looked(retriever, "caf\N{LATIN SMALL LETTER E WITH ACUTE}") == ["1"]


def test_a_language_without_spaces_is_split_by_a_function() -> None:
    retriever = KeywordRetriever(words=list)
    retriever.add([Content("東京の水", "1"), Content("大阪", "2")])
    assert looked(retriever, "水") == ["1"]


def test_words_with_the_same_stem_match() -> None:
    retriever = KeywordRetriever(stem=lambda words: [word.rstrip("s") for word in words])
    retriever.add([PUMP, NOTE])
    assert looked(retriever, "pumps") == ["pump"]


def test_an_unknown_language_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="klingon") as caught:
        KeywordRetriever(words="klingon")
    assert str(caught.value) == (
        "KeywordRetriever: bm25s has no stop words for the language 'klingon'; pass one of its languages, "
        "such as 'english', or a function that returns the words of a text"
    )


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ImportError) as caught:
        KeywordRetriever()
    assert (
        str(caught.value) == 'KeywordRetriever needs the package bm25s: pip install "aiservices[retrieval]"'
    )


def test_a_content_of_both_retrievers_appears_once_and_first(retriever: KeywordRetriever) -> None:
    by_meaning = [Content(NOTE.text, "note", NOTE.metadata, 0.9), Content(VALVE.text, "valve", score=0.8)]
    by_words = retriever.retrieve(Query("water pipe"))
    assert ids(by_words) == ["valve", "pump"]
    assert ids(ReciprocalRankFusion().fuse([by_meaning, by_words])) == ["valve", "note", "pump"]


def test_contents_can_be_added_and_searched_in_several_threads() -> None:
    retriever = KeywordRetriever(max_results=100)
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(5):
                retriever.add([Content(f"red thing{number}", f"{number}-{at}")])
                assert len(looked(retriever, f"thing{number}")) == at + 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert len(looked(retriever, "red")) == 20


def test_texts_are_accepted_as_contents_and_queries() -> None:
    retriever = KeywordRetriever()
    retriever.add(["A text about cats", "Dogs bark"])
    assert [content.text for content in retriever.retrieve("cats")] == ["A text about cats"]


def test_other_objects_are_definition_errors() -> None:
    retriever: Any = KeywordRetriever()
    for call, message in (
        (lambda: retriever.add("a text"), "add: the contents are str; pass a list of texts or contents"),
        (
            lambda: retriever.add(["a text", 2]),
            "add: content 2 is int; pass a text or a Content (contents_of converts documents)",
        ),
        (lambda: retriever.retrieve(2), "retrieve: the query is int; pass a text or a Query"),
    ):
        with pytest.raises(DefinitionError) as caught:
            call()
        assert str(caught.value) == f"KeywordRetriever.{message}"


def test_debug_messages_of_bm25s_are_not_shown_by_default() -> None:
    program = (
        "import logging; logging.basicConfig(level=logging.WARNING)\n"
        "from aiservices.retrieval import KeywordRetriever\n"
        "retriever = KeywordRetriever(); retriever.add(['a text']); retriever.retrieve('text')\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stderr == ""
