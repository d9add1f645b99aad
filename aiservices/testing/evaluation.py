"""Evaluate a service method with test cases, and calibrate its probabilities.

An evaluation calls the method once for each test case and scores the answers. A calibration adjusts the
probabilities so that they match labelled examples.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

from output_parsers import Decision

from ..engine.drivers import arun, run
from ..engine.effects import Flow, Gather, Run
from ..engine.probabilities import Calibration, CalibrationEntry, PossibleAnswers
from ..engine.results import Answer, Result
from ..engine.streams import AsyncStream, Stream
from ..models.errors import AiServiceError, DefinitionError, DefinitionProblem
from ..models.messages import Usage
from ..service.decisions import answers_of, question_hash
from ..service.methods import ServiceMethod, is_service_method, service_method_of
from .reliability import (
    Labelled,
    Threshold,
    find_threshold,
    fit,
    labels_needed,
    measures,
    reliability_svg,
    stated_text,
    threshold_table,
)
from .report import Outcome, Report
from .scoring import (
    NOT_GIVEN,
    MeasuredCall,
    Score,
    Scorer,
    ScorerInput,
    Verdict,
    is_async,
    measure_call,
    title_of,
)

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
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
def evaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
def evaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
def evaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = 1,
    errors: Literal["report", "raise"] = "report",
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
    """Call a method once for each test case, and score each answer with the given scorers.

    Args:
        method: A method of a service (blocking, async or streaming), or any function to compare it with.
        cases: The test cases.
        scorers: Score each answer.
        repeat: How often each case is called, because models answer differently each time. The report then
            has the score of each run, and its intervals treat the answers to one case as one observation.
        errors: With "report", the errors of calls and scorers are in the report; with "raise", the first one
            is raised.
        max_concurrency: How many calls run at a time.
        confidence: The level of the intervals in the report.

    Raises DefinitionError if there are no cases, if two scorers have the same name, or if ``method``, a case
    or a scorer has the wrong type. Raises RuntimeError if something is async and an event loop is already
    running; use ``aevaluate`` there.

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
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Awaitable[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Result[T] | Stream[T] | AsyncStream[T]],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
@overload
async def aevaluate(
    method: Callable[..., Iterator[Any] | AsyncIterator[Any]],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[Any]: ...
@overload
async def aevaluate(
    method: Callable[..., T],
    cases: Cases,
    scorers: Sequence[Scorer[T]],
    *,
    repeat: int = ...,
    errors: Literal["report", "raise"] = ...,
    max_concurrency: int = ...,
    confidence: float = ...,
) -> Report[T]: ...
async def aevaluate(
    method: Callable[..., object],
    cases: Cases,
    scorers: Sequence[Scorer[Any]],
    *,
    repeat: int = 1,
    errors: Literal["report", "raise"] = "report",
    max_concurrency: int = 4,
    confidence: float = 0.95,
) -> Report[Any]:
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

    def flow(self, drive: Callable[[Flow[Outcome]], Any]) -> Flow[Report[Any]]:
        """Run all test cases of an evaluation concurrently, and return the report."""
        started, settings = time.monotonic(), self._settings
        numbered = [(case, n) for n, case in enumerate(self._cases, 1) for _ in range(settings.repeat)]
        # Each call is one effect, so that the driver runs them in threads or tasks with one limit.
        runs = tuple(Run(partial(drive, self._case(case, n))) for case, n in numbered)
        outcomes: list[Outcome] = yield Gather(runs, settings.max_concurrency)
        names = tuple(scorer.name for scorer in self._scorers)
        seconds = time.monotonic() - started
        means = frozenset(scorer.name for scorer in self._scorers if scorer.is_rate is False)
        title = title_of(self._method)
        return Report(title, tuple(outcomes), names, settings.confidence, seconds, means, settings.repeat)

    def _case(self, case: Case[Any], number: int) -> Flow[Outcome]:
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
                self._raise(scoring.error)
                judge_usage += scoring.usage
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
    """Return a message about an argument of a case that the method does not have; "" if there is none."""
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
        if not isinstance(case, Case):
            yield f"case {number} is of type {type(case).__name__}; write Case({{…}}, expected)"
        elif callable(method) and (problem := _argument_problem(method, case.arguments)):
            yield f"case {number} does not fit the method: {problem}"
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


def _score(scorer: Scorer[Any], scorer_input: ScorerInput[Any]) -> Flow[MeasuredCall]:
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


_MISSING = object()


class _Called(NamedTuple):
    """A method's answer to a labelled example, or the error if the call failed."""

    case: Case[Any]
    answer: Answer | None
    error: AiServiceError | None


def calibrate(
    method: Callable[..., object],
    cases: Sequence[Case[Any]],
    *,
    error: float = 0.05,
    confidence: float = 0.95,
    max_concurrency: int = 4,
) -> Calibrated:
    """Call a service method for labelled examples, and fit calibrations and thresholds for its answers.

    The method is called without its service's calibration and thresholds. For a method that returns a record,
    ``expected`` of a case is such a record or a dict; fields without a label are skipped. Hundreds of labels
    are needed: below about 100 a calibration seldom helps, and a threshold for an error of 5 % needs about
    300.

    Args:
        method: A method of a service that returns a Decision, a bool, an Enum, a Literal, or a record of
            them.
        cases: The examples, with the right answer as ``expected``.
        error: The highest share of wrong answers above the threshold.
        confidence: The probability that this limit holds, for examples like these.
        max_concurrency: How many calls run at the same time.

    Raises DefinitionError if the method has no answers to calibrate, or if the examples have no labels.
    """
    problems = [
        DefinitionProblem("calibrate", text)
        for text in _calibration_problems(method, cases, error, confidence)
    ]
    if problems:
        raise DefinitionError(problems)
    bound = service_method_of(method)
    flow = _call_all(bound, cases, max_concurrency)
    called = asyncio.run(arun(flow)) if bound.plan.returns.is_async else run(flow)
    return _calibrated(bound, called, error, confidence)


def _calibration_problems(
    method: object, cases: Sequence[object], error: float, confidence: float
) -> Iterator[str]:
    if not is_service_method(method):
        yield f"{method!r} is not a method of a service made by create"
    elif not answers_of(service_method_of(method).plan):
        yield "the method does not return a Decision, bool, Enum or Literal"
    if not cases:
        yield "there are no cases"
    for number, case in enumerate(cases, 1):
        if not isinstance(case, Case):
            yield f"case {number} is of type {type(case).__name__}; write Case({{…}}, expected)"
    for name, value in (("error", error), ("confidence", confidence)):
        if not 0 < value < 1:
            yield f"{name} is {value!r}; it must be between 0 and 1"


# --- Calibration ---


def _call_all(bound: ServiceMethod, cases: Sequence[Case[Any]], max_concurrency: int) -> Flow[list[_Called]]:
    drive = arun if bound.plan.returns.is_async else run
    runs = tuple([Run(partial(drive, _call(bound, case))) for case in cases])
    called: list[_Called] = yield Gather(runs, max_concurrency)
    return called


def _call(bound: ServiceMethod, case: Case[Any]) -> Flow[_Called]:
    """Call a service method without its calibration, and return the answer with its probabilities."""
    invocation = bound.plan.invocation((), case.arguments, bound.budget)
    plan = invocation.plan._replace(adjustments={}, unsure=None, wants_probabilities=True)
    try:
        answer = yield from bound.pipeline.flow(replace(invocation, plan=plan))
    except AiServiceError as error:
        return _Called(case, None, error)
    return _Called(case, answer, None)


class Calibrated(NamedTuple):
    """The result of ``calibrate``; ``str()`` converts it to a table.

    Attributes:
        calibration: The calibrations that can be written to a file.
        samples: The labelled probabilities of each answer, by JSON path: before and after the calibration.
        error: The maximum share of wrong answers among those that a threshold accepts.
        confidence: The probability with which the thresholds keep this limit.
        failed: The errors of calls that failed.
    """

    calibration: Calibration
    samples: Mapping[str, tuple[Sequence[Labelled], Sequence[Labelled]]]
    error: float
    confidence: float
    failed: tuple[AiServiceError, ...] = ()

    def write(self, path: Any) -> None:
        """Write the calibrations to a JSON file, and keep the other calibrations in the file."""
        self.calibration.write(path)

    def thresholds(self, path: str = "$") -> list[Threshold]:
        """Return a table of thresholds, with the share of accepted answers and their error rate for each."""
        _, after = self.samples[path]
        return threshold_table(after, self.confidence)

    def svg(self, path: str = "$") -> str:
        """Return an SVG plot of predicted and observed frequencies, before and after the calibration."""
        before, after = self.samples[path]
        entry = next(entry for entry in self.calibration.entries if entry.path == path)
        series = {"before": before} if list(after) == list(before) else {"before": before, "after": after}
        return reliability_svg(series, f"{entry.method} {path}", stated_text(entry.options))

    def __str__(self) -> str:
        parts = []
        for entry in self.calibration.entries:
            lines = [str(Calibration((entry,))), "  threshold  answered  wrong   bound"]
            lines += [
                f"  {one.value:9.2f}  {one.coverage:8.0%}  {one.error:5.1%}  {one.upper:6.1%}"
                for one in self.thresholds(entry.path)
            ]
            if entry.threshold is None:
                needed = labels_needed(self.error, self.confidence)
                accepted = max((one.coverage for one in self.thresholds(entry.path)[4:]), default=0.0)
                more = f", about {round(needed / accepted)} examples" if accepted else ""
                lines.append(f"  at least {needed} sure and right answers are needed{more}")
            parts.append("\n".join(lines))
        if self.failed:
            parts.append(f"{len(self.failed)} calls failed, the first with: {self.failed[0]}")
        return "\n\n".join(parts)


def _calibrated(
    bound: ServiceMethod, called: Sequence[_Called], error: float, confidence: float
) -> Calibrated:
    plan = bound.plan
    failed = tuple(one.error for one in called if one.error is not None)
    samples: dict[str, tuple[Sequence[Labelled], Sequence[Labelled]]] = {}
    entries = []
    for path, answers in answers_of(plan).items():
        options = answers.options
        values = [value for _, value in options]
        before: list[Labelled] = []
        origins: Counter[tuple[str, str]] = Counter()
        for one in called:
            label = _label(one.case.expected, path, answers)
            shares = None if one.answer is None else one.answer.probabilities.get(path)
            if one.answer is None or shares is None or label is None:
                continue
            before.append(Labelled(tuple(shares[value] for value in values), label))
            origins[one.answer.reply.model, one.answer.source_of_probabilities] += 1
        if not before:
            continue
        if len(origins) > 1:
            names = ", ".join(f"{model} ({source})" for model, source in origins)
            message = (
                f"{path} has probabilities of several models or sources: {names}; calibrate each separately"
            )
            raise DefinitionError([DefinitionProblem("calibrate", message)])
        ((model, source),) = origins
        calibrator, after = fit(before)
        best = find_threshold(after, error, confidence)
        threshold = None if best is None else {"error": error, "confidence": confidence}
        if best is not None and threshold is not None:
            threshold |= {"value": best.value, "coverage": best.coverage, "upper": best.upper}
        samples[path] = before, after
        entries.append(
            CalibrationEntry(
                method=plan.call.qualname,
                path=path,
                question=question_hash(plan, path),
                options=tuple(data for data, _ in options),
                source=source,
                model=model,
                n=len(before),
                calibrator=calibrator,
                before=measures(before),
                after=measures(after),
                threshold=threshold,
                made=date.today().isoformat(),
            )
        )
    if not entries:
        reason = "; the model gives none"
        if failed:
            reason = f": {failed[0]}"
        elif any(one.answer is not None and one.answer.probabilities for one in called):
            reason = f"; the expected answer of the first case is {called[0].case.expected!r}"
        message = f"there is no labelled answer with probabilities{reason}"
        raise DefinitionError([DefinitionProblem("calibrate", message)]) from (failed[0] if failed else None)
    return Calibrated(Calibration(tuple(entries)), samples, error, confidence, failed)


def _label(expected: object, path: str, answers: PossibleAnswers) -> int | None:
    """Return the index of the expected answer among the possible answers, or None if it is unknown."""
    if "[]" in path:
        return None
    if answers.list_path is not None:
        members = _value_at(expected, answers.list_path)
        if isinstance(members, (list, tuple, set, frozenset)):
            return int(answers.member in members)
    expected = _value_at(expected, path)
    if type(expected).__module__ == "numpy":
        expected = expected.item()  # type: ignore[attr-defined]  # a scalar, such as numpy.bool_
    for position, (data, value) in enumerate(answers.options):
        for option in (value, data) if isinstance(value, Enum) else (value,):
            if type(option) is type(expected) and option == expected:
                return position
    return None


def _value_at(value: object, path: str) -> object:
    for name in [step for step in path.split(".")[1:] if step]:
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else getattr(value, name, _MISSING)
    return value.value if isinstance(value, Decision) else value
