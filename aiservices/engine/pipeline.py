"""Run a service call with the interceptors and listeners around it."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from output_parsers.result.errors import OutputParsingError, shorten
from output_parsers.result.reading import CALL_ARGUMENTS, Reading, strict_equal
from output_parsers.types.cited import cited_from
from output_parsers.types.target import type_name
from output_parsers.types.validation import arguments_for_validators

from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    MediaNotAllowedError,
    ServiceOutputError,
    ToolError,
)
from ..models.media_policy import MediaPolicy
from ..models.messages import ChatReply, SystemMessage
from ..models.requests import WaitingTime
from ..tools.tool import ToolRun
from .budget import Listener, check_listeners
from .effects import Effect, Emit, Flow, Run
from .flows import map_effects, with_deadline
from .interceptor import Interceptor, Proceed, attributes_of
from .output_format import OutputFormat
from .plan import CallState, EnclosingCall, Invocation, RunningCall, time_exceeded
from .results import Answer, Result
from .streams import CallClosed, CallCompleted, CallFailed, CallStarted
from .tool_execution import undo_after
from .tool_loop import run_tool_loop


class InnerCalls:
    """Wraps a listener so that it receives the events of inner calls: service calls made by tools.

    It receives the events of calls at any depth.

    An inner call is made by a tool: a method of another service, or a function that calls one::

        create(Desk, tools=[lawyer.ask], listeners=[log, InnerCalls(log)])

    ``event.invocation`` is the inner call; its ``parent`` is the call around it.

    Args:
        listener: A function that receives each event. It is not async, because inner calls may be blocking.
    """

    def __init__(self, listener: Callable[[Any], None]) -> None:
        check_listeners("InnerCalls", [listener])
        self.listener = listener

    def __call__(self, event: object) -> None:
        """Pass an event of an inner call to the wrapped listener."""
        self.listener(event)


# Interceptors around the calls of all services in this process, existing ones included. For instrumentation
# only: they must not change anything.
GLOBAL_INTERCEPTORS: list[Interceptor] = []


_NO_PROBABILITIES: Mapping[str, Mapping[object, float]] = MappingProxyType({})


class Pipeline:
    """The interceptors and event listeners of a service, in the order in which they run.

    It holds no per-call state.

    Attributes:
        interceptors: The interceptors, the first one outermost.
        listeners: The listeners, also those of inner calls.
        has_memory: True if one of the interceptors stores conversations.
    """

    def __init__(self, interceptors: Sequence[Interceptor] = (), listeners: Sequence[Listener] = ()) -> None:
        self.interceptors = tuple(interceptors)
        self.listeners = tuple(listeners)
        self._listeners = tuple(one for one in listeners if not isinstance(one, InnerCalls))
        self._inner_listeners = tuple(one for one in listeners if isinstance(one, InnerCalls))
        attributes = [attributes_of(one) for one in interceptors]
        memories = [one for one in attributes if one.kind.is_memory]
        self.has_memory = bool(memories)
        # True if a method without a memory id continues a conversation that another caller began
        self.remembers_callers = not all(one.shared_by_callers for one in memories)
        self.blocks_streaming = any(one.blocks_streaming for one in attributes)
        proceed: Proceed = _request_answer
        for interceptor in reversed(interceptors):
            proceed = _wrap(interceptor, proceed)
        self._proceed = proceed

    def flow(self, invocation: Invocation) -> Flow[Answer]:
        """Return a generator that runs one service call with all interceptors and listeners.

        The interceptors of the service are nested in their order, the first one outermost. The global
        interceptors wrap them, the last one added outermost. An AiServiceError that the flow raises has all
        attempts of the call in ``attempts``.
        """
        if invocation.late_messages is not None:
            return self._flow_with_messages(invocation)
        proceed = self._proceed
        for interceptor in GLOBAL_INTERCEPTORS:
            proceed = _wrap(interceptor, proceed)
        if invocation.plan.media is not None:
            _check_media(invocation, invocation.plan.media)
        flow = _with_attempts_on_errors(proceed, invocation)
        state, listeners = invocation.state, self._listeners
        if state.enclosing or state.budget.seconds is not None:
            _measure_waiting(state)
        if self._inner_listeners:
            state.inner_listeners = self._inner_listeners
        if state.enclosing:
            flow = _with_recording(flow, invocation)
            if state.inner is None:  # else a side question, whose events the call that asks it reports
                for account in state.enclosing:
                    listeners += account.listeners
            flow = _recorded(flow, invocation)
        if listeners:
            flow = notify(flow, invocation, listeners)
        if state.deadline is None:
            return flow
        return with_deadline(
            flow, lambda: state.deadline or math.inf, state.waiting, partial(time_exceeded, state)
        )

    def _flow_with_messages(self, invocation: Invocation) -> Flow[Answer]:
        state, messages = invocation.state, invocation.late_messages
        assert messages is not None
        make = Run(messages, in_background=True)
        flow: Flow[Any] = _performed(make)
        if state.deadline is not None:
            flow = with_deadline(
                flow, lambda: state.deadline or math.inf, state.waiting, partial(time_exceeded, state)
            )
        return (yield from self.flow(invocation.with_messages((yield from flow))))


def _measure_waiting(state: CallState) -> None:
    """Measure how long the requests of a call wait for their turn, if the call has a time limit."""
    if state.waiting is None:
        outer = state.enclosing_call
        outer_waiting = None if outer is None else outer.invocation.state.waiting
        if outer_waiting is not None or state.deadline is not None:
            state.waiting = WaitingTime(outer_waiting)


def _performed(effect: Effect) -> Flow[object]:
    return (yield effect)


def _check_media(invocation: Invocation, policy: MediaPolicy) -> None:
    """Raise MediaNotAllowedError if the caller passed an image or file that the policy refuses."""
    for message in invocation.request.messages:
        for part in () if isinstance(message, SystemMessage) else message.contents:
            if not isinstance(part, str):
                try:
                    policy.check(part)
                except MediaNotAllowedError as error:
                    raise MediaNotAllowedError(f"{invocation.qualname}: {error}") from None


def _wrap(interceptor: Interceptor, proceed: Proceed) -> Proceed:
    def call(invocation: Invocation) -> Flow[Answer]:
        flow = interceptor(invocation, proceed)
        if not hasattr(flow, "send"):
            name = getattr(interceptor, "__qualname__", type(interceptor).__qualname__)
            raise _wrong_interceptor(
                invocation,
                f"the interceptor {name} is not a generator function; call the next one with "
                "'answer = yield from proceed(invocation)' and return the answer",
            )
        return flow

    return call


def _wrong_interceptor(invocation: Invocation, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(invocation.plan.qualname, message)])


def _recorded(flow: Flow[Answer], invocation: Invocation) -> Flow[Answer]:
    """Run a service call, and give its record to the outer call and to budgets that keep such records."""
    state = invocation.state
    if state.inner is not None:  # a side question shares the state of its call, which has a record already
        return (yield from flow)
    state.inner, record, is_recorded = [], RunningCall(invocation), False
    for account in reversed(state.enclosing):
        if account.keeps_calls:
            account.add_call(record)
            is_recorded = True
        if isinstance(account, EnclosingCall):
            break  # outer accounts count this call as a part of the outer call
    if not is_recorded:
        return (yield from flow)
    try:
        return (yield from flow)
    except GeneratorExit:  # the reader of a stream does not want the rest
        raise
    except BaseException as error:
        record.error = error
        raise
    finally:
        record.seconds = state.seconds


def _with_recording(flow: Flow[Answer], invocation: Invocation) -> Flow[Answer]:
    """Let the durable call whose tool makes this call record it, unless it has an id of its own."""
    state, enclosing = invocation.state, invocation.state.enclosing_call
    recording = None if enclosing is None else enclosing.invocation.state.recording
    if enclosing is None or recording is None or state.recording is not None:
        return flow
    inner = recording.inner(invocation, enclosing.tool_call)
    if inner is None:
        return flow
    state.recording = inner
    recorded: Flow[Answer] = inner.run(flow)
    return recorded


def _with_attempts_on_errors(proceed: Proceed, invocation: Invocation) -> Flow[Answer]:
    try:
        answer = yield from proceed(invocation)
        if not isinstance(answer, Answer):
            raise _wrong_interceptor(
                invocation,
                f"an interceptor returned a value of the type {type(answer).__name__}; it must return the "
                "answer that 'yield from proceed(invocation)' gives, or another Answer",
            )
        return answer
    except BaseException as error:  # also cancellation, and the end of a stream that is closed early
        invocation.state.is_abandoned = True
        undone = (yield from undo_after(error, invocation)) if invocation.toolbox is not None else ()
        if (recording := invocation.state.recording) is not None:
            undone = recording.undone_runs = (*recording.undone_runs, *undone)
        if isinstance(error, AiServiceError):
            error.attempts = tuple(invocation.state.attempts)
            error.inner_calls = invocation.state.inner_calls()
            error.tool_runs = (*invocation.state.tool_runs, *invocation.state.round_runs)
            error.undone_runs = undone
            error.qualname = error.qualname or invocation.plan.qualname
        raise


def _streamed_reading(
    state: CallState, output_format: OutputFormat, reply: ChatReply
) -> Reading[object] | None:
    """Return what a stream has read of the reply, or None if it has to be read again."""
    calls, tooling = reply.message.tool_calls, output_format.tooling
    if state.streamed_reading is None or len(calls) > 1:
        return None
    if tooling is None:
        return None if calls else state.streamed_reading(reply.message.text)
    return state.streamed_reading(calls[0].arguments) if calls and calls[0].name == tooling.choice else None


def _request_answer(invocation: Invocation) -> Flow[Answer]:
    """Send requests to the model, run the tools that it calls, and parse its final answer.

    Raises ServiceOutputError if the reply cannot be read.
    """
    state, plan = invocation.state, invocation.plan
    if state.conversation is None:
        state.conversation = invocation.request.messages
    decisions, reader = plan.decisions, invocation.answer_reader
    if reader is None and (decisions.is_wanted or invocation.request.options.probabilities):
        assert decisions.interceptor is not None, "plan_call sets it"
        return (yield from decisions.interceptor(invocation, _request_answer))
    if plan.check is not None:
        from .citations import with_sources  # few answers are cited

        invocation = with_sources(invocation, plan.check)
        state.verifier = invocation.request.sources
    reply, output_format, immediate_runs = yield from run_tool_loop(invocation)
    number = len(state.attempts) - 1
    strategy, messages = output_format.strategy, tuple(state.tool_messages)
    reasons = (*output_format.reasons, *reply.notes)
    if immediate_runs:
        tool_run = _choose_tool_result(immediate_runs, invocation)
        tool_runs = tuple(state.tool_runs)
        value = None if plan.returns_nothing else _value_of(tool_run)
        return Answer(value, reply, (), strategy, reasons, messages, tool_runs, tool_run=tool_run)
    try:
        if reader is not None:
            reading = yield from reader.read(output_format, reply)
        elif state.verifier is None:
            token = CALL_ARGUMENTS.set(invocation.arguments)  # without a function, which would cost time
            try:
                reading = _streamed_reading(state, output_format, reply) or output_format.read(reply)
            finally:
                CALL_ARGUMENTS.reset(token)
        else:
            with cited_from(state.verifier), arguments_for_validators(invocation.arguments):
                reading = _streamed_reading(state, output_format, reply) or output_format.read(reply)
            state.verifier.resolve()
    except OutputParsingError as error:
        state.attempts[number] = state.attempts[number]._replace(error=error)
        failure = ServiceOutputError(invocation.plan.qualname, error.text, error.problems, state.attempts)
        failure.reply = reply
        raise failure from error.__cause__  # the error itself says the same
    messages = (*messages, reply.message)
    return Answer(
        reading.value,
        reply,
        reading.coercions,
        strategy,
        reasons,
        messages,
        tuple(state.tool_runs),
        probabilities=_NO_PROBABILITIES,
    )


def _choose_tool_result(runs: Sequence[ToolRun], invocation: Invocation) -> ToolRun:
    """Choose the tool call whose result is returned instead of the model's answer.

    It is the one that has the return type of the method; None is the answer only if all results are None.
    Raises ToolError if no result has the type, or if several different results have it.
    """
    qualname, call = invocation.plan.qualname, runs[-1].call
    if invocation.plan.returns_nothing:
        return runs[-1]
    typed = [run for run in runs if _has_return_type(_value_of(run), invocation)]
    answers = [run for run in typed if _value_of(run) is not None] or typed
    if not answers:
        expected = type_name(invocation.plan.output_type)
        results = ", ".join(
            f"the result of {run.name} is {shorten(repr(_value_of(run)), 80)}" for run in runs
        )
        raise ToolError(
            f"{qualname}: a tool must return the answer, of type {expected}; {results}", call=call
        )
    answer = answers[-1]
    if not all(strict_equal(_value_of(run), _value_of(answer)) for run in answers):
        names = " and ".join(dict.fromkeys(run.name for run in answers))
        raise ToolError(
            f"{qualname}: the results of {names} differ, and each could be the answer; only one tool that is "
            "called in a round may be immediate",
            call=call,
        )
    return answer


def _value_of(run: ToolRun) -> object:
    """Return the result of a tool call, replacing another service's Result object with its value."""
    return run.result.value if isinstance(run.result, Result) else run.result


def _has_return_type(result: object, invocation: Invocation) -> bool:
    """Return True if a tool's result fits the return type of the service method."""
    plan = invocation.plan
    parser = plan.output_format.parser
    if parser is None:  # the method returns the reply of the model itself
        return isinstance(plan.output_type, type) and isinstance(result, plan.output_type)
    try:
        # A result has the return type if writing it and reading it again gives an equal value.
        return strict_equal(parser.restore(parser.write(result)), result)
    except (OutputParsingError, ValueError):
        return False


def notify(flow: Flow[Answer], invocation: Invocation, listeners: Sequence[Listener]) -> Flow[Answer]:
    """Run a service call, and report each of its events to all listeners in order."""
    events: list[object] = [CallStarted(invocation)]
    yield from _notify_all(events[0], listeners)

    def perform(effect: Effect) -> Flow[object]:
        if isinstance(effect, Emit) and not effect.replayed:
            event = effect.event
            if getattr(event, "invocation", event) is None:
                event = replace(event, invocation=invocation)
            events.append(event)
            yield from _notify_all(event, listeners)
        return (yield effect)

    try:
        answer = yield from map_effects(flow, perform)
    except GeneratorExit:  # the consumer is gone, so nothing can be awaited for listeners
        _notify_now(CallClosed(invocation, events=tuple(events)), listeners)
        raise
    except BaseException as error:
        yield from _notify_all(CallFailed(invocation, error, events=tuple(events)), listeners)
        raise
    yield from _notify_all(CallCompleted(invocation, answer, events=tuple(events)), listeners)
    return answer


def _notify_all(event: object, listeners: Sequence[Listener]) -> Flow[None]:
    for listener in listeners:
        try:
            awaitable = listener(event)
            if awaitable is not None:
                yield Run(partial(_identity, awaitable))
        except Exception:
            import logging  # listeners rarely fail

            logging.getLogger("aiservices").exception("a listener failed at %s", type(event).__name__)


def _notify_now(event: object, listeners: Sequence[Listener]) -> None:
    for effect in _notify_all(event, listeners):
        if isinstance(effect, Run) and isinstance(coroutine := effect.function(), Coroutine):
            coroutine.close()  # it is not awaited


def _identity(awaitable: Awaitable[None]) -> Awaitable[None]:
    return awaitable
