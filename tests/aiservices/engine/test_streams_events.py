"""Tests of what events carry: the call with its id, the request as sent, and durations."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AsyncStream,
    AttemptStarted,
    BadRequestError,
    Budget,
    CallClosed,
    CallCompleted,
    CallFailed,
    ChatReply,
    ModelError,
    ReplyDelta,
    ReplyFailed,
    ReplyReceived,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolStarted,
    ToolUndone,
    create,
    tool,
    user_message,
)
from aiservices.guardrails import GuardrailRan, InputGuardrails, passed
from aiservices.interceptors import Invocation
from aiservices.retrieval import Content, ContentsRetrieved, Query, RetrievalAugmentor


class Asks(Protocol):
    async def ask(self, text: str) -> str: ...


def test_the_events_of_concurrent_calls_are_told_apart_by_the_id_of_the_call() -> None:
    seen: dict[str, list[Any]] = defaultdict(list)

    def listen(event: Any) -> None:
        seen[event.invocation.id].append(event)

    async def run() -> None:
        asks = create(Asks, ScriptedChatModel(lambda request: request.messages[-1].text), listeners=[listen])
        await asyncio.gather(*[asks.ask(text) for text in ("one", "two", "three")])

    asyncio.run(run())
    texts = []
    for events in seen.values():
        assert [type(event).__name__ for event in events] == [
            "CallStarted",
            "AttemptStarted",
            "ReplyReceived",
            "CallCompleted",
        ]
        texts.append(events[2].reply.text)
    assert sorted(texts) == ["one", "three", "two"]


def test_events_have_the_request_as_it_was_sent() -> None:
    class Blocking(Protocol):
        def ask(self, text: str) -> str: ...

    events: list[Any] = []
    model = ScriptedChatModel([ModelError("no"), "Yes."])

    def shout(request: Any) -> Any:
        return request.plus(*request.messages)

    asks = create(Blocking, model, transform=shout, listeners=[events.append], budget=Budget(first_wait=0))
    try:
        asks.ask("Hello")
    except ModelError:
        asks.ask("Hello")
    requests = [event.request for event in events if isinstance(event, AttemptStarted)]
    assert requests == model.requests
    assert len(requests[0].messages) == 2
    outcomes = [event.request for event in events if isinstance(event, (ReplyFailed, ReplyReceived))]
    assert outcomes == requests


def test_events_of_guards_and_retrieval_have_a_duration_and_the_call() -> None:
    class Shelf:
        def retrieve(self, query: Query, /) -> list[Content]:
            return [Content("It leaves at nine.")]

    class Blocking(Protocol):
        def ask(self, text: str) -> str: ...

    def guard(text: str, invocation: Invocation) -> Any:
        return passed()

    events: list[Any] = []
    asks = create(
        Blocking,
        ScriptedChatModel(["At nine."]),
        interceptors=[InputGuardrails(guard), RetrievalAugmentor(Shelf())],
        listeners=[events.append],
    )
    asks.ask("When?")
    found = [event for event in events if isinstance(event, (GuardrailRan, ContentsRetrieved))]
    assert [type(event) for event in found] == [GuardrailRan, ContentsRetrieved]
    assert all(event.seconds > 0 and event.invocation is events[0].invocation for event in found)
    assert [content.text for content in events[-1].invocation.sources] == ["It leaves at nine."]


# --- Tools and the end of a call ---


@tool(compensate=lambda: None)
def book(place: str) -> str:
    """Book."""
    return place


@tool
async def wait(place: str) -> str:
    """Wait."""
    await asyncio.sleep(10)
    return place


def _calls(*names: str) -> ChatReply:
    calls = [ToolCall(str(index), name, '{"place": "Rome"}') for index, name in enumerate(names)]
    return ChatReply(AiMessage("", tuple(calls)))


class Clerk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Stream[str]: ...


class AsyncClerk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> AsyncStream[str]: ...


def test_a_stream_reports_each_complete_tool_call_before_it_runs_and_each_tool_that_was_undone() -> None:
    model = ScriptedChatModel([_calls("book"), BadRequestError("no", status=400)])
    events = []
    stream = create(Clerk, model, tools=[book]).ask("x").events()
    with suppress(BadRequestError):
        while True:
            events.append(next(stream))
    names = [type(event).__name__ for event in events if not isinstance(event, (AttemptStarted, ReplyDelta))]
    assert names == ["ToolStarted", "ToolFinished", "ToolUndone"]
    deltas = [event for event in events if isinstance(event, ReplyDelta)]
    assert [one.call.name for delta in deltas for one in delta.tool_calls if one.call] == ["book"]
    started, _, undone = (one for one in events if not isinstance(one, (AttemptStarted, ReplyDelta)))
    assert started.call.arguments == '{"place": "Rome"}'
    assert (undone.run.name, undone.run.undone) == ("book", True)


def test_a_cancelled_stream_ends_with_the_cancellation_and_one_event_for_listeners() -> None:
    heard: list[object] = []
    model = ScriptedChatModel([_calls("book"), _calls("wait"), "done"])
    clerk = create(AsyncClerk, model, tools=[book, wait], listeners=[heard.append])
    seen: list[object] = []

    async def read() -> None:
        async for event in clerk.ask("x").events():
            seen.append(event)  # noqa: PERF401  # one after the other

    async def main() -> None:
        reading = asyncio.create_task(read())
        while not any(isinstance(one, ToolStarted) and one.call.name == "wait" for one in seen):
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(main())
    assert not any(isinstance(one, ToolUndone) for one in seen)
    ends = [one for one in heard if isinstance(one, (CallCompleted, CallFailed, CallClosed))]
    assert [type(one) for one in ends] == [CallFailed]
    assert any(isinstance(one, ToolUndone) for one in heard)


def test_the_event_at_the_end_of_a_call_has_all_events_before_it() -> None:
    def end_of(model: ScriptedChatModel, use: Callable[[Stream[str]], object]) -> Any:
        heard: list[Any] = []
        stream = create(Clerk, model, tools=[book], listeners=[heard.append]).ask("x")
        with suppress(BadRequestError):
            use(stream)
        stream.close()
        assert heard[-1].events == tuple(heard[:-1])
        return heard[-1]

    completed = end_of(ScriptedChatModel([_calls("book"), "done"]), lambda stream: stream.result())
    assert [type(one).__name__ for one in completed.events] == [
        "CallStarted",
        "AttemptStarted",
        "ReplyReceived",
        "ToolStarted",
        "ToolFinished",
        "AttemptStarted",
        "ReplyReceived",
    ]
    failed = end_of(ScriptedChatModel([BadRequestError("no", status=400)]), lambda stream: stream.result())
    assert isinstance(failed, CallFailed)
    closed = end_of(ScriptedChatModel(["one two three"]), lambda stream: next(stream.events()))
    assert isinstance(closed, CallClosed)
