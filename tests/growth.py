"""Measure by how much the time to read a text grows with its length."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from output_parsers import OutputParsingError
from output_parsers.json.scanner import JsonSyntaxError
from output_parsers.prose import TextParseError

Reader = Callable[[str], object]
SHORT = 10_000
# Of the time per character if the text is ten times as long: 1 for linear time, 10 for quadratic time.
MAX_GROWTH = 3.0
_CLOCK = 2e-4  # shorter times say more about the clock and the processor's caches than about the reader


def process_time(read: Reader, text: str) -> float:
    """Return the processor time that reading takes, without the garbage collector.

    The collector visits all objects of the process, so its time does not depend on the text.
    """
    gc.disable()
    try:
        start = time.process_time()
        try:
            read(text)
        except (OutputParsingError, JsonSyntaxError, TextParseError):
            pass
        return time.process_time() - start
    finally:
        gc.enable()


def growth(
    read: Reader, unit: str, head: str = "", tail: str = "", *, short: int = SHORT, times: int = 10
) -> float:
    """Return by how much the time per character grows if a repeated text is ``times`` as long.

    It is the lowest of several measurements, because the machine may be busy.
    """
    small, large = (head + unit * (size // len(unit)) + tail for size in (short, short * times))
    lowest = float("inf")
    for _ in range(4):
        base = max(min(process_time(read, small) for _ in range(3)), _CLOCK)
        lowest = min(lowest, process_time(read, large) / base / times)
        if lowest <= MAX_GROWTH:
            break
    return lowest


def growing(
    read: Reader, units: Iterable[str], head: str = "", tail: str = "", *, short: int = SHORT, times: int = 10
) -> dict[str, float]:
    """Return the repeated texts for which the time per character grows, with the growth."""
    growths = {unit: growth(read, unit, head, tail, short=short, times=times) for unit in units}
    return {unit: factor for unit, factor in growths.items() if factor > MAX_GROWTH}
