"""Asks a moderator about texts, and verifies what it says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import AiServiceError, ModelError
from ..flow import Do, Emit, Flow
from ..plan import Turn
from .results import ModerationError, ModerationRan, ModerationResult, Moderator, Where

__all__ = ["Check"]

_TO_COME: Any = object()


class Check:
    """One question to a moderator, asked beside a request; ``is_open`` until there is a verdict."""

    def __init__(self, moderator: Moderator, texts: tuple[str, ...], where: Where, turn: Turn) -> None:
        self._moderator = moderator
        self._texts = texts
        self._where: Where = where
        self._turn = turn
        self._outcome: Any = _TO_COME
        self.is_open = bool(texts)

    def need(self) -> Do:
        """The need that asks the moderator; the outcome is whether all may pass. ``verdict`` says why not."""
        moderate, texts = self._moderator.moderate, self._texts

        async def aask() -> bool:
            try:
                awaited: Any = moderate(texts)
                self._outcome = await awaited
            except Exception as error:
                self._outcome = error
            return self._passes()

        def ask() -> bool:
            try:
                self._outcome = moderate(texts)
            except Exception as error:
                self._outcome = error
            return self._passes()

        asynchronous = inspect.iscoroutinefunction(moderate)
        asked: Callable[[], Any] = aask if asynchronous else ask
        asked.__qualname__ = getattr(moderate, "__qualname__", "moderate")
        return Do(asked, in_thread=not asynchronous)

    def run(self) -> Flow[None]:
        """Ask the moderator. Raises what ``verdict`` gives."""
        yield self.need()
        refusal = yield from self.verdict()
        if refusal is not None:
            raise refusal

    def verdict(self) -> Flow[AiServiceError | None]:
        """Why what the moderator was asked for may not pass; None where it may, or no answer has come yet.

        A ModerationError for what is flagged, or for what the moderator failed with; a ModelError as it is.
        """
        if self._outcome is _TO_COME:
            return None
        refusal: AiServiceError | None
        try:
            results = self._results()
            refusal = self._flagged(results)
        except ModelError as error:
            refusal = error
        except Exception as error:
            refusal = self._failed(error)
        else:
            yield Emit(ModerationRan(self._where, results), shown=False)
        self.is_open = False
        return refusal

    def _passes(self) -> bool:
        try:
            return not any(result.flagged for result in self._results())
        except Exception:  # ``verdict`` tells
            return False

    def _results(self) -> tuple[ModerationResult, ...]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        self._outcome = results = tuple(self._outcome)
        if len(results) != len(self._texts):
            raise ValueError(f"it gave {len(results)} results for {len(self._texts)} texts")
        return results

    def _failed(self, error: Exception) -> ModerationError:
        said = f"{self._turn.plan.where}: the moderator failed: {type(error).__name__}: {error}"
        failure = ModerationError(said, where=self._where)
        failure.__cause__ = error
        return failure

    def _flagged(self, results: tuple[ModerationResult, ...]) -> ModerationError | None:
        if not any(result.flagged for result in results):
            return None
        named = tuple(dict.fromkeys(name for one in results if one.flagged for name in one.categories))
        what = "what the user says" if self._where == "input" else "the answer"
        said = f"{what} is flagged by moderation: {', '.join(named) or 'no category is named'}"
        return ModerationError(f"{self._turn.plan.where}: {said}", where=self._where, categories=named)
