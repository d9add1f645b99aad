"""The second table of the stage ``parse``: the cost of a character in large texts, compared to a small one.

It uses CPU time, because other programs interrupt a long run more often than a short one. The garbage
collector is off: its cost grows with the number of live objects.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from output_parsers import OutputParsingError, parser_for

from .measure import Effort, compare, cpu_only
from .records import Customers, Person
from .results import Comparison, Skipped, Stage
from .values import records_text

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
_ROUNDS = 3  # a large text takes seconds
_TOO_MUCH = 6.0  # the next size may take minutes
_LARGEST = {
    "pairs of brackets": 1_000_000
}  # each pair is a candidate answer: 10 MB would take gigabytes of memory


def _times(piece: str) -> Callable[[int], str]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


def _texts() -> tuple[tuple[str, Any, Callable[[int], str]], ...]:
    return (
        ("JSON", Customers, records_text),
        ("JSON with a trailing comma", Customers, lambda size: records_text(size)[:-2] + ",]}"),
        ("brackets [", list[int], _times("[")),
        ("brackets {", Person, _times("{")),
        ("pairs of brackets", Person, _times("[{}]")),
        ("quotes", Person, _times('"')),
        ("quotes in an array", list[str], lambda size: "[" + '"' * size),
        ("prose for a record", Person, _times("It was said that nobody knew. ")),
        ("prose for a number", int, _times("It was said that nobody knew. ")),
        ("digits", int, _times("7")),
        ("digits in an array", list[int], lambda size: "[" + "7" * size + "]"),
    )


def run(effort: Effort) -> Stage:
    """Measure the rows of the second table of the stage ``parse``."""
    quick = Effort(min(effort.rounds, _ROUNDS), min(effort.block_seconds, 0.05), effort.max_text_size)
    gc.disable()
    try:
        rows = [row for kind, tp, make in _texts() for row in _growth(kind, parser_for(tp).read, make, quick)]
        core = Customers.__pydantic_validator__.validate_json
        rows += _growth("JSON, validate_json by itself", core, records_text, quick, target=None)
        return Stage("scaling", rows)
    finally:
        gc.enable()


def _growth(
    kind: str,
    read: Callable[[str], Any],
    make: Callable[[int], str],
    effort: Effort,
    target: float | None = 2.0,
) -> Iterator[Comparison | Skipped]:
    max_text_size = min(effort.max_text_size, _LARGEST.get(kind, effort.max_text_size))
    sizes = [size for size in _SIZES if size <= max_text_size] or [max_text_size]
    small = make(sizes[0])
    for number, size in enumerate(sizes[1:] or sizes, 1):
        large = make(size)
        pairs = cpu_only(compare(partial(_read, read, large), partial(_read, read, small), effort))
        gc.collect()
        growth = len(large) / len(small)
        row = Comparison.of(f"{kind}, {_name(size)}", _name(sizes[0]), pairs, target, growth=growth)
        yield row
        if row.spread[1] > _TOO_MUCH and sizes[number + 1 :]:
            yield Skipped(f"{kind}, larger", "it would take too long")
            return


def _read(read: Callable[[str], Any], text: str) -> None:
    try:
        read(text)
    except OutputParsingError:
        pass


def _name(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} KB"
