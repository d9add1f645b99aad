"""Writes a report as one HTML page with a plot, readable without colours, pictures or a network."""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from .tables import TOTAL_NAMES, cells_of, summary_cells, totals

if TYPE_CHECKING:
    from jinja2 import Template

    from .report import Outcome, Report, Summary

__all__ = ["html_of"]

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
