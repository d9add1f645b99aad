"""Makes one list of the contents that several retrievers found for several queries."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import DefinitionError, Fault
from ..flow import Flow
from .content import Content, Query
from .doing import doing

__all__ = ["Fusion", "ReRank", "ReRanker", "ReciprocalRankFusion"]

Rankings = Sequence[Sequence[Content]]


class Fusion(Protocol):
    """Makes one list, the best first, as a flow. ``query`` is the one that the user asked."""

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]: ...


@dataclass(frozen=True, slots=True)
class ReciprocalRankFusion:
    """Ranks a content by the sum of 1 / (k + its rank) over all lists that it is in.

    One list alone stays as it is, with its scores. ``limit`` is how many contents are kept.
    """

    k: int = 60
    limit: int | None = None

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        yield from ()
        return self.fused(rankings)[: self.limit]

    def fused(self, rankings: Rankings) -> list[Content]:
        """All contents, each once."""
        filled = [ranking for ranking in rankings if ranking]
        if len(filled) < 2:
            return _distinct(filled)
        scores: dict[str, float] = {}
        for ranking in filled:
            for rank, content in enumerate(_distinct([ranking]), 1):
                scores[content.key] = scores.get(content.key, 0.0) + 1 / (self.k + rank)
        found = [replace(content, score=scores[content.key]) for content in _distinct(filled)]
        return sorted(found, key=lambda content: -(content.score or 0.0))


class ReRanker(Protocol):
    """Says how well each of the contents answers the query, the higher the better. It may be async."""

    def scores(
        self, query: Query, contents: Sequence[Content], /
    ) -> Sequence[float] | Awaitable[Sequence[float]]: ...


@dataclass(frozen=True, slots=True)
class ReRank:
    """Ranks the contents by the scores of a re-ranker; those below ``at_least`` are left out."""

    ranker: ReRanker
    limit: int | None = None
    at_least: float | None = None

    def __call__(self, query: Query, rankings: Rankings, /) -> Flow[Sequence[Content]]:
        contents = _distinct(rankings)
        if not contents:
            return []
        scores: Sequence[float] = yield doing(self.ranker.scores, query, contents)
        if len(scores) != len(contents):
            said = f"it gave {len(scores)} scores for {len(contents)} contents; it must give one for each"
            raise DefinitionError([Fault(type(self.ranker).__name__, said)])
        scored = [replace(one, score=float(score)) for one, score in zip(contents, scores, strict=True)]
        best = sorted(scored, key=lambda content: -(content.score or 0.0))
        least = float("-inf") if self.at_least is None else self.at_least
        return [one for one in best if one.score is not None and one.score >= least][: self.limit]


def _distinct(rankings: Rankings) -> list[Content]:
    """Each content once, where it was found first."""
    found: dict[str, Content] = {}
    for ranking in rankings:
        for content in ranking:
            found.setdefault(content.key, content)
    return list(found.values())
