"""Evaluate a service method: call it once for each test case, and score the answers."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack, overload

from ..engine.drivers import arun, run
from ..engine.effects import Flow, Gather, Run
from ..engine.results import Result
from ..engine.streams import AsyncStream, Stream
from ..models.arguments import checks_arguments
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Usage
from .case import Case
from .report import Outcome, Report
from .scoring import MeasuredCall, Score, Scorer, ScorerInput, Verdict, is_async, measure_call, title_of

T = TypeVar("T")


Cases: TypeAlias = Sequence[Case[Any]]


class _EvaluateSettings(TypedDict, total=False):
    """The settings of ``evaluate`` and ``aevaluate``, for type checkers."""

    repeat: int
    errors: Literal["report", "raise"]
    max_concurrency: int
    confidence: float


@overload
def evaluate(
    method: Callable[..., Awaitable[Result[T]]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Iterator[object] | AsyncIterator[object]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[Any]: ...
@overload
def evaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@checks_arguments
def evaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = 1,
    errors: Literal["report", "raise"] = "report",
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[object]:
    """Call a method once for each test case, and score each answer with the given scorers.

    Args:
        method: A method of a service (blocking, async or streaming), or any function to compare it with.
        cases: The test cases.
        scorers: Score each answer.
        repeat: The number of calls of each case, because models answer differently each time. The report then
            has the score of each run, and its intervals treat the answers to one case as one observation.
        errors: With "report", the errors of calls and scorers are in the report; with "raise", the first one
            is raised.
        max_concurrency: The maximum number of calls at a time.
        confidence: The level of the intervals in the report.

    Raises DefinitionError if there are no cases, if two scorers have the same name, or if ``method``, a case
    or a scorer has the wrong type. Raises RuntimeError if something is async and an event loop is already
    running; use ``aevaluate`` in that case.

        report = evaluate(desk.ticket, [Case({"letter": "Help!"}, "high")], [exact()])
    """
    settings = _Settings(repeat, errors, max_concurrency, confidence)
    evaluation = _Evaluation(method, cases, scorers, settings)
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
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Iterator[object] | AsyncIterator[object]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[Any]: ...
@overload
async def aevaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    **settings: Unpack[_EvaluateSettings],
) -> Report[T]: ...
@checks_arguments
async def aevaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = 1,
    errors: Literal["report", "raise"] = "report",
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[object]:
    """Call a method once for each test case in the running event loop, and score the answers.

    Blocking functions run in threads. ``cases``, ``scorers``, ``repeat``, ``errors``, ``max_concurrency`` and
    ``confidence`` are those of ``evaluate``.
    """
    settings = _Settings(repeat, errors, max_concurrency, confidence)
    return await arun(_Evaluation(method, cases, scorers, settings).flow(arun))


class _Settings(NamedTuple):
    """The settings of ``evaluate``."""

    repeat: int
    errors: str
    max_concurrency: int
    confidence: float

    def problems(self) -> Iterator[str]:
        if type(self.repeat) is not int or self.repeat < 1:
            yield f"repeat is {self.repeat!r}; it must be a whole number of at least 1"
        if self.errors not in ("report", "raise"):
            yield f'errors is {self.errors!r}; write "report" or "raise"'
        if self.max_concurrency < 1:
            yield f"max_concurrency is {self.max_concurrency}; it must be at least 1"
        if not 0 < self.confidence < 1:
            yield f"confidence is {self.confidence}; it must be between 0 and 1"


class _Evaluation:
    """The evaluation of a blocking or async service method with test cases."""

    def __init__(
        self,
        method: Callable[..., object],
        cases: Cases,
        scorers: Sequence[Scorer[Any]],
        settings: _Settings,
    ) -> None:
        messages = chain(_problems(method, cases, scorers), settings.problems())
        problems = [DefinitionProblem("evaluate", message) for message in messages]
        if problems:
            raise DefinitionError(problems)
        self._method, self._cases, self._scorers = method, tuple(cases), tuple(scorers)
        self._settings = settings
        self.is_async = any(map(is_async, (method, *(scorer.function for scorer in scorers))))

    def flow(self, drive: Callable[[Flow[Outcome]], object]) -> Flow[Report[object]]:
        """Run all test cases of an evaluation concurrently, and return the report."""
        started, settings = time.monotonic(), self._settings
        numbered = [(case, n) for n, case in enumerate(self._cases, 1) for _ in range(settings.repeat)]
        # Each call is one effect, so that the driver runs them in threads or tasks with one limit.
        runs = tuple(Run(partial(drive, self._case(case, n))) for case, n in numbered)
        outcomes: list[Outcome] = yield Gather(runs, settings.max_concurrency)
        names = tuple(scorer.name for scorer in self._scorers)
        seconds = time.monotonic() - started
        means = frozenset(scorer.name for scorer in self._scorers if scorer.is_rate is False)
        return Report(
            title_of(self._method),
            tuple(outcomes),
            names,
            settings.confidence,
            seconds,
            means,
            settings.repeat,
            frozenset(scorer.name for scorer in self._scorers if scorer.lower_is_better),
        )

    def _case(self, case: Case[object], number: int) -> Flow[Outcome]:
        call = yield from measure_call(self._method, case.arguments)
        self._raise(call.error)
        scores: dict[str, Score | Exception] = {}
        reasons: dict[str, str] = {}
        judge_usage = Usage()
        if call.error is None:
            scorer_input = ScorerInput(case.arguments, case.expected, call.value)
            for scorer in self._scorers:
                # Scorers run one after the other: calls of different cases already run concurrently.
                scoring = yield from _score(scorer, scorer_input)
                judge_usage += scoring.usage
                if call.trace is not None:
                    call.trace.add_score(scorer.name, scoring.value, scoring.error)
                self._raise(scoring.error)
                if scoring.error is not None:
                    scores[scorer.name] = scoring.error
                    continue
                scores[scorer.name], reason = scoring.value
                if reason:
                    reasons[scorer.name] = reason
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
            reasons,
        )

    def _raise(self, error: Exception | None) -> None:
        if error is not None and self._settings.errors == "raise":
            raise error


def _argument_problem(method: Callable[..., object], arguments: object) -> str:
    """Return a message about an argument of a case that the method does not have; "" if all arguments fit."""
    if not isinstance(arguments, Mapping):
        return f"its arguments are {type(arguments).__name__}; write a dict by the names of the parameters"
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # a function of an extension module may have no signature
        return ""
    parameters = signature.parameters
    kinds = {one.kind for one in parameters.values()}
    takes_any = not kinds.isdisjoint((inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY))
    unknown = [] if takes_any else [name for name in arguments if name not in parameters]
    if not unknown:
        return ""
    return f"it has no parameter {unknown[0]}; the parameters are: {', '.join(parameters) or 'none'}"


def _case_problem(method: object, case: object) -> str:
    if not isinstance(case, Case):
        return f"is of type {type(case).__name__}; write Case({{…}}, expected)"
    problem = _argument_problem(method, case.arguments) if callable(method) else ""
    if problem:
        return f"does not fit the method: {problem}"
    return ""


def _problems(
    method: object,
    cases: Sequence[object],
    scorers: Sequence[object],
) -> Iterator[str]:
    """Yield the mistakes in the arguments of ``evaluate``, such as ``exact`` instead of ``exact()``."""
    if not callable(method):
        yield f"{type(method).__name__} cannot be called; pass a method, as in evaluate(desk.ticket, …)"
    if not cases:
        yield "there are no cases to evaluate"
    for number, case in enumerate(cases, 1):
        problem = _case_problem(method, case)
        if problem:
            yield f"case {number} {problem}"
    for scorer in scorers:
        if not isinstance(scorer, Scorer):
            name = getattr(scorer, "__name__", repr(scorer))
            yield f"{name} is not a scorer; write the call, as in exact(), or scored_by(function)"
    # The report finds scores by the name of their scorer.
    names = [scorer.name for scorer in scorers if isinstance(scorer, Scorer)]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"{names.count(name)} scorers have the name {name}; give each its own name"


def _score(scorer: Scorer[object], scorer_input: ScorerInput[object]) -> Flow[MeasuredCall]:
    """Call a scorer for an answer; return the Verdict, or the error raised by the scorer."""
    try:
        arguments = scorer.select_arguments(scorer_input)
    except TypeError as error:
        return MeasuredCall(None, error, 0, Usage(), 0.0)
    scoring = yield from measure_call(scorer.function, arguments)
    if scoring.error is not None:
        return scoring
    verdict = scoring.value if isinstance(scoring.value, Verdict) else Verdict(scoring.value)
    if not (isinstance(verdict.score, (int, float)) and math.isfinite(verdict.score)):
        message = (
            f"the scorer {scorer.name} returned {verdict.score!r}; it must return True, False or a number"
        )
        return scoring._replace(error=TypeError(message))
    return scoring._replace(value=verdict)
