"""Times two ways of doing one thing beside each other: in pairs, alternating, so that drift cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeAlias

__all__ = ["QUICK", "Effort", "Pairs", "Sample", "Work", "block", "by_cpu", "compare", "in_pairs", "timed"]

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

    ``at_a_time`` and ``crowd`` are numbers of asynchronous calls that run at once.
    """

    rounds: int = 15
    block_seconds: float = 0.05
    largest: int = 10_000_000
    at_a_time: int = 100
    crowd: int = 1000
    chunks: int = 2000


QUICK = Effort(rounds=1, block_seconds=0.0, largest=20_000, at_a_time=5, crowd=10, chunks=40)


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
    many, many_of_floor = (_calls_for(work, effort.block_seconds) for work in (ours, floor))
    return in_pairs(lambda: _medians(ours, many), lambda: _medians(floor, many_of_floor), effort.rounds)


def block(work: Work, seconds: float) -> Sample:
    """What a call takes, by a block of calls of about so many seconds."""
    return _medians(work, _calls_for(work, seconds))


def by_cpu(pairs: Pairs) -> Pairs:
    """The processor's times alone, where the clock would tell of other programs."""
    return [(Sample(ours.cpu, ours.cpu), Sample(floor.cpu, floor.cpu)) for ours, floor in pairs]


def _calls_for(work: Work, seconds: float) -> int:
    """How many calls fill a block; this warms ``work`` up, too."""
    one = timed(work).wall
    if one < 5 * seconds:
        one = min(timed(work).wall, timed(work).wall)
    return max(1, min(_MOST_CALLS, int(seconds / one)))


def _medians(work: Work, calls: int) -> Sample:
    """The medians of the calls: a rare collection of garbage is nobody's in particular."""
    samples = [timed(work) for _ in range(calls)]
    return Sample(median(sample.wall for sample in samples), median(sample.cpu for sample in samples))
