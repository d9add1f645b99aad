"""Evaluate a service method: call it once for each test case, and score the answers."""

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
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Usage
from .report import Outcome, Report
from .scoring import NOT_GIVEN, MeasuredCall, Score, Scorer, ScorerInput, is_async, measure_call, title_of

T = TypeVar("T")
E = TypeVar("E")


@dataclass(frozen=True)
class Case(Generic[E]):
    """A test case of an evaluation: the arguments of a method call and the expected value.

    Attributes:
        arguments: The arguments of the call, by parameter name.
        expected: The value that scorers compare with; None is a value like any other. If it is not given, a
            scorer that needs it fails with an error in the report.
        name: The name of the case in the report. The default is its number, counted from 1.
        tags: Names of groups of cases. The report has the scores for each tag.
    """

    arguments: Mapping[str, Any]
    expected: E | None = NOT_GIVEN
    name: str = ""
    tags: tuple[str, ...] = ()


Cases: TypeAlias = Sequence[Case[Any]]


@overload
def evaluate(
    method: Callable[..., Awaitable[Result[T]]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
def evaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
def evaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
    """Call a method once for each test case, and score each answer with the given scorers.

    ``method`` is a method of a service (blocking, async or streaming) or any function to compare it with. At
    most ``max_concurrency`` calls run at a time. ``confidence`` is the level of the intervals in the report.
    A call that fails does not stop the others: the report contains its error.

    Raises DefinitionError if there are no cases, if two scorers have the same name, or if ``method``, a case
    or a scorer has the wrong type. Raises RuntimeError if something is async and an event loop is already
    running; use ``aevaluate`` there.

        report = evaluate(desk.ticket, [Case({"letter": "Help!"}, "high")], [exact()])
    """
    evaluation = _Evaluation(method, cases, scorers, max_concurrency, confidence)
    if not evaluation.is_async:
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
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
async def aevaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
async def aevaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
    """Call a method once for each test case in the running event loop, and score the answers.

    Blocking functions run in threads. ``cases``, ``scorers``, ``max_concurrency`` and ``confidence`` are
    those of ``evaluate``.
    """
    return await arun(_Evaluation(method, cases, scorers, max_concurrency, confidence).flow(arun))


class _Evaluation:
    """The evaluation of a blocking or async service method with test cases."""

    def __init__(
        self,
        method: Callable[..., object],
        cases: Cases,
        scorers: Sequence[Scorer[Any]],
        max_concurrency: int,
        confidence: float,
    ) -> None:
        problems = [
            DefinitionProblem("evaluate", message)
            for message in _problems(method, cases, scorers, max_concurrency, confidence)
        ]
        if problems:
            raise DefinitionError(problems)
        self._method, self._cases, self._scorers = method, tuple(cases), tuple(scorers)
        self._max_concurrency, self._confidence = max_concurrency, confidence
        self.is_async = any(map(is_async, (method, *(scorer.function for scorer in scorers))))

    def flow(self, drive: Callable[[Flow[Outcome]], Any]) -> Flow[Report[Any]]:
        """Run all test cases of an evaluation concurrently, and return the report."""
        started = time.monotonic()
        runs = tuple(Run(partial(drive, self._case(case, n))) for n, case in enumerate(self._cases, 1))
        # Each case is one effect, so that the driver runs them in threads or tasks with one limit.
        outcomes: list[Outcome] = yield Gather(runs, self._max_concurrency)
        names = tuple(scorer.name for scorer in self._scorers)
        seconds = time.monotonic() - started
        means = frozenset(scorer.name for scorer in self._scorers if scorer.is_rate is False)
        return Report(title_of(self._method), tuple(outcomes), names, self._confidence, seconds, means)

    def _case(self, case: Case[Any], number: int) -> Flow[Outcome]:
        call = yield from measure_call(self._method, case.arguments)
        scores: dict[str, Score | Exception] = {}
        judge_usage = Usage()
        if call.error is None:
            scorer_input = ScorerInput(case.arguments, case.expected, call.value)
            for scorer in self._scorers:
                # Scorers run one after the other: calls of different cases already run concurrently.
                scoring = yield from _score(scorer, scorer_input)
                scores[scorer.name] = scoring.value if scoring.error is None else scoring.error
                judge_usage += scoring.usage
        return Outcome(
            case.name or str(number),
            case.arguments,
            case.expected,
            call.value,
            call.error,
            scores,
            call.attempts,
            call.usage,
            call.seconds,
            judge_usage,
            case.tags,
        )


def _problems(
    method: object,
    cases: Sequence[object],
    scorers: Sequence[object],
    max_concurrency: int,
    confidence: float,
) -> Iterator[str]:
    """Yield the mistakes in an evaluation's arguments, such as ``exact`` instead of ``exact()``."""
    if not callable(method):
        yield f"{type(method).__name__} cannot be called; pass a method, as in evaluate(desk.ticket, …)"
    if not cases:
        yield "there are no cases to evaluate"
    for number, case in enumerate(cases, 1):
        if not isinstance(case, Case):
            yield f"case {number} is of type {type(case).__name__}; write Case({{…}}, expected)"
        elif isinstance(case.tags, str) or not all(isinstance(tag, str) for tag in case.tags):
            yield f"case {number} has the tags {case.tags!r}; write a tuple of texts"
    for scorer in scorers:
        if not isinstance(scorer, Scorer):
            name = getattr(scorer, "__name__", repr(scorer))
            yield f"{name} is not a scorer; write the call, as in exact(), or scored_by(function)"
    # The report finds scores by the name of their scorer.
    names = [scorer.name for scorer in scorers if isinstance(scorer, Scorer)]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{names.count(name)} scorers have the name {name}; give each its own name"
    if max_concurrency < 1:
        yield f"max_concurrency is {max_concurrency}; it must be at least 1"
    if not 0 < confidence < 1:
        yield f"confidence is {confidence}; it must be between 0 and 1"


def _score(scorer: Scorer[Any], scorer_input: ScorerInput[Any]) -> Flow[MeasuredCall]:
    """Call a scorer for an answer; return the score, or the error raised by the scorer."""
    try:
        arguments = scorer.select_arguments(scorer_input)
    except TypeError as error:
        return MeasuredCall(None, error, 0, Usage(), 0.0)
    scoring = yield from measure_call(scorer.function, arguments)
    score = scoring.value
    if scoring.error is None and not (isinstance(score, (int, float)) and math.isfinite(score)):
        message = f"the scorer {scorer.name} returned {score!r}; it must return True, False or a number"
        return scoring._replace(error=TypeError(message))
    return scoring
