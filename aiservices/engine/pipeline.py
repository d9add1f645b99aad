"""Around one call: interceptors inward, the model, the reading of its reply, and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Coercion, strict_equal
from output_parsers.types.target import type_name

from ..models.errors import AiServiceError, ServiceOutputError, ToolError
from ..models.messages import ChatReply, Message
from ..models.strategy import Strategy
from .effects import Effect, Emit, Flow, Run, through
from .events import CallCompleted, CallFailed, CallStarted
from .plan import Invocation
from .tool_execution import ToolRun
from .tool_loop import converse

T = TypeVar("T")
# Is told of each event; what it returns does not matter, and what it raises is logged and goes no further.
Listener: TypeAlias = Callable[[Any], Awaitable[None] | None]


def notify(flow: Flow[T], invocation: Invocation, listeners: Sequence[Listener]) -> Flow[T]:
    """A flow whose events are told to the listeners, one after the other, before all others see them."""
    yield from _tell(CallStarted(invocation), listeners)

    def told(need: Effect) -> Flow[Any]:
        if isinstance(need, Emit):
            yield from _tell(need.event, listeners)
        return (yield need)

    try:
        answer = yield from through(flow, told)
    except GeneratorExit:  # nobody waits for the answer, nor for what listeners do
        raise
    except BaseException as error:
        yield from _tell(CallFailed(invocation, error), listeners)
        raise
    yield from _tell(CallCompleted(invocation, answer), listeners)
    return answer


def _given(told: Awaitable[None]) -> Awaitable[None]:
    return told


def _tell(event: Any, listeners: Sequence[Listener]) -> Flow[None]:
    for listener in listeners:
        try:
            told = listener(event)
            if told is not None:  # it is to be awaited
                yield Run(partial(_given, told))
        except Exception:
            import logging  # listeners seldom fail

            logging.getLogger("aiservices").exception("a listener failed at %s", type(event).__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a turn: the typed value, the reply it was read from, and the steps that reading took.

    ``strategy`` and ``reasons`` say how structure was asked for, and why so. ``said`` are the messages that
    followed the request: those of its tools and their results, and the reply. ``tool_runs`` are what ran.
    ``sources`` are what an interceptor gave the model to read.
    """

    value: Any
    reply: ChatReply
    coercions: tuple[Coercion, ...]
    strategy: Strategy = Strategy.TEXT
    reasons: tuple[str, ...] = ()
    said: tuple[Message, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    sources: tuple[Any, ...] = ()


Proceed: TypeAlias = Callable[[Invocation], Flow[Answer]]


class Interceptor(Protocol):
    """Code that runs around a call: ``answer = yield from proceed(invocation)``.

    It may change the turn before it proceeds, change or refuse the answer after, proceed again, or
    not at all. What it needs done it yields as a effect. One that may rewrite or
    refuse what was said has a true attribute ``blocks_streaming``:
    then streams show nothing before it has passed.
    Where its place matters, ``position_name`` says what it is: "input guard", "memory", "memory as sent",
    "retrieval", "output guard", "answer check" or "retry"; and ``awaits`` names what is async in it.
    ``create`` refuses what cannot work.
    """

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]: ...


# Around the calls of all services of this process, those made before too: they watch and change nothing.
GLOBAL_INTERCEPTORS: list[Interceptor] = []


class Pipeline:
    """The way of every call of one service; made once, holds nothing of a call."""

    def __init__(self, interceptors: Sequence[Interceptor] = (), listeners: Sequence[Listener] = ()) -> None:
        self._listeners = tuple(listeners)
        self.blocks_streaming = any(getattr(interceptor, "blocks_streaming", False) for interceptor in interceptors)
        proceed: Proceed = self._ask
        for interceptor in reversed(interceptors):
            proceed = _wrapped(interceptor, proceed)
        self._proceed = proceed

    def flow(self, invocation: Invocation) -> Flow[Answer]:
        """One call as a flow. Errors of ours leave it with all attempts on them."""
        flow = self._told(invocation)
        return notify(flow, invocation, self._listeners) if self._listeners else flow

    def _told(self, invocation: Invocation) -> Flow[Answer]:
        proceed = self._proceed
        for interceptor in GLOBAL_INTERCEPTORS:
            proceed = _wrapped(interceptor, proceed)
        try:
            return (yield from proceed(invocation))
        except AiServiceError as error:
            error.attempts = tuple(invocation.state.attempts)
            error.add_note(f"in {invocation.plan.where}")
            raise

    def _ask(self, invocation: Invocation) -> Flow[Answer]:
        context = invocation.state
        reply, wire, result = yield from converse(invocation)
        if result is not None:
            said, value = tuple(context.tool_messages), _fitting(result, invocation)
            return Answer(value, reply, (), wire.strategy, wire.reasons, said, tuple(context.tool_runs))
        try:
            reading = wire.read(reply)
        except OutputParsingError as error:
            attempts = context.attempts
            attempts[-1] = attempts[-1]._replace(error=error)
            failure = ServiceOutputError(invocation.plan.where, error.text, error.problems, attempts)
            failure.reply = reply
            raise failure from error
        said = (*context.tool_messages, reply.message)
        runs = tuple(context.tool_runs)
        return Answer(reading.value, reply, reading.coercions, wire.strategy, wire.reasons, said, runs)


def _wrapped(interceptor: Interceptor, proceed: Proceed) -> Proceed:
    return lambda invocation: interceptor(invocation, proceed)


def _fitting(run: ToolRun, invocation: Invocation) -> Any:
    """The result of a tool that is the answer. Raises ToolError when it is not of the method's type."""
    parser = invocation.plan.wire.parser
    try:
        if parser is None or strict_equal(parser.parse(parser.write(run.result)), run.result):
            return run.result
    except (OutputParsingError, ValueError):
        pass
    kind = type_name(invocation.plan.returns.form)
    raise ToolError(
        f"{invocation.plan.where}: the result of {run.name} is no {kind}: {run.result!r}", call=run.call
    )
