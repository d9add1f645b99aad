"""Add calibrations and thresholds to a service, and estimate probabilities from several samples."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Coercion
from output_parsers.types.node import Node
from output_parsers.types.records import EnvelopeNode

from ..engine.effects import CallModel, Flow, Gather
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.output_format import OutputFormat
from ..engine.plan import Invocation
from ..engine.probabilities import (
    Adjustment,
    Calibration,
    CalibrationEntry,
    Leaf,
    PossibleAnswers,
    Probabilities,
    answer_leaves,
    answer_options,
    complete_reading,
)
from ..engine.results import Answer
from ..interface.templates import Prompt
from ..models.errors import (
    Attempt,
    AttemptPurpose,
    DefinitionError,
    DefinitionProblem,
    ProbabilitiesUnavailableError,
    ServiceOutputError,
)
from ..models.messages import ChatReply
from ..models.requests import ChatRequest
from .compile import MethodPlan


def question_hash(plan: MethodPlan, path: str) -> str:
    """Return the SHA-256 hash of a question to the model: its prompt, answer type and JSON path."""
    prompt, node = plan.prompt, _node_of(plan)
    question = [
        prompt.user.source if prompt.user is not None else "",
        prompt.system.source if isinstance(prompt.system, Prompt) else "",
        "" if node is None else node.hint(),
        path,
    ]
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def answers_of(plan: MethodPlan) -> dict[str, PossibleAnswers]:
    """Return a dict from the JSON path of each answer in a return type to its possible values."""
    node = _node_of(plan)
    return {} if node is None else answer_options(node)


def _node_of(plan: MethodPlan) -> Node[object] | None:
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
    """Return the methods of a service with calibrations and probability thresholds added.

    Raises DefinitionError for calibrations of other questions, and for thresholds that belong to no answer.
    """
    problems: list[DefinitionProblem] = []
    limits = dict(_limits(plans, thresholds, name, problems))
    adjusted = {}
    for method, plan in plans.items():
        answers = answers_of(plan)
        adjustments: dict[str, Adjustment] = {}
        for path, (options, is_decision, *_) in answers.items():
            entries = () if calibration is None else calibration.find(plan.call.qualname, path)
            problems += _entry_problems(plan, path, options, entries)
            threshold = limits.get((method, path))
            if threshold is not None and not is_decision and {value for _, value in options} != {True, False}:
                message = f"{path} is not a bool; return a Decision, whose at() uses the threshold"
                problems.append(DefinitionProblem(plan.call.qualname, message))
            if entries or threshold is not None:
                mode = "error" if calibration is None else calibration.on_mismatch
                adjustments[path] = Adjustment(plan.call.qualname, entries, mode, threshold)
        _add_thresholds_of_members(adjustments, answers)
        problems += _unknown_entries(plan, answers, calibration)
        call = (
            plan.call._replace(adjustments=adjustments, wants_probabilities=True)
            if adjustments
            else plan.call
        )
        adjusted[method] = plan._replace(call=call)
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
    plans: Mapping[str, MethodPlan],
    thresholds: Mapping[str, float],
    name: str,
    problems: list[DefinitionProblem],
) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the method and the JSON path to which each probability threshold applies."""
    locations = {
        f"{method}{path.removeprefix('$')}": (method, path)
        for method, plan in plans.items()
        for path in answers_of(plan)
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
    plan: MethodPlan,
    path: str,
    options: tuple[tuple[object, object], ...],
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


# --- Probabilities from several samples ---


class Votes(BaseInterceptor):
    """Middleware that asks a model several times to estimate the probabilities of a Decision.

    The probability of an answer is the share of the samples with it, smoothed so that none is 0. The samples
    after the first are requested at the same time; they do not count against ``Budget.max_attempts``.
    ``create(votes=5)`` adds it outside of the retries.
    """

    position_name = InterceptorKind.VOTES

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        if not invocation.plan.votes:
            return (yield from proceed(invocation))
        try:
            return (yield from proceed(invocation))
        except ProbabilitiesUnavailableError as error:
            reason = str(error)
        sent: list[ChatRequest] = []

        def keep(request: ChatRequest) -> ChatRequest:
            sent.append(request)
            return request

        request, plan = invocation.request, invocation.plan._replace(requires_probabilities=False)
        if request.options.temperature is None:  # at 0, all samples would be equal
            request = replace(request, options=replace(request.options, temperature=1.0))
        sampled = replace(invocation, plan=plan, request=request).with_request_hook(keep)
        first = yield from proceed(sampled)
        state = invocation.state
        route, output_format = state.route, state.output_format
        if route is None or output_format is None or not isinstance(output_format.parser, TypeParser):
            return first
        started_at = time.monotonic()
        effects = tuple([CallModel(route.model, sent[-1]) for _ in range(invocation.plan.votes - 1)])
        replies: list[ChatReply] = yield Gather(effects)
        seconds = time.monotonic() - started_at
        for reply in replies:
            attempt = Attempt(
                route.model.name, reply, None, seconds, output_format.strategy, AttemptPurpose.SIDE_QUESTION
            )
            state.add_attempt(attempt, sent[-1])
        return _elect(first, replies, output_format, output_format.parser, invocation, reason)


class _Ballot(NamedTuple):
    """One of several sampled replies, with the answers that it contains.

    Attributes:
        reply: The reply of the model.
        text: Its value as exact JSON.
        coercions: How the reply differs from the exact form.
        leaves: The answers in the JSON, by their paths.
    """

    reply: ChatReply
    text: str
    coercions: tuple[Coercion, ...]
    leaves: dict[str, Leaf]


def _elect(
    first: Answer,
    others: Sequence[ChatReply],
    output_format: OutputFormat,
    parser: TypeParser[object],
    invocation: Invocation,
    reason: str,
) -> Answer:
    """Return the reply that agrees most with the others; the shares of equal votes are its probabilities."""
    ballots: list[_Ballot] = []
    for reply in (first.reply, *others):
        try:
            ballots.append(_ballot(reply, output_format, parser))
        except OutputParsingError:  # a sample that cannot be read has no vote
            continue
    counts: dict[str, Counter[int]] = {}
    for ballot in ballots:
        for path, leaf in ballot.leaves.items():
            counts.setdefault(path, Counter())[leaf.answer] += 1
    best = max(ballots, key=lambda one: sum(counts[path][leaf.answer] for path, leaf in one.leaves.items()))
    try:
        probable = complete_reading(
            parser,
            best.text,
            {path: _shares(leaf, counts[path]) for path, leaf in best.leaves.items()},
            # Read again, so that the paths of the decisions are those of the text.
            lambda: replace(parser.read(best.text), coercions=best.coercions),
            invocation.plan.adjustments,
            required=True,
            model=best.reply.model,
        )
    except OutputParsingError as error:
        attempts = invocation.state.attempts
        raise ServiceOutputError(invocation.plan.qualname, error.text, error.problems, attempts) from error
    return replace(
        first,
        value=probable.reading.value,
        reply=best.reply,
        coercions=probable.reading.coercions,
        probabilities=probable.probabilities,
        source_of_probabilities=probable.source,
        decisions=probable.decisions,
        reasons=(*first.reasons, f"{len(ballots)} votes, because: {reason}"),
        messages=(*first.messages[:-1], best.reply.message),
    )


def _shares(leaf: Leaf, counts: Counter[int]) -> Probabilities:
    options, votes = len(leaf.options), counts.total()
    shares = [(counts[position] + 1 / options) / (votes + 1) for position in range(options)]
    return Probabilities(leaf, tuple(shares), 1.0, f"votes({votes})")


def _ballot(reply: ChatReply, output_format: OutputFormat, parser: TypeParser[object]) -> _Ballot:
    """Parse one of several replies as a vote.

    Raises OutputParsingError if the reply contains no answer.
    """
    reading = output_format.read(reply)
    try:
        text = parser.write(reading.value)
    except ValueError:  # a custom parser may read values that it cannot write
        text = reply.text
    leaves = {leaf.path: leaf for leaf in answer_leaves(parser.node, text)}
    return _Ballot(reply, text, reading.coercions, leaves)
