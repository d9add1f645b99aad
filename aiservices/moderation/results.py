"""What a moderator says of texts, and the error of what it flags."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from ..errors import AiServiceError

__all__ = ["ModerationError", "ModerationRan", "ModerationResult", "Moderator", "Where"]

Where: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class ModerationResult:
    """What a moderator says of one text: whether it is flagged, and in which categories."""

    flagged: bool
    categories: tuple[str, ...] = ()


class Moderator(Protocol):
    """Says of each text whether it may be said, in their order; may be async where all methods are."""

    def moderate(
        self, texts: Sequence[str], /
    ) -> Sequence[ModerationResult] | Awaitable[Sequence[ModerationResult]]: ...


class ModerationRan(NamedTuple):
    """A moderator has checked what was said; an event for listeners."""

    where: Where
    results: tuple[ModerationResult, ...]


class ModerationError(AiServiceError):
    """What was said is flagged in these ``categories``; ``where``: at the "input" or the "output".

    Without categories, where the moderator names none, or failed by itself, as the ``__cause__`` says.
    """

    def __init__(self, message: str, *, where: Where, categories: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.where = where
        self.categories = categories
