"""Effects, which are the steps of a service call such as a model request, and the functions that run them.

A flow is a generator that does no input or output itself. It yields an effect, such as ``CallModel``. The
driver performs the effect, and sends the outcome or throws the error into the generator. So everything above
the drivers is written once for blocking, async and streaming calls. ``run`` and ``arun`` return the result of
a flow; ``stream`` and ``astream`` yield the deltas of replies and the events that the flow emits.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager, closing
from contextvars import copy_context
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

from ..models.base import ChatModel
from ..models.errors import (
    AiServiceError,
    InvalidReplyError,
    ModelError,
    ModelTimeoutError,
    ServiceOutputError,
    hide_library_frames,
)
from ..models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta
from ..models.requests import ChatRequest, WaitingTime

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from ..models.messages import ToolCall

T = TypeVar("T")
_END: Any = object()
_SHORTEST_CHECK = 0.02  # seconds between two looks at a deadline that moves
_GRACE = 0.2  # seconds, for functions that start after the deadline of the call
# How much of an abandoned stream is read for its usage: characters, and those that a piece counts at least.
_MAX_DISCARDED = 64_000
_MIN_PER_PIECE = 4


@dataclass(frozen=True, slots=True)
class Run:
    """An effect (a step of a service call) that runs a function.

    Attributes:
        function: Takes no arguments. In async calls it may be async.
        in_thread: True to run it in a thread in async calls, because it blocks.
        deadline: The value of ``time.monotonic()`` at which an async call stops waiting for the function and
            raises TimeoutError. None means the time limit of the call; ``math.inf`` means that the function
            always runs to its end, for example to save something.
        tool_call: The tool call of the model that the function runs; None for other functions. The outcome
            is a ToolRun then.
        waiting: Moves the deadline by the time that requests of the function wait for their turn.
    """

    function: Callable[[], Any | Awaitable[Any]]
    _: KW_ONLY
    in_thread: bool = False
    deadline: float | None = None
    tool_call: ToolCall | None = None
    waiting: WaitingTime | None = None


class StreamPolicy(NamedTuple):
    """Says when a model's reply may be used, and what a stream shows of it.

    Attributes:
        checks: Functions that run at the same time as the request and return True if the reply may be used.
            A stream buffers the reply until all checks have returned. If one returns False, ReplyBlocked is
            raised and the request is cancelled; a blocking call has to wait for the reply first.
        counts_usage: True to read a stream to its end, which has the token counts, after an item of the
            stream was invalid.
        filters: Functions that check and change the deltas that a stream shows, applied in this order.
        early: Flows to start while the reply is streamed, after the checks; None for most requests. With them
            the model is asked for a stream in all kinds of calls.
        streamed: False to show nothing of the reply in a stream.
    """

    checks: tuple[Run, ...] = ()
    counts_usage: bool = False
    filters: tuple[StreamFilter, ...] = ()
    early: EarlyFlows | None = None
    streamed: bool = True

    def with_filter(self, stream_filter: StreamFilter) -> StreamPolicy:
        """Add a filter. Then no flow starts early, because the filter may reject the reply."""
        return self._replace(filters=(*self.filters, stream_filter), early=None)


class _ModelRequest(NamedTuple):
    model: ChatModel
    request: ChatRequest
    policy: StreamPolicy = StreamPolicy()


class CallModel(_ModelRequest):
    """An effect (a step of a service call) that sends a request to a language model.

    Attributes:
        model: The model.
        request: The request.
        policy: When its reply may be used, and what a stream shows of it.
    """

    __slots__ = ()

    @property
    def checks(self) -> tuple[Run, ...]:
        """The functions that run at the same time as the request and return True if the reply may be used."""
        return self.policy.checks

    # The base class is not used elsewhere.
    def _replace(self, **changes: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return a changed copy. Fields of the policy, such as ``checks``, may be given like its own."""
        policy = {name: changes.pop(name) for name in StreamPolicy._fields if name in changes}
        if policy:
            changes["policy"] = self.policy._replace(**policy)
        return super()._replace(**changes)


class Gather(NamedTuple):
    """An effect (a step of a service call) that runs several other effects at the same time.

    Attributes:
        effects: The effects. Their outcomes are in the same order.
        max_concurrency: How many run at the same time. None sets no limit.
    """

    effects: tuple[CallModel | Run, ...]
    max_concurrency: int | None = None


class GatherFlows(NamedTuple):
    """An effect (a step of a service call) that runs several flows at the same time.

    Events that the flows emit are reported at once. Replies of models are not streamed. When a flow raises an
    error, the others are closed, and the step raises this error.

    Attributes:
        flows: The flows. Their outcomes are in the same order.
        max_concurrency: How many run at the same time.
        running: Flows that began during a request. The step waits for them, too, and their outcomes come
            first.
    """

    flows: tuple[Flow[Any], ...]
    max_concurrency: int
    running: RunningFlows | None = None


@dataclass(frozen=True, slots=True)
class Emit:
    """An effect (a step of a service call) that reports an event to listeners and streams.

    Attributes:
        event: The event.
        streamed: False to pass it only to listeners, because streams report the same in another way.
    """

    event: Any
    _: KW_ONLY
    streamed: bool = True


class Sleep(NamedTuple):
    """An effect (a step of a service call) that waits for some seconds.

    Attributes:
        seconds: The seconds to wait.
    """

    seconds: float


Effect: TypeAlias = CallModel | Run | Gather | GatherFlows | Emit | Sleep
# Which type an outcome has depends on the effect, which type checkers cannot follow through a generator.
Outcome: TypeAlias = Any
Flow: TypeAlias = Generator[Effect, Outcome, T]
# Gets each delta of a streamed reply, and yields flows, which run one after the other. Each returns a delta
# to show, or None. An error that a flow raises ends the request. A call that is not streamed ignores filters.
StreamFilter: TypeAlias = Callable[[ReplyDelta], Iterator[Flow[ReplyDelta | None]]]


class EarlyFlows(NamedTuple):
    """Flows, such as tool calls, that start while the rest of a reply is still being streamed.

    Attributes:
        start: Gets each delta of the reply after it was shown, and returns the flows to start then.
        running: Contains the flows once they have started. They are closed if the request fails. If not, a
            GatherFlows waits for them, or they must be closed.
    """

    start: Callable[[ReplyDelta], list[Flow[Any]]]
    running: RunningFlows


class RunningFlows:
    """Runs several flows at the same time: their effects run in threads or tasks.

    Attributes:
        flows: The flows that have started.
        outcomes: Their outcomes, in the same order; RunningFlows.UNFINISHED while a flow runs.
        effects: The futures of the effects that are being performed, each with the index of its flow.
        is_early: True while the reply is streamed. Then an error of a flow is kept in ``error``.
        error: The first error of a flow that started early.
        is_closed: True once the flows have been closed. Then no other flow starts.
    """

    UNFINISHED: Any = object()

    def __init__(self) -> None:
        self.flows: list[Flow[Any]] = []
        self.outcomes: list[Outcome] = []
        self.effects: dict[Any, int] = {}
        self.is_early = False
        self.error: BaseException | None = None
        self.is_closed = False

    def start(self, flow: Flow[Any], perform: Callable[[Effect], Any]) -> Iterator[Any]:
        """Start a flow and yield its events, up to its first effect.

        ``perform`` returns a future for the effect.
        """
        self.flows.append(flow)
        self.outcomes.append(self.UNFINISHED)
        return self._advance(len(self.flows) - 1, flow.send, None, perform)

    def proceed(self, done: Any, perform: Callable[[Effect], Any]) -> Iterator[Any]:
        """Continue a flow whose effect has finished, and yield the flow's events."""
        index = self.effects.pop(done)
        flow = self.flows[index]
        try:
            outcome = done.result()
        except BaseException as error:  # also the CancelledError of a task
            return self._advance(index, flow.throw, error, perform)
        return self._advance(index, flow.send, outcome, perform)

    def _advance(
        self,
        index: int,
        step: Callable[[Outcome], Effect],
        outcome: Outcome,
        perform: Callable[[Effect], Any],
    ) -> Iterator[Any]:
        while True:
            try:
                effect = step(outcome)
            except StopIteration as stop:
                self.outcomes[index] = stop.value
                return
            except BaseException as error:
                self.outcomes[index] = None
                if not self.is_early:
                    raise
                self.error = self.error or error
                return
            if not isinstance(effect, Emit):
                break
            if effect.streamed:
                yield effect.event
            step, outcome = self.flows[index].send, None
        self.effects[perform(effect)] = index

    def join(self) -> None:
        """Raise the first error of the flows, if there is one; later errors are raised at once."""
        self.is_early = False
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Close the flows. Tasks are cancelled; threads continue, and their outcomes are ignored."""
        self.is_closed = True
        for future in self.effects:
            if not future.cancel() and future.done() and not future.cancelled():
                future.exception()  # otherwise Python warns that it was never retrieved
        for flow in self.flows:
            flow.close()

    async def aclose(self) -> None:
        """Close the flows, and wait until their tasks have ended."""
        import asyncio

        for task in self.effects:
            task.cancel()
        await asyncio.gather(*self.effects, return_exceptions=True)
        self.close()


class ReplyBlocked(Exception):
    """Raised when a check, such as a guardrail, rejects a model's reply before any of it is shown.

    Attributes:
        reply: The whole reply; None if the request was cancelled before it was complete.
    """

    def __init__(self, reply: ChatReply | None) -> None:
        super().__init__("the reply may not be shown")
        self.reply = reply


class ReplyStopped(Exception):
    """Raised when a stream filter, such as a guardrail for streamed text, ends a reply with an error.

    Attributes:
        error: The error.
        reply: The part of the reply that was read.
        discarded_characters: The length of the text that was read afterwards to get the token counts.
    """

    def __init__(self, error: Exception, reply: ChatReply) -> None:
        super().__init__(str(error))
        self.error = error
        self.reply = reply
        self.discarded_characters = 0


def run(flow: Flow[T]) -> T:
    """Run a service call, executing each step that its generator yields, and return the result."""
    # The next step either sends an outcome into the generator, or throws an error into it.
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    try:
        while True:
            effect = step(outcome)
            try:
                outcome, step = _perform(effect), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AiServiceError as error:
        hide_library_frames(error)
        raise


async def arun(flow: Flow[T]) -> T:
    """Run a service call asynchronously, executing each step that its generator yields; return the result."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    try:
        while True:
            effect = step(outcome)
            try:
                outcome, step = await _aperform(effect), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AiServiceError as error:
        hide_library_frames(error)
        raise


def stream(flow: Flow[Outcome]) -> Generator[Any, None, None]:
    """Run a service call, and yield its events and the streamed text of the reply."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    is_cancelled = False
    # When the user closes the stream, the cleanup code of the flow must run at once.
    with closing(flow):
        try:
            while True:
                effect = step(outcome)
                try:
                    if isinstance(effect, Emit):
                        # The reader of a cancelled call must get the cancellation, and no more events.
                        if effect.streamed and not is_cancelled:
                            yield effect.event
                        outcome, step = None, flow.send
                    elif type(effect) is CallModel and (effect.policy.streamed or effect.policy.early):
                        policy = effect.policy
                        is_plain = not policy.checks and policy.early is None
                        deltas = _deltas(effect) if is_plain else _parallel_deltas(effect)
                        outcome = yield from _filtered(deltas, effect) if policy.filters else deltas
                        step = flow.send
                    elif isinstance(effect, GatherFlows):
                        outcome, step = (yield from _gather_flows(effect)), flow.send
                    else:
                        outcome, step = _perform(effect), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    is_cancelled = is_cancelled or not isinstance(error, Exception)
                    outcome, step = error, flow.throw
        except StopIteration:
            return


async def astream(flow: Flow[Outcome]) -> AsyncGenerator[Any, None]:
    """Run a service call in an event loop, and yield its events and the streamed text of the reply."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    is_cancelled = False
    with closing(flow):
        try:
            while True:
                effect = step(outcome)
                try:
                    if isinstance(effect, Emit):
                        # The reader of a cancelled call must get the cancellation, and no more events.
                        if effect.streamed and not is_cancelled:
                            yield effect.event
                        outcome, step = None, flow.send
                    elif type(effect) is CallModel and (effect.policy.streamed or effect.policy.early):
                        outcome = None
                        async with aclosing(_aparts(effect)) as parts:
                            async for part in parts:
                                if isinstance(part, ReplyDelta):
                                    outcome = part.reply
                                    if not effect.policy.streamed:
                                        continue
                                elif isinstance(part, ChatReply):  # the whole reply, after filters
                                    outcome = part
                                    continue
                                try:
                                    yield part  # a delta, or an event of an early flow
                                except ServiceOutputError as error:
                                    await _aabandon(error, effect, outcome, parts)
                                    raise
                        outcome, step = _whole_reply(outcome, effect), flow.send
                    elif isinstance(effect, GatherFlows):
                        running = effect.running or RunningFlows()
                        async with aclosing(_agather_flows(effect, running)) as events:
                            async for event in events:
                                yield event
                        outcome, step = running.outcomes, flow.send
                    else:
                        outcome, step = await _aperform(effect), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    is_cancelled = is_cancelled or not isinstance(error, Exception)
                    outcome, step = error, flow.throw
        except StopIteration:
            return


def map_effects(flow: Flow[T], perform: Callable[[Effect], Flow[Outcome]]) -> Flow[T]:
    """Run a generator of effects, such as model requests, and call ``perform`` to execute each of them.

    ``perform`` returns a flow, too, so that it can yield effects. Errors that it raises are thrown into the
    inner flow. The steps of flows in a GatherFlows are performed in the same way.
    """
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    with closing(flow):
        while True:
            try:
                effect = step(outcome)
            except StopIteration as stop:
                value: T = stop.value
                return value
            if type(effect) in (GatherFlows, CallModel, Gather):
                effect = _with_mapped_flows(effect, perform)
            try:
                outcome, step = (yield from perform(effect)), flow.send
            except GeneratorExit:
                raise
            except BaseException as error:
                outcome, step = error, flow.throw


def _with_mapped_flows(effect: Effect, perform: Callable[[Effect], Flow[Outcome]]) -> Effect:
    """Return a copy of an effect whose nested flows also execute their effects with ``perform``."""
    if type(effect) is GatherFlows:
        return effect._replace(flows=tuple([map_effects(one, perform) for one in effect.flows]))
    if type(effect) is Gather:
        if any(type(one) is CallModel for one in effect.effects):
            effects: list[Any] = [_with_mapped_flows(one, perform) for one in effect.effects]
            effect = effect._replace(effects=tuple(effects))
    elif type(effect) is CallModel:
        policy = effect.policy
        if policy.filters:
            filters = [partial(_mapped_filter, one, perform) for one in policy.filters]
            effect = effect._replace(filters=tuple(filters))
        if policy.early is not None:
            start = partial(_mapped_starts, policy.early.start, perform)
            effect = effect._replace(early=EarlyFlows(start, policy.early.running))
    return effect


def _mapped_starts(
    start: Callable[[ReplyDelta], list[Flow[Any]]],
    perform: Callable[[Effect], Flow[Outcome]],
    delta: ReplyDelta,
) -> list[Flow[Any]]:
    return [map_effects(flow, perform) for flow in start(delta)]


def _mapped_filter(
    stream_filter: StreamFilter, perform: Callable[[Effect], Flow[Outcome]], delta: ReplyDelta
) -> Iterator[Flow[ReplyDelta | None]]:
    for flow in stream_filter(delta):
        yield map_effects(flow, perform)


class TimeLimit(AbstractAsyncContextManager[None]):
    """A deadline of an async call, which moves while requests of the call wait for their turn.

    Args:
        deadline: The value of ``time.monotonic()`` at which the ``async with`` block ends with a
            TimeoutError.
        waiting: Measures the waits; None if there are none.
        waited: The seconds of waits that the deadline already includes.
    """

    def __init__(self, deadline: float, waiting: WaitingTime | None, waited: float = 0.0) -> None:
        import asyncio

        self._deadline = deadline - waited
        self._waiting = waiting
        self._timeout = asyncio.timeout(self.left if waiting is None else None)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        waited = 0.0 if self._waiting is None else self._waiting.seconds
        return self._deadline + waited - time.monotonic()

    @property
    def expired(self) -> bool:
        """True if the time is over, so that the TimeoutError is that of this object."""
        return self._timeout.expired()

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._waiting is not None:
            self._check()

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(*error)  # raises a TimeoutError itself

    def _check(self) -> None:
        import asyncio

        loop, left = asyncio.get_running_loop(), self.left
        if left > 0:
            self._timer = loop.call_later(max(left, _SHORTEST_CHECK), self._check)
        else:
            self._timeout.reschedule(loop.time())


def with_deadline(
    flow: Flow[T],
    deadline: Callable[[], float],
    waiting: WaitingTime | None,
    expired: Callable[[], Exception],
) -> Flow[T]:
    """Run a service call until a deadline; then raise an error, even if a function is still running.

    An async call stops waiting for the function. A blocking call cannot interrupt the function, and raises
    the error when the function returns. A function that starts after the deadline, such as a cleanup
    function, has ``_GRACE`` seconds. The deadline moves by the time that requests wait for their turn.
    """

    def limited(effect: Run, end: float) -> Run:
        return replace(effect, deadline=end, waiting=waiting) if effect.deadline is None else effect

    def perform(effect: Effect) -> Flow[Outcome]:
        if not isinstance(effect, (Run, Gather, CallModel)):
            return (yield effect)
        end = deadline()
        is_late = time.monotonic() >= end
        if is_late:
            end = time.monotonic() + _GRACE
        if isinstance(effect, Run):
            effect = limited(effect, end)
        elif isinstance(effect, Gather):
            effects = [limited(one, end) if isinstance(one, Run) else one for one in effect.effects]
            effect = effect._replace(effects=tuple(effects))
        elif effect.checks:
            effect = effect._replace(checks=tuple([limited(check, end) for check in effect.checks]))
        try:
            outcome = yield effect
        except TimeoutError as error:
            if time.monotonic() < end:  # not the deadline, but a TimeoutError of the function
                raise
            raise expired() from error
        is_limited = isinstance(effect, Run) and effect.deadline == end and not is_late
        if is_limited and time.monotonic() >= deadline():
            raise expired()
        return outcome

    return map_effects(flow, perform)


def without_streaming(effect: Effect) -> Flow[Outcome]:
    """Execute a step of a service call, but do not stream the model's reply to the user."""
    return (yield effect._replace(streamed=False) if isinstance(effect, CallModel) else effect)


def hold_back(flow: Flow[T]) -> Flow[T]:
    """Run a service call without streaming; the user receives nothing until the call succeeds."""
    return map_effects(flow, without_streaming)


def _perform(effect: Effect) -> Outcome:
    match effect:
        case CallModel(model, request, policy):
            if policy.early is not None:
                return _last_value(_parallel_deltas(effect))
            if not policy.checks:
                return model.complete(request)
            reply, *verdicts = _perform(Gather((CallModel(model, request), *policy.checks)))
            if not all(verdicts):
                raise ReplyBlocked(reply)
            return reply
        case Run(function):
            outcome = function()
            if outcome is not None and inspect.isawaitable(outcome):
                if inspect.iscoroutine(outcome):
                    outcome.close()
                name = getattr(function, "__qualname__", repr(function))
                raise TypeError(f"{name} is async and cannot run in a blocking call: use async def")
            return outcome
        case Gather(effects, max_concurrency):
            return _gather(effects, min(len(effects), max_concurrency or len(effects)))
        case GatherFlows():
            return _last_value(_gather_flows(effect))
        case Sleep(seconds):
            time.sleep(seconds)
        case Emit():
            pass
        case _:
            raise _not_an_effect(effect)
    return None


def _gather(effects: Sequence[CallModel | Run], max_concurrency: int) -> list[Outcome]:
    if max_concurrency <= 1:
        return [_perform(one) for one in effects]
    from concurrent.futures import ThreadPoolExecutor  # few calls need threads

    with ThreadPoolExecutor(max_concurrency) as pool:
        # Each effect sees the context variables of the caller, such as the current span.
        futures = [pool.submit(copy_context().run, _perform, one) for one in effects]
        return [future.result() for future in futures]


def _not_an_effect(value: object) -> TypeError:
    return TypeError(
        f"an interceptor yielded a value of the type {type(value).__name__}; "
        "it must yield effects: CallModel, Run, Gather, GatherFlows, Emit or Sleep"
    )


def _last_value(events: Generator[Any, None, T]) -> T:
    """Run a generator to its end, discard what it yields, and return its return value."""
    try:
        while True:
            next(events)
    except StopIteration as stop:
        value: T = stop.value
        return value


def _gather_flows(effect: GatherFlows) -> Generator[Any, None, list[Outcome]]:
    """Run several flows at the same time; yield their events, and return their results in order.

    The flows themselves run here, one step after the other. Only their effects run in threads.
    """
    flows, outcomes = effect.flows, list[Outcome]()
    with ExitStack() as stack:
        for one in flows:
            stack.callback(one.close)
        if effect.running is None and min(effect.max_concurrency, len(flows)) <= 1:
            for one in flows:
                outcomes.append((yield from _flow_with_events(one)))
            return outcomes
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        running = effect.running or RunningFlows()
        stack.callback(running.close)
        running.join()
        limit = min(effect.max_concurrency, len(flows) + len(running.effects)) or 1
        pool = stack.enter_context(ThreadPoolExecutor(limit))

        def perform(effect: Effect) -> Future[Outcome]:
            return pool.submit(copy_context().run, _perform, effect)

        waiting = list(reversed(flows))
        while waiting or running.effects:
            if waiting and len(running.effects) < limit:
                yield from running.start(waiting.pop(), perform)
            else:
                # in the order of the flows if several are done
                done = wait(running.effects, return_when=FIRST_COMPLETED).done
                yield from running.proceed(min(done, key=running.effects.__getitem__), perform)
        return running.outcomes


def _flow_with_events(flow: Flow[T]) -> Generator[Any, None, T]:
    """Run a flow in this thread, waiting for complete replies; yield its events, and return its result."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    while True:
        try:
            effect = step(outcome)
        except StopIteration as stop:
            value: T = stop.value
            return value
        if isinstance(effect, Emit):
            if effect.streamed:
                yield effect.event
            outcome, step = None, flow.send
            continue
        try:
            outcome, step = _perform(effect), flow.send
        except BaseException as error:
            outcome, step = error, flow.throw


async def _aperform(effect: Effect) -> Outcome:
    import asyncio  # a third of the cost of importing this package, and blocking calls do not need it

    match effect:
        case CallModel(model, request, policy):
            if policy.early is not None:
                return await _astreamed_reply(effect)
            reply = _before_deadline(model.acomplete(request), effect)
            checks = policy.checks
            return await (_checked_reply(reply, partial(_apass, checks)) if checks else reply)
        case Run(deadline=deadline):
            if deadline is None or deadline == math.inf:
                return await _arun_function(effect)
            waiting = effect.waiting
            async with TimeLimit(deadline, waiting, 0.0 if waiting is None else waiting.seconds):
                return await _arun_function(effect)
        case Gather(effects, max_concurrency):
            return await _agather(effects, max_concurrency or len(effects) or 1)
        case GatherFlows():
            running = effect.running or RunningFlows()
            async with aclosing(_agather_flows(effect, running)) as events:
                async for _ in events:
                    pass
            return running.outcomes
        case Sleep(seconds):
            await asyncio.sleep(seconds)
        case Emit():
            pass
        case _:
            raise _not_an_effect(effect)
    return None


async def _agather(effects: Sequence[CallModel | Run], max_concurrency: int) -> list[Outcome]:
    import asyncio

    semaphore = asyncio.Semaphore(max_concurrency)
    tasks = [asyncio.ensure_future(_aperform_with(semaphore, one)) for one in effects]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:  # after one failure the outcomes of the others are not needed
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _agather_flows(effect: GatherFlows, running: RunningFlows) -> AsyncGenerator[Any, None]:
    """Run flows at the same time in an event loop, and yield their events.

    If a flow raises an error, the effects of the others are cancelled.
    """
    import asyncio

    def perform(effect: Effect) -> asyncio.Task[Outcome]:
        return asyncio.ensure_future(_aperform(effect))

    waiting = list(reversed(effect.flows))
    try:
        running.join()
        while waiting or running.effects:
            if waiting and len(running.effects) < effect.max_concurrency:
                events = running.start(waiting.pop(), perform)
            else:
                done, _ = await asyncio.wait(running.effects, return_when=asyncio.FIRST_COMPLETED)
                events = running.proceed(min(done, key=running.effects.__getitem__), perform)
            for event in events:
                yield event
    finally:
        await running.aclose()
        for one in waiting:
            one.close()


async def _arun_function(effect: Run) -> Outcome:
    if effect.in_thread:
        import asyncio

        outcome = await asyncio.to_thread(effect.function)
    else:
        outcome = effect.function()
    return await outcome if inspect.isawaitable(outcome) else outcome


async def _aperform_with(semaphore: asyncio.Semaphore, effect: Effect) -> Outcome:
    async with semaphore:
        return await _aperform(effect)


def _aparts(effect: CallModel) -> AsyncGenerator[Any, None]:
    """Return an async generator of what a stream shows of a reply; after filters, the reply comes last."""
    policy = effect.policy
    is_plain = not policy.checks and policy.early is None
    deltas = _adeltas(effect) if is_plain else _aparallel_deltas(effect)
    return _afiltered(deltas, effect) if policy.filters else deltas


def _deltas(effect: CallModel) -> Generator[ReplyDelta, None, ChatReply]:
    """Yield the parts of a model's streamed reply as they arrive, and return the complete reply.

    Raises ModelTimeoutError after the deadline of the request.
    """
    reply = None
    request = effect.request
    deltas = effect.model.stream(request)
    try:
        for delta in deltas:
            reply = delta.reply
            try:
                yield delta
            except ServiceOutputError as error:
                _read_usage(error, effect, reply, iter(deltas))
                raise
            # A blocking read cannot be interrupted here; the timeout of the request ends it.
            if reply is None and _is_late(request):
                raise _timeout(effect)
    finally:
        # A model may return a plain iterator, which has no such method.
        close = getattr(deltas, "close", None)
        if close is not None:
            close()
    return _whole_reply(reply, effect)


def _is_late(request: ChatRequest) -> bool:
    """Return True after the deadline of a request, which moves while the request waits for its turn."""
    if request.deadline is None:
        return False
    waited = 0.0 if request.waiting is None else request.waiting.seconds
    return time.monotonic() > request.deadline + waited


def _filtered(
    source: Generator[ReplyDelta, None, ChatReply], effect: CallModel
) -> Generator[ReplyDelta, None, ChatReply]:
    """Yield the parts of a streamed reply after a request's stream filters; return the unfiltered reply."""
    deltas = source
    for stream_filter in effect.policy.filters:
        deltas = _apply_filter(deltas, stream_filter, source, effect)
    return (yield from deltas)


def _apply_filter(
    deltas: Generator[ReplyDelta, None, ChatReply],
    stream_filter: StreamFilter,
    source: Generator[ReplyDelta, None, ChatReply],
    effect: CallModel,
) -> Generator[ReplyDelta, None, ChatReply]:
    texts: list[str] = []
    with closing(source), closing(deltas):
        while True:
            try:
                delta = next(deltas)
            except StopIteration as stop:
                reply: ChatReply = stop.value
                return reply
            texts.append(delta.text)
            flows = stream_filter(delta)
            while True:
                visible = None
                try:
                    for flow in flows:
                        if (visible := run(flow)) is not None:
                            break
                except Exception as error:
                    stopped = ReplyStopped(error, _partial_reply(texts))
                    _read_usage(stopped, effect, delta.reply, source)
                    raise stopped from error
                if visible is None:
                    break
                yield visible


async def _afiltered(
    source: AsyncGenerator[ReplyDelta, None], effect: CallModel
) -> AsyncGenerator[ReplyDelta | ChatReply, None]:
    """Yield the parts of a streamed reply after a request's stream filters, and the unfiltered reply last."""
    deltas: AsyncGenerator[ReplyDelta | ChatReply, None] = source
    for stream_filter in effect.policy.filters:
        deltas = _aapply_filter(deltas, stream_filter, source, effect)
    async with aclosing(source), aclosing(deltas):
        async for delta in deltas:
            yield delta


async def _aapply_filter(
    deltas: AsyncGenerator[ReplyDelta | ChatReply, None],
    stream_filter: StreamFilter,
    source: AsyncGenerator[ReplyDelta, None],
    effect: CallModel,
) -> AsyncGenerator[ReplyDelta | ChatReply, None]:
    texts: list[str] = []
    reply = None
    async with aclosing(deltas):
        async for delta in deltas:
            if isinstance(delta, ChatReply):  # the complete reply from the previous filter
                reply = delta
                continue
            reply = delta.reply
            texts.append(delta.text)
            flows = stream_filter(delta)
            while True:
                visible = None
                try:
                    for flow in flows:
                        if (visible := await arun(flow)) is not None:
                            break
                except Exception as error:
                    stopped = ReplyStopped(error, _partial_reply(texts))
                    await _aread_usage(stopped, effect, delta.reply, source)
                    raise stopped from error
                if visible is None:
                    break
                yield visible
    if reply is not None:
        yield reply


def _partial_reply(texts: list[str]) -> ChatReply:
    return ChatReply(AiMessage("".join(texts)), FinishReason.OTHER)


def _read_usage(
    error: ServiceOutputError | ReplyStopped,
    effect: CallModel,
    reply: ChatReply | None,
    rest: Iterator[ReplyDelta],
) -> None:
    """Read the rest of a failed streamed reply, within limits, and add its token usage to the error."""
    try:
        while reply is None and _may_read_on(error, effect):
            delta = next(rest)
            reply = delta.reply
            error.discarded_characters += _length(delta)
    except (ModelError, StopIteration):
        pass
    _add_usage(error, reply)


async def _aread_usage(
    error: ServiceOutputError | ReplyStopped,
    effect: CallModel,
    reply: ChatReply | None,
    rest: AsyncGenerator[ReplyDelta, None],
) -> None:
    """Read the rest of a failed reply, and add its token usage to the error; async version."""
    try:
        while reply is None and _may_read_on(error, effect):
            delta = await anext(rest)
            reply = delta.reply
            error.discarded_characters += _length(delta)
    except (ModelError, StopAsyncIteration):
        pass
    _add_usage(error, reply)


async def _aabandon(
    error: ServiceOutputError, effect: CallModel, reply: ChatReply | None, parts: AsyncGenerator[Any, None]
) -> None:
    """Stop the early flows of a reply with an invalid item, and read the rest for its token usage."""
    if effect.policy.early is not None:
        await effect.policy.early.running.aclose()
    if not effect.policy.filters:
        await _aread_usage(error, effect, reply, parts)


def _may_read_on(error: ServiceOutputError | ReplyStopped, effect: CallModel) -> bool:
    may_cost_more = effect.policy.counts_usage and error.discarded_characters < _MAX_DISCARDED
    return may_cost_more and not _is_late(effect.request)


def _length(delta: ReplyDelta) -> int:
    arguments = sum([len(call.arguments) for call in delta.tool_calls])
    return max(_MIN_PER_PIECE, len(delta.text) + len(delta.reasoning) + arguments)


def _add_usage(error: ServiceOutputError | ReplyStopped, reply: ChatReply | None) -> None:
    if reply is not None and error.reply is not None:
        error.reply = replace(error.reply, usage=reply.usage, model=reply.model, id=reply.id)


async def _adeltas(effect: CallModel) -> AsyncGenerator[ReplyDelta, None]:
    """Asynchronously yield the parts of a model's streamed reply; the last part has the complete reply.

    Raises ModelTimeoutError at the deadline of the request.
    """
    deltas = effect.model.astream(effect.request)
    try:
        while (delta := await _before_deadline(anext(deltas, None), effect)) is not None:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


async def _before_deadline(awaitable: Awaitable[T], effect: CallModel) -> T:
    """Await a model's reply, or raise ModelTimeoutError when the request's deadline passes."""
    if effect.request.deadline is None:
        return await awaitable
    limit = TimeLimit(effect.request.deadline, effect.request.waiting)
    try:
        async with limit:
            return await awaitable
    except TimeoutError as error:
        if not limit.expired:  # the model raised the TimeoutError, not this deadline
            raise
        raise _timeout(effect) from error


def _timeout(effect: CallModel) -> ModelTimeoutError:
    message = f"{effect.model.name}: the reply was not complete when the time of the call ran out"
    return ModelTimeoutError(message, retryable=True)


def _whole_reply(reply: ChatReply | None, effect: CallModel) -> ChatReply:
    if reply is None:
        raise InvalidReplyError(f"the stream of {effect.model.name} ended before the reply was complete")
    return reply


def _parallel_deltas(effect: CallModel) -> Generator[Any, None, ChatReply]:
    """Stream a reply that is read in a thread; checks and early flows run at the same time.

    The deltas are buffered until all checks, such as guardrails, have passed; ReplyBlocked is raised when one
    fails. If the thread is still reading then, it closes the stream after the next delta. The events of early
    flows are yielded between the deltas.
    """
    from queue import SimpleQueue  # few streams have checks

    deltas, policy = _deltas(effect), effect.policy
    early = policy.early
    arrived: SimpleQueue[Any] = SimpleQueue()  # deltas, and the effects of early flows that are done
    has_ended = threading.Event()

    def read() -> ChatReply | None:
        while not has_ended.is_set():
            try:
                arrived.put(next(deltas))
            except StopIteration as stop:
                reply: ChatReply = stop.value
                return reply
        return None

    def perform(effect: Effect) -> Future[Outcome]:
        future = _start_thread(partial(_perform, effect))
        future.add_done_callback(arrived.put)
        return future

    reading = _start_thread(read)
    reading.add_done_callback(lambda _: arrived.put(_END))
    try:
        if policy.checks and not all(_perform(Gather(policy.checks))):
            raise ReplyBlocked(_reply_so_far(reading))
        if early is None:
            has_ended.set()  # this thread can read the rest
        while (item := arrived.get()) is not _END:
            if early is not None and not isinstance(item, ReplyDelta):
                yield from early.running.proceed(item, perform)
                continue
            if policy.streamed:
                try:
                    yield item
                except ServiceOutputError as error:
                    rest = chain(iter(arrived.get, _END), deltas)
                    deltas_left = (one for one in rest if isinstance(one, ReplyDelta))
                    _read_usage(error, effect, item.reply, deltas_left)
                    raise
            if early is not None:
                for flow in early.start(item):
                    yield from early.running.start(flow, perform)
        reply = reading.result()
        return (yield from deltas) if reply is None else reply
    except BaseException:
        if early is not None:
            early.running.close()
        raise
    finally:
        has_ended.set()
        # A generator that runs in another thread cannot be closed, so close it when the thread is done.
        reading.add_done_callback(lambda _: deltas.close())


async def _aparallel_deltas(effect: CallModel) -> AsyncGenerator[Any, None]:
    """Stream a reply while checks and early flows run; async version of ``_parallel_deltas``."""
    import asyncio

    deltas, policy = _adeltas(effect), effect.policy
    early = policy.early
    arrived: asyncio.Queue[Any] = asyncio.Queue()

    # One task reads the whole stream, because some streams must be read and closed by the same task.
    async def read() -> ChatReply | None:
        reply = None
        async with aclosing(deltas):
            async for delta in deltas:
                reply = delta.reply
                arrived.put_nowait(delta)
        return reply

    def perform(effect: Effect) -> asyncio.Task[Outcome]:
        task = asyncio.ensure_future(_aperform(effect))
        task.add_done_callback(arrived.put_nowait)
        return task

    try:
        async with _task(read()) as reading:
            reading.add_done_callback(lambda _: arrived.put_nowait(_END))
            if policy.checks and not await _apass(policy.checks):
                raise ReplyBlocked(_reply_so_far(reading))
            while (item := await arrived.get()) is not _END:
                is_delta = isinstance(item, ReplyDelta)
                if is_delta:
                    yield item
                if early is None or early.running.is_closed:
                    continue
                if not is_delta:
                    for event in early.running.proceed(item, perform):
                        yield event
                    continue
                for flow in early.start(item):
                    for event in early.running.start(flow, perform):
                        yield event
            await reading
    except BaseException:
        if early is not None:
            await early.running.aclose()
        raise


async def _astreamed_reply(effect: CallModel) -> ChatReply:
    """Send a request whose tools may start early, and return the complete reply; nothing is streamed."""
    reply = None
    async with aclosing(_aparallel_deltas(effect)) as items:
        async for item in items:
            if isinstance(item, ReplyDelta):
                reply = item.reply
    return _whole_reply(reply, effect)


async def _checked_reply(
    reply: Coroutine[Any, Any, ChatReply], passes: Callable[[], Awaitable[bool]]
) -> ChatReply:
    """Return a model's reply when all checks have passed; cancel the request if a check fails.

    Raises ReplyBlocked if a check fails.
    """
    async with _task(reply) as reading:
        if not await passes():
            raise ReplyBlocked(_reply_so_far(reading))
        return await reading


async def _apass(checks: tuple[Run, ...]) -> bool:
    return all(await _aperform(Gather(checks)))


def _start_thread(work: Callable[[], T]) -> Future[T]:
    """Start a function in a daemon thread, and return a Future for its result."""
    from concurrent.futures import Future

    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run_work() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run_work,), daemon=True).start()
    return future


@asynccontextmanager
async def _task(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Context manager that runs a coroutine as a task, and cancels the task at the end of the block."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(0)  # let it start, even if the checks have a verdict at once
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _reply_so_far(reading: Future[ChatReply | None] | asyncio.Task[Any]) -> ChatReply | None:
    """Return a model's reply if it has already arrived completely, else None."""
    failed = not reading.done() or reading.cancelled() or reading.exception() is not None
    return None if failed else reading.result()
