"""Lays contents together so that as few requests as possible show them all, none more than fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import DefinitionError, Fault
from ..retrieval.content import Content
from ..retrieval.injecting import listed
from ..retrieval.optional import needed

__all__ = ["Room"]


@dataclass(frozen=True, slots=True)
class Room:
    """How much text of contents one request shows: ``limit``, as ``measure`` counts it."""

    limit: int
    measure: Callable[[str], int] = len

    def __post_init__(self) -> None:
        if self.limit < 1:
            said = f"limit is {self.limit}; it must be at least 1"
            raise DefinitionError([Fault("Synthesizer", said)])

    def pieces(self, contents: Sequence[Content]) -> list[str]:
        """Each content by itself, below its id; one that is too long in several pieces with that id.

        Cutting needs semantic-text-splitter. Raises ValueError where an id alone leaves no room for text.
        """
        return [piece for content in contents for piece in self._cut(content)]

    def packed(self, contents: Sequence[Content]) -> list[str]:
        """As many contents together as fit, in their order."""
        packs: list[str] = []
        for piece in self.pieces(contents):
            joined = f"{packs[-1]}\n\n{piece}" if packs else piece
            if packs and self.measure(joined) <= self.limit:
                packs[-1] = joined
            else:
                packs.append(piece)
        return packs

    def truncated(self, contents: Sequence[Content]) -> str:
        """All contents in one text; where that is too long, the beginning of each."""
        whole = listed(contents)
        if self.measure(whole) <= self.limit:
            return whole
        left = self.limit - self.measure("\n\n") * (len(contents) - 1)
        by_size = sorted(enumerate(contents), key=lambda one: self.measure(listed([one[1]])))
        shown: dict[int, str] = {}
        for at, content in by_size:  # what the short ones leave over is for the long ones
            share = Room(max(left // (len(contents) - len(shown)), 1), self.measure)
            shown[at] = share.pieces([content])[0]
            left -= self.measure(shown[at])
        return "\n\n".join(shown[at] for at in range(len(contents)))

    def _cut(self, content: Content) -> list[str]:
        whole = listed([content])
        if self.measure(whole) <= self.limit:
            return [whole]
        head = whole.removesuffix(content.text)
        left = self.limit - self.measure(head)
        if left < 1:
            said = f"the id {content.id!r} leaves no room for text within the limit of {self.limit}"
            raise ValueError(f"{said}; raise limit or shorten the ids")
        splitter = needed("semantic_text_splitter", "retrieval").TextSplitter.from_callback(
            self.measure, left
        )
        return [f"{head}{piece}" for piece in splitter.chunks(content.text) or [""]]
