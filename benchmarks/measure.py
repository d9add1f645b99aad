"""Times two ways of doing one thing beside each other: in pairs, alternating, so that drift cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeAlias

Work: TypeAlias = Callable[[], Any]
_MOST_CALLS = 2000


class Sample(NamedTuple):
    """Seconds by the clock, and seconds of the processor."""

    wall: float
    cpu: float


Pairs: TypeAlias = list[tuple[Sample, Sample]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: rounds, seconds of a block of calls, the largest text, chunks of a stream.

    ``concurrency`` and ``high_concurrency`` are numbers of asynchronous calls that run at once.
    """

    rounds: int = 15
    block_seconds: float = 0.05
    max_text_size: int = 10_000_000
    concurrency: int = 100
    high_concurrency: int = 1000
    chunks: int = 2000


QUICK = Effort(rounds=1, block_seconds=0.0, max_text_size=20_000, concurrency=5, high_concurrency=10, chunks=40)


def measure(work: Work) -> Sample:
    """What one call takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def measure_pairs(ours: Callable[[], Sample], baseline_run: Callable[[], Sample], rounds: int) -> Pairs:
    """What two measurements give, once each in a round; they take turns in being the first."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            ours_value, other = ours(), baseline_run()
        else:
            other, ours_value = baseline_run(), ours()
        pairs.append((ours_value, other))
    return pairs


def compare(ours: Work, baseline_run: Work, effort: Effort) -> Pairs:
    """A block of ours beside a block of the floor, round by round."""
    many, many_of_floor = (_calls_for(work, effort.block_seconds) for work in (ours, baseline_run))
    return measure_pairs(lambda: _medians(ours, many), lambda: _medians(baseline_run, many_of_floor), effort.rounds)


def measure_block(work: Work, seconds: float) -> Sample:
    """What a call takes, by a block of calls of about so many seconds."""
    return _medians(work, _calls_for(work, seconds))


def cpu_only(pairs: Pairs) -> Pairs:
    """The processor's times alone, where the clock would tell of other programs."""
    return [(Sample(ours.cpu, ours.cpu), Sample(baseline_run.cpu, baseline_run.cpu)) for ours, baseline_run in pairs]


def _calls_for(work: Work, seconds: float) -> int:
    """How many calls fill a block; this warms ``work`` up, too."""
    one = measure(work).wall
    if one < 5 * seconds:
        one = min(measure(work).wall, measure(work).wall)
    return max(1, min(_MOST_CALLS, int(seconds / one)))


def _medians(work: Work, calls: int) -> Sample:
    """The medians of the calls: a rare collection of garbage is nobody's in particular."""
    samples = [measure(work) for _ in range(calls)]
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
