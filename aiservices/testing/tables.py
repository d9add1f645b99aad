"""Shows a report as tables: by rich where it is installed, else in plain text."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from output_parsers.errors import shorten

if TYPE_CHECKING:
    from .report import Outcome, Report, Summary

__all__ = ["TOTAL_NAMES", "cells_of", "plain_report", "show_report", "summary_cells", "totals"]

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
