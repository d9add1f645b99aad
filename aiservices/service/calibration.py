"""Check a service's calibrations and thresholds against its methods, and apply them to the methods."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.node import Node
from output_parsers.types.records import EnvelopeNode

from ..engine.calibration import Calibration, CalibrationEntry
from ..engine.probabilities import PossibleAnswers, answer_options
from ..engine.probable_reading import Adjustment
from ..interface.templates import Prompt
from ..models.errors import DefinitionError, DefinitionProblem
from .compile import MethodPlan


def question_hash(plan: MethodPlan, path: str) -> str:
    """Return the SHA-256 hash of what is asked: the prompt, the type with its descriptions, and the path."""
    prompt, node = plan.prompt, _node_of(plan)
    question = [
        prompt.user.source if prompt.user is not None else "",
        prompt.system.source if isinstance(prompt.system, Prompt) else "",
        "" if node is None else node.hint(),
        path,
    ]
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def answers_of(plan: MethodPlan) -> dict[str, PossibleAnswers]:
    """Map the JSON paths in a method's return type to the possible answers there."""
    node = _node_of(plan)
    return {} if node is None else answer_options(node)


def _node_of(plan: MethodPlan) -> Node[Any] | None:
    """Return the parser of the answer's type, without a wrapper such as ``{"value": ...}``."""
    parser = plan.call.output_format.parser
    node = parser.node if isinstance(parser, TypeParser) else None
    return node.inner if isinstance(node, EnvelopeNode) else node


def with_adjustments(
    plans: Mapping[str, MethodPlan],
    calibration: Calibration | None,
    thresholds: Mapping[str, float],
    name: str,
) -> dict[str, MethodPlan]:
    """Return the plans of a service with their calibrations and thresholds.

    Raises DefinitionError for calibrations of other questions, and for thresholds that belong to no answer.
    """
    problems: list[DefinitionProblem] = []
    limits = dict(_limits(plans, thresholds, name, problems))
    adjusted = {}
    for method, plan in plans.items():
        answers = answers_of(plan)
        found: dict[str, Adjustment] = {}
        for path, (options, is_decision, *_) in answers.items():
            entries = () if calibration is None else calibration.find(plan.call.qualname, path)
            problems += _entry_problems(plan, path, options, entries)
            threshold = limits.get((method, path))
            if threshold is not None and not is_decision and {value for _, value in options} != {True, False}:
                message = f"{path} is no bool; return a Decision, whose at() uses the threshold"
                problems.append(DefinitionProblem(plan.call.qualname, message))
            if entries or threshold is not None:
                mode = "error" if calibration is None else calibration.on_mismatch
                found[path] = Adjustment(plan.call.qualname, entries, mode, threshold)
        _add_thresholds_of_members(found, answers)
        problems += _unknown_entries(plan, answers, calibration)
        call = plan.call._replace(adjustments=found, wants_probabilities=True) if found else plan.call
        adjusted[method] = plan._replace(call=call)
    if problems:
        raise DefinitionError(problems)
    return adjusted


def _add_thresholds_of_members(found: dict[str, Adjustment], answers: Mapping[str, PossibleAnswers]) -> None:
    """Let each ``Decision[list[…]]`` use the thresholds of its members, if all are calibrated."""
    members: dict[str, list[tuple[CalibrationEntry, ...]]] = {}
    for path, one in answers.items():
        if one.list_path is not None:
            entries = found[path].calibrations if path in found else ()
            members.setdefault(one.list_path, []).append(entries)
    for path, calibrations in members.items():
        if all(calibrations):
            found[path] = found.get(path, Adjustment())._replace(members=tuple(calibrations))


def _limits(
    plans: Mapping[str, MethodPlan],
    thresholds: Mapping[str, float],
    name: str,
    problems: list[DefinitionProblem],
) -> Iterator[tuple[tuple[str, str], float]]:
    """Find the answer to which each probability threshold applies; yield its method and path with it."""
    known = {
        f"{method}{path.removeprefix('$')}": (method, path)
        for method, plan in plans.items()
        for path in answers_of(plan)
    }
    for key, value in thresholds.items():
        if key not in known:
            close = get_close_matches(key, known, 1, 0.6)
            guess = f"; did you mean {close[0]!r}?" if close else f"; they are: {', '.join(known) or 'none'}"
            problems.append(DefinitionProblem(name, f"thresholds: {key!r} is not an answer{guess}"))
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            message = f"thresholds: {key!r} is {value!r}; it must be from 0 to 1"
            problems.append(DefinitionProblem(name, message))
        else:
            yield known[key], float(value)


def _entry_problems(
    plan: MethodPlan,
    path: str,
    options: tuple[tuple[Any, object], ...],
    entries: tuple[CalibrationEntry, ...],
) -> Iterator[DefinitionProblem]:
    for entry in entries:
        now = tuple(data for data, _ in options)
        if entry.options != now:
            message = f"its possible answers were {list(entry.options)}, and are {list(now)}"
        elif entry.question != question_hash(plan, path):
            message = "its prompt, or a description in its type, has changed since"
        else:
            continue
        yield DefinitionProblem(
            plan.call.qualname, f"the calibration of {path} does not fit: {message}; calibrate again"
        )


def _unknown_entries(
    plan: MethodPlan, answers: Mapping[str, object], calibration: Calibration | None
) -> Iterator[DefinitionProblem]:
    for entry in calibration.entries if calibration is not None else ():
        if entry.method == plan.call.qualname and entry.path not in answers:
            message = f"the calibration is for {entry.path}, which the method does not return"
            yield DefinitionProblem(plan.call.qualname, message)
