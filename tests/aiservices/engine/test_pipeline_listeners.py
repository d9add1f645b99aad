"""Listeners receive the events of every kind of call, and their errors do not break it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from aiservices import (
    AsyncStream,
    Budget,
    ChatRequest,
    ModelServerError,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ToolCall,
    create,
    user_message,
)
from aiservices.engine.streams import CallCompleted, CallFailed, ReplyFailed
from aiservices.models.messages import AiMessage, ChatReply

ONE = '{"value": 1}'
CALLS_TOOL = ChatReply(AiMessage("", (ToolCall("c", "half", '{"of": 2}'),)))
DOWN = ModelServerError("500", status=500, retryable=True)


def half(of: int) -> int:
    """Half of a number."""
    return of // 2


class Counter(Protocol):
    def count(self, text: str) -> int: ...

    async def acount(self, text: str) -> int: ...

    def grow(self, text: str) -> Stream[int]: ...

    def agrow(self, text: str) -> AsyncStream[int]: ...

    def each(self, text: str) -> Iterator[int]: ...


async def result_of(stream: AsyncStream[int]) -> int:
    return (await stream.result()).value


KINDS: dict[str, Callable[[Counter], Any]] = {
    "blocking": lambda service: service.count("x"),
    "async": lambda service: asyncio.run(service.acount("x")),
    "stream": lambda service: service.grow("x").result().value,
    "async stream": lambda service: asyncio.run(result_of(service.agrow("x"))),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


class EventRecorder:
    """A listener that records the events that it receives."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def counter(*script: Any, recorder: Any, **settings: Any) -> Counter:
    budget = Budget(max_attempts=9, first_wait=0)
    return create(Counter, ScriptedChatModel(script), listeners=[recorder], budget=budget, **settings)


@every_kind
def test_every_step_of_a_call_is_an_event_in_order(kind: str) -> None:
    recorder = EventRecorder()
    assert KINDS[kind](counter(DOWN, CALLS_TOOL, "many", ONE, recorder=recorder, tools=[half])) == 1
    assert recorder.names == [
        "CallStarted",
        "AttemptStarted",
        "ReplyFailed",
        "AttemptStarted",
        "ReplyReceived",
        "ToolStarted",
        "ToolFinished",
        "AttemptStarted",
        "ReplyReceived",
        "AnswerRejected",
        "AttemptStarted",
        "ReplyReceived",
        "CallCompleted",
    ]


@every_kind
def test_a_call_that_fails_is_reported_with_its_error(kind: str) -> None:
    recorder = EventRecorder()
    with pytest.raises(ServiceOutputError) as caught:
        KINDS[kind](counter("many", recorder=recorder, retry=None))
    assert (recorder.names[-1], recorder.events[-1].error) == ("CallFailed", caught.value)
    assert [attempt.text for attempt in recorder.events[-1].error.attempts] == ["many"]


@every_kind
def test_a_listener_that_fails_breaks_nothing_and_is_logged(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Any) -> None:
        raise ZeroDivisionError(type(event).__name__)

    with caplog.at_level(logging.ERROR, logger="aiservices"):
        assert KINDS[kind](counter(ONE, recorder=broken)) == 1
    assert caplog.messages[0] == "a listener failed at CallStarted"


def test_a_listener_of_async_calls_may_be_async() -> None:
    class Waits(Protocol):
        async def count(self, text: str) -> int: ...

    recorder: list[str] = []

    async def listen(event: Any) -> None:
        await asyncio.sleep(0)
        recorder.append(type(event).__name__)

    service = create(Waits, ScriptedChatModel([ONE]), listeners=[listen])
    assert asyncio.run(service.count("x")) == 1
    assert recorder == ["CallStarted", "AttemptStarted", "ReplyReceived", "CallCompleted"]


def test_listeners_get_the_answer_after_all_interceptors() -> None:
    recorder = EventRecorder()
    counter(ONE, recorder=recorder).count("x")
    last = recorder.events[-1]
    assert isinstance(last, CallCompleted)
    assert (last.answer.value, last.invocation.plan.qualname, len(last.invocation.state.attempts)) == (
        1,
        "Counter.count",
        1,
    )


def test_a_request_that_failed_is_reported_with_its_model() -> None:
    recorder = EventRecorder()
    counter(DOWN, ONE, recorder=recorder).count("x")
    (failed,) = [event for event in recorder.events if isinstance(event, ReplyFailed)]
    assert (failed.model, failed.error, failed.reply) == ("scripted", DOWN, None)


def test_a_streamed_request_that_failed_has_the_part_of_the_reply_that_was_read() -> None:
    recorder = EventRecorder()
    with pytest.raises(ServiceOutputError) as caught:
        list(counter('{"value": [1, "many", 3]}', recorder=recorder).each("x"))
    (failed,) = [event for event in recorder.events if isinstance(event, ReplyFailed)]
    assert failed.reply is not None
    assert failed.reply is caught.value.attempts[-1].reply


def test_completed_items_are_events() -> None:
    recorder = EventRecorder()
    assert list(counter('{"value": [1, 2]}', recorder=recorder).each("x")) == [1, 2]
    assert (recorder.names[0], recorder.names[-1]) == ("CallStarted", "CallCompleted")
    assert not any(isinstance(event, CallFailed) for event in recorder.events)


def test_listeners_hear_of_a_call_that_was_cancelled() -> None:
    class Slow(Protocol):
        @user_message("{{text}}")
        async def ask(self, text: str) -> str: ...

    class Asleep(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(60)
            raise AssertionError("nobody waits so long")

    notify: list[Any] = []
    service = create(Slow, Asleep(["Hi"]), listeners=[notify.append])

    async def cancel() -> None:
        task = asyncio.create_task(service.ask("Hello"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert isinstance(notify[-1], CallFailed)
    assert isinstance(notify[-1].error, asyncio.CancelledError)
