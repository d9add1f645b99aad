"""An evaluation calls each case several times, and raises errors or reports them."""

import asyncio

import pytest

from aiservices import DefinitionError
from aiservices.testing import Case, aevaluate, evaluate, exact


def test_each_case_is_called_as_often_as_repeat_says() -> None:
    answers = iter("aabbab")
    cases = [Case({"text": "1"}, "a"), Case({"text": "2"}, "b"), Case({"text": "3"}, "a")]
    report = evaluate(lambda text: next(answers), cases, [exact()], repeat=2, max_concurrency=1)
    summary = report.summary("exact")
    assert [outcome.name for outcome in report.outcomes] == ["1", "1", "2", "2", "3", "3"]
    assert (summary.cases, summary.value, summary.runs) == (3, 5 / 6, (1.0, 2 / 3))
    assert summary.interval is not None
    assert 0 <= summary.interval.low < 5 / 6 < summary.interval.high == 1.0
    assert "exact: 2 runs, from 0.667 to 1" in str(report)


def test_repeated_answers_to_the_same_cases_do_not_make_the_interval_smaller() -> None:
    cases = [Case({"text": text}, "a") for text in "aab"]
    widths = []
    for repeat in (2, 20):
        interval = evaluate(lambda text: text, cases, [exact()], repeat=repeat).summary("exact").interval
        assert interval is not None
        widths.append(interval.high - interval.low)
    assert widths[0] == widths[1]


def failing(text: str) -> str:
    raise ValueError("no " + text)


def test_errors_are_raised_or_reported() -> None:
    cases = [Case({"text": "a"}, "a")]
    assert [str(error) for _, error in evaluate(failing, cases, [exact()]).errors] == ["no a"]
    with pytest.raises(ValueError, match="no a"):
        evaluate(failing, cases, [exact()], errors="raise")
    with pytest.raises(ValueError, match="no a"):
        asyncio.run(aevaluate(failing, cases, [exact()], errors="raise"))
    with pytest.raises(DefinitionError, match="repeat is 0; it must be a whole number of at least 1"):
        evaluate(failing, cases, [exact()], repeat=0)
