"""Functions that print a table in a terminal. Wide characters count as two columns."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

Colour = Literal["green", "red", "grey", "bold"]
_CODES: dict[Colour, str] = {"green": "32", "red": "31", "grey": "90", "bold": "1"}


def coloured(text: str, colour: Colour | None) -> str:
    """Return a text with terminal colour codes, if the output is a terminal and NO_COLOR is not set."""
    if colour is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{_CODES[colour]}m{text}\033[0m"


def width_of(text: str) -> int:
    """Return the number of columns that a text takes in a terminal."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, width: int) -> str:
    """Return a text on one line of at most ``width`` columns; "…" marks an omission."""
    line = " ".join(text.split())
    return line if width_of(line) <= width else f"{_head(line, width - 1).rstrip()}…"


def _head(text: str, width: int) -> str:
    columns = 0
    for position, character in enumerate(text):
        columns += _columns(character)
        if columns > width:
            return text[:position]
    return text


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text, of at most ``width`` columns; lines break at spaces if there are any."""
    rest = " ".join(text.split())
    while width_of(rest) > width:
        head = _head(rest, width + 1)
        line = head[: head.rindex(" ")] if " " in head else _head(rest, width)
        yield line
        rest = rest[len(line) :].lstrip()
    yield rest


def print_row(
    cells: Sequence[str], widths: Sequence[int], colour: Colour | None = None, first: Colour | None = None
) -> None:
    """Print a row of a table; a cell that is too wide continues in the next line."""
    columns = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number, line in enumerate(zip_longest(*columns, fillvalue="")):
        padded = [part + " " * (width - width_of(part)) for part, width in zip(line, widths, strict=True)]
        head = coloured(padded[0], colour or (first if number == 0 else None))
        rest = coloured("  ".join(padded[1:]).rstrip(), colour)
        print(f"{head}  {rest}".rstrip())
