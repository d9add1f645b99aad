"""Request the probabilities of answers, and ask the next model if they are too low."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from output_parsers.result.reading import Reading
from output_parsers.types.cited import cited_from
from output_parsers.types.validation import arguments_for_validators

from ..engine.effects import Flow
from ..engine.interceptor import Proceed
from ..engine.model_route import refuses_logprobs
from ..engine.output_format import OutputFormat
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..models.errors import (
    BudgetExceededError,
    ModelError,
    ProbabilitiesUnavailableError,
    ServiceOutputError,
)
from ..models.messages import ChatReply
from ..models.requests import ChatRequest

if TYPE_CHECKING:  # imported late, because few calls want probabilities
    from .reading import ProbableReading


def request_with_probabilities(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """Interceptor that requests an answer with its probabilities, from the next model if one is too low.

    The pipeline puts it around the request of an answer, inside the retries.
    """
    reader = _ProbableAnswer(invocation)
    observed = replace(invocation, answer_reader=reader).with_request_hook(reader.prepare)
    answer = yield from proceed(observed)
    probable = reader.reading
    if probable is None:  # the answer is the result of a tool
        return answer
    answer = replace(
        answer,
        reasons=(*answer.reasons, *probable.notes),
        probabilities=probable.probabilities,
        source_of_probabilities=probable.source,
        decisions=probable.decisions,
    )
    limit, doubt = invocation.plan.decisions.unsure, probable.doubt
    if limit != "threshold":
        doubt, certainty = None, probable.certainty
        if limit is not None and certainty is not None and certainty[0] < limit:
            doubt = (*certainty, limit)
    return answer if doubt is None else (yield from _ask_next_model(answer, invocation, proceed, *doubt))


def _ask_next_model(
    answer: Answer, invocation: Invocation, proceed: Proceed, probability: float, path: str, limit: float
) -> Flow[Answer]:
    """Ask the next model, if there is one, because the previous model's answer was too improbable."""
    state = invocation.state
    following = invocation.routes[invocation.routes.index(state.route) + 1 :] if state.route else ()
    if not following or not state.may_retry():
        return answer
    name = state.route.model.name if state.route else ""
    reason = f"{name} was unsure: {path} had the probability {probability:.2f}, below {limit:g}"
    try:
        better = yield from request_with_probabilities(replace(invocation, routes=following), proceed)
    except (ModelError, ServiceOutputError, BudgetExceededError) as error:
        return replace(answer, reasons=(*answer.reasons, reason, f"the next model failed: {error}"))
    return replace(better, reasons=(reason, *better.reasons))


class _ProbableAnswer:
    """The AnswerReader of a call that wants probabilities.

    Attributes:
        reading: The value with its probabilities; None before it was read.
        is_required: True if the call fails without probabilities.
    """

    def __init__(self, invocation: Invocation) -> None:
        self.reading: ProbableReading | None = None
        self.is_required = invocation.plan.decisions.is_required
        self._invocation = invocation
        self._request: ChatRequest | None = None

    def prepare(self, request: ChatRequest) -> ChatRequest:
        """Request log probabilities.

        Raises ProbabilitiesUnavailableError if they are required and the model cannot return them.
        """
        self._request = request
        route, output_format = self._invocation.state.route, self._invocation.state.output_format
        if route is None or output_format is None or route.capabilities.decisions:
            return request
        # The arguments of tools have no log probabilities.
        logprobs = 0 if output_format.tooling is not None else route.logprobs(request.options.model)
        if not logprobs and self.is_required:
            raise self._unavailable(request)
        return replace(request, logprobs=logprobs)

    def lacking(self, reply: ChatReply, request: ChatRequest) -> ModelError | None:
        """Return the error for a reply without the probabilities that its request wanted."""
        is_complete = not reply.text or reply.logprobs or reply.probabilities or reply.message.tool_calls
        if not request.logprobs or is_complete:
            return None
        return self._refused(request, f"{self._name} sent no log probabilities")

    def refused(self, error: ModelError, request: ChatRequest) -> ModelError | None:
        """Return the error for a request that was refused because of the log probabilities."""
        if not request.logprobs or not refuses_logprobs(error, request):
            return None
        return self._refused(request, f"the provider refused logprobs: {error}")

    def read(self, output_format: OutputFormat, reply: ChatReply) -> Flow[Reading[object]]:
        """Parse a reply to a value with its probabilities."""
        from .reading import read_with_probabilities
        from .shared_tokens import continue_shared_tokens

        if self._request is not None:
            state = self._invocation.state
            reply = yield from continue_shared_tokens(output_format, reply, self._request, state)
        adjustments = self._invocation.plan.decisions.adjustments
        verifier = self._invocation.state.verifier
        with cited_from(verifier), arguments_for_validators(self._invocation.arguments):
            self.reading = read_with_probabilities(
                output_format, reply, required=self.is_required, adjustments=adjustments
            )
        if verifier is not None:
            verifier.resolve()
        return self.reading.reading

    @property
    def _name(self) -> str:
        route = self._invocation.state.route
        return "" if route is None else route.model.name

    def _refused(self, request: ChatRequest, reason: str) -> ProbabilitiesUnavailableError:
        """Note that the model returns no log probabilities."""
        route = self._invocation.state.route
        if route is not None:
            route.refuse_logprobs(request.options.model, reason)
        return self._unavailable(request)

    def _unavailable(self, request: ChatRequest) -> ProbabilitiesUnavailableError:
        route = self._invocation.state.route
        reason = "" if route is None else route.why_no_logprobs(request.options.model)
        return ProbabilitiesUnavailableError(
            f"{self._invocation.plan.qualname} returns a Decision, which needs probabilities: {reason}; use "
            "a model with log probabilities, a decision endpoint, or several samples, as in "
            "create(…, votes=5)"
        )
