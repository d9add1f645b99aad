"""Measures two functions in alternating pairs, so that changes in the speed of the machine cancel out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeAlias

Work: TypeAlias = Callable[[], Any]
_MAX_CALLS = 2000


class Sample(NamedTuple):
    """The wall time and CPU time of one run in seconds.

    Attributes:
        wall: The wall time.
        cpu: The CPU time of the process.
    """

    wall: float
    cpu: float


Pairs: TypeAlias = list[tuple[Sample, Sample]]


@dataclass(frozen=True, slots=True)
class Effort:
    """The number and size of the measurements of a benchmark.

    Attributes:
        rounds: The number of pairs.
        block_seconds: The approximate duration of a block of calls.
        max_text_size: The largest text to parse, in characters.
        concurrency: The number of concurrent async calls.
        high_concurrency: The number of concurrent async calls in the second row.
        chunks: The number of chunks of a stream.
    """

    rounds: int = 15
    block_seconds: float = 0.05
    max_text_size: int = 10_000_000
    concurrency: int = 100
    high_concurrency: int = 1000
    chunks: int = 2000


QUICK = Effort(
    rounds=1, block_seconds=0.0, max_text_size=20_000, concurrency=5, high_concurrency=10, chunks=40
)


def measure(work: Work) -> Sample:
    """Call a function once and return its time."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def measure_pairs(ours: Callable[[], Sample], baseline_run: Callable[[], Sample], rounds: int) -> Pairs:
    """Take both samples in each round, in alternating order."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            our_sample, other = ours(), baseline_run()
        else:
            other, our_sample = baseline_run(), ours()
        pairs.append((our_sample, other))
    return pairs


def compare(ours: Work, baseline_run: Work, effort: Effort) -> Pairs:
    """Measure a block of our calls and a block of calls of the baseline in each round."""
    our_calls, baseline_calls = (_calls_for(work, effort.block_seconds) for work in (ours, baseline_run))
    return measure_pairs(
        lambda: _medians(ours, our_calls), lambda: _medians(baseline_run, baseline_calls), effort.rounds
    )


def measure_block(work: Work, seconds: float) -> Sample:
    """Return the time of a call, as the median of a block of calls that takes about ``seconds``."""
    return _medians(work, _calls_for(work, seconds))


def cpu_only(pairs: Pairs) -> Pairs:
    """Return the pairs of samples with CPU times instead of wall times."""
    return [
        (Sample(ours.cpu, ours.cpu), Sample(baseline_run.cpu, baseline_run.cpu))
        for ours, baseline_run in pairs
    ]


def _calls_for(work: Work, seconds: float) -> int:
    """Return how many calls fit in a block. Calls the function, which also warms it up."""
    one = measure(work).wall
    if one < 5 * seconds:  # a first call may be slow: take the best of two more
        one = min(measure(work).wall, measure(work).wall)
    return max(1, min(_MAX_CALLS, int(seconds / one)))


def _medians(work: Work, calls: int) -> Sample:
    """Call a function several times, and return the median wall time and CPU time of a call."""
    samples = [measure(work) for _ in range(calls)]
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
