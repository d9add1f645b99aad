"""A growing string as it was at one moment, joined only when somebody looks."""

from __future__ import annotations

__all__ = ["Pieces", "TextSoFar"]


class Pieces:
    """The pieces of a growing string. They are only ever added to; the last text that was made is kept."""

    __slots__ = ("_joined", "_joined_of", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._joined = ""
        self._joined_of = 0  # how many parts are in it

    def join(self, count: int) -> str:
        """The text of the first ``count`` pieces: of those that a look adds to the last one, once."""
        if count < self._joined_of:
            return "".join(self.parts[:count])
        if count > self._joined_of:
            self._joined = "".join((self._joined, *self.parts[self._joined_of : count]))
            self._joined_of = count
        return self._joined

    def so_far(self) -> TextSoFar:
        """The text as it stands now."""
        return TextSoFar(self, len(self.parts))


class TextSoFar:
    """A growing string at one moment: the first pieces of those that others go on adding to."""

    __slots__ = ("_count", "_pieces")

    def __init__(self, pieces: Pieces, count: int) -> None:
        self._pieces = pieces
        self._count = count

    def join(self) -> str:
        return self._pieces.join(self._count)
