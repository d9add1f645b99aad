"""What an evaluation found: scores with their confidence intervals, what was spent, each case."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Generic, NamedTuple, TypeVar

from ..messages import Usage
from .intervals import Interval, mean_interval, wilson_interval
from .scorers import Score

__all__ = ["Outcome", "Report", "Summary"]

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
        from .tables import plain_report

        return plain_report(self)

    def show(self) -> None:
        """Print the tables, with rich where it is installed (the extra ``cli``)."""
        from .tables import show_report

        show_report(self)

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one HTML file that needs no other, with a plot of the scores."""
        from .report_html import html_of

        file = Path(path)
        file.write_text(html_of(self), "utf-8")
        return file
