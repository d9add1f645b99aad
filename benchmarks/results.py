"""The results of a stage of the benchmarks, as a table and as JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Self

from .measure import Pairs


@dataclass(frozen=True, slots=True)
class Comparison:
    """The ratio of our time to that of a baseline.

    Attributes:
        case: What is measured.
        baseline: What it is compared to.
        ratios: The ratio of the wall times in each round.
        cpu: The median ratio of the CPU times; None if they are too short to measure.
        target: The largest acceptable median of ``ratios``, or None.
        note: A remark for the table.
        cpu_target: The largest acceptable ``cpu``, or None.
    """

    case: str
    baseline: str
    ratios: tuple[float, ...]
    cpu: float | None = None
    target: float | None = None
    note: str = ""
    cpu_target: float | None = None

    @classmethod
    def of(
        cls,
        case: str,
        baseline: str,
        pairs: Pairs,
        target: float | None = None,
        *,
        growth: float = 1.0,
        note: str = "",
        cpu_target: float | None = None,
    ) -> Self:
        """Create a comparison from pairs of samples.

        ``growth`` is how many times as much work our side did.
        """
        ratios = tuple(ours.wall / baseline_run.wall / growth for ours, baseline_run in pairs)
        cpu = [ours.cpu / baseline_run.cpu / growth for ours, baseline_run in pairs if baseline_run.cpu > 0]
        return cls(case, baseline, ratios, median(cpu) if cpu else None, target, note, cpu_target)

    @property
    def spread(self) -> tuple[float, float, float]:
        """The smallest, the median and the largest ratio of the rounds."""
        return min(self.ratios), median(self.ratios), max(self.ratios)

    @property
    def is_missed(self) -> bool:
        """True if the median ratio is above its target."""
        over = self.target is not None and self.spread[1] > self.target
        over_cpu = self.cpu_target is not None and self.cpu is not None and self.cpu > self.cpu_target
        return over or over_cpu

    def as_data(self) -> dict[str, Any]:
        lowest, middle, highest = self.spread
        return {
            "case": self.case,
            "baseline": self.baseline,
            "min": lowest,
            "median": middle,
            "max": highest,
            "ratios": list(self.ratios),
            "cpu": self.cpu,
            "target": self.target,
            "cpu_target": self.cpu_target,
            "missed": self.is_missed,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A comparison that was skipped, for example because a library is not installed.

    Attributes:
        case: The case and its baseline.
        reason: Why it was skipped.
    """

    case: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The results of one stage of the benchmarks.

    Attributes:
        name: The name of the stage.
        rows: The comparisons.
        remarks: Further lines to print.
    """

    name: str
    rows: Sequence[Comparison | Skipped]
    remarks: Sequence[str] = ()

    @property
    def comparisons(self) -> list[Comparison]:
        return [row for row in self.rows if isinstance(row, Comparison)]

    @property
    def skipped(self) -> list[Skipped]:
        return [row for row in self.rows if isinstance(row, Skipped)]

    def as_data(self) -> dict[str, Any]:
        return {
            "comparisons": [row.as_data() for row in self.comparisons],
            "skipped": [{"case": row.case, "reason": row.reason} for row in self.skipped],
            "remarks": list(self.remarks),
        }


_HEAD = ("case", "baseline", "min", "median", "max", "CPU", "target", "")


def lines(stage: Stage) -> Iterable[str]:
    """Yield the lines of the table with the results of a stage."""
    yield f"{stage.name}: our time ÷ time of the baseline"
    table = [_HEAD, *map(_cells, stage.comparisons)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    for texts in table:
        cells = (
            cell.rjust(width) if 2 <= column <= 6 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(texts, widths, strict=True))
        )
        yield "  " + "  ".join(cells).rstrip()
    for row in stage.skipped:
        yield f"  skipped: {row.case}: {row.reason}"
    for remark in stage.remarks:
        yield f"  {remark}"
    yield ""


def _cells(row: Comparison) -> tuple[str, ...]:
    figures = ("" if ratio is None else _figure(ratio) for ratio in (*row.spread, row.cpu))
    return row.case, row.baseline, *figures, _target_text(row), row.note


def _target_text(row: Comparison) -> str:
    targets = [] if row.target is None else [f"≤ {_figure(row.target)}"]
    if row.cpu_target is not None:
        targets.append(f"CPU ≤ {_figure(row.cpu_target)}")
    return ", ".join(targets) + (": missed" if row.is_missed else "")


def _figure(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"
