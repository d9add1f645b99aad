"""A report is saved, and a later one is compared with it."""

from pathlib import Path

import pytest

from aiservices import DefinitionError
from aiservices.testing import Case, Report, brier, evaluate, exact, log_loss
from output_parsers import Decision


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
