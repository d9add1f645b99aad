"""A reply that is plain text, while it is written: the text without the reasoning before it."""

from __future__ import annotations

from .growing_roots import ReplyHead
from .pieces import Pieces, TextSoFar

__all__ = ["GrowingText"]


class GrowingText:
    """The answer of a growing reply. Behind reasoning, the white space around it is no part of it."""

    def __init__(self, head: ReplyHead) -> None:
        self._head = head
        self._pieces = Pieces()
        self._held: list[str] = []  # white space that may be the end of the text

    def feed(self, answer: str) -> None:
        """Take the next part of what stands behind the reasoning."""
        bare = answer.rstrip().rstrip("\ufeff\u200b\u2060\0").rstrip() if self._head.reasoned else answer
        if bare:
            self._pieces.parts += [*self._held, bare]
            self._held = []
        if len(bare) < len(answer):
            self._held.append(answer[len(bare) :])

    def so_far(self) -> TextSoFar | None:
        """What can be shown of it now; None when nothing has come."""
        return self._pieces.so_far() if self._pieces.parts else None
