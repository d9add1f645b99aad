"""Asks a moderator about texts, and verifies what it says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ModelError
from ..flow import Do, Emit, Flow
from ..plan import Turn
from .results import ModerationError, ModerationRan, ModerationResult, Moderator, Where

__all__ = ["Check"]


class Check:
    """One question to a moderator; its outcome may come beside others."""

    def __init__(self, moderator: Moderator, texts: tuple[str, ...], where: Where, turn: Turn) -> None:
        self._moderator = moderator
        self._texts = texts
        self._where: Where = where
        self._turn = turn
        self._outcome: Any = None
        self.is_open = bool(texts)

    @property
    def has_come(self) -> bool:
        return self._outcome is not None

    def need(self) -> Do:
        """The need that asks the moderator. Errors of it are kept, and raised by ``verify``."""
        moderate, texts = self._moderator.moderate, self._texts

        async def aask() -> None:
            try:
                awaited: Any = moderate(texts)
                self._outcome = await awaited
            except Exception as error:
                self._outcome = error

        def ask() -> None:
            try:
                self._outcome = moderate(texts)
            except Exception as error:
                self._outcome = error

        asynchronous = inspect.iscoroutinefunction(moderate)
        asked: Callable[[], Any] = aask if asynchronous else ask
        asked.__qualname__ = getattr(moderate, "__qualname__", "moderate")
        return Do(asked, in_thread=not asynchronous)

    def run(self) -> Flow[None]:
        """Ask the moderator and verify what it says."""
        yield self.need()
        yield from self.verify()

    def verify(self) -> Flow[None]:
        """Raise ModerationError for what is flagged, or what the moderator failed with."""
        self.is_open = False
        where, outcome = self._turn.plan.where, self._outcome
        try:
            results = self._results(outcome)
        except ModelError:
            raise
        except Exception as error:
            said = f"{where}: the moderator failed: {type(error).__name__}: {error}"
            raise ModerationError(said, where=self._where) from error
        yield Emit(ModerationRan(self._where, results), shown=False)
        if any(result.flagged for result in results):
            named = dict.fromkeys(name for one in results if one.flagged for name in one.categories)
            what = "what the user says" if self._where == "input" else "the answer"
            said = f"{where}: {what} is flagged by moderation: {', '.join(named) or 'no category is named'}"
            raise ModerationError(said, where=self._where, categories=tuple(named))

    def _results(self, outcome: Any) -> tuple[ModerationResult, ...]:
        if isinstance(outcome, Exception):
            raise outcome
        results = tuple(outcome)
        if len(results) != len(self._texts):
            raise ValueError(f"it gave {len(results)} results for {len(self._texts)} texts")
        return results
