"""Evaluation reports with scores, confidence intervals, costs and cases, as text, tables or HTML."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pydantic_core import to_jsonable_python

from output_parsers.result.errors import shorten
from output_parsers.result.reading import JsonObject

from ..atomic_file import write_atomically
from ..decisions.reliability import BIN_COLUMNS, THRESHOLD_COLUMNS, Reliability, reliability_of
from ..models.arguments import checks_arguments
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Usage
from .scoring import Score

if TYPE_CHECKING:
    from jinja2 import Template

T_co = TypeVar("T_co", covariant=True)


class Interval(NamedTuple):
    """A confidence interval with its lower and upper bound.

    Attributes:
        low: The lower bound.
        high: The upper bound.
    """

    low: float
    high: float


class Outcome(NamedTuple):
    """The result of one call in an evaluation.

    Attributes:
        name: The name of the case, or its number.
        arguments: The arguments of the call.
        expected: The expected value of the case.
        value: The answer; None if the call failed.
        error: The error of the call, or None.
        scores: Each scorer's score, or the error that the scorer raised, by the scorer's name.
        attempts: The number of requests to the model.
        usage: The tokens of the call, excluding the judges.
        seconds: The wall time of the call, excluding the scorers.
        judge_usage: The tokens of scorers that call a model.
        tags: The tags of the case.
        reasons: Why a scorer gave its score, by the scorer's name, if it says so.
    """

    name: str
    arguments: Mapping[str, Any]
    expected: Any
    value: Any
    error: Exception | None
    scores: Mapping[str, Score | Exception]
    attempts: int
    usage: Usage
    seconds: float
    judge_usage: Usage
    tags: tuple[str, ...] = ()
    reasons: Mapping[str, str] = MappingProxyType({})


class Summary(NamedTuple):
    """The scores of one scorer over all test cases: a rate if all scores are bools, else a mean.

    A failed call counts as False in a rate and is left out of a mean. A call whose scorer failed is left out.

    Attributes:
        scorer: The name of the scorer.
        is_rate: True for a rate.
        cases: The number of cases that count.
        value: The rate or mean; None if no case counts.
        interval: Wilson's interval of a rate, Student's interval of a mean; for repeated cases, Student's
            interval of the means of the cases. None if there are too few cases.
        runs: With ``repeat``, the rate or mean of each run.
    """

    scorer: str
    is_rate: bool
    cases: int
    value: float | None
    interval: Interval | None
    runs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Report(Generic[T_co]):
    """The result of an evaluation; ``str(report)`` shows it as text with tables.

    Attributes:
        method: The method and its model, as ``Service.method → model``.
        outcomes: The result of each call, in the order of the cases; the calls of one case follow each other.
        scorers: The names of the scorers.
        confidence: The level of the intervals, for example 0.95.
        seconds: The wall time of the evaluation.
        means: The names of the scorers that are known to return numbers, even if no call succeeded.
        repeat: The number of calls of each case.
        losses: The names of the scorers whose lower scores are better.
    """

    method: str
    outcomes: tuple[Outcome, ...]
    scorers: tuple[str, ...]
    confidence: float
    seconds: float
    means: frozenset[str] = frozenset()
    repeat: int = 1
    losses: frozenset[str] = frozenset()

    @property
    def values(self) -> list[T_co]:
        """The values that the successful calls of an evaluation returned."""
        return [outcome.value for outcome in self.outcomes if outcome.error is None]

    @property
    def errors(self) -> list[tuple[str, Exception]]:
        """All errors in an evaluation, each with the name of its test case.

        The name for an error of a scorer is ``case, scorer``.
        """
        failed_calls = [
            (outcome.name, outcome.error) for outcome in self.outcomes if outcome.error is not None
        ]
        failed_scorers = [
            (f"{outcome.name}, {scorer}", error)
            for outcome in self.outcomes
            for scorer, error in _scorer_errors(outcome).items()
        ]
        return failed_calls + failed_scorers

    @property
    def attempts(self) -> int:
        """The number of model requests in all evaluated calls, excluding the scorers' requests."""
        return sum(outcome.attempts for outcome in self.outcomes)

    @property
    def usage(self) -> Usage:
        """The tokens used by all evaluated calls, excluding the scorers' tokens."""
        return sum((outcome.usage for outcome in self.outcomes), Usage())

    @property
    def judge_usage(self) -> Usage:
        """The tokens used by all scorers that let a model judge the answers."""
        return sum((outcome.judge_usage for outcome in self.outcomes), Usage())

    @property
    def reliability(self) -> Reliability | None:
        """The agreement of the probabilities of decisions with the expected answers.

        None if the method returned no Decisions with probabilities, or if no case has an expected answer.
        """
        values = [(one.value, one.expected) for one in self.outcomes if one.error is None]
        return reliability_of(values, self.confidence)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """The rate or mean of each scorer's scores, in the order of the scorers."""
        return tuple(self.summary(name) for name in self.scorers)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the cases, in order of first occurrence."""
        return tuple(dict.fromkeys(tag for outcome in self.outcomes for tag in outcome.tags))

    def _outcomes_with(self, tag: str | None) -> list[Outcome]:
        if tag is not None and tag not in self.tags:
            raise KeyError(f"no case has the tag {tag}; there are {', '.join(self.tags) or 'none'}")
        return [outcome for outcome in self.outcomes if tag is None or tag in outcome.tags]

    def _interval(self, by_case: list[list[float]], *, is_mean: bool) -> Interval | None:
        if self.repeat == 1 and not is_mean:
            numbers = [number for one in by_case for number in one]
            return wilson_interval(int(sum(numbers)), len(numbers), self.confidence)
        interval = mean_interval([fmean(one) for one in by_case], self.confidence)
        if interval is None or is_mean:
            return interval
        return Interval(max(0.0, interval.low), min(1.0, interval.high))

    def summary(self, scorer: str, tag: str | None = None) -> Summary:
        """Return the rate or mean of the scores of one scorer.

        Raises KeyError for an unknown name.

        With ``tag``, only the cases with that tag count.
        """
        if scorer not in self.scorers:
            raise KeyError(f"there is no scorer {scorer}; there are {', '.join(self.scorers)}")
        outcomes = self._outcomes_with(tag)
        scores = [one for outcome in outcomes if (one := _counted(outcome, scorer)) is not None]
        is_mean = scorer in self.means if not scores else not all(isinstance(one, bool) for one in scores)
        by_case = [
            numbers
            for start in range(0, len(outcomes), self.repeat)
            if (numbers := _numbers(outcomes[start : start + self.repeat], scorer, is_mean))
        ]
        if not by_case:
            return Summary(scorer, not is_mean, 0, None, None)
        numbers = [number for one in by_case for number in one]
        interval = self._interval(by_case, is_mean=is_mean)
        by_run = [_numbers(outcomes[run :: self.repeat], scorer, is_mean) for run in range(self.repeat)]
        runs = tuple(fmean(one) for one in by_run if one) if self.repeat > 1 else ()
        return Summary(scorer, not is_mean, len(by_case), fmean(numbers), interval, runs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the scores of each case to a JSON file, with which ``compare`` compares later reports."""
        file = Path(path)
        write_atomically(file, json.dumps(_baseline(self), indent=2, ensure_ascii=False) + "\n")
        return file

    def compare(self, path: str | os.PathLike[str]) -> Comparison:
        """Compare this evaluation with an earlier one that was written by ``save``.

        The cases are matched by their names. Raises DefinitionError for a file that cannot be read, and if
        two cases of this report have the same name.

            assert not report.compare("baseline.json").worse
        """
        return _compared(self, Path(path))

    def __str__(self) -> str:
        return _text_report(self)

    def show(self) -> None:
        """Print the evaluation report's tables, with colours if the package rich is installed."""
        _print_report(self)

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the evaluation report as one HTML file with plots, and return its path."""
        file = Path(path)
        write_atomically(file, html_report(self))
        return file


class Difference(NamedTuple):
    """The scores of one scorer in two evaluations, over the cases that both have.

    Attributes:
        scorer: The name of the scorer.
        cases: The number of cases that both have.
        before: The mean over these cases in the earlier evaluation.
        after: The mean over these cases now.
        interval: Student's interval of the mean difference of a case; None for fewer than two cases.
        worse_cases: The names of the cases with a worse score than before.
        lower_is_better: True if lower scores are better, as with ``brier()``.
    """

    scorer: str
    cases: int
    before: float
    after: float
    interval: Interval | None
    worse_cases: tuple[str, ...]
    lower_is_better: bool = False

    @property
    def is_worse(self) -> bool:
        """True if the score is worse, and the interval of the difference does not contain 0."""
        if self.lower_is_better:
            return self.after > self.before and (self.interval is None or self.interval.low > 0)
        return self.after < self.before and (self.interval is None or self.interval.high < 0)


class Comparison(NamedTuple):
    """An evaluation compared with an earlier one; ``str()`` converts it to a table.

    Attributes:
        differences: The difference of each scorer that both have.
        not_compared: The cases (with their arguments) and scorers that only one of them has or that have
            changed.
    """

    differences: tuple[Difference, ...]
    not_compared: tuple[str, ...]

    @property
    def worse(self) -> tuple[Difference, ...]:
        """The scorers with clearly worse scores than before."""
        return tuple(one for one in self.differences if one.is_worse)

    def __str__(self) -> str:
        rows = [
            (
                one.scorer,
                str(one.cases),
                _number(one.before),
                _number(one.after),
                *(("-", "-") if one.interval is None else map(_number, one.interval)),
                ", ".join(one.worse_cases) or "-",
            )
            for one in self.differences
        ]
        columns = ("scorer", "cases", "before", "after", "low", "high", "worse cases")
        return "\n".join([_text_table(columns, rows), *(f"not compared: {one}" for one in self.not_compared)])


_BASELINE_FORMAT = 1


def _baseline(report: Report[object]) -> JsonObject:
    """Return the scores of each case as JSON; raise DefinitionError if two cases have the same name."""
    cases: dict[str, object] = {}
    is_mean = {one.scorer: not one.is_rate for one in report.summaries}
    for start in range(0, len(report.outcomes), report.repeat):
        outcomes = report.outcomes[start : start + report.repeat]
        name = outcomes[0].name
        if name in cases:
            raise _wrong(f"two cases have the name {name}; give each its own name")
        case_data = to_jsonable_python((outcomes[0].arguments, outcomes[0].expected), fallback=repr)
        numbers = {scorer: _numbers(outcomes, scorer, is_mean[scorer]) for scorer in report.scorers}
        cases[name] = {
            "digest": sha256(json.dumps(case_data, sort_keys=True).encode()).hexdigest()[:16],
            "scores": {scorer: fmean(one) for scorer, one in numbers.items() if one},
        }
    return {
        "format": _BASELINE_FORMAT,
        "method": report.method,
        "scorers": list(report.scorers),
        "repeat": report.repeat,
        "cases": cases,
    }


def _read_baseline(path: Path) -> tuple[JsonObject, list[str]]:
    """Return the cases and the names of the scorers of a report that was saved."""
    try:
        before = json.loads(path.read_text("utf-8"))
        old, old_scorers = before["cases"], before["scorers"]
        if before["format"] != _BASELINE_FORMAT:
            raise ValueError(f"its format is {before['format']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{path} cannot be read: {type(error).__name__}: {error}; write it with report.save"
        raise _wrong(message) from error
    return old, old_scorers


def _differences(
    scorer: str, scores: list[tuple[str, float | None, float | None]], report: Report[object]
) -> Iterator[Difference]:
    """Yield the difference between the scores of two reports, if a case has both."""
    pairs = [(name, a, b) for name, a, b in scores if a is not None and b is not None]
    if pairs:
        interval = mean_interval([b - a for _, a, b in pairs], report.confidence)
        is_loss = scorer in report.losses
        worse = tuple(name for name, a, b in pairs if (b > a if is_loss else b < a))
        means = fmean(a for _, a, _ in pairs), fmean(b for _, _, b in pairs)
        yield Difference(scorer, len(pairs), *means, interval, worse, is_loss)


def _same_cases(new: JsonObject, old: JsonObject) -> tuple[list[str], list[str]]:
    """Return the names of the cases that are the same in two reports, and a note about each other one."""
    names, notes = list[str](), list[str]()
    for name in dict.fromkeys([*new, *old]):
        if name not in new or name not in old:
            notes.append(f"the case {name} is only in one report")
        elif new[name]["digest"] != old[name]["digest"]:
            notes.append(f"the case {name} has changed")
        else:
            names.append(name)
    return names, notes


def _compared(report: Report[object], path: Path) -> Comparison:
    old, old_scorers = _read_baseline(path)
    new = _baseline(report)["cases"]
    names, missing = _same_cases(new, old)
    both = [one for one in report.scorers if one in old_scorers]
    missing += [
        f"the scorer {one} is only in one report"
        for one in dict.fromkeys([*report.scorers, *old_scorers])
        if one not in both
    ]
    differences: list[Difference] = []
    for scorer in both:
        scores = [(name, old[name]["scores"].get(scorer), new[name]["scores"].get(scorer)) for name in names]
        missing += [
            f"{scorer} of the case {name} failed" for name, a, b in scores if (a is None) != (b is None)
        ]
        differences += _differences(scorer, scores, report)
    return Comparison(tuple(differences), tuple(missing))


def _wrong(message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem("Report", message)])


def _counted(outcome: Outcome, scorer: str) -> Score | None:
    """Return the score of a call, or None if the call or the scorer failed."""
    score = outcome.scores.get(scorer)
    return None if isinstance(score, Exception) else score


def _numbers(outcomes: Sequence[Outcome], scorer: str, is_mean: bool) -> list[float]:
    """Return the scores of calls as numbers; in a rate a failed call is 0."""
    scores = [
        False if outcome.error is not None and not is_mean else _counted(outcome, scorer)
        for outcome in outcomes
    ]
    return [float(score) for score in scores if score is not None]


# --- Confidence intervals ---


@checks_arguments
def wilson_interval(hits: int, cases: int, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of a rate; 0 to 1 if there are no cases.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. Brown, Cai and DasGupta, "Interval estimation for a
    binomial proportion", Statistical Science 16 (2001), 101-133, recommend it for small samples. ``hits`` of
    the ``cases`` were right, and ``confidence`` is the probability that the interval contains the true rate.
    """
    if cases == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, square = hits / cases, z * z / cases
    center = rate + square / 2
    margin = z * math.sqrt(rate * (1 - rate) / cases + square / (4 * cases))
    low, high = (center - margin) / (1 + square), (center + margin) / (1 + square)
    # Exact bounds: rounding would give something like 1e-18 instead of 0.
    return Interval(0.0 if hits == 0 else low, 1.0 if hits == cases else high)


@checks_arguments
def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Return the Student t interval of a mean, or None if there are fewer than two values.

    Student, "The probable error of a mean", Biometrika 6 (1908), 1-25. It assumes that the mean is
    approximately normally distributed. ``confidence`` is the probability that the interval contains the true
    mean.
    """
    if len(values) < 2:
        return None
    center = fmean(values)
    margin = t_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(center - margin, center + margin)


def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution for a probability of at least 0.5.

    ``degrees`` are the degrees of freedom. The standard library has no t distribution; bisection of the
    distribution function is exact enough and avoids a dependency on SciPy.
    """
    low, high = 0.0, 1.0
    while _t_probability(high, degrees) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _t_probability(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_probability(t: float, degrees: int) -> float:
    """Return the probability that a value of Student's t distribution is below ``t``, for ``t`` >= 0.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4: finite sums for
    whole degrees of freedom.
    """
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    term = cosine if degrees % 2 else 1.0
    total = 0.0 if degrees == 1 else term
    for step in range(3 if degrees % 2 else 2, degrees - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    within = 2 / math.pi * (angle + math.sin(angle) * total) if degrees % 2 else math.sin(angle) * total
    return (1 + within) / 2


# --- Text tables ---

_MAX_ANSWER_LENGTH = 40  # characters of an answer in a table
_SUMMARY_COLUMNS = ("scorer", "kind", "cases", "value", "low", "high")
_TAG_COLUMNS = ("tag", *_SUMMARY_COLUMNS)
_TOTAL_COLUMNS = ("calls", "failed", "attempts", "input tokens", "output tokens", "judge tokens", "seconds")


class _Section(NamedTuple):
    """A table of the report, with notes below it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


def _sections(report: Report[object]) -> list[_Section]:
    """Return the tables of an evaluation report, in their order."""
    summaries = report.summaries
    notes = [f"low and high: {report.confidence:.0%} confidence, {_interval_names(report)}"]
    notes += [
        f"{summary.scorer}: {len(summary.runs)} runs, from {_number(min(summary.runs))} to "
        f"{_number(max(summary.runs))}"
        for summary in summaries
        if summary.runs
    ]
    scores = [_summary_cells(summary) for summary in summaries]
    cases = [_case_cells(outcome, report.scorers) for outcome in report.outcomes]
    by_tag = _tag_rows(report)
    return [
        _Section("scores", _SUMMARY_COLUMNS, scores, tuple(notes)),
        *([_Section("scores by tag", _TAG_COLUMNS, by_tag)] if by_tag else []),
        *_reliability_tables(report),
        _Section("cost", _TOTAL_COLUMNS, [_total_cells(report)]),
        _Section("cases", ("case", "answer", *report.scorers, "attempts", "tokens", "seconds"), cases),
    ]


def _interval_names(report: Report[object]) -> str:
    if report.repeat > 1:
        return f"Student's interval of the means of the cases, each called {report.repeat} times"
    return "Wilson's interval of rates, Student's of means"


def _text_report(report: Report[object]) -> str:
    tables = [
        "\n".join([_text_table(section.columns, section.rows), *section.notes])
        for section in _sections(report)
    ]
    return "\n".join(["\n\n".join([report.method, *tables]), *_error_lines(report)])


def _tag_rows(report: Report[object]) -> list[tuple[str, ...]]:
    """Return the report's table rows with the scores for each tag."""
    return [
        (tag, *_summary_cells(report.summary(name, tag))) for tag in report.tags for name in report.scorers
    ]


def _reliability_tables(report: Report[object]) -> list[_Section]:
    """Return the tables about the probabilities of decisions."""
    reliability = report.reliability
    if reliability is None:
        return []
    bin_notes = reliability.bins_note, reliability.calibration_error
    thresholds = reliability.threshold_cells()
    return [
        _Section("reliability", BIN_COLUMNS, reliability.bin_cells(), bin_notes),
        _Section("thresholds", THRESHOLD_COLUMNS, thresholds, (reliability.thresholds_note,)),
    ]


def _print_report(report: Report[object]) -> None:
    if find_spec("rich") is None:
        print(_text_report(report))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(report.method, style="bold"))
    for section in _sections(report):
        table = Table(title=section.title, title_justify="left")
        for column in section.columns:
            table.add_column(column, overflow="fold")
        for row in section.rows:
            table.add_row(*map(Text, row))  # Text: an answer is not rich markup
        console.print(table)
        for note in section.notes:
            console.print(Text(note))
    for line in _error_lines(report):
        console.print(Text(line))


def _summary_cells(summary: Summary) -> tuple[str, ...]:
    low, high = ("-", "-") if summary.interval is None else map(_number, summary.interval)
    value = "-" if summary.value is None else _number(summary.value)
    return summary.scorer, "rate" if summary.is_rate else "mean", str(summary.cases), value, low, high


def _total_cells(report: Report[object]) -> tuple[str, ...]:
    failed = sum(outcome.error is not None for outcome in report.outcomes)
    usage = report.usage
    counts = (len(report.outcomes), failed, report.attempts, usage.input_tokens, usage.output_tokens)
    return (*map(str, counts), str(report.judge_usage.total_tokens), f"{report.seconds:.2f}")


def _case_cells(outcome: Outcome, scorers: tuple[str, ...]) -> tuple[str, ...]:
    answer = (
        shorten(repr(outcome.value), _MAX_ANSWER_LENGTH)
        if outcome.error is None
        else type(outcome.error).__name__
    )
    scores = (_score_cell(outcome.scores.get(name)) for name in scorers)
    cost = (str(outcome.attempts), str(outcome.usage.total_tokens), f"{outcome.seconds:.2f}")
    return outcome.name, answer, *scores, *cost


def _score_cell(score: Score | Exception | None) -> str:
    if score is None:
        return "-"
    if isinstance(score, bool):
        return "yes" if score else "no"
    return "failed" if isinstance(score, Exception) else _number(score)


def _error_lines(report: Report[object]) -> list[str]:
    errors = [f"{name}: {type(error).__name__}: {error}" for name, error in report.errors]
    reasons = [
        f"{outcome.name}, {scorer}: {reason}"
        for outcome in report.outcomes
        for scorer, reason in outcome.reasons.items()
    ]
    return errors + reasons


def _scorer_errors(outcome: Outcome) -> dict[str, Exception]:
    return {name: score for name, score in outcome.scores.items() if isinstance(score, Exception)}


def _number(value: float) -> str:
    return f"{value:.3g}"


def _text_table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, rule, *rows)
    ]
    return "\n".join(lines)


# --- The HTML page and its plot ---

_LEFT, _RIGHT = 180, 620  # the ends of the scale, in units of the plot
_ROW_HEIGHT = 52
_TICKS = 4
_MAX_LABEL_LENGTH = 22


class PlotRow(NamedTuple):
    """A row of the plot in an evaluation report, which shows the result of one scorer.

    Positions are in units of the plot.

    Attributes:
        label: The shortened name of the scorer.
        y: The vertical position.
        x: The position of the value.
        low: The position of the lower bound; None without an interval.
        high: The position of the upper bound.
        description: The value and its interval in words.
        ticks: The position and the label of each mark of the scale.
    """

    label: str
    y: int
    x: float
    low: float | None
    high: float | None
    description: str
    ticks: tuple[tuple[float, str], ...]


def html_report(report: Report[object]) -> str:
    summaries = report.summaries
    measured = [summary for summary in summaries if summary.value is not None]
    rows = [_plot_row(report, summary, number) for number, summary in enumerate(measured)]
    return _template().render(
        report=report,
        rows=rows,
        height=len(rows) * _ROW_HEIGHT + 12,
        left=_LEFT,
        right=_RIGHT,
        alternative="; ".join(f"{row.label}: {row.description}" for row in rows),
        summaries=[_summary_cells(summary) for summary in summaries],
        by_tag=_tag_rows(report),
        reliability_svg=_reliability_svg(report),
        reliability_tables=_reliability_tables(report),
        totals=list(zip(_TOTAL_COLUMNS, _total_cells(report), strict=True)),
        cases=[
            (outcome, _case_cells(outcome, report.scorers), _scorer_errors(outcome))
            for outcome in report.outcomes
        ],
        failed=len([outcome for outcome in report.outcomes if outcome.error is not None]),
    )


def _reliability_svg(report: Report[object]) -> str:
    reliability = report.reliability
    # In HTML the namespace is not needed, and the page contains no addresses.
    return "" if reliability is None else reliability.svg().replace(' xmlns="http://www.w3.org/2000/svg"', "")


def _plot_row(report: Report[object], summary: Summary, number: int) -> PlotRow:
    assert summary.value is not None
    ticks = _ticks(*_scale(report, summary))
    low, high = ticks[0], ticks[-1]

    def x_of(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (min(max(value, low), high) - low) / (high - low), 1)

    _, kind, cases, value, *bounds = _summary_cells(summary)
    interval = summary.interval
    interval_text = "" if interval is None else f" ({report.confidence:.0%}: {bounds[0]} to {bounds[1]})"
    name = summary.scorer
    return PlotRow(
        name if len(name) <= _MAX_LABEL_LENGTH else f"{name[: _MAX_LABEL_LENGTH - 1]}…",
        number * _ROW_HEIGHT + 20,
        x_of(summary.value),
        None if interval is None else x_of(interval.low),
        None if interval is None else x_of(interval.high),
        f"{kind} {value} of {cases} cases{interval_text}",
        tuple((x_of(tick), f"{tick:.3g}") for tick in ticks),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return tick marks for a plot axis: round numbers at equal distances along the axis."""
    power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * _TICKS >= high - low)
    return [step * factor for factor in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _scale(report: Report[object], summary: Summary) -> tuple[float, float]:
    """Return the ends of a plot's score axis: 0 and 1, or a wider range if necessary."""
    scores = [outcome.scores.get(summary.scorer) for outcome in report.outcomes]
    numbers = [float(score) for score in scores if isinstance(score, (int, float))]
    numbers += [] if summary.interval is None or summary.is_rate else list(summary.interval)
    return min([0.0, *numbers]), max([1.0, *numbers])


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files(__package__ or "").joinpath("report.html.jinja").read_text("utf-8")
    return environment.from_string(source)
