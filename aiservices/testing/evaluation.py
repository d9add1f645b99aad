"""Calls a method for many cases, and scores what it answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, overload

from ..engine.effects import Flow, Gather, Run, arun, run
from ..engine.results import Result
from ..engine.streams import AsyncStream, Stream
from ..models.messages import Usage
from .report import Outcome, Report
from .scoring import NOTHING, Answered, Score, Scorer, Spent, spent_on, waits, where_of

T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True)
class Case(Generic[E]):
    """Arguments of a call by name, and what is expected of it.

    Where nothing is said to be expected, a scorer that asks for it fails; None is a value like others.
    """

    arguments: Mapping[str, Any]
    expected: E | None = NOTHING
    name: str = ""


Cases: TypeAlias = Sequence[Case[Any]]


@overload
def evaluate(
    method: Callable[..., Awaitable[Result[T]]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
def evaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
def evaluate(
    method: Callable[..., Any],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    at_once: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
    """Call ``method`` once for each case, ``at_once`` at a time, and give each answer to each scorer.

    ``method`` is that of a service, blocking, async or streaming, or any function to compare it with. A call
    that fails does not end the others: its error is in the report. Raises ValueError for no cases, or two
    scorers of one name; TypeError for what is no method, Case or Scorer; RuntimeError in an event loop when
    something is async: ``aevaluate`` is for that.
    """
    evaluation = _Evaluation(method, cases, scorers, at_once, confidence)
    if not evaluation.waits:
        return run(evaluation.flow(run))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(arun(evaluation.flow(arun)))
    raise RuntimeError("an event loop is running here: write await aevaluate(…)")


@overload
async def aevaluate(
    method: Callable[..., Awaitable[Result[T]]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
async def aevaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    at_once: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
async def aevaluate(
    method: Callable[..., Any],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    at_once: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
    """As ``evaluate``, in the running event loop; what blocks runs in threads."""
    return await arun(_Evaluation(method, cases, scorers, at_once, confidence).flow(arun))


class _Evaluation:
    def __init__(
        self,
        method: Callable[..., Any],
        cases: Cases,
        scorers: Sequence[Scorer[Any]],
        at_once: int,
        confidence: float,
    ) -> None:
        _check(method, cases, scorers)
        names = [scorer.name for scorer in scorers]
        if not cases:
            raise ValueError("there are no cases to evaluate")
        if len(set(names)) != len(names):
            raise ValueError(f"two scorers have one name: {', '.join(names)}; give them names of their own")
        if at_once < 1:
            raise ValueError(f"at_once is {at_once}; it must be at least 1")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence is {confidence}; it must be between 0 and 1")
        self._method, self._cases, self._scorers = method, tuple(cases), tuple(scorers)
        self._at_once, self._confidence = at_once, confidence
        self.waits = any(map(waits, (method, *(scorer.function for scorer in scorers))))

    def flow(self, drive: Callable[[Flow[Outcome]], Any]) -> Flow[Report[Any]]:
        began = time.monotonic()
        needs = tuple(Run(partial(drive, self._case(case, n))) for n, case in enumerate(self._cases, 1))
        outcomes: list[Outcome] = yield Gather(needs, self._at_once)
        names = tuple(scorer.name for scorer in self._scorers)
        seconds = time.monotonic() - began
        return Report(where_of(self._method), tuple(outcomes), names, self._confidence, seconds)

    def _case(self, case: Case[Any], number: int) -> Flow[Outcome]:
        spent = yield from spent_on(self._method, case.arguments)
        scores: dict[str, Score | Exception] = {}
        judged = Usage()
        if spent.error is None:
            answered = Answered(case.arguments, case.expected, spent.value)
            for scorer in self._scorers:
                score = yield from _scored(scorer, answered)
                scores[scorer.name] = score.value if score.error is None else score.error
                judged += score.usage
        return Outcome(
            case.name or str(number),
            case.arguments,
            case.expected,
            spent.value,
            spent.error,
            scores,
            spent.attempts,
            spent.usage,
            spent.seconds,
            judged,
        )


def _check(method: object, cases: Sequence[object], scorers: Sequence[object]) -> None:
    """Raises TypeError for what would fail in every case, or is easily written in place of what is meant."""
    if not callable(method):
        raise TypeError(
            f"{type(method).__name__} cannot be called; give a method, as in evaluate(desk.ticket, …)"
        )
    for number, case in enumerate(cases, 1):
        if not isinstance(case, Case):
            raise TypeError(f"case {number} is of type {type(case).__name__}; write Case({{…}}, expected)")
    for scorer in scorers:
        if not isinstance(scorer, Scorer):
            name = getattr(scorer, "__name__", repr(scorer))
            raise TypeError(f"{name} is no scorer; write the call, as in exact(), or scored_by(function)")


def _scored(scorer: Scorer[Any], answered: Answered[Any]) -> Flow[Spent]:
    """The score that a scorer gives, or its error."""
    try:
        arguments = scorer.choose(answered)
    except TypeError as error:
        return Spent(None, error, 0, Usage(), 0.0)
    spent = yield from spent_on(scorer.function, arguments)
    score = spent.value
    if spent.error is None and not (isinstance(score, (int, float)) and math.isfinite(score)):
        wrong = TypeError(f"the scorer {scorer.name} gave {score!r}; it must give True, False or a number")
        return spent._replace(error=wrong)
    return spent
