import asyncio
import json
from pathlib import Path
from typing import Protocol

import pytest

from aiservices import AiMessage, DefinitionError, Message, SystemMessage, UserMessage, create, user_message
from aiservices.models.scripted import ScriptedChatModel
from aiservices.testing import (
    Case,
    FakeChatModel,
    Judge,
    Report,
    aevaluate,
    brier,
    evaluate,
    exact,
    log_loss,
)
from output_parsers import Decision


def judged(*satisfied: bool) -> str:
    return json.dumps(
        {
            f"criterion_{number}": {"reason": f"reason {number}", "satisfied": one}
            for number, one in enumerate(satisfied, 1)
        }
    )


class Desk(Protocol):
    @user_message("{{question}}")
    def reply(self, question: str) -> str: ...


def test_a_check_names_the_criteria_that_are_not_satisfied_with_their_reasons() -> None:
    model = ScriptedChatModel([judged(True, False), judged(True, True)])
    with pytest.raises(AssertionError) as caught:
        Judge(model).check("It is on Friday.", "is polite", "mentions no date", given="When?")
    assert str(caught.value) == (
        "1 of 2 criteria are not satisfied:\n- mentions no date: reason 2\nThe text: It is on Friday."
    )
    Judge(model).check("Sorry.", "is polite", "mentions no date")


def test_a_judge_sees_the_criteria_the_conversation_and_the_sources_in_one_request() -> None:
    model = FakeChatModel()
    given: list[Message] = [SystemMessage("Be kind."), UserMessage("When?"), AiMessage("Which one?")]
    Judge(model).verdicts("Friday", "is kind", "names a day", given=given, based_on=["It is on Friday."])
    (request,) = model.requests
    text = request.messages[-1].text
    for part in ("criterion_1: is kind", "criterion_2: names a day", "System: Be kind.", "User: When?"):
        assert part in text
    assert "<source>\nIt is on Friday.\n</source>" in text
    assert text.endswith("<text>\nFriday\n</text>")


@pytest.mark.parametrize("criteria", [(), ("",), ("is kind", 3)])
def test_criteria_are_texts(criteria: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError, match=r"Judge: criteria is .*write texts"):
        Judge(FakeChatModel()).verdicts("x", *criteria)


def test_a_report_has_the_reasons_of_a_judge_and_its_tokens_apart() -> None:
    desk = create(Desk, ScriptedChatModel(["Yes.", "No."]))
    judge = Judge(ScriptedChatModel([judged(True, True), judged(False, True)]))
    cases: list[Case[str]] = [Case({"question": "Open?"}, name="a"), Case({"question": "Closed?"}, name="b")]
    report = evaluate(desk.reply, cases, [judge.scorer("agrees", "is short")], max_concurrency=1)
    assert [outcome.scores["judge"] for outcome in report.outcomes] == [True, False]
    assert [dict(outcome.reasons) for outcome in report.outcomes] == [{}, {"judge": "reason 1"}]
    assert "b, judge: reason 1" in str(report)


# --- Repetitions, errors and baselines ---


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


def test_a_report_is_compared_with_a_baseline(tmp_path: Path) -> None:
    file = f"{tmp_path}/baseline.json"
    cases = [Case({"text": text}, text, name=text) for text in "abcd"]
    evaluate(lambda text: text, cases, [exact()]).save(file)
    same = evaluate(lambda text: text, cases, [exact()]).compare(file)
    assert same.worse == ()
    changed = [Case({"text": "A"}, "a", name="a"), *cases[1:], Case({"text": "e"}, "e", name="e")]
    report = evaluate(lambda text: "x", changed, [exact(), exact("again")])
    comparison = report.compare(file)
    (difference,) = comparison.worse
    assert (difference.before, difference.after, difference.cases) == (1.0, 0.0, 3)
    assert difference.worse_cases == ("b", "c", "d")
    assert comparison.not_compared == (
        "the case a has changed",
        "the case e is only in one report",
        "the scorer again is only in one report",
    )
    assert str(comparison).splitlines()[2].split() == "exact 3 1 0 -1 -1 b, c, d".split()


@pytest.mark.parametrize(
    ("before", "after", "is_worse", "worse_cases"), [(0.6, 0.9, False, ()), (0.9, 0.6, True, ("a", "b"))]
)
def test_a_higher_loss_is_worse(
    before: float, after: float, is_worse: bool, worse_cases: tuple[str, ...], tmp_path: Path
) -> None:
    def certain(probability: float) -> Report[Decision[bool]]:
        cases = [Case({"text": text}, True, name=text) for text in "ab"]
        decision = Decision(True, {True: probability, False: 1 - probability})
        return evaluate(lambda text: decision, cases, [brier(), log_loss()])

    file = certain(before).save(tmp_path / "baseline.json")
    comparison = certain(after).compare(file)
    assert [one.worse_cases for one in comparison.differences] == [worse_cases] * 2
    assert [one.scorer for one in comparison.worse] == (["brier", "log loss"] if is_worse else [])


def test_a_baseline_needs_names_that_are_unique_and_a_file_that_can_be_read(
    tmp_path: Path,
) -> None:
    report = evaluate(lambda text: text, [Case({"text": "a"}, "a", name="x")] * 2, [exact()])
    with pytest.raises(DefinitionError, match="two cases have the name x"):
        report.save(f"{tmp_path}/a.json")
    report = evaluate(lambda text: text, [Case({"text": "a"}, "a", name="x")], [exact()])
    with pytest.raises(DefinitionError, match=r"write it with report\.save"):
        report.compare(f"{tmp_path}/none.json")
