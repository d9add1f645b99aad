"""Get one reply from a model: send a request, and after a failure send it again or to the next model.

``request_model`` sends the requests. ``RequestLoop`` prepares each of them, and has a method for each
outcome: a reply, an error of the model, and a stream that ended at an invalid item or a rejected part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn
from uuid import uuid4

from output_parsers.result.errors import OutputParsingError, shorten

from ..models.errors import (
    Attempt,
    AttemptPurpose,
    BudgetExceededError,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    FinishError,
    ModelError,
    ProbabilitiesUnavailableError,
    RefusalError,
    ServiceOutputError,
    Strategy,
    TruncatedError,
)
from ..models.messages import AiMessage, ChatReply, FinishReason, Message
from ..models.requests import ChatRequest
from ..tools.toolbox import Toolbox
from .effects import CallModel, EarlyFlows, Emit, Flow, ReplyStopped, Sleep, StreamPolicy
from .model_route import ModelFailover, ModelRoute, ModelState
from .output_format import OutputFormat
from .plan import CallState, EnclosingCall, Invocation
from .streams import AttemptStarted, ReplyFailed, ReplyReceived

_MAX_REMEDIES = 10  # the maximum number of reduced requests for one reply
_MAX_CONTINUATIONS = 10  # the maximum number of continuations of a paused reply
_COMPLETE = (FinishReason.STOP, FinishReason.TOOL_CALLS)
_POLICY, _POLICY_WITH_USAGE = StreamPolicy(), StreamPolicy(counts_usage=True)


class ModelResponse(NamedTuple):
    """A model's reply, and the format (such as JSON Schema) in which it was requested."""

    reply: ChatReply
    output_format: OutputFormat


def request_model(
    invocation: Invocation,
    request: ChatRequest,
    toolbox: Toolbox | None,
    start_early: Callable[[], Flow[EarlyFlows]] | None = None,
) -> Flow[ModelResponse]:
    """Send a chat request. After a failure, retry, use a simpler output format, or try the next model.

    Every request becomes an attempt in the state of the call and counts against its budget. ``start_early``
    is called before each request; it returns the flows that start while the reply is streamed. Raises
    ModelError if no model is left, BudgetExceededError if the budget does not allow another
    request, and FinishError if the reply is not complete.
    """
    state, loop = invocation.state, RequestLoop(invocation, request, toolbox)
    policy = _POLICY_WITH_USAGE if state.limits_usage else _POLICY
    response: ModelResponse | None = None
    while response is None:
        if start_early is not None:
            policy = policy._replace(early=(yield from start_early()))
        exceeded = state.exceeded()
        if exceeded is not None:
            raise exceeded
        try:
            prepared = loop.prepare()
        except ProbabilitiesUnavailableError as error:  # the model cannot give what the answer needs
            yield from loop.use_next_model(error)
            continue
        yield Emit(AttemptStarted(loop.number, loop.name, loop.output_format, request=prepared))
        state.count_requests()
        loop.started_at = time.monotonic()
        try:
            # The driver (drivers.py) sends it, unless an interceptor answers it (map_effects in flows.py).
            reply: ChatReply = yield CallModel(loop.route.model, prepared, policy)
        except ModelError as error:
            yield from loop.after_error(error)
        except ServiceOutputError as error:  # thrown in by the iterator of a stream: an item is invalid
            yield from loop.after_invalid_item(error)
        except ReplyStopped as stopped:  # for example, a guard refused a part of a streamed reply
            yield from loop.after_stop(stopped)
        except Exception:
            raise
        except BaseException as error:  # the call was cancelled, or its stream was closed
            loop.after_cancellation(error)
            raise
        else:
            response = yield from loop.after_reply(reply)
    return response


class RequestLoop:
    """The requests that are sent until a model gives a reply that can be used.

    ``prepare`` chooses the model and makes the next request. A method named after an outcome records the
    attempt. It returns if another request may be sent, and raises the error of the call if not.

    Attributes:
        route: The model of the request, with its strategies.
        name: The full name of the model.
        output_format: How the answer is requested and read.
        number: The number of the request in the call.
        started_at: When the request was sent, by ``time.monotonic()``.
    """

    route: ModelRoute
    name: str
    output_format: OutputFormat
    number: int
    started_at: float
    _model: ModelState
    _offers_tools: bool
    _prepared: ChatRequest

    def __init__(self, invocation: Invocation, request: ChatRequest, toolbox: Toolbox | None) -> None:
        state, routes, options = invocation.state, invocation.routes, invocation.request.options
        failover = state.failovers.get(routes)
        if failover is None:
            failover = state.failovers[routes] = ModelFailover(routes, state.budget, options.model)
            if options.model is not None or state.enclosing:
                _check_prices(invocation, failover.current.name)
        self._invocation = invocation
        self._state = state
        self._request = request
        self._toolbox = toolbox
        self._failover = failover
        self._reader = invocation.answer_reader
        self._paused: list[ChatReply] = []
        self._is_repeated = False
        self._remedies = 0
        self._repeats = ""

    def prepare(self) -> ChatRequest:
        """Choose the model and the output format, and return the request as it is sent."""
        invocation, state, request = self._invocation, self._state, self._request
        self._model = model = self._failover.current
        self.output_format, self.route, self.name = model.choose_format(), model.route, model.name
        state.output_format, state.route = self.output_format, self.route
        offered = None if self._toolbox is None else self._toolbox.offered_to(model.capabilities)
        tooling = None if offered is None else offered.tooling
        self._offers_tools = tooling is not None
        if request.options.model != model.model_name:  # it applies only to the first model
            request = replace(request, options=replace(request.options, model=model.model_name))
        prepared = self.output_format.prepare(request, invocation.examples, tooling)
        if state.waiting is not None:
            prepared = state.with_deadline(prepared)
        if invocation.request_hooks:  # they come last, so that they see exactly what is sent
            prepared = invocation.apply_request_hooks(prepared)
        if state.messages_without_state:
            prepared = _without_state(prepared, state.messages_without_state)
        if model.refused_options:
            prepared = replace(prepared, refused_options=model.refused_options)
        if getattr(self.route.model, "idempotency_header", ""):
            self._repeats = self._repeats or uuid4().hex
            prepared = replace(prepared, repeats=self._repeats)
        self.number = invocation.attempt_number + 1
        self._prepared = prepared
        return prepared

    def after_reply(self, reply: ChatReply) -> Flow[ModelResponse | None]:
        """Record a reply, and return it; None if another request is needed.

        Raises FinishError if the reply is not complete.
        """
        state, prepared, seconds = self._state, self._prepared, time.monotonic() - self.started_at
        self._repeats = ""  # after a reply, another one is wanted
        attempt = Attempt(self.name, reply, None, seconds, self.output_format.strategy)
        state.add_attempt(attempt, prepared)
        reply = state.attempts[-1].reply or reply  # its token counts have been corrected
        self._model.succeeded()
        yield Emit(ReplyReceived(self.name, reply, seconds, request=prepared), streamed=False)
        if prepared.deadline is not None:
            time_is_over = _time_is_over(state)
            if time_is_over is not None:  # the model ignored the deadline
                raise time_is_over
        if self._reader is not None:
            lacking = self._reader.lacking(reply, prepared)
            if lacking is not None and self._reader.is_required:
                state.attempts[-1] = state.attempts[-1]._replace(error=lacking)
                yield from self.use_next_model(lacking)
                return None
        notes = self._failover.skipped
        if reply.finish_reason not in _COMPLETE or reply.refusal is not None:
            if self._is_continued(reply):
                return None
            whole, qualname = _joined(self._paused, reply), self._invocation.plan.qualname
            check_finish(whole, qualname)
            if reply.finish_reason is FinishReason.OTHER:
                notes = (*notes, self._note_of_unknown_finish(whole))
        output_format = self.output_format
        if notes:
            output_format = output_format._replace(reasons=(*output_format.reasons, *notes))
        return ModelResponse(_joined(self._paused, reply) if self._paused else reply, output_format)

    def _note_of_unknown_finish(self, reply: ChatReply) -> str:
        """Return a note about a text that ended for an unknown reason; raise TruncatedError for a value."""
        reason = f" ({shorten(repr(reply.stop_reason), 80)})" if reply.stop_reason else ""
        note = f"the model stopped for an unknown reason{reason}, so the answer may be incomplete"
        options, is_text = self._invocation.request.options, self.output_format.strategy is Strategy.TEXT
        if is_text and options.unknown_finish != "raise":
            return note
        message = f"{self._invocation.plan.qualname}: {note}"
        raise TruncatedError(message, text=reply.text, reason=reply.stop_reason)

    def _is_continued(self, reply: ChatReply) -> bool:
        """Return True if a further request continues a paused reply or repeats a malformed tool call."""
        state = self._state
        if reply.finish_reason is FinishReason.PAUSED and len(self._paused) < _MAX_CONTINUATIONS:
            state.set_purpose(AttemptPurpose.TOOL_ROUND, len(state.attempts) - 1)
            self._paused.append(reply)
            self._request = self._request.plus(reply.message)
            return True
        if reply.finish_reason is FinishReason.MALFORMED and not self._is_repeated and state.may_retry():
            self._is_repeated = True
            return True
        return False

    def after_error(self, error: ModelError) -> Flow[None]:
        """Record a failed request, and choose what the next request does differently."""
        state, prepared, seconds = self._state, self._prepared, time.monotonic() - self.started_at
        state.attempts.append(Attempt(self.name, None, error, seconds, self.output_format.strategy))
        yield Emit(ReplyFailed(self.name, error, seconds, request=prepared), streamed=False)
        may_change = not state.text_streamed
        if may_change and error.remedy and self._can_remedy(error):
            self._continue_after_refusal(error)
            return
        lacking = None if self._reader is None else self._reader.refused(error, prepared)
        if self._reader is None or lacking is None:
            model, offers_tools = self._model, self._offers_tools
            if may_change and model.use_simpler_strategy(error, prepared, offers_tools=offers_tools):
                self._continue_after_refusal(error)
            else:
                yield from self.use_next_model(error)
        elif self._reader.is_required:
            yield from self.use_next_model(lacking)
        else:
            self._continue_after_refusal(lacking)

    def _continue_after_refusal(self, error: ModelError) -> None:
        """Do not count the refused request as an attempt; raise its error if the budget ends here."""
        state = self._state
        state.set_purpose(AttemptPurpose.REFUSED, len(state.attempts) - 1)
        if not state.may_retry():
            self._give_up(error)

    def _give_up(self, error: ModelError) -> NoReturn:
        time_is_over = _time_is_over(self._state)
        if time_is_over is None:
            raise error
        raise time_is_over from error

    def _can_remedy(self, error: ModelError) -> bool:
        """Return True if the same request can succeed again, or without the state of the provider."""
        self._remedies += 1
        if self._remedies > _MAX_REMEDIES:
            return False
        if error.remedy == "send again":
            model = self._model
            model.refused_options = {**model.refused_options, **error.refused_options}
            return True
        messages = self._prepared.messages
        if not any(_has_state(message) for message in messages):
            return False
        self._state.messages_without_state = len(messages)
        return True

    def use_next_model(self, error: ModelError) -> Flow[None]:
        """Choose the model for the next request, and wait for it if necessary.

        If no further request is possible, raises the error, or BudgetExceededError if the time is over.
        """
        state = self._state
        wait = self._failover.after_failure(
            error,
            may_retry=state.may_retry(),
            seconds_left=state.seconds_left,
        )
        if wait is None:
            self._give_up(error)
        if wait:
            yield Sleep(wait)

    def after_invalid_item(self, error: ServiceOutputError) -> Flow[None]:
        """Record a stream with an invalid item, and raise its error."""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        if isinstance(cause, OutputParsingError):
            error.__cause__ = cause.__cause__  # the error itself says the same
        yield self._stopped(error, cause, error.reply, error.discarded_characters)
        raise error

    def after_stop(self, stopped: ReplyStopped) -> Flow[None]:
        """Record a stream that ended at a rejected part, and raise its error."""
        error = stopped.error
        yield self._stopped(error, error, stopped.reply, stopped.discarded_characters)
        raise error from error.__cause__

    def after_cancellation(self, cause: BaseException) -> None:
        """Record a request whose reply is not read to its end."""
        error = ModelError(f"{self.name}: the call ended before the reply was complete")
        error.__cause__ = cause
        seconds = time.monotonic() - self.started_at
        attempt = Attempt(self.name, None, error, seconds, self.output_format.strategy)
        self._state.attempts.append(attempt)

    def _stopped(self, error: Exception, cause: Exception, reply: ChatReply | None, discarded: int) -> Emit:
        seconds = time.monotonic() - self.started_at
        attempt = Attempt(self.name, reply, cause, seconds, self.output_format.strategy)
        self._state.add_attempt(attempt, self._prepared, discarded)
        reply = self._state.attempts[-1].reply
        failure = ReplyFailed(self.name, error, seconds, reply=reply, request=self._prepared)
        return Emit(failure, streamed=False)


def _has_state(message: Message) -> bool:
    return isinstance(message, AiMessage) and message.state is not None


def _without_state(request: ChatRequest, count: int) -> ChatRequest:
    """Return a chat request whose first ``count`` messages have no provider-specific data."""
    messages = [
        replace(message, state=None) if isinstance(message, AiMessage) and index < count else message
        for index, message in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(messages))


def _joined(paused: Sequence[ChatReply], reply: ChatReply) -> ChatReply:
    """Join a reply with the parts that arrived before the provider paused."""
    for earlier in reversed(paused):
        reply = replace(
            reply,
            message=earlier.message.plus(reply.message),
            server_tool_runs=(*earlier.server_tool_runs, *reply.server_tool_runs),
            citations=(*earlier.citations, *reply.citations),
        )
    return reply


def _check_prices(invocation: Invocation, name: str) -> None:
    """Raise DefinitionError if a budget limits cost and a model has no price that is only known in this call.

    ``name`` is the name of the first model.
    """
    state, problems = invocation.state, list[DefinitionProblem]()
    if invocation.request.options.model is not None:  # create could not know that this model needs a price
        problems = state.budget.problems(invocation.plan.qualname, [name])
    problems = problems or _price_problems(invocation)
    if problems:
        raise DefinitionError(problems)


def _price_problems(invocation: Invocation) -> list[DefinitionProblem]:
    """Return an error for each model without a price in an inner call, if an outer call limits cost."""
    state, problems = invocation.state, list[DefinitionProblem]()
    for account in state.enclosing:
        if not isinstance(account, EnclosingCall) or account.invocation.state.budget.money is None:
            continue
        qualname = account.invocation.plan.qualname
        problems += [
            DefinitionProblem(
                qualname,
                f"the budget limits money, and a tool calls {invocation.plan.qualname}, whose model "
                f"{route.model.name} has no price; add it to the prices",
            )
            for route in invocation.routes
            if state.price_of(route.model.name) is None
        ]
    return problems


def _time_is_over(state: CallState) -> BudgetExceededError | None:
    """Return a BudgetExceededError if the time limit of the service call has passed, else None."""
    left = state.seconds_left
    return None if left is None or left > 0 else state.exceeded()


def check_finish(reply: ChatReply, qualname: str) -> None:
    """Raise FinishError if the model refused, was cut off or was stopped by a content filter."""
    error: FinishError
    if reply.refusal is not None:
        message = f"{qualname}: the model refused: {reply.refusal}"
        error = RefusalError(message, text=reply.text, reason=reply.refusal)
    elif reply.finish_reason is FinishReason.LENGTH:
        message = f"{qualname}: the answer was cut off by a length limit; raise max_tokens or ask for less"
        error = TruncatedError(message, text=reply.text, reason="length")
    elif reply.finish_reason in (FinishReason.MALFORMED, FinishReason.PAUSED):
        message = f"{qualname}: the model stopped before its answer was complete: {reply.stop_reason}"
        error = FinishError(message, text=reply.text, reason=reply.stop_reason)
    elif reply.finish_reason is FinishReason.CONTENT_FILTER:
        message = f"{qualname}: the content filter of the provider stopped the answer"
        error = ContentFilterError(message, text=reply.text, reason="content_filter")
    else:
        return
    raise error
