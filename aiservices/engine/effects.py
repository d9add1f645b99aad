"""Effects, which are the steps of a service call such as a model request.

A flow is a generator that does no input or output itself. It yields an effect, such as ``CallModel``, and a
driver (``drivers.py``) performs the effect and sends its outcome, or throws its error, into the generator.
Before an effect gets to the driver, the interceptors around the flow may change or answer it
(``map_effects``). So everything above the drivers is written once for blocking, async and streaming calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

from ..models.base import ChatModel
from ..models.messages import ChatReply, ReplyDelta
from ..models.requests import ChatRequest, WaitingTime

if TYPE_CHECKING:
    from ..models.messages import ToolCall

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """Effect: run a function.

    Attributes:
        function: Takes no arguments. In async calls it may be async.
        in_thread: True to run it in a thread in async calls, because it blocks.
        deadline: The value of ``time.monotonic()`` at which an async call stops waiting for the function and
            raises TimeoutError. None means the time limit of the call; ``math.inf`` means that the function
            always runs to its end, for example to save something.
        tool_call: The tool call of the model that the function runs; None for other functions. The outcome
            is a ToolRun then.
        waiting: Moves the deadline by the time that requests of the function wait for their turn.
        tool: The ToolInvocation if the function of a tool runs; None also for a tool call that cannot run.
        in_background: True to run an async function in a blocking call, too, on an event loop in the
            background. Other async functions are an error there.
    """

    function: Callable[[], Outcome | Awaitable[Outcome]]
    _: KW_ONLY
    in_thread: bool = False
    deadline: float | None = None
    tool_call: ToolCall | None = None
    waiting: WaitingTime | None = None
    tool: Any = None
    in_background: bool = False


class StreamPolicy(NamedTuple):
    """The rules for when a model's reply may be used, and what a stream shows of it.

    Attributes:
        checks: Functions that run at the same time as the request and return True if the reply may be used.
            A stream buffers the reply until all checks have returned. If one returns False, ReplyBlocked is
            raised and the request is cancelled; a blocking call has to wait for the reply first.
        counts_usage: True to read a stream to its end, which has the token counts, after an item of the
            stream was invalid.
        filters: Functions that check and change the deltas that a stream shows, applied in this order.
        early: Flows to start while the reply is streamed, after the checks; None for most requests. With them
            the request is streamed in all kinds of calls.
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
    """Effect: send a request to a language model.

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
    """Effect: run several other effects at the same time.

    Attributes:
        effects: The effects. Their outcomes are in the same order.
        max_concurrency: The maximum number at the same time. None sets no limit.
    """

    effects: tuple[CallModel | Run, ...]
    max_concurrency: int | None = None


class GatherFlows(NamedTuple):
    """Effect: run several flows at the same time.

    Events that the flows emit are reported at once. Replies of models are not streamed. When a flow raises an
    error, the others are closed, and the step raises this error.

    Attributes:
        flows: The flows. Their outcomes are in the same order.
        max_concurrency: The maximum number at the same time.
        running: Flows that began during a request. The step waits for them, too, and their outcomes come
            first.
    """

    flows: tuple[Flow[Outcome], ...]
    max_concurrency: int
    running: RunningFlows | None = None


@dataclass(frozen=True, slots=True)
class Emit:
    """Effect: report an event to listeners and streams.

    Attributes:
        event: The event.
        streamed: False to pass it only to listeners, because streams report the same in another way.
        replayed: True for an event of an earlier run of a durable call, which listeners know already.
    """

    event: Any
    _: KW_ONLY
    streamed: bool = True
    replayed: bool = False


class Sleep(NamedTuple):
    """Effect: wait for some seconds.

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

    start: Callable[[ReplyDelta], list[Flow[Outcome]]]
    running: RunningFlows

    def after(self, item: object, perform: Callable[[Effect], object]) -> Iterator[object]:
        """Start flows after a delta, or continue one whose effect is done; yield their events."""
        if not isinstance(item, ReplyDelta):
            yield from self.running.proceed(item, perform)
            return
        for flow in self.start(item):
            yield from self.running.start(flow, perform)


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

    UNFINISHED: object = object()

    def __init__(self) -> None:
        self.flows: list[Flow[object]] = []
        self.outcomes: list[Outcome] = []
        self.effects: dict[Any, int] = {}
        self.is_early = False
        self.error: BaseException | None = None
        self.is_closed = False

    def start(self, flow: Flow[object], perform: Callable[[Effect], object]) -> Iterator[object]:
        """Start a flow and yield its events, up to its first effect.

        ``perform`` returns a future for the effect.
        """
        self.flows.append(flow)
        self.outcomes.append(self.UNFINISHED)
        return self._advance(len(self.flows) - 1, flow.send, None, perform)

    def proceed(self, done: Any, perform: Callable[[Effect], object]) -> Iterator[object]:
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
        perform: Callable[[Effect], object],
    ) -> Iterator[object]:
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
