"""Fit calibrations and thresholds to labelled examples."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from output_parsers import Decision

from ..engine.drivers import arun, run
from ..engine.effects import Flow, Gather, Run
from ..engine.results import Answer
from ..models.arguments import checks_arguments
from ..models.errors import AiServiceError, DefinitionError, DefinitionProblem
from ..service.methods import ServiceMethod, is_service_method, service_method_of
from ..testing.case import Case
from .adjustments import answers_of
from .answers import PossibleAnswers
from .calibration import Calibration, CalibrationEntry
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

_MISSING = object()


class _Called(NamedTuple):
    """A method's answer to a labelled example, or the error if the call failed."""

    case: Case[object]
    answer: Answer | None
    error: AiServiceError | None


@checks_arguments
def calibrate(
    method: Callable[..., object],
    cases: Sequence[Case[object]],
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
        max_concurrency: The maximum number of calls at the same time.

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
    elif not answers_of(service_method_of(method).plan.call):
        yield "the method does not return a Decision, bool, Enum or Literal"
    if not cases:
        yield "there are no cases"
    for number, case in enumerate(cases, 1):
        if not isinstance(case, Case):
            yield f"case {number} is of type {type(case).__name__}; write Case({{…}}, expected)"
    for name, value in (("error", error), ("confidence", confidence)):
        if not 0 < value < 1:
            yield f"{name} is {value!r}; it must be between 0 and 1"


def _call_all(
    bound: ServiceMethod, cases: Sequence[Case[object]], max_concurrency: int
) -> Flow[list[_Called]]:
    drive = arun if bound.plan.returns.is_async else run
    runs = tuple([Run(partial(drive, _call(bound, case))) for case in cases])
    called: list[_Called] = yield Gather(runs, max_concurrency)
    return called


def _call(bound: ServiceMethod, case: Case[object]) -> Flow[_Called]:
    """Call a service method without its calibration, and return the answer with its probabilities."""
    invocation = bound.plan.invocation((), case.arguments, bound.budget)
    plan = invocation.plan
    decisions = plan.decisions._replace(adjustments={}, unsure=None, is_wanted=True)
    plan = plan._replace(decisions=decisions)
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

    def write(self, path: str | Path) -> None:
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
    question = bound.plan.question
    failed = tuple(one.error for one in called if one.error is not None)
    samples: dict[str, tuple[Sequence[Labelled], Sequence[Labelled]]] = {}
    entries = []
    for path, answers in answers_of(question.call).items():
        before, model, source = _labelled(called, path, answers)
        if not before:
            continue
        calibrator, after = fit(before)
        best = find_threshold(after, error, confidence)
        threshold = None if best is None else {"error": error, "confidence": confidence}
        if best is not None and threshold is not None:
            threshold |= {"value": best.value, "coverage": best.coverage, "upper": best.upper}
        samples[path] = before, after
        entries.append(
            CalibrationEntry(
                method=question.call.qualname,
                path=path,
                question=question.hash(path),
                options=tuple(data for data, _ in answers.options),
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
        raise _nothing_labelled(called) from (failed[0] if failed else None)
    return Calibrated(Calibration(tuple(entries)), samples, error, confidence, failed)


def _labelled(
    called: Sequence[_Called], path: str, answers: PossibleAnswers
) -> tuple[list[Labelled], str, str]:
    """Return the probabilities of an answer that has labels, with their model and source.

    Raises DefinitionError if they come from several models or sources.
    """
    labelled: list[Labelled] = []
    origins: Counter[tuple[str, str]] = Counter()
    for case, answer, _ in called:
        label = _label(case.expected, path, answers)
        shares = None if answer is None else answer.probabilities.get(path)
        if answer is not None and shares is not None and label is not None:
            labelled.append(Labelled(tuple(shares[value] for _, value in answers.options), label))
            origins[answer.reply.model, answer.source_of_probabilities] += 1
    if len(origins) > 1:
        names = ", ".join(f"{model} ({source})" for model, source in origins)
        message = f"{path} has probabilities of several models or sources: {names}; calibrate each separately"
        raise DefinitionError([DefinitionProblem("calibrate", message)])
    model, source = next(iter(origins), ("", ""))
    return labelled, model, source


def _nothing_labelled(called: Sequence[_Called]) -> DefinitionError:
    reason = "; the model gives none"
    errors = [one.error for one in called if one.error is not None]
    if errors:
        reason = f": {errors[0]}"
    elif any(one.answer is not None and one.answer.probabilities for one in called):
        reason = f"; the expected answer of the first case is {called[0].case.expected!r}"
    message = f"there is no labelled answer with probabilities{reason}"
    return DefinitionError([DefinitionProblem("calibrate", message)])


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
