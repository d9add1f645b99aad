"""Estimate the probabilities of a Decision from several samples of a reply."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Coercion
from output_parsers.types.cited import cited_from
from output_parsers.types.validation import arguments_for_validators

from ..engine.effects import CallModel, Flow, Gather
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.output_format import OutputFormat
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..models.errors import Attempt, AttemptPurpose, ProbabilitiesUnavailableError, ServiceOutputError
from ..models.messages import ChatReply
from ..models.requests import ChatRequest
from .answers import Leaf, answer_leaves
from .probabilities import Probabilities
from .reading import complete_reading


class Votes(BaseInterceptor):
    """Interceptor that asks a model several times to estimate the probabilities of a Decision.

    The probability of an answer is the share of the samples with it, smoothed so that no share is 0. The
    samples after the first are requested at the same time; they do not count against ``Budget.max_attempts``.
    ``create(votes=5)`` adds it outside of the retries.
    """

    position_name = InterceptorKind.VOTES

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        if not invocation.plan.decisions.votes:
            return (yield from proceed(invocation))
        try:
            return (yield from proceed(invocation))
        except ProbabilitiesUnavailableError as error:
            reason = str(error)
        sent: list[ChatRequest] = []

        def keep(request: ChatRequest) -> ChatRequest:
            sent.append(request)
            return request

        request, plan = invocation.request, invocation.plan
        plan = plan._replace(decisions=plan.decisions._replace(is_required=False))
        if request.options.temperature is None:  # at 0, all samples would be equal
            request = replace(request, options=replace(request.options, temperature=1.0))
        sampled = replace(invocation, plan=plan, request=request).with_request_hook(keep)
        first = yield from proceed(sampled)
        state = invocation.state
        route, output_format = state.route, state.output_format
        if route is None or output_format is None or not isinstance(output_format.parser, TypeParser):
            return first
        sample, votes = CallModel(route.model, sent[-1]), plan.decisions.votes
        state.count_requests(votes - 1)
        started_at = time.monotonic()
        replies: list[ChatReply] = yield Gather((sample,) * (votes - 1))
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
    verifier = invocation.state.verifier
    for reply in (first.reply, *others):
        try:
            with cited_from(verifier), arguments_for_validators(invocation.arguments):
                ballots.append(_ballot(reply, output_format, parser))
        except OutputParsingError:  # a sample that cannot be read has no vote
            continue
    counts: dict[str, Counter[int]] = {}
    for ballot in ballots:
        for path, leaf in ballot.leaves.items():
            counts.setdefault(path, Counter())[leaf.answer] += 1
    best = max(ballots, key=lambda one: sum(counts[path][leaf.answer] for path, leaf in one.leaves.items()))
    try:
        with cited_from(verifier), arguments_for_validators(invocation.arguments):
            probable = complete_reading(
                parser,
                best.text,
                {path: _shares(leaf, counts[path]) for path, leaf in best.leaves.items()},
                # Read again, so that the paths of the decisions are those of the text.
                lambda: replace(parser.read(best.text), coercions=best.coercions),
                invocation.plan.decisions.adjustments,
                required=True,
                model=best.reply.model,
            )
        if verifier is not None:
            verifier.resolve()
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
