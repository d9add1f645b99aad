"""Prints a table row by row, for terminals: fixed columns, wide characters counted as two."""

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
    """The text in a colour where a person watches; NO_COLOR turns it off."""
    if colour is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\033[{_CODES[colour]}m{text}\033[0m"


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, width: int) -> str:
    """The text on one line of that many columns; "…" stands for what was left out."""
    line = " ".join(text.split())
    return line if width_of(line) <= width else f"{_head(line, width - 1).rstrip()}…"


def _head(text: str, width: int) -> str:
    taken = 0
    for position, character in enumerate(text):
        taken += _columns(character)
        if taken > width:
            return text[:position]
    return text


def wrapped(text: str, width: int) -> Iterator[str]:
    """The text in lines of that many columns at most, broken at spaces where there are any."""
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
    """Print one row; a cell that is too wide goes on in the next line. ``first`` colours the first cell."""
    columns = [wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for number, line in enumerate(zip_longest(*columns, fillvalue="")):
        padded = [part + " " * (width - width_of(part)) for part, width in zip(line, widths, strict=True)]
        head = coloured(padded[0], colour or (first if number == 0 else None))
        rest = coloured("  ".join(padded[1:]).rstrip(), colour)
        print(f"{head}  {rest}".rstrip())
