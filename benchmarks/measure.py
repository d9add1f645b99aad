"""Times two ways of doing one thing beside each other: in pairs, alternating, so that drift cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeAlias

__all__ = ["QUICK", "Effort", "Pairs", "Sample", "Work", "compare", "in_pairs", "timed"]

Work: TypeAlias = Callable[[], Any]
_MOST_CALLS = 2000


class Sample(NamedTuple):
    """Seconds by the clock, and seconds of the processor."""

    wall: float
    cpu: float


Pairs: TypeAlias = list[tuple[Sample, Sample]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: rounds, seconds of a block of calls, the largest text, chunks of a stream."""

    rounds: int = 15
    block_seconds: float = 0.05
    largest: int = 10_000_000
    concurrent_calls: int = 500
    chunks: int = 2000


QUICK = Effort(rounds=1, block_seconds=0.0, largest=20_000, concurrent_calls=10, chunks=40)


def timed(work: Work) -> Sample:
    """What one call takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def in_pairs(ours: Callable[[], Sample], floor: Callable[[], Sample], rounds: int) -> Pairs:
    """What two measurements give, once each in a round; they take turns in being the first."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            mine, other = ours(), floor()
        else:
            other, mine = floor(), ours()
        pairs.append((mine, other))
    return pairs


def compare(ours: Work, floor: Work, effort: Effort) -> Pairs:
    """A block of ours beside a block of the floor, round by round."""
    many, many_of_floor = (_calls_for(work, effort) for work in (ours, floor))
    return in_pairs(lambda: _block(ours, many), lambda: _block(floor, many_of_floor), effort.rounds)


def _calls_for(work: Work, effort: Effort) -> int:
    """How many calls fill a block; this warms ``work`` up, too."""
    one = timed(work).wall
    if one < 5 * effort.block_seconds:
        one = min(timed(work).wall, timed(work).wall)
    return max(1, min(_MOST_CALLS, int(effort.block_seconds / one)))


def _block(work: Work, calls: int) -> Sample:
    """The medians of the calls: a rare collection of garbage is nobody's in particular."""
    samples = [timed(work) for _ in range(calls)]
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
