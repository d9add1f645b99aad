"""The pages of documents, and the positions of their characters."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_CHARACTER = struct.Struct("<4f")


class Box(NamedTuple):
    """A rectangle on a page, in points (1/72 inch) from the top left corner of the page.

    Attributes:
        page: The number of the page, counted from 1.
        left: The distance of the left edge from the page's left edge.
        top: The distance of the upper edge from the page's upper edge.
        right: The distance of the right edge from the left edge of the page.
        bottom: The distance of the lower edge from the upper edge of the page.
    """

    page: int
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a document.

    Attributes:
        start: The index of its first character in the text of the document.
        end: The index after its last character.
        width: Its width in points; 0 if it is unknown.
        height: Its height in points; 0 if it is unknown.
        characters: The edges (left, top, right, bottom) of each character, as little-endian 32-bit floats,
            in points from the top left corner. Empty if they are unknown. White space may have no size.
    """

    start: int
    end: int
    width: float = 0.0
    height: float = 0.0
    characters: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a page begins at {self.start} and ends at {self.end}")
        if self.characters and len(self.characters) != (self.end - self.start) * _CHARACTER.size:
            raise ValueError(
                f"a page of {self.end - self.start} characters has {len(self.characters)} bytes of edges; "
                f"each character has {_CHARACTER.size}"
            )

    def boxes(self, start: int, end: int, number: int) -> Iterator[Box]:
        """Yield a box for each line of the characters from one index to another.

        ``number`` is the number of the page in the boxes.
        """
        start, end = max(start, self.start) - self.start, min(end, self.end) - self.start
        if not self.characters or start >= end:
            return
        line: Box | None = None
        for edges in _CHARACTER.iter_unpack(self.characters[start * _CHARACTER.size : end * _CHARACTER.size]):
            left, top, right, bottom = edges
            if right <= left or bottom <= top:
                continue
            if line is not None and _continues(line, edges):
                line = Box(
                    number,
                    min(line.left, left),
                    min(line.top, top),
                    max(line.right, right),
                    max(line.bottom, bottom),
                )
                continue
            if line is not None:
                yield line
            line = Box(number, left, top, right, bottom)
        if line is not None:
            yield line


def pack_characters(edges: Iterator[tuple[float, float, float, float]]) -> bytes:
    """Return the edges of characters in the form of ``Page.characters``."""
    return b"".join([_CHARACTER.pack(*one) for one in edges])


def _continues(line: Box, edges: tuple[float, float, float, float]) -> bool:
    """Return True if a character continues the line of a box: to its right, or in its column."""
    left, top, right, bottom = edges
    height = min(line.bottom - line.top, bottom - top)
    if min(line.bottom, bottom) - max(line.top, top) > height / 2:
        return left >= line.left or line.left - right < height  # also from right to left
    width = right - left
    is_column = abs(line.right - line.left - width) < width / 2 and abs(left - line.left) < width / 2
    return is_column and (abs(top - line.bottom) < 1 or abs(bottom - line.top) < 1)
