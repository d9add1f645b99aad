"""Synthesizer answers from more text than fits in one request, in each mode."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from synthesis_replies import PROMPTS, Counted, counting

from aiservices import (
    Budget,
    BudgetExceededError,
    ChatRequest,
    DefinitionError,
    ModelServerError,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
)
from aiservices.retrieval import Content
from aiservices.synthesis import ResponseMode, SynthesisPrompts, Synthesizer

PARTS = [Content("one", "a"), Content("two two", "b"), Content("three", "c"), Content("four", "d")]
MODES = list(ResponseMode)
Ask = Callable[[Synthesizer[Any], str, Sequence[Any]], Result[Any]]


def blocking(made: Synthesizer[Any], question: str, chunks: Sequence[Any]) -> Result[Any]:
    return made.synthesize(question, chunks)


def awaited(made: Synthesizer[Any], question: str, chunks: Sequence[Any]) -> Result[Any]:
    return asyncio.run(made.asynthesize(question, chunks))


def texts(model: ScriptedChatModel) -> list[str]:
    return [request.messages[-1].text for request in model.requests]


both = pytest.mark.parametrize("ask", [blocking, awaited])


@both
def test_refine_sends_one_content_after_the_other(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    result = ask(Synthesizer(model, "refine", Counted, prompts=PROMPTS), "how?", PARTS)
    assert texts(model) == [
        "answer how? of [a]\none",
        'refine {"words": 5, "sources": ["a"]} for how? by [b]\ntwo two',
        'refine {"words": 11, "sources": ["b"]} for how? by [c]\nthree',
        'refine {"words": 10, "sources": ["c"]} for how? by [d]\nfour',
    ]
    assert result.value == Counted(10, ["d"])
    assert (result.sources, len(result.attempts), result.reply) == (
        tuple(PARTS),
        4,
        result.attempts[-1].reply,
    )


@both
def test_compact_packs_as_many_contents_as_fit(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    result = ask(
        Synthesizer(model, ResponseMode.COMPACT, Counted, max_characters=20, prompts=PROMPTS), "how?", PARTS
    )
    assert texts(model) == [
        "answer how? of [a]\none\n\n[b]\ntwo two",
        'refine {"words": 8, "sources": ["a", "b"]} for how? by [c]\nthree\n\n[d]\nfour',
    ]
    assert result.value == Counted(13, ["c", "d"])


@both
def test_a_tree_is_summarized_until_everything_fits(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    made = Synthesizer(model, "tree_summarize", Counted, max_characters=27, prompts=PROMPTS)
    result = ask(made, "how?", PARTS)
    assert sorted(texts(model)[:2]) == [
        "summarize for how?: [a]\none\n\n[b]\ntwo two",
        "summarize for how?: [c]\nthree\n\n[d]\nfour",
    ]
    assert texts(model)[2:] == ["combine for how?: read a and b\n\nread c and d"]
    assert len(result.attempts) == len(model.requests)
    assert isinstance(result.value, Counted)


@both
def test_a_tree_that_fits_at_once_needs_one_request(ask: Ask) -> None:
    model = ScriptedChatModel(['{"value": 7}'])
    assert ask(Synthesizer(model, "tree_summarize", int, prompts=PROMPTS), "how?", PARTS).value == 7
    assert texts(model) == ["combine for how?: [a]\none\n\n[b]\ntwo two\n\n[c]\nthree\n\n[d]\nfour"]


@both
def test_a_tree_whose_summaries_do_not_get_fewer_is_refined(ask: Ask) -> None:
    def wordy(request: ChatRequest) -> str:
        return '{"value": 1}' if request.response_format else "no shorter"

    model = ScriptedChatModel(wordy)
    ask(Synthesizer(model, "tree_summarize", int, max_characters=11, prompts=PROMPTS), "how?", PARTS[:2])
    assert sorted(texts(model)[:2]) == ["summarize for how?: [a]\none", "summarize for how?: [b]\ntwo two"]
    assert texts(model)[2:] == [
        "answer how? of no shorter",
        'refine {"value": 1} for how? by no shorter',
    ]


@both
def test_accumulate_answers_from_each_content(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    result = ask(Synthesizer(model, "accumulate", Counted, prompts=PROMPTS), "how?", PARTS)
    assert result.value == [Counted(5, ["a"]), Counted(6, ["b"]), Counted(5, ["c"]), Counted(5, ["d"])]
    assert len(result.attempts) == 4


@both
def test_simple_summarize_sends_one_request(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    result = ask(Synthesizer(model, "simple_summarize", Counted, prompts=PROMPTS), "how?", PARTS)
    assert texts(model) == ["answer how? of [a]\none\n\n[b]\ntwo two\n\n[c]\nthree\n\n[d]\nfour"]
    assert result.value == Counted(12, ["a", "b", "c", "d"])


def test_simple_summarize_cuts_the_long_contents_to_fit() -> None:
    pytest.importorskip("semantic_text_splitter", reason="install the extra retrieval of aiservices")
    model = ScriptedChatModel(counting)
    contents = [Content("word " * 20, "a"), Content("short", "b"), Content("other " * 20, "c")]
    Synthesizer(model, "simple_summarize", Counted, max_characters=50, prompts=PROMPTS).synthesize(
        "how?", contents
    )
    assert texts(model) == ["answer how? of [a]\nword word word\n\n[b]\nshort\n\n[c]\nother other"]


@pytest.mark.parametrize("mode", MODES)
def test_no_request_exceeds_max_characters(mode: Any) -> None:
    pytest.importorskip("semantic_text_splitter", reason="install the extra retrieval of aiservices")
    model = ScriptedChatModel(lambda request: '{"value": 1}' if request.response_format else "brief")

    def words(text: str) -> int:
        return len(text.split())

    made = Synthesizer(model, mode, int, max_tokens=12, count_tokens=words, prompts=PROMPTS)
    made.synthesize("how?", [Content("very long text " * 30, "a"), Content("short", "b")])
    events = [re.split(r" of | by |\?: ", text, maxsplit=1)[1] for text in texts(model)]
    assert max(map(words, events)) <= 12


def test_contents_without_ids_get_ids() -> None:
    model = ScriptedChatModel(['{"value": 7}'])
    result = Synthesizer(model, "compact", int, prompts=PROMPTS).synthesize("how?", ["one", "two"])
    assert texts(model) == ["answer how? of [chunk-1]\none\n\n[chunk-2]\ntwo"]
    assert [source.id for source in result.sources] == ["chunk-1", "chunk-2"]


def test_concurrent_questions_respect_max_concurrency() -> None:
    lock, running, most = threading.Lock(), 0, 0
    pair = threading.Barrier(2, timeout=5)

    def answered(request: ChatRequest) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait()
        with lock:
            running -= 1
        return '{"value": 1}'

    made = Synthesizer(ScriptedChatModel(answered), "accumulate", int, max_concurrency=2)
    assert made.synthesize("how?", PARTS).value == [1, 1, 1, 1]
    assert most == 2


@both
def test_each_question_has_its_own_attempts_and_the_result_has_all(ask: Ask) -> None:
    down = ModelServerError("down", retryable=True)
    model = ScriptedChatModel(["no number", '{"value": 1}', down, '{"value": 2}'])
    made = Synthesizer(model, "refine", int, prompts=PROMPTS, budget=Budget(max_attempts=2, first_wait=0))
    result = ask(made, "how?", PARTS[:2])
    assert (result.value, len(result.attempts)) == (2, 4)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_concurrent_questions_do_not_share_their_attempts() -> None:
    made = Synthesizer(ScriptedChatModel(lambda request: '{"value": 1}'), "accumulate", int)
    result = made.synthesize("how?", [f"text {number}" for number in range(400)])
    assert (result.value, len(result.attempts)) == ([1] * 400, 400)


@both
def test_the_tokens_of_the_budget_are_for_all_questions_together(ask: Ask) -> None:
    model = ScriptedChatModel(counting)
    made = Synthesizer(model, "refine", Counted, prompts=PROMPTS, budget=Budget(tokens=20))
    with pytest.raises(BudgetExceededError) as caught:
        ask(made, "how?", PARTS)
    assert caught.value.limit == "tokens"
    assert len(model.requests) == len(caught.value.attempts) == 2


@both
def test_an_answer_that_cannot_be_read_ends_it_with_all_attempts(ask: Ask) -> None:
    model = ScriptedChatModel(['{"value": 1}', "none", "none"])
    made = Synthesizer(model, "refine", int, prompts=PROMPTS, budget=Budget(max_attempts=2))
    with pytest.raises(ServiceOutputError) as caught:
        ask(made, "how?", PARTS)
    assert len(caught.value.attempts) == 3


@both
def test_after_a_failure_no_more_questions_start(ask: Ask) -> None:
    model = ScriptedChatModel([ModelServerError("down"), '{"value": 1}', '{"value": 2}', '{"value": 3}'])
    made = Synthesizer(model, "accumulate", int, max_concurrency=1)
    with pytest.raises(ModelServerError):
        ask(made, "how?", PARTS)
    assert len(model.requests) <= 2


def test_questions_and_contents_are_never_templates() -> None:
    model = ScriptedChatModel(['{"value": 7}'])
    Synthesizer(model, "compact", int, prompts=PROMPTS).synthesize("{{ 6 * 6 }}", ["{{question}}"])
    assert texts(model) == ["answer {{ 6 * 6 }} of [chunk-1]\n{{question}}"]


@pytest.mark.parametrize("mode", MODES)
def test_the_default_prompts_work(mode: Any) -> None:
    model = ScriptedChatModel(counting)
    limit = 50 if mode is ResponseMode.SIMPLE_SUMMARIZE else 34
    Synthesizer(model, mode, Counted, max_characters=limit).synthesize("How many words?", PARTS)
    assert all("How many words?" in text and "---------------------\n" in text for text in texts(model))


def test_no_chunks_is_an_error() -> None:
    made = Synthesizer(ScriptedChatModel([]), "compact", int)
    with pytest.raises(ValueError, match=r"^there are no chunks to answer from; pass at least one$"):
        made.synthesize("how?", [])


def test_an_id_that_leaves_no_room_for_text_is_an_error() -> None:
    made = Synthesizer(ScriptedChatModel([]), "compact", int, max_characters=5)
    message = (
        "the id 'a-long-id' leaves no room for text within max_characters=5; "
        "raise max_characters or shorten the ids"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made.synthesize("how?", [Content("text", "a-long-id")])


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        (
            "guess",
            {},
            "Synthesizer: the mode 'guess' is unknown; the modes are: refine, compact, tree_summarize, "
            "accumulate, simple_summarize",
        ),
        ("refine", {"max_characters": 0}, "Synthesizer: max_characters is 0; it must be at least 1"),
        ("refine", {"max_concurrency": 0}, "Synthesizer: max_concurrency is 0; it must be at least 1"),
        ("refine", {"max_tokens": 9}, "Synthesizer: max_tokens and count_tokens must be passed together"),
        ("refine", {"count_tokens": len}, "Synthesizer: max_tokens and count_tokens must be passed together"),
        (
            "refine",
            {"max_tokens": 0, "count_tokens": len},
            "Synthesizer: max_tokens is 0; it must be at least 1",
        ),
    ],
)
def test_wrong_settings_are_definition_errors(mode: Any, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Synthesizer(ScriptedChatModel([]), mode, int, **more)
    assert [str(problem) for problem in caught.value.problems] == [expected]


def test_a_prompt_without_a_variable_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        Synthesizer(ScriptedChatModel([]), "refine", int, prompts=SynthesisPrompts(answer="{{question}}"))
    assert ["information" in str(problem) for problem in caught.value.problems] == [True]
    assert str(caught.value.problems[0]).startswith("Synthesis.answer: ")
