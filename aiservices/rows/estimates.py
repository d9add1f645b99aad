"""Estimate the tokens, cost and time to process a whole table from a sample of its rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, stdev
from typing import NamedTuple, Unpack

from ..models.errors import DefinitionError, DefinitionProblem, counted, is_at_least
from .binding import content_id
from .job import Job
from .mapping import Rows, RowSettings, job_for
from .row import duration_text

_Z = 1.96  # 95 % of a normal distribution


class Range(NamedTuple):
    """An estimate with a range that contains the true number with a probability of 95 %.

    Attributes:
        low: The lower end of the range.
        expected: The estimate.
        high: The upper end of the range.
    """

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated tokens, cost and time of a run over a table.

    Attributes:
        rows: The number of rows in the table.
        to_ask: How many rows need a model request: without equal rows, and without those that an earlier
            run has finished.
        sample: How many rows were processed for the estimate.
        errors: How many rows of the sample had an error.
        requests: The requests of the whole run.
        input_tokens: Its input tokens.
        output_tokens: Its output tokens.
        cost: The cost of the run; None if a price is unknown.
        seconds: How long it takes, with as many rows at the same time as in the sample. Batches take up to a
            day.
    """

    rows: int
    to_ask: int
    sample: int
    errors: int
    requests: Range
    input_tokens: Range
    output_tokens: Range
    cost: Range | None
    seconds: Range

    def __str__(self) -> str:
        lines = [
            f"{counted(self.rows, 'row')}, {self.to_ask:,} to process; used for this estimate: "
            f"{self.sample:,}" + (f", {self.errors:,} with an error" if self.errors else ""),
            f"requests: {_text(self.requests)}",
            f"input tokens: {_text(self.input_tokens)}",
            f"output tokens: {_text(self.output_tokens)}",
        ]
        if self.cost is not None:
            lines.append(f"cost: {self.cost.expected:.4g} ({self.cost.low:.4g} to {self.cost.high:.4g})")
        low, expected, high = (duration_text(one) for one in self.seconds)
        lines.append(f"time: {expected} ({low} to {high})")
        return "\n".join(lines)


def estimate(
    method: Callable[..., object],
    table: object,
    /,
    *,
    sample: int = 200,
    seed: int = 0,
    **settings: Unpack[RowSettings],
) -> Estimate:
    """Estimate the tokens, cost and time of a ``map_rows`` call from a sample of the table's rows.

    The sample's rows are sent to the model. A later run with the same ``to`` or ``journal`` uses their
    answers; the output is not written yet.

    Args:
        method: The method, as for ``map_rows``.
        table: The table, as for ``map_rows``, but not an iterator, because it is read several times.
        sample: How many different rows are asked, chosen at random.
        seed: The seed of the random choice.
        **settings: As for ``map_rows``.
    """
    if not is_at_least(sample, 1):
        raise DefinitionError([DefinitionProblem("estimate", f"sample is {sample!r}; it must be at least 1")])
    job = job_for(method, table, settings)
    if job.table.is_one_shot:
        message = "the table is an iterator, which can be read only once; pass a list, a file or a dataframe"
        raise DefinitionError([DefinitionProblem("estimate", message)])
    count, to_ask, chosen = _choose(job, sample, random.Random(seed))
    run: Rows[object] = Rows(job.of_sample(chosen))
    answered = list(run)
    seconds, busy = run.summary.seconds, [row.seconds for row in answered]
    parallel = max(1.0, sum(busy) / seconds) if seconds else 1.0
    share = 1.0 if job.engine is None else job.engine.discount
    costs = [row.cost * share for row in answered if row.cost is not None]
    return Estimate(
        count,
        to_ask,
        len(answered),
        sum(row.error is not None for row in answered),
        _range([row.attempts for row in answered], to_ask),
        _range([row.usage.input_tokens for row in answered], to_ask),
        _range([row.usage.output_tokens for row in answered], to_ask),
        _range(costs, to_ask) if len(costs) == len(answered) else None,
        Range(*[total / parallel for total in _range(busy, to_ask)]),
    )


def _choose(job: Job, size: int, chance: random.Random) -> tuple[int, int, list[Mapping[str, object]]]:
    """Count all rows and the rows that need a model request, and draw a random sample of the latter."""
    count = to_ask = 0
    chosen: list[Mapping[str, object]] = []
    journal = job.open_journal()
    try:
        for row in islice(job.rows(), job.settings.limit):
            count += 1
            try:
                content = content_id(job.method.arguments(row))
            except ValueError:  # the row has an error without a request
                continue
            is_known = journal.find(content) is not None
            if job.settings.dedupe and (is_known or journal.count_content(content)):
                continue
            to_ask += 1
            if len(chosen) < size:
                chosen.append(row)
            elif (place := chance.randrange(to_ask)) < size:
                chosen[place] = row
    finally:
        journal.close()
    return count, to_ask, chosen


def _range(values: Sequence[float], count: int) -> Range:
    """From the values of a sample, estimate the total for ``count`` rows: low, expected and high."""
    if not values:
        return Range(0.0, 0.0, 0.0)
    mean = fmean(values)
    if len(values) >= count:
        return Range(mean * count, mean * count, mean * count)
    # without those of the sample, which are known
    rest = math.sqrt(1 - len(values) / count)
    error = _Z * stdev(values) / math.sqrt(len(values)) * rest if len(values) > 1 else mean
    return Range(max(0.0, mean - error) * count, mean * count, (mean + error) * count)


def _text(estimate: Range) -> str:
    return f"{estimate.expected:,.0f} ({estimate.low:,.0f} to {estimate.high:,.0f})"
