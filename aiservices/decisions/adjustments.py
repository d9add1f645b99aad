"""Add calibrations and thresholds to the methods of a service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.node import Node
from output_parsers.types.records import EnvelopeNode

from ..engine.plan import CallPlan
from ..models.errors import DefinitionError, DefinitionProblem
from .answers import PossibleAnswers, answer_options
from .calibration import Adjustment, Calibration, CalibrationEntry


class Question(NamedTuple):
    """The question that a method asks the model.

    Attributes:
        call: The plan of its calls.
        user: The template of its user message; "" if an argument is the message.
        system: The template of its system message; "" if it has none or a function returns it.
    """

    call: CallPlan
    user: str
    system: str

    def hash(self, path: str) -> str:
        """Return the SHA-256 hash of the question whose answer is at a JSON path of the return type."""
        node = _node_of(self.call)
        question = [self.user, self.system, "" if node is None else node.hint(), path]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def answers_of(call: CallPlan) -> dict[str, PossibleAnswers]:
    """Return a dict from the JSON path of each answer in a return type to its possible values."""
    node = _node_of(call)
    return {} if node is None else answer_options(node)


def _node_of(call: CallPlan) -> Node[object] | None:
    """Return the parser of the answer's type, without a wrapper such as ``{"value": ...}``."""
    parser = call.output_format.parser
    node = parser.node if isinstance(parser, TypeParser) else None
    return node.inner if isinstance(node, EnvelopeNode) else node


def with_adjustments(
    questions: Mapping[str, Question],
    calibration: Calibration | None,
    thresholds: Mapping[str, float],
    name: str,
) -> dict[str, CallPlan]:
    """Return the plans of the methods of a service with calibrations and probability thresholds added.

    Raises DefinitionError for calibrations of other questions, and for thresholds that belong to no answer.
    """
    problems: list[DefinitionProblem] = []
    limits = dict(_limits(questions, thresholds, name, problems))
    adjusted = {}
    for method, question in questions.items():
        call = question.call
        answers = answers_of(call)
        adjustments: dict[str, Adjustment] = {}
        for path, (options, is_decision, *_) in answers.items():
            entries = () if calibration is None else calibration.find(call.qualname, path)
            problems += _entry_problems(question, path, options, entries)
            threshold = limits.get((method, path))
            if threshold is not None and not is_decision and {value for _, value in options} != {True, False}:
                message = f"{path} is not a bool; return a Decision, whose at() uses the threshold"
                problems.append(DefinitionProblem(call.qualname, message))
            if entries or threshold is not None:
                mode = "error" if calibration is None else calibration.on_mismatch
                adjustments[path] = Adjustment(call.qualname, entries, mode, threshold)
        _add_thresholds_of_members(adjustments, answers)
        problems += _unknown_entries(call, answers, calibration)
        if adjustments:
            decisions = call.decisions._replace(adjustments=adjustments, is_wanted=True)
            call = call._replace(decisions=decisions)
        adjusted[method] = call
    if problems:
        raise DefinitionError(problems)
    return adjusted


def _add_thresholds_of_members(
    adjustments: dict[str, Adjustment], answers: Mapping[str, PossibleAnswers]
) -> None:
    """Give each ``Decision[list[…]]`` the thresholds of its options, if all options are calibrated."""
    members: dict[str, list[tuple[CalibrationEntry, ...]]] = {}
    for path, one in answers.items():
        if one.list_path is not None:
            entries = adjustments[path].calibrations if path in adjustments else ()
            members.setdefault(one.list_path, []).append(entries)
    for path, calibrations in members.items():
        if all(calibrations):
            adjustments[path] = adjustments.get(path, Adjustment())._replace(members=tuple(calibrations))


def _limits(
    questions: Mapping[str, Question],
    thresholds: Mapping[str, float],
    name: str,
    problems: list[DefinitionProblem],
) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the method and the JSON path to which each probability threshold applies."""
    locations = {
        f"{method}{path.removeprefix('$')}": (method, path)
        for method, question in questions.items()
        for path in answers_of(question.call)
    }
    for key, value in thresholds.items():
        if key not in locations:
            close = get_close_matches(key, locations, 1, 0.6)
            guess = (
                f"; did you mean {close[0]!r}?" if close else f"; they are: {', '.join(locations) or 'none'}"
            )
            problems.append(DefinitionProblem(name, f"thresholds: {key!r} is not an answer{guess}"))
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            message = f"thresholds: {key!r} is {value!r}; it must be from 0 to 1"
            problems.append(DefinitionProblem(name, message))
        else:
            yield locations[key], float(value)


def _entry_problems(
    question: Question,
    path: str,
    options: tuple[tuple[object, object], ...],
    entries: tuple[CalibrationEntry, ...],
) -> Iterator[DefinitionProblem]:
    for entry in entries:
        now = tuple(data for data, _ in options)
        if entry.options != now:
            message = f"its possible answers were {list(entry.options)}, and are {list(now)}"
        elif entry.question != question.hash(path):
            message = "its prompt, or a description in its type, has changed since"
        else:
            continue
        yield DefinitionProblem(
            question.call.qualname, f"the calibration of {path} does not fit: {message}; calibrate again"
        )


def _unknown_entries(
    call: CallPlan, answers: Mapping[str, object], calibration: Calibration | None
) -> Iterator[DefinitionProblem]:
    for entry in calibration.entries if calibration is not None else ():
        if entry.method == call.qualname and entry.path not in answers:
            message = f"the calibration is for {entry.path}, which the method does not return"
            yield DefinitionProblem(call.qualname, message)
