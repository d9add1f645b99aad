"""Request the further tokens that distinguish possible answers with the same first token."""

from __future__ import annotations

import time
from dataclasses import replace

from ..engine.effects import CallModel, Flow, Gather
from ..engine.output_format import OutputFormat
from ..engine.plan import CallState
from ..models.errors import Attempt, AttemptPurpose, ModelError
from ..models.messages import AiMessage, ChatReply
from ..models.requests import ChatRequest
from .probabilities import SharedToken, shared_tokens, with_continuation

_MAX_ROUNDS = 4  # the maximum number of tokens that options may have in common
_MAX_REQUESTS = 16  # the maximum number of further requests for one reply


def continue_shared_tokens(
    output_format: OutputFormat, reply: ChatReply, request: ChatRequest, state: CallState
) -> Flow[ChatReply]:
    """Request further tokens until the token probabilities distinguish as many answers as possible.

    If the model could have written ``b``, and ``billing`` and ``bug`` are possible answers, a request asks
    for the probabilities of the tokens after ``b``. Each request asks for one token, and its prompt is in the
    model's cache. They do not count against ``Budget.max_attempts``.
    """
    route, parser = state.route, output_format.parser
    if (
        route is None
        or parser is None
        or not route.model.capabilities.continues_replies
        or request.tooling is not None  # the prompt may describe tools, and the reply begins with a mark
    ):
        return reply
    requests = 0
    for _ in range(_MAX_ROUNDS):
        for one in shared_tokens(parser.node, reply):
            if requests == _MAX_REQUESTS or state.exceeded(is_side_question=True) is not None:
                return reply
            requests += 1
            state.count_requests()
            question = _question(request, one, route.model.capabilities.logprobs)
            started_at = time.monotonic()
            try:
                (following,) = yield Gather((CallModel(route.model, question),))  # so that it is not streamed
            except ModelError:
                return reply
            seconds = time.monotonic() - started_at
            attempt = Attempt(
                route.model.name,
                following,
                None,
                seconds,
                output_format.strategy,
                AttemptPurpose.SIDE_QUESTION,
            )
            state.add_attempt(attempt, question)
            if not following.logprobs:
                return reply
            reply = with_continuation(reply, one, following.logprobs[0])
    return reply


def _question(request: ChatRequest, shared: SharedToken, logprobs: int) -> ChatRequest:
    """Return a request for the token that follows the given beginning of a reply."""
    return replace(
        request,
        messages=(*request.messages, AiMessage(shared.text)),
        options=replace(request.options, max_tokens=1, temperature=0.0),
        response_format=None,
        parser=None,
        logprobs=logprobs,
    )
