"""Times two ways of doing one thing beside each other: in pairs, alternating, so that drift cancels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

__all__ = ["QUICK", "Effort", "Work", "calls_for", "compare", "in_pairs", "timed"]

Work: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: rounds, the seconds that one block of calls is to take, the largest text."""

    rounds: int = 15
    block_seconds: float = 0.1
    largest: int = 10_000_000
    concurrent_calls: int = 500


QUICK = Effort(rounds=1, block_seconds=0.0, largest=20_000, concurrent_calls=10)
_MOST_CALLS = 2000


def timed(work: Work) -> float:
    """The seconds that one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def calls_for(work: Work, effort: Effort) -> int:
    """How many calls fill a block; it warms ``work`` up on the way."""
    timed(work)
    one = min(timed(work), timed(work))
    return max(1, min(_MOST_CALLS, int(effort.block_seconds / one)))


def in_pairs(ours: Callable[[], float], floor: Callable[[], float], rounds: int) -> list[tuple[float, float]]:
    """What two measurements give, once each in a round; they take turns in being the first."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            mine, other = ours(), floor()
        else:
            other, mine = floor(), ours()
        pairs.append((mine, other))
    return pairs


def compare(ours: Work, floor: Work, effort: Effort) -> tuple[float, ...]:
    """The ratio of the medians of a block of ours and a block of the floor, round by round."""
    many = calls_for(ours, effort)
    many_of_floor = calls_for(floor, effort)
    pairs = in_pairs(lambda: _block(ours, many), lambda: _block(floor, many_of_floor), effort.rounds)
    return tuple(mine / other for mine, other in pairs)


def _block(work: Work, calls: int) -> float:
    return median(timed(work) for _ in range(calls))
