"""Where made-up values take their choices from: dice with a seed, or whoever else can choose."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from .patterns import text_like

__all__ = ["Dice", "Source"]

T = TypeVar("T")
_WORDS = """amber basil cedar delta ember fjord grove haven inlet jasmine kernel lemon meadow nectar orchid
pebble quartz river saffron timber umbra velvet willow yarrow zephyr""".split()


class Source(Protocol):
    """Makes choices. A bound that is None is none; both ends of a range belong to it.

    ``reject`` is told that a choice led to nothing; it may raise whatever ends the attempt.
    """

    def integer(self, low: int | None, high: int | None) -> int: ...
    def number(self, low: float | None, high: float | None) -> float: ...
    def one_of(self, options: Sequence[T]) -> T: ...
    def size(self, least: int, most: int | None) -> int: ...
    def text(self, least: int, most: int | None) -> str: ...
    def matching(self, pattern: str) -> str: ...
    def reject(self) -> None: ...


class Dice:
    """Chooses by a seed: the same seed gives the same values in every process. Values are small and plain."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int | None, high: int | None) -> int:
        if low is None:
            low = 0 if high is None or high >= 0 else high - 100
        return self._random.randint(low, low + 100 if high is None else high)

    def number(self, low: float | None, high: float | None) -> float:
        if low is None:
            low = 0.0 if high is None or high >= 0 else high - 100.0
        high = low + 100.0 if high is None else high
        found = self._random.uniform(low, high)
        rounded = round(found, 2)
        return rounded if low <= rounded <= high else found

    def one_of(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def size(self, least: int, most: int | None) -> int:
        if most is None:
            return self._random.randint(max(least, 1), max(least, 1) + 2)
        return self._random.randint(least, min(most, least + 3))

    def text(self, least: int, most: int | None) -> str:
        words = [self._random.choice(_WORDS) for _ in range(self._random.randint(1, 3))]
        while len(" ".join(words)) < least:
            words.append(self._random.choice(_WORDS))
        said = " ".join(words)
        return said if most is None or len(said) <= most else said[:most].replace(" ", "-")

    def matching(self, pattern: str) -> str:
        return text_like(pattern, self._random)

    def reject(self) -> None:
        """The next choices differ, so there is nothing to be done."""
