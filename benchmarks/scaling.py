"""Whether the cost of a character stays the same from a small text to a large one, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from output_parsers import OutputParsingError, parser_for

from .measure import Effort, compare
from .records import Customers, Person
from .results import Comparison
from .values import records_text

__all__ = ["scaling"]

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
_ROUNDS = 3  # a large text takes seconds


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


def scaling(effort: Effort) -> Iterator[Comparison]:
    """For each kind of text, the cost of a character in larger texts over that in the smallest one."""
    sizes = [size for size in _SIZES if size <= effort.largest] or [effort.largest]
    quick = Effort(min(effort.rounds, _ROUNDS), min(effort.block_seconds, 0.05))
    for kind, form, make in _texts():
        read = partial(_read, parser_for(form).read)
        small = make(sizes[0])
        for size in sizes[1:] or sizes:
            large = make(size)
            growth = len(large) / len(small)
            times = compare(partial(read, large), partial(read, small), quick)
            yield Comparison(
                f"a character of {kind}, {_name(size)}",
                _name(sizes[0]),
                tuple(t / growth for t in times),
                2.0,
            )


def _read(read: Callable[[str], Any], text: str) -> None:
    try:
        read(text)
    except OutputParsingError:
        pass


def _name(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} KB"
