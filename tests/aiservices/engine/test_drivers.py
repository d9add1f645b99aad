"""Four drivers perform the effects of the same flow: blocking, async, and both kinds of streams."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    ChatRequest,
    InvalidReplyError,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
)
from aiservices.engine.drivers import arun, astream, run, stream
from aiservices.engine.effects import ReplyBlocked
from aiservices.interceptors import (
    CallModel,
    Emit,
    Flow,
    Gather,
    GatherFlows,
    Run,
    Sleep,
    StreamPolicy,
    map_effects,
)

T = TypeVar("T")
QUESTION = ChatRequest.of("?")


def with_run(flow: Flow[Any]) -> Any:
    return run(flow)


def with_arun(flow: Flow[Any]) -> Any:
    return asyncio.run(arun(flow))


def with_stream(flow: Flow[Any]) -> Any:
    return outcome_of(flow, lambda watched: list(stream(watched)))


def with_astream(flow: Flow[Any]) -> Any:
    async def events(watched: Flow[Any]) -> list[Any]:
        return [event async for event in astream(watched)]

    return outcome_of(flow, lambda watched: asyncio.run(events(watched)))


def outcome_of(flow: Flow[Any], drive: Callable[[Flow[Any]], object]) -> Any:
    """Return the result of a flow, also for the drivers of streams, which only yield events."""
    returned: list[Any] = []

    def watched() -> Flow[None]:
        returned.append((yield from flow))

    drive(watched())
    return returned[0]


DRIVERS = [with_run, with_arun, with_stream, with_astream]
Driver = Callable[[Flow[Any]], Any]


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_flow_without_needs_returns(drive: Driver) -> None:
    def flow() -> Flow[int]:
        return 7
        yield

    assert drive(flow()) == 7


@pytest.mark.parametrize("drive", DRIVERS)
def test_the_outcome_of_asking_is_the_reply(drive: Driver) -> None:
    def flow() -> Flow[str]:
        reply: ChatReply = yield CallModel(ScriptedChatModel(["to be"]), QUESTION)
        return reply.text

    assert drive(flow()) == "to be"


@pytest.mark.parametrize("drive", DRIVERS)
def test_the_outcome_of_run_is_the_return_value(drive: Driver) -> None:
    def flow() -> Flow[int]:
        seven: int = yield Run(lambda: 7)
        return seven

    assert drive(flow()) == 7


@pytest.mark.parametrize("drive", DRIVERS)
def test_the_outcome_of_all_is_a_list_in_order(drive: Driver) -> None:
    def flow() -> Flow[Any]:
        reply, seven, eight = yield Gather(
            (CallModel(ScriptedChatModel(["x"]), QUESTION), Run(lambda: 7), Run(lambda: 8))
        )
        return [reply.text, seven, eight]

    assert drive(flow()) == ["x", 7, 8]


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize("count", [0, 1])
def test_all_of_none_or_one_is_a_list_too(drive: Driver, count: int) -> None:
    def flow() -> Flow[Any]:
        return (yield Gather((Run(lambda: 7),) * count))

    assert drive(flow()) == [7] * count


@pytest.mark.parametrize("drive", [with_run, with_stream])
def test_all_needs_are_fulfilled_side_by_side(drive: Driver) -> None:
    barrier = threading.Barrier(2, timeout=10)

    def flow() -> Flow[Any]:
        return (yield Gather((Run(barrier.wait), Run(barrier.wait))))

    assert sorted(drive(flow())) == [0, 1]


@pytest.mark.parametrize("drive", [with_arun, with_astream])
def test_all_needs_are_fulfilled_side_by_side_in_async_calls(drive: Driver) -> None:
    called, answered = asyncio.Event(), asyncio.Event()

    async def call() -> str:
        called.set()
        await answered.wait()
        return "call"

    async def answer() -> str:
        await called.wait()
        answered.set()
        return "answer"

    def flow() -> Flow[Any]:
        return (yield Gather((Run(call), Run(answer))))

    assert drive(flow()) == ["call", "answer"]


@pytest.mark.parametrize("drive", DRIVERS)
def test_pausing_and_emitting_have_no_outcome(drive: Driver) -> None:
    def flow() -> Flow[Any]:
        return [(yield Sleep(0)), (yield Emit("event"))]

    assert drive(flow()) == [None, None]


@pytest.mark.parametrize("drive", [with_arun, with_astream])
def test_a_function_may_be_async_in_async_calls(drive: Driver) -> None:
    async def seven() -> int:
        return 7

    def flow() -> Flow[Any]:
        return (yield Run(seven))

    assert drive(flow()) == 7


@pytest.mark.parametrize("drive", [with_run, with_stream])
def test_an_async_function_in_a_blocking_call_is_an_error(drive: Driver) -> None:
    async def seven() -> int:
        return 7

    def flow() -> Flow[Any]:
        return (yield Run(seven))

    with pytest.raises(TypeError) as caught:
        drive(flow())
    assert str(caught.value) == (
        "test_an_async_function_in_a_blocking_call_is_an_error.<locals>.seven is async and cannot run in a "
        "blocking call: use async def"
    )


def test_an_awaitable_that_is_not_a_coroutine_in_a_blocking_call_is_an_error() -> None:
    class Later:
        def __await__(self) -> Iterator[int]:
            yield 7

    def flow() -> Flow[Any]:
        return (yield Run(Later))

    with pytest.raises(TypeError, match="Later is async and cannot run in a blocking call: use async def"):
        run(flow())


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize(
    "need",
    [
        CallModel(ScriptedChatModel(lambda request: ValueError("broken")), QUESTION),
        Run(lambda: int("broken")),
        Gather((Run(lambda: 7), Run(lambda: int("broken")))),
    ],
    ids=["ask", "do", "all"],
)
def test_an_error_is_thrown_into_the_flow_which_may_catch_it(drive: Driver, need: Any) -> None:
    def flow() -> Flow[str]:
        try:
            yield need
        except ValueError:
            return (yield Run(lambda: "caught"))
        return "nothing was thrown"

    assert drive(flow()) == "caught"


@pytest.mark.parametrize("drive", DRIVERS)
def test_an_error_that_the_flow_does_not_catch_leaves_it(drive: Driver) -> None:
    error = ModelServerError("500")

    def flow() -> Flow[Any]:
        return (yield CallModel(ScriptedChatModel([error]), QUESTION))

    with pytest.raises(ModelServerError) as caught:
        drive(flow())
    assert caught.value is error


@pytest.mark.parametrize("drive", DRIVERS)
def test_an_error_of_the_flow_itself_leaves_it(drive: Driver) -> None:
    def flow() -> Flow[Any]:
        yield Run(lambda: 7)
        raise ValueError("broken")

    with pytest.raises(ValueError, match=r"^broken$"):
        drive(flow())


def test_the_failure_of_one_cancels_the_others() -> None:
    told: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append("cancelled")

    async def fail() -> None:
        raise ValueError("broken")

    def flow() -> Flow[Any]:
        try:
            yield Gather((Run(wait_for_ever), Run(fail)))
        except ValueError as error:
            return [str(error), *told]

    assert asyncio.run(arun(flow())) == ["broken", "cancelled"]


def test_events_are_the_deltas_of_a_model_and_the_emitted_events() -> None:
    def flow() -> Flow[None]:
        yield Emit("before")
        reply = yield CallModel(ScriptedChatModel(["to be"]), QUESTION)
        yield Emit(reply.text)

    events = list(stream(flow()))
    assert [getattr(event, "text", event) for event in events] == ["before", "to ", "be", "", "to be"]


def test_events_of_an_async_stream_are_the_same() -> None:
    def flow() -> Flow[None]:
        yield Emit("before")
        reply = yield CallModel(ScriptedChatModel(["to be"]), QUESTION)
        yield Emit(reply.text)

    async def events() -> list[Any]:
        return [getattr(event, "text", event) async for event in astream(flow())]

    assert asyncio.run(events()) == ["before", "to ", "be", "", "to be"]


class Open:
    """A model whose streams never end, and which records when they are closed."""

    name = "open"
    capabilities = Capabilities()

    def __init__(self, closed: list[str]) -> None:
        self._closed = closed

    def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(AiMessage(""))

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        return await asyncio.Event().wait() and self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        try:
            while True:
                yield ReplyDelta("on ")
        finally:
            self._closed.append("model")

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        try:
            while True:
                yield ReplyDelta("on ")
        finally:
            self._closed.append("model")


def watched(closed: list[str]) -> Flow[None]:
    try:
        yield CallModel(Open(closed), QUESTION)
    finally:
        closed.append("flow")


def test_closing_a_stream_early_closes_the_models_stream_and_the_flow() -> None:
    closed: list[str] = []
    events = stream(watched(closed))
    first = next(events)
    events.close()
    assert (first, closed) == (ReplyDelta("on "), ["model", "flow"])


def test_closing_an_async_stream_early_closes_the_models_stream_and_the_flow() -> None:
    closed: list[str] = []

    async def read_one() -> Any:
        events = astream(watched(closed))
        first = await anext(events)
        await events.aclose()
        return first

    assert (asyncio.run(read_one()), closed) == (ReplyDelta("on "), ["model", "flow"])


def test_closing_a_stream_at_an_event_closes_the_flow() -> None:
    closed: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield Emit("event")
        finally:
            closed.append("flow")

    events = stream(flow())
    next(events)
    events.close()
    assert closed == ["flow"]


def test_a_stream_of_a_models_own_kind_is_closed_too() -> None:
    closed: list[str] = []

    class ChunkSource:
        def __iter__(self) -> ChunkSource:
            return self

        def __next__(self) -> ReplyDelta:
            return ReplyDelta("on ")

        def close(self) -> None:
            closed.append("model")

    class Own(Open):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            return ChunkSource()

    def flow() -> Flow[None]:
        yield CallModel(Own(closed), QUESTION)

    events = stream(flow())
    next(events)
    events.close()
    assert closed == ["model"]


class Plain(Open):
    """A model whose streams are plain iterators without a method ``close``."""

    def __init__(self, *deltas: ReplyDelta) -> None:
        super().__init__([])
        self._deltas = deltas

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        return iter(self._deltas)

    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        return AsyncPlain(iter(self._deltas))


class AsyncPlain:
    def __init__(self, deltas: Iterator[ReplyDelta]) -> None:
        self._deltas = deltas

    def __aiter__(self) -> AsyncPlain:
        return self

    async def __anext__(self) -> ReplyDelta:
        try:
            return next(self._deltas)
        except StopIteration:
            raise StopAsyncIteration from None


@pytest.mark.parametrize("drive", [with_stream, with_astream])
def test_streams_that_cannot_be_closed_are_read_as_well(drive: Driver) -> None:
    reply = ChatReply(AiMessage("on"))

    def flow() -> Flow[Any]:
        return (yield CallModel(Plain(ReplyDelta("on"), ReplyDelta(reply=reply)), QUESTION))

    assert drive(flow()) is reply


@pytest.mark.parametrize("drive", [with_stream, with_astream])
@pytest.mark.parametrize("deltas", [(), (ReplyDelta("on"),)])
def test_a_stream_that_ends_without_the_whole_reply_is_an_error(
    drive: Driver, deltas: tuple[ReplyDelta, ...]
) -> None:
    def flow() -> Flow[Any]:
        yield Run(lambda: ChatReply(AiMessage("of something else")))
        return (yield CallModel(Plain(*deltas), QUESTION))

    with pytest.raises(InvalidReplyError) as caught:
        drive(flow())
    assert str(caught.value) == "the stream of open ended before the reply was complete"


def test_an_async_call_can_be_cancelled_while_the_model_is_asked() -> None:
    closed: list[str] = []

    async def cancel() -> None:
        call = asyncio.create_task(arun(watched(closed)))
        await asyncio.sleep(0)
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert closed == ["flow"]


def test_an_async_stream_can_be_cancelled_while_the_model_writes() -> None:
    closed: list[str] = []

    class Slow(Open):
        async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
            try:
                yield ReplyDelta("on ")
                await asyncio.Event().wait()
            finally:
                closed.append("model")

    def flow() -> Flow[None]:
        try:
            yield CallModel(Slow(closed), QUESTION)
        finally:
            closed.append("flow")

    async def read() -> None:
        async for _ in astream(flow()):
            pass

    async def cancel() -> None:
        reading = asyncio.create_task(read())
        for _ in range(3):
            await asyncio.sleep(0)
        reading.cancel()
        await reading

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert closed == ["model", "flow"]


def checked(*checks: Run) -> StreamPolicy:
    return StreamPolicy(checks=checks)


def gate(answer: bool) -> Run:
    return Run(lambda: answer)


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_reply_whose_gates_all_say_yes_is_the_outcome(drive: Driver) -> None:
    def flow() -> Flow[str]:
        reply: ChatReply = yield CallModel(
            ScriptedChatModel(["to be"]), QUESTION, checked(gate(True), gate(True))
        )
        return reply.text

    assert drive(flow()) == "to be"


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_reply_that_one_check_rejects_is_not_shown(drive: Driver) -> None:
    def flow() -> Flow[str]:
        try:
            yield CallModel(ScriptedChatModel(["to be"]), QUESTION, checked(gate(True), gate(False)))
        except ReplyBlocked as withheld:
            return str(withheld)
        return "it was not"

    assert drive(flow()) == "the reply may not be shown"


def test_a_field_of_the_policy_can_be_replaced_like_a_field_of_the_effect() -> None:
    check = gate(True)
    effect = CallModel(ScriptedChatModel(["x"]), QUESTION, StreamPolicy(counts_usage=True))
    changed = effect._replace(checks=(check,), streamed=False)
    assert changed.checks == (check,)
    assert changed.policy == StreamPolicy(checks=(check,), counts_usage=True, streamed=False)
    assert type(changed) is CallModel


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize("failing", ["model", "gate"])
def test_errors_of_the_model_or_a_check_are_thrown_into_the_flow(drive: Driver, failing: str) -> None:
    def flow() -> Flow[str]:
        model = ScriptedChatModel([ModelServerError("500") if failing == "model" else "to be"])
        try:
            yield CallModel(
                model, QUESTION, checked(Run(lambda: int("broken")) if failing == "gate" else gate(True))
            )
        except (ModelServerError, ValueError) as error:
            return type(error).__name__
        return "nothing was thrown"

    assert drive(flow()) == ("ModelServerError" if failing == "model" else "ValueError")


@pytest.mark.parametrize("drive", [with_stream, with_astream])
def test_no_delta_is_an_event_before_all_checks_have_passed(drive: Driver) -> None:
    shown: list[Any] = []
    before: list[Any] = []
    written = threading.Event()

    class Telling(ScriptedChatModel):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            yield from super().stream(request)
            written.set()

    def look() -> bool:
        before.extend(shown if written.wait(10) else ["not written"])
        return True

    def flow() -> Flow[None]:
        yield CallModel(Telling(["to be"]), QUESTION, checked(Run(look, in_thread=True)))

    if drive is with_stream:
        shown += stream(flow())
    else:

        async def read() -> None:
            async for event in astream(flow()):
                shown.append(event)

        asyncio.run(read())
    assert (before, [event.text for event in shown]) == ([], ["to ", "be", ""])


def test_closing_a_stream_after_its_gates_closes_that_of_the_model() -> None:
    closed: list[str] = []

    class Here(Open):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            for delta in super().stream(request):
                yield delta if threading.current_thread() is here else ReplyDelta("elsewhere ")

    def flow() -> Flow[None]:
        yield CallModel(Here(closed), QUESTION, checked(gate(True)))

    here, events = threading.current_thread(), stream(flow())
    while next(events) != ReplyDelta("on "):
        pass
    events.close()
    assert closed == ["model"]


def test_closing_an_async_stream_after_its_gates_closes_that_of_the_model() -> None:
    closed: list[str] = []

    class Slow(Open):
        async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
            try:
                yield ReplyDelta("on ")
                await asyncio.Event().wait()
            finally:
                closed.append("model")

    def flow() -> Flow[None]:
        yield CallModel(Slow(closed), QUESTION, checked(gate(True)))

    async def read_one() -> Any:
        events = astream(flow())
        first = await anext(events)
        await events.aclose()
        return first

    assert (asyncio.run(read_one()), closed) == (ReplyDelta("on "), ["model"])


def test_the_failure_of_a_model_does_not_cancel_its_gates() -> None:
    async def slowly() -> bool:
        for _ in range(3):
            await asyncio.sleep(0)
        told.append("verdict")
        return True

    told: list[str] = []

    def flow() -> Flow[None]:
        yield CallModel(ScriptedChatModel([ModelServerError("500")]), QUESTION, checked(Run(slowly)))

    with pytest.raises(ModelServerError):
        asyncio.run(arun(flow()))
    assert told == ["verdict"]


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize("limit", [1, 2, 8])
def test_flows_run_together_and_their_outcomes_are_in_order(drive: Driver, limit: int) -> None:
    def part(number: int) -> Flow[int]:
        reply = yield CallModel(ScriptedChatModel([str(number)]), QUESTION)
        ten = yield Run(lambda: 10)
        return ten * int(reply.text)

    def flow() -> Flow[Any]:
        return (yield GatherFlows(tuple(map(part, range(4))), limit))

    assert drive(flow()) == [0, 10, 20, 30]


@pytest.mark.parametrize("drive", DRIVERS)
def test_no_flows_have_no_outcomes(drive: Driver) -> None:
    def flow() -> Flow[Any]:
        return (yield GatherFlows((), 8))

    assert drive(flow()) == []


@pytest.mark.parametrize("drive", DRIVERS)
@pytest.mark.parametrize("limit", [1, 8])
def test_an_error_of_a_flow_closes_the_others(drive: Driver, limit: int) -> None:
    closed: list[str] = []

    def fails() -> Flow[None]:
        yield Run(lambda: int("broken"))

    def waits() -> Flow[None]:
        try:
            yield Run(lambda: None)
            yield Run(lambda: None)
        finally:
            closed.append("waits")

    def flow() -> Flow[Any]:
        try:
            yield GatherFlows((waits(), fails(), waits()), limit)
        except ValueError as error:
            return [str(error), *closed]

    message, *others = drive(flow())
    assert "broken" in message
    assert others == ["waits"] * (1 if limit == 1 else 2)  # with a limit of 1, the last one never started


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_flow_may_catch_the_error_of_its_effect(drive: Driver) -> None:
    def part() -> Flow[str]:
        try:
            yield Run(lambda: int("broken"))
        except ValueError:
            return "caught"
        return "nothing was thrown"

    def flow() -> Flow[Any]:
        return (yield GatherFlows((part(), part()), 8))

    assert drive(flow()) == ["caught", "caught"]


@pytest.mark.parametrize("limit", [1, 8])
def test_events_of_flows_are_events_of_the_stream(limit: int) -> None:
    def part(name: str) -> Flow[None]:
        yield Emit(f"{name} started")
        yield CallModel(ScriptedChatModel(["not shown"]), QUESTION)
        yield Emit("hidden", streamed=False)
        yield Emit(f"{name} ended")

    def flow() -> Flow[None]:
        yield GatherFlows((part("a"), part("b")), limit)

    async def events() -> list[Any]:
        return [event async for event in astream(flow())]

    for seen in (list(stream(flow())), asyncio.run(events())):
        assert sorted(seen) == ["a ended", "a started", "b ended", "b started"]


@pytest.mark.parametrize("drive", DRIVERS)
def test_the_steps_of_flows_are_mapped(drive: Driver) -> None:
    def part(number: int) -> Flow[int]:
        return (yield Run(lambda: number))

    def inner() -> Flow[Any]:
        return (yield GatherFlows((part(1), part(2)), 8))

    def double(effect: Any) -> Flow[Any]:
        outcome = yield effect
        return outcome * 2 if isinstance(effect, Run) else outcome

    assert drive(map_effects(inner(), double)) == [2, 4]


def test_closing_a_stream_while_flows_run_closes_them() -> None:
    closed: list[str] = []

    def part(name: str) -> Flow[None]:
        try:
            yield Emit(name)
            yield Run(lambda: None)
        finally:
            closed.append(name)

    def flow() -> Flow[None]:
        yield GatherFlows((part("a"), part("b")), 8)

    events = stream(flow())
    next(events), next(events)
    events.close()

    async def read_one() -> None:
        async_events = astream(flow())
        await anext(async_events)
        await anext(async_events)
        await async_events.aclose()

    asyncio.run(read_one())
    assert sorted(closed) == ["a", "a", "b", "b"]


def test_a_timeout_of_a_model_is_not_the_deadline_of_the_request() -> None:
    class Impatient(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            raise TimeoutError("of the model")

    def flow() -> Flow[ChatReply]:
        request = replace(QUESTION, deadline=time.monotonic() + 60)
        return (yield CallModel(Impatient([]), request))

    with pytest.raises(TimeoutError, match=r"^of the model$"):
        asyncio.run(arun(flow()))
