"""Tests of what events carry: the call with its id, the request as sent, and durations."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Protocol

from aiservices import (
    AttemptStarted,
    Budget,
    ModelError,
    ReplyFailed,
    ReplyReceived,
    ScriptedChatModel,
    create,
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
