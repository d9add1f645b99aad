"""What an evaluation found: scores with their confidence intervals, what was spent, each case."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from output_parsers.result.errors import shorten

from ..models.messages import Usage
from .scoring import Score

if TYPE_CHECKING:
    from jinja2 import Template


class Interval(NamedTuple):
    """Two bounds, both included."""

    low: float
    high: float


def wilson_interval(hits: int, cases: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a rate.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. Brown, Cai and DasGupta, "Interval estimation for a
    binomial proportion", Statistical Science 16 (2001), 101-133, advise it for few cases. Without a case it
    is from 0 to 1.
    """
    if cases == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, square = hits / cases, z * z / cases
    middle = rate + square / 2
    reach = z * math.sqrt(rate * (1 - rate) / cases + square / (4 * cases))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    return Interval(0.0 if hits == 0 else low, 1.0 if hits == cases else high)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's t interval of a mean; None with fewer than two values, of which nothing is known to vary.

    Student, "The probable error of a mean", Biometrika 6 (1908), 1-25. It supposes that the mean of so many
    cases is about normally distributed.
    """
    if len(values) < 2:
        return None
    middle = fmean(values)
    reach = t_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(middle - reach, middle + reach)


def t_quantile(probability: float, freedom: int) -> float:
    """The value below which Student's t lies with a probability of 0.5 or more, by bisection."""
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _t_below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_below(t: float, freedom: int) -> float:
    """The probability of a value below ``t``, which is not negative.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4: finite sums for
    whole degrees of freedom.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = 0.0 if freedom == 1 else term
    for step in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    share = 2 / math.pi * (angle + math.sin(angle) * total) if freedom % 2 else math.sin(angle) * total
    return (1 + share) / 2


T_co = TypeVar("T_co", covariant=True)


class Outcome(NamedTuple):
    """One case: its answer or the error that came instead, the scores, and what it took.

    A score is the error of its scorer where that failed. ``usage`` is what the call used, ``judged`` what the
    judges used.
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
    judged: Usage


class Summary(NamedTuple):
    """One scorer over all cases: a rate where it says yes or no, else a mean.

    ``cases`` is how many count. A call that failed counts as no; it has no number, and is left out of a
    mean. A case whose scorer failed is left out. ``value`` is None when nothing counts; ``interval`` is
    Wilson's for a rate and Student's for a mean, which needs two cases.
    """

    scorer: str
    is_rate: bool
    cases: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True)
class Report(Generic[T_co]):
    """All outcomes of an evaluation; ``str()`` of it is a table. ``seconds`` is the wall time of it all."""

    method: str
    outcomes: tuple[Outcome, ...]
    scorers: tuple[str, ...]
    confidence: float
    seconds: float

    @property
    def values(self) -> list[T_co]:
        """The answers of the calls that did not fail."""
        return [one.value for one in self.outcomes if one.error is None]

    @property
    def errors(self) -> list[tuple[str, Exception]]:
        """What failed: the name of the case, beside that of the scorer if it was one, and the error."""
        failed = [(one.name, one.error) for one in self.outcomes if one.error is not None]
        scorers = [
            (f"{one.name}, {name}", score)
            for one in self.outcomes
            for name, score in one.scores.items()
            if isinstance(score, Exception)
        ]
        return failed + scorers

    @property
    def attempts(self) -> int:
        return sum(one.attempts for one in self.outcomes)

    @property
    def usage(self) -> Usage:
        """The tokens of all calls, without the judges."""
        return sum((one.usage for one in self.outcomes), Usage())

    @property
    def judged(self) -> Usage:
        """The tokens of all judges."""
        return sum((one.judged for one in self.outcomes), Usage())

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """A summary for each scorer, in their order."""
        return tuple(self.summary(name) for name in self.scorers)

    def summary(self, scorer: str) -> Summary:
        """The summary of one scorer. Raises KeyError when there is none of this name."""
        if scorer not in self.scorers:
            raise KeyError(f"there is no scorer {scorer}; there are {', '.join(self.scorers)}")
        given = [one.scores[scorer] for one in self.outcomes if one.error is None]
        scores = [score for score in given if not isinstance(score, Exception)]
        if all(isinstance(score, bool) for score in scores):
            failed = len(self.outcomes) - len(given)
            return self._rate(scorer, sum(scores), len(scores) + failed)
        numbers = [float(score) for score in scores]
        return Summary(scorer, False, len(numbers), fmean(numbers), mean_interval(numbers, self.confidence))

    def _rate(self, scorer: str, hits: float, cases: int) -> Summary:
        if not cases:
            return Summary(scorer, True, 0, None, None)
        interval = wilson_interval(int(hits), cases, self.confidence)
        return Summary(scorer, True, cases, hits / cases, interval)

    def __str__(self) -> str:

        return plain_report(self)

    def show(self) -> None:
        """Print the tables, with rich where it is installed (the extra ``cli``)."""

        show_report(self)

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs no other, with a plot of the scores."""

        file = Path(path)
        file.write_text(html_of(self), "utf-8")
        return file


_LONGEST = 40  # characters of a value that a table shows
_SUMMARY_NAMES = ("scorer", "kind", "cases", "value", "low", "high")
TOTAL_NAMES = ("calls", "failed", "attempts", "input tokens", "output tokens", "judges' tokens", "seconds")


def plain_report(report: Report[Any]) -> str:
    """The report as text in columns."""
    tables = [
        _columns(_SUMMARY_NAMES, [summary_cells(one) for one in report.summaries]),
        _columns(TOTAL_NAMES, [totals(report)]),
        _columns(_names(report), [cells_of(one, report.scorers) for one in report.outcomes]),
    ]
    interval = (
        f"low and high: {report.confidence:.0%} confidence, Wilson's interval of rates, Student's of means"
    )
    failed = [f"{name}: {type(error).__name__}: {error}" for name, error in report.errors]
    return "\n".join([report.method, "", tables[0], interval, "", *tables[1:2], "", tables[2], *failed])


def show_report(report: Report[Any]) -> None:
    """Print the report."""
    if find_spec("rich") is None:
        print(plain_report(report))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def table(title: str, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
        made = Table(title=title, title_justify="left")
        for name in names:
            made.add_column(name, overflow="fold")
        for row in rows:
            made.add_row(*map(Text, row))
        return made

    console = Console()
    console.print(Text(report.method, style="bold"))
    level = f"scores, with intervals of {report.confidence:.0%} confidence"
    console.print(table(level, _SUMMARY_NAMES, [summary_cells(one) for one in report.summaries]))
    console.print(table("what it took", TOTAL_NAMES, [totals(report)]))
    console.print(table("cases", _names(report), [cells_of(one, report.scorers) for one in report.outcomes]))
    for name, error in report.errors:
        console.print(Text(f"{name}: {type(error).__name__}: {error}"))


def summary_cells(one: Summary) -> tuple[str, ...]:
    """A summary as texts."""
    low, high = ("-", "-") if one.interval is None else map(_number, one.interval)
    value = "-" if one.value is None else _number(one.value)
    return one.scorer, "rate" if one.is_rate else "mean", str(one.cases), value, low, high


def totals(report: Report[Any]) -> tuple[str, ...]:
    """What all calls took, in the order of TOTAL_NAMES."""
    failed = sum(one.error is not None for one in report.outcomes)
    used = report.usage
    counts = (len(report.outcomes), failed, report.attempts, used.input_tokens, used.output_tokens)
    return (*map(str, counts), str(report.judged.total_tokens), f"{report.seconds:.2f}")


def cells_of(one: Outcome, scorers: tuple[str, ...]) -> tuple[str, ...]:
    """A case as texts: its name, the answer or the error, the scores, and what it took."""
    answer = shorten(repr(one.value), _LONGEST) if one.error is None else type(one.error).__name__
    scores = (_score(one.scores.get(name)) for name in scorers)
    return one.name, answer, *scores, str(one.attempts), str(one.usage.total_tokens), f"{one.seconds:.2f}"


def _names(report: Report[Any]) -> tuple[str, ...]:
    return ("case", "answer", *report.scorers, "attempts", "tokens", "seconds")


def _score(score: Any) -> str:
    if score is None:
        return "-"
    if isinstance(score, bool):
        return "yes" if score else "no"
    return "failed" if isinstance(score, Exception) else _number(score)


def _number(value: float) -> str:
    return f"{value:.3g}"


def _columns(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (names, rule, *rows)
    ]
    return "\n".join(lines)


_LEFT, _RIGHT = 180, 620  # where the scale begins and ends, in units of the plot
_ROW = 52
_TICKS = 4
_LONGEST_LABEL = 22


class Row(NamedTuple):
    """One line of the plot: where its value and its bounds stand, and what its scale says."""

    label: str
    y: int
    at: float
    low: float | None
    high: float | None
    said: str
    ticks: tuple[tuple[float, str], ...]


def html_of(report: Report[Any]) -> str:
    """The page."""
    rows = [
        _row(report, one, number)
        for number, one in enumerate(one for one in report.summaries if one.value is not None)
    ]
    return _template().render(
        report=report,
        rows=rows,
        height=len(rows) * _ROW + 12,
        left=_LEFT,
        right=_RIGHT,
        alternative="; ".join(f"{row.label}: {row.said}" for row in rows),
        summaries=[summary_cells(one) for one in report.summaries],
        totals=list(zip(TOTAL_NAMES, totals(report), strict=True)),
        cases=[(one, cells_of(one, report.scorers), _failed(one)) for one in report.outcomes],
        failed=len([one for one in report.outcomes if one.error is not None]),
    )


def _failed(one: Outcome) -> dict[str, Exception]:
    """The errors of scorers, by their names."""
    return {name: score for name, score in one.scores.items() if isinstance(score, Exception)}


def _row(report: Report[Any], one: Summary, number: int) -> Row:
    assert one.value is not None
    marks = _marks(*_reach(report, one))
    low, high = marks[0], marks[-1]

    def place(value: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * (min(max(value, low), high) - low) / (high - low), 1)

    _, kind, cases, value, *bounds = summary_cells(one)
    between = "" if one.interval is None else f" ({report.confidence:.0%}: {bounds[0]} to {bounds[1]})"
    label = one.scorer if len(one.scorer) <= _LONGEST_LABEL else f"{one.scorer[: _LONGEST_LABEL - 1]}…"
    return Row(
        label,
        number * _ROW + 20,
        place(one.value),
        None if one.interval is None else place(one.interval.low),
        None if one.interval is None else place(one.interval.high),
        f"{kind} {value} of {cases} cases{between}",
        tuple((place(at), f"{at:.3g}") for at in marks),
    )


def _marks(low: float, high: float) -> list[float]:
    """Round numbers, at least as far apart as these."""
    power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = next(power * many for many in (1, 2, 2.5, 5, 10) if power * many * _TICKS >= high - low)
    return [step * many for many in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _reach(report: Report[Any], one: Summary) -> tuple[float, float]:
    """From 0 to 1 where all scores are between them, else so far that all are in it."""
    scores = [outcome.scores.get(one.scorer) for outcome in report.outcomes]
    numbers = [float(score) for score in scores if isinstance(score, (int, float))]
    numbers += [] if one.interval is None or one.is_rate else list(one.interval)
    return min([0.0, *numbers]), max([1.0, *numbers])


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files(__package__ or "").joinpath("report.html.jinja").read_text("utf-8")
    return environment.from_string(source)
