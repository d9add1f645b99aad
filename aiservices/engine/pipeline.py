"""The pipeline of a service: the interceptors (middleware) and listeners that run around each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from output_parsers.result.errors import OutputParsingError, shorten
from output_parsers.result.reading import strict_equal
from output_parsers.types.target import type_name

from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    ServiceOutputError,
    ToolError,
)
from ..tools.tool import ToolRun
from .effects import Effect, Emit, Flow, Run, map_effects, with_deadline
from .events import CallCompleted, CallFailed, CallStarted
from .plan import Invocation
from .results import Answer, Result
from .tool_loop import run_tool_loop

Proceed: TypeAlias = Callable[[Invocation], Flow[Answer]]
# Receives each event of a call. Its return value is ignored, and an exception is logged.
Listener: TypeAlias = Callable[[Any], Awaitable[None] | None]


class Interceptor(Protocol):
    """A function that wraps each call, like a middleware: ``answer = yield from proceed(invocation)``.

    Because it is a generator, it works in blocking, async and streaming calls. It may change the invocation
    before it proceeds, change or refuse the answer, proceed again, or not proceed at all. It does no input or
    output itself, but yields effects (CallModel, Run, Gather, Emit, Sleep).

    These attributes are optional:

    - ``blocks_streaming``: True if it may change or refuse an answer; streams then show nothing before it has
      decided.
    - ``position_name``: The kind of interceptor, so that ``create`` can refuse orders that give wrong
      results: "input guard", "memory", "memory as sent", "retrieval", "output guard", "answer check" or
      "retry".
    - ``shared_by_callers``: True if a memory may be served over HTTP for methods without a MemoryId.
    - ``add_service(name, owner, *, has_default_conversation)``: A method that is called for each service and
      agent with the interceptor; it may refuse them with a DefinitionError.
    - ``async_parts``: The names of parts that must be awaited; ``create`` refuses them in blocking services.
    """

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]: ...


# Interceptors around the calls of all services in this process, existing ones included. For instrumentation
# only: they must not change anything.
GLOBAL_INTERCEPTORS: list[Interceptor] = []


MEMORY_POSITIONS = ("memory", "memory as sent")


class Pipeline:
    """The interceptors (middleware) and event listeners that run around each call of a service.

    It holds no state of a call.
    """

    def __init__(self, interceptors: Sequence[Interceptor] = (), listeners: Sequence[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        # True if a method without a memory id continues a conversation that another caller began
        self.remembers_callers = any(
            getattr(one, "position_name", None) in MEMORY_POSITIONS
            and not getattr(one, "shared_by_callers", False)
            for one in interceptors
        )
        self.blocks_streaming = any(getattr(one, "blocks_streaming", False) for one in interceptors)
        proceed: Proceed = _read_answer
        for interceptor in reversed(interceptors):
            proceed = _wrap(interceptor, proceed)
        self._proceed = proceed

    def flow(self, invocation: Invocation) -> Flow[Answer]:
        """Return a generator that runs one service call with all its interceptors (middleware) and listeners.

        The interceptors of the service are nested in their order, the first one outermost. The global ones
        are outside of them, the last one added outermost. An AiServiceError that the flow raises has all
        attempts of the call in ``attempts``.
        """
        proceed = self._proceed
        for interceptor in GLOBAL_INTERCEPTORS:
            proceed = _wrap(interceptor, proceed)
        flow = _with_attempts_on_errors(proceed, invocation)
        if self._listeners:
            flow = notify(flow, invocation, self._listeners)
        deadline = invocation.state.deadline
        return flow if deadline is None else with_deadline(flow, deadline, invocation.state.time_exceeded)


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
    except AiServiceError as error:
        error.attempts = tuple(invocation.state.attempts)
        error.add_note(f"in {invocation.plan.qualname}")
        raise


def _read_answer(invocation: Invocation) -> Flow[Answer]:
    """Call the model, run the tools that it requests, and parse its final answer.

    Raises ServiceOutputError if the reply cannot be read.
    """
    state = invocation.state
    reply, output_format, immediate_runs = yield from run_tool_loop(invocation)
    strategy, messages = output_format.strategy, tuple(state.tool_messages)
    reasons = (*output_format.reasons, *reply.notes)
    if immediate_runs:
        tool_run = _choose_tool_result(immediate_runs, invocation)
        tool_runs = tuple(state.tool_runs)
        value = _value_of(tool_run)
        return Answer(value, reply, (), strategy, reasons, messages, tool_runs, tool_run=tool_run)
    try:
        reading = output_format.read(reply)
    except OutputParsingError as error:
        state.attempts[-1] = state.attempts[-1]._replace(error=error)
        failure = ServiceOutputError(invocation.plan.qualname, error.text, error.problems, state.attempts)
        failure.reply = reply
        raise failure from error
    messages = (*messages, reply.message)
    return Answer(
        reading.value, reply, reading.coercions, strategy, reasons, messages, tuple(state.tool_runs)
    )


def _choose_tool_result(runs: Sequence[ToolRun], invocation: Invocation) -> ToolRun:
    """Choose the tool call whose result the service method returns instead of an answer of the model.

    It is the one that has the return type of the method; None is the answer only if all results are None.
    Raises ToolError if no result has the type, or if several different results have it.
    """
    qualname, call = invocation.plan.qualname, runs[-1].call
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


def _value_of(run: ToolRun) -> Any:
    """Return the result of an executed tool call, or its ``value`` if it is a Result of another service."""
    return run.result.value if isinstance(run.result, Result) else run.result


def _has_return_type(result: object, invocation: Invocation) -> bool:
    """Return True if the value that a tool returned fits the return type of the service method."""
    plan = invocation.plan
    parser = plan.output_format.parser
    if parser is None:  # the method returns the reply of the model itself
        return isinstance(plan.output_type, type) and isinstance(result, plan.output_type)
    try:
        # A result has the return type if it is equal to what is read after it was written.
        return strict_equal(parser.parse(parser.write(result)), result)
    except (OutputParsingError, ValueError):
        return False


def notify(flow: Flow[Answer], invocation: Invocation, listeners: Sequence[Listener]) -> Flow[Answer]:
    """Run a service call, and pass each of its events to all listeners in order."""
    yield from _notify_all(CallStarted(invocation), listeners)

    def perform(effect: Effect) -> Flow[Any]:
        if isinstance(effect, Emit):
            event = effect.event
            if getattr(event, "invocation", event) is None:
                event = replace(event, invocation=invocation)
            yield from _notify_all(event, listeners)
        return (yield effect)

    try:
        answer = yield from map_effects(flow, perform)
    except GeneratorExit:  # the consumer is gone, so nothing can be awaited for listeners any more
        raise
    except BaseException as error:
        yield from _notify_all(CallFailed(invocation, error), listeners)
        raise
    yield from _notify_all(CallCompleted(invocation, answer), listeners)
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


def _identity(awaitable: Awaitable[None]) -> Awaitable[None]:
    return awaitable
