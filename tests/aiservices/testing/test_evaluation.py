"""An evaluation calls a method for each case, scores the answers, and counts requests and tokens."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Protocol

import pytest
from loopback import MAX_WAIT
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    AsyncStream,
    ChatReply,
    Decision,
    DefinitionError,
    ModelServerError,
    Result,
    ScriptedChatModel,
    Stream,
    Usage,
    create,
    user_message,
)
from aiservices.testing import (
    Case,
    Interval,
    Report,
    Scorer,
    Summary,
    aevaluate,
    brier,
    close_to,
    contains,
    evaluate,
    exact,
    log_loss,
    mean_interval,
    scored_by,
    similar,
    wilson_interval,
)
from aiservices.testing.report import html_report, t_quantile

JSON = {"2 + 2": '{"value": 4}', "2 * 3": '{"value": 6}', "1 + 1": '{"value": 3}', "7": "no idea"}


class Sums(Protocol):
    @user_message("{{sum}}")
    def value(self, sum: str) -> int: ...
    @user_message("{{sum}}")
    async def later(self, sum: str) -> int: ...
    @user_message("{{sum}}")
    def result(self, sum: str) -> Result[int]: ...
    @user_message("{{sum}}")
    def growing(self, sum: str) -> Stream[int]: ...
    @user_message("{{sum}}")
    def agrowing(self, sum: str) -> AsyncStream[int]: ...


def sums(**settings: Any) -> Sums:
    return create(
        Sums, ScriptedChatModel(lambda request: JSON[request.messages[0].text]), retry=None, **settings
    )


class Ticket(BaseModel):
    title: str


CASES = [
    Case({"sum": "2 + 2"}, 4, "addition"),
    Case({"sum": "2 * 3"}, 6),
    Case({"sum": "1 + 1"}, 2),
]


@pytest.mark.parametrize("method", ["value", "later", "result", "growing", "agrowing"])
def test_methods_of_every_shape_are_evaluated_alike(method: str) -> None:
    report = evaluate(getattr(sums(), method), CASES, [exact()])
    assert [one.value for one in report.outcomes] == [4, 6, 3]
    assert [one.scores for one in report.outcomes] == [{"exact": True}, {"exact": True}, {"exact": False}]
    assert [one.name for one in report.outcomes] == ["addition", "2", "3"]
    assert report.method == f"Sums.{method} → scripted"
    assert report.summary("exact") == Summary("exact", True, 3, 2 / 3, wilson_interval(2, 3))
    assert (report.attempts, report.usage) == (3, Usage(9, 6))


def test_iterators_are_drained() -> None:
    class Talk(Protocol):
        def words(self, text: str) -> Iterator[str]: ...
        def numbers(self, text: str) -> Iterator[int]: ...
        def awords(self, text: str) -> AsyncIterator[str]: ...
        def anumbers(self, text: str) -> AsyncIterator[int]: ...

    talk = create(Talk, ScriptedChatModel(lambda request: '{"value": [1, 2]}'))
    case = [Case({"text": "x"}, [1, 2])]
    for method in (talk.numbers, talk.anumbers):
        assert evaluate(method, case, [exact()]).values == [[1, 2]]
    for words in (talk.words, talk.awords):
        assert evaluate(words, case, []).values == ['{"value": [1, 2]}']


def test_a_failed_call_is_in_the_report_and_counts_as_false() -> None:
    report = evaluate(sums().value, [*CASES, Case({"sum": "7"}, 7)], [exact(), scored_by(closeness)])
    failed = report.outcomes[3]
    assert failed.value is None
    assert str(failed.error).startswith("Sums.value: cannot read the reply: ")
    assert (failed.attempts, failed.usage, failed.scores) == (1, Usage(1, 2), {})
    assert report.summary("exact") == Summary("exact", True, 4, 0.5, wilson_interval(2, 4))
    assert report.summary("closeness") == Summary("closeness", False, 3, 2 / 3, mean_interval([1, 1, 0]))
    assert report.errors == [("4", failed.error)]


def closeness(value: int, expected: int) -> float:
    return 1.0 - abs(value - expected)


def test_missing_arguments_are_errors_of_their_case() -> None:
    report = evaluate(sums().value, [CASES[0], Case({}, 2)], [exact()])
    assert str(report.outcomes[1].error) == "Sums.value: missing a required argument: 'sum'"


def test_a_misspelt_argument_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="case 2 does not fit the method: it has no parameter smu"):
        evaluate(sums().value, [CASES[0], Case({"smu": "2"}, 2)], [exact()])


def test_a_function_that_returns_a_result_is_evaluated_with_its_attempts() -> None:
    service = sums()

    def asks(sum: str) -> Result[int]:
        return service.result(sum)

    matches = evaluate(asks, CASES[:1], [exact()])
    assert (matches.values, matches.summary("exact").value) == ([4], 1)
    assert (matches.attempts, matches.usage) == (1, Usage(3, 2))


def test_any_function_can_be_compared() -> None:
    def guess(sum: str) -> int:
        return 4

    report = evaluate(guess, CASES, [exact()])
    assert (report.values, report.attempts, report.usage) == ([4, 4, 4], 0, Usage())
    assert report.method.endswith("guess")


@pytest.mark.parametrize(
    ("scorer", "value", "expected", "score"),
    [
        (exact(), 1, True, False),
        (exact(), [1, "a"], [1, "a"], True),
        (contains(), "Green tea", "tea", True),
        (contains(), "Green tea", "TEA", False),
        (contains(ignore_case=True), "Green tea", ["TEA", "green"], True),
        (contains(), ["a", "b"], ["a", "c"], False),
        (contains(), {"a": 1}, "a", True),
        (brier(), Decision("a", {"a": 0.5, "b": 0.5}), "a", 0.25),
        (log_loss(), Decision("a", {"a": 0.5, "b": 0.5}), "b", math.log(2)),
        (close_to(), 0.1 + 0.2, 0.3, True),
        (close_to(rel=0.1), 105, 100, True),
        (close_to(abs=0.5), 1.6, 1.0, False),
        (scored_by(lambda value, expected: len(value) - expected, "length"), "four", 1, 3),
        (scored_by(lambda text: len(text), "argument"), "x", None, 3),
        (scored_by(lambda **known: sorted(known) == ["expected", "text", "value"], "all"), "x", None, True),
    ],
    ids=lambda one: one.name if isinstance(one, Scorer) else None,
)
def test_scorers(scorer: Scorer[Any], value: Any, expected: Any, score: Any) -> None:
    def answers(text: str) -> Any:
        return value

    report = evaluate(answers, [Case({"text": "abc"}, expected)], [scorer])
    given = report.outcomes[0].scores[scorer.name]
    assert (given, type(given)) == (score, type(score))


def test_the_decisions_of_a_service_are_compared_with_expected_answers() -> None:
    class Desk(Protocol):
        @user_message("Is this spam?\n\n{{text}}")
        async def is_spam(self, text: str) -> Result[Decision[bool]]: ...

    shares = {"$.value": ((True, 0.8), (False, 0.2))}
    reply = ChatReply(AiMessage('{"value": true}'), probabilities=shares, model="stub")
    desk = create(Desk, ScriptedChatModel([reply] * 4))
    cases = [Case({"text": "x"}, right) for right in (True, True, True, False)]
    report = evaluate(desk.is_spam, cases, [brier(), log_loss()])
    assert report.summary("brier").value == pytest.approx((3 * 0.04 + 0.64) / 4)
    assert report.reliability is not None
    (one,) = report.reliability.bins
    assert (one.cases, one.stated, one.observed) == (4, 0.8, 0.75)
    (coverage, error) = report.reliability.thresholds[3][1:3]
    assert (coverage, error) == (1.0, 0.25)
    assert "threshold  coverage  error  upper bound" in str(report)


def test_the_tokens_of_a_judge_are_counted_separately() -> None:
    class Judge(Protocol):
        @user_message("Is {{value}} a right answer to {{sum}}?")
        def right(self, sum: str, value: int) -> bool: ...
        @user_message("Is {{value}} a right answer to {{sum}}?")
        async def aright(self, sum: str, value: int) -> bool: ...

    model = ScriptedChatModel(
        lambda request: '{"value": true}' if "4" in request.messages[0].text else "false"
    )
    judge = create(Judge, model)
    for method in (judge.right, judge.aright):
        report = evaluate(sums().value, CASES[:2], [scored_by(method, "judge")])
        assert [one.scores for one in report.outcomes] == [{"judge": True}, {"judge": False}]
        assert (report.usage, report.judge_usage) == (Usage(6, 4), Usage(18, 3))
    assert model.requests[0].messages[0].text == "Is 4 a right answer to 2 + 2?"


def test_a_case_whose_scorer_fails_is_left_out_of_its_summary() -> None:
    def picky(value: int) -> bool:
        return bool(1 / (value - 6)) or True

    report = evaluate(sums().value, CASES, [scored_by(picky), exact()])
    assert report.summary("picky") == Summary("picky", True, 2, 1.0, wilson_interval(2, 2))
    assert [(name, str(error)) for name, error in report.errors] == [("2, picky", "division by zero")]


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (lambda value: "good", "the scorer it returned 'good'; it must return True, False or a number"),
        (lambda value: float("nan"), "the scorer it returned nan; it must return True, False or a number"),
        (lambda question: True, "<lambda> asks for question; there are sum, expected, value"),
    ],
)
def test_an_invalid_score_is_an_error_in_the_report(scorer: Callable[..., Any], message: str) -> None:
    report = evaluate(sums().value, CASES[:1], [scored_by(scorer, "it")])
    assert [str(error) for _, error in report.errors] == [message]
    assert report.summary("it") == Summary("it", True, 0, None, None)


def test_a_scorer_with_positional_only_parameters_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        scored_by(lambda value, /: True, "it")
    assert str(caught.value) == (
        "<lambda>: it must take its parameters by name: value, expected, or those of a case"
    )


@pytest.mark.parametrize("asynchronous", [True, False])
def test_at_most_max_concurrency_calls_run_at_a_time(asynchronous: bool) -> None:
    running, most, lock = 0, 0, threading.Lock()
    three_threads, three_tasks = threading.Barrier(3), asyncio.Barrier(3)

    def entered(step: int) -> None:
        nonlocal running, most
        with lock:
            running += step
            most = max(most, running)

    def blocks(number: int) -> int:
        entered(1)
        three_threads.wait(MAX_WAIT)  # never passed if fewer run at the same time
        entered(-1)
        return number

    async def waits(number: int) -> int:
        entered(1)
        async with asyncio.timeout(MAX_WAIT):
            await three_tasks.wait()
        entered(-1)
        return number

    cases = [Case({"number": number}, number) for number in range(12)]
    report: Report[int] = evaluate(waits if asynchronous else blocks, cases, [exact()], max_concurrency=3)
    assert report.values == list(range(12))
    assert most == 3


def test_in_an_event_loop_it_is_awaited() -> None:
    async def evaluated() -> list[Any]:
        with pytest.raises(RuntimeError) as caught:
            evaluate(sums().later, CASES, [exact()])
        assert str(caught.value) == "an event loop is running here: write await aevaluate(…)"
        reports = [await aevaluate(method, CASES, [exact()]) for method in (sums().later, sums().value)]
        return [report.values for report in reports]

    assert asyncio.run(evaluated()) == [[4, 6, 3], [4, 6, 3]]


@pytest.mark.parametrize(
    ("cases", "scorers", "settings", "message"),
    [
        ([], [], {}, "there are no cases to evaluate"),
        (
            CASES,
            [exact(), exact()],
            {},
            "2 scorers have the name exact; give each its own name",
        ),
        (CASES, [], {"max_concurrency": 0}, "max_concurrency is 0; it must be at least 1"),
        (CASES, [], {"confidence": 95}, "confidence is 95; it must be between 0 and 1"),
    ],
)
def test_invalid_settings_are_definition_errors(
    cases: Any, scorers: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        evaluate(sums().value, cases, scorers, **settings)
    assert str(caught.value) == f"evaluate: {message}"


@pytest.mark.parametrize(
    ("method", "cases", "scorers", "message"),
    [
        (
            sums(),
            CASES,
            [],
            "Sums cannot be called; pass a method, as in evaluate(desk.ticket, …)",
        ),
        (len, [*CASES, {"sum": "1"}], [], "case 4 is of type dict; write Case({…}, expected)"),
        (
            len,
            CASES,
            [exact],
            "exact is not a scorer; write the call, as in exact(), or scored_by(function)",
        ),
    ],
)
def test_arguments_of_the_wrong_type_are_definition_errors(
    method: Any, cases: Any, scorers: Any, message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        evaluate(method, cases, scorers)
    assert str(caught.value) == f"evaluate: {message}"


def test_contains_fails_for_a_record() -> None:
    def ticket() -> BaseModel:
        return Ticket(title="Pipe")

    report = evaluate(ticket, [Case({}, "Pipe")], [contains()])
    assert [str(error) for _, error in report.errors] == [
        "contains looks into a text, list, tuple, set or mapping, and the value is of type Ticket; "
        "write scored_by(function)"
    ]


@pytest.mark.parametrize("scorer", [exact("it"), contains("it"), close_to("it")])
def test_a_case_without_an_expected_value_is_not_counted(scorer: Scorer[Any]) -> None:
    report = evaluate(sums().value, [Case({"sum": "2 + 2"})], [scorer])
    assert [str(error) for _, error in report.errors] == [
        "the case has no expected value; write Case({…}, expected)"
    ]
    assert report.summary("it") == Summary("it", True, 0, None, None)


def test_a_scorer_that_needs_an_expected_value_fails_if_the_case_has_none() -> None:
    report = evaluate(sums().value, [Case({"sum": "2 + 2"})], [scored_by(closeness)])
    assert [str(error) for _, error in report.errors] == ["closeness asks for expected; there are sum, value"]


def test_none_may_be_expected() -> None:
    assert evaluate(lambda: None, [Case({}, None)], [exact()]).summary("exact").value == 1


def test_the_interval_of_a_rate_is_wilsons() -> None:
    # the first is the example of Newcombe, Statistics in Medicine 17 (1998), table I
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson_interval(5, 5)[1] == 1.0
    assert wilson_interval(0, 0) == Interval(0.0, 1.0)
    assert wilson_interval(50, 100, 0.99).low < wilson_interval(50, 100).low


@pytest.mark.parametrize(
    ("degrees", "value"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
)
def test_students_quantiles_are_those_of_the_tables(degrees: int, value: float) -> None:
    assert t_quantile(0.975, degrees) == pytest.approx(value, abs=5e-5)


def test_the_interval_of_a_mean_is_students_and_needs_two_values() -> None:
    assert mean_interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx((0.4457, 4.5543), abs=5e-5)
    assert mean_interval([2.0]) is None
    assert mean_interval([2.0, 2.0]) == Interval(2.0, 2.0)


def test_the_summary_of_an_unknown_scorer_is_a_key_error() -> None:
    with pytest.raises(KeyError) as caught:
        evaluate(sums().value, CASES, [exact()]).summary("close")
    assert caught.value.args == ("there is no scorer close; there are exact",)


def test_scores_that_are_numbers_have_no_mean_if_all_calls_failed() -> None:
    class Desk(Protocol):
        @user_message("Spam?\n\n{{text}}")
        def is_spam(self, text: str) -> Decision[bool]: ...

    service = create(Desk, ScriptedChatModel([ModelServerError("down")] * 2), retry=None)
    cases = [Case({"text": "x"}, True), Case({"text": "y"}, False)]
    report = evaluate(service.is_spam, cases, [brier(), log_loss(), exact()])
    assert report.summary("brier") == Summary("brier", False, 0, None, None)
    assert report.summary("log loss") == Summary("log loss", False, 0, None, None)
    assert report.summary("exact").value == 0
    assert "brier     mean  0      -" in str(report)


# --- tags ---


def test_a_report_has_the_scores_of_each_tag() -> None:
    def double(number: int) -> int:
        if number == 4:
            raise ValueError("no")
        return 2 * number

    cases = [
        Case({"number": 1}, 2, tags=("small",)),
        Case({"number": 2}, 5, tags=("small", "even")),
        Case({"number": 4}, 8, tags=("even",)),
        Case({"number": 9}, 18),
    ]
    report = evaluate(double, cases, [exact()])
    assert report.tags == ("small", "even")
    assert report.summary("exact", tag="small") == Summary("exact", True, 2, 0.5, wilson_interval(1, 2))
    assert report.summary("exact", tag="even") == Summary("exact", True, 2, 0.0, wilson_interval(0, 2))
    assert report.summary("exact") == Summary("exact", True, 4, 0.5, wilson_interval(2, 4))
    text, page = str(report), html_report(report)
    assert "tag    scorer  kind  cases  value  low     high" in text
    assert "small  exact   rate  2      0.5    0.0945  0.905" in text
    assert '<th scope="row">small</th><td>exact</td><td>rate</td>' in page
    with pytest.raises(KeyError, match="no case has the tag big; there are small, even"):
        report.summary("exact", tag="big")


def test_a_report_without_tags_does_not_mention_them() -> None:
    report = evaluate(sums().value, CASES, [exact()])
    assert (report.tags, "tag" in str(report), "tag" in html_report(report).partition("</style>")[2]) == (
        (),
        False,
        False,
    )


@pytest.mark.parametrize("tags", ["ab", (1,)])
def test_tags_must_be_texts(tags: Any) -> None:
    with pytest.raises(DefinitionError, match=r"Case: tags .*; (put it into a list|it must be a list)"):
        Case({"text": "x"}, tags=tags)


# --- similarity ---


class Letters:
    """An embedding model that counts letters."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Any:
        self.texts += texts
        return [[float(text.count(letter)) for letter in "abc"] for text in texts]


class AsyncLetters(Letters):
    async def embed(self, texts: Sequence[str], /) -> Any:
        await asyncio.sleep(0)
        return super().embed(texts)


@pytest.mark.parametrize("model", [Letters(), AsyncLetters()])
@pytest.mark.parametrize(
    ("value", "at_least", "score"),
    [("aab", 0.8, True), ("bbc", 0.8, False), ("bba", 0.8, True), ("ab", 1.0, False), ("ccc", None, 0.0)],
)
def test_similar_compares_embeddings(model: Any, value: str, at_least: float | None, score: Any) -> None:
    model.texts.clear()
    scorer = similar(model, at_least)
    report = evaluate(lambda text: text, [Case({"text": value}, "aabb")], [scorer])
    given = report.outcomes[0].scores["similar"]
    assert (given, type(given), model.texts) == (score, type(score), [value, "aabb"])
    if isinstance(model, AsyncLetters):
        report = asyncio.run(aevaluate(lambda text: text, [Case({"text": value}, "aabb")], [scorer]))
        assert report.outcomes[0].scores["similar"] == score


def test_similar_accepts_the_matrices_of_embedding_models() -> None:
    numpy = pytest.importorskip("numpy")

    class Model:
        def embed(self, texts: Sequence[str], /) -> Any:
            return numpy.array([[3.0, 4.0], [4.0, 3.0]], dtype=numpy.float32)

    report = evaluate(lambda text: text, [Case({"text": "a"}, "b")], [similar(Model(), None)])
    assert report.outcomes[0].scores["similar"] == pytest.approx(0.96)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "similar compares texts, and found a value of type int"),
        ("x", "the embedding model returned a vector of zeros, or one that is not finite"),
    ],
)
def test_similar_fails_for_values_that_have_no_similarity(value: Any, message: str) -> None:
    report = evaluate(lambda text: value, [Case({"text": "x"}, "a")], [similar(Letters())])
    assert [(name, str(error)) for name, error in report.errors] == [("1, similar", message)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("openai:x",), "similar: model is 'openai:x'; pass an EmbeddingModel"),
        ((Letters(), 80), "similar: at_least is 80; it must be a number from -1 to 1, or None"),
    ],
)
def test_wrong_arguments_of_similar_are_errors(arguments: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        similar(*arguments)
    assert str(caught.value) == message
