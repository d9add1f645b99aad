"""Streams, item iterators and text iterators of calls with tools."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tool_calling import (
    ADD_CALL,
    ANN,
    CALL_KINDS,
    NATIVE,
    TOOLS,
    Person,
    add,
    every_call_kind,
    person_service,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AttemptStarted,
    Capabilities,
    Completed,
    ReplyDelta,
    Stream,
)
from aiservices.engine.streams import ToolFinished, ToolStarted
from aiservices.tools.tool import tool
from aiservices.tools.toolbox import ToolLimits


def events_of(stream: Stream[Any]) -> list[str]:
    told = []
    for event in stream.events():
        if isinstance(event, ToolStarted):
            told.append(f"started {event.call.name}")
        elif isinstance(event, ToolFinished):
            told.append(f"finished {event.run.text}")
        elif isinstance(event, (AttemptStarted, Completed)):
            told.append(type(event).__name__)
        elif isinstance(event, ReplyDelta) and event.text:
            told.append(event.text)
    return told


def test_a_stream_yields_the_events_of_tools() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL, ("nope", "{}")), "It is 3.")
    assert events_of(text_service(model, add).stream("x")) == [
        "AttemptStarted",
        "started add",
        "started nope",
        "finished 3",
        "finished There is no tool nope. The tools are: add.",
        "AttemptStarted",
        "It ",
        "is ",
        "3.",
        "Completed",
    ]


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_snapshots_show_the_answer_and_not_the_arguments_of_other_tools(capabilities: Capabilities) -> None:
    @tool(name="search")
    def by_name(name: str) -> str:
        return name

    last = tool_calls_reply(("Person", ANN)) if capabilities is TOOLS else ANN
    model = strict_provider(tool_calls_reply(("search", '{"name": "Bob"}')), last, capabilities=capabilities)
    shown = [snapshot.to_python() for snapshot in person_service(model, by_name).grow("x")]
    assert {"name": "Bob"} not in shown
    assert shown[-1] == {"name": "Ann", "age": 31}


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_items_come_after_tools(capabilities: Capabilities) -> None:
    two = f'{{"value": [{ANN}, {{"name": "Bob", "age": 5}}]}}'
    last = tool_calls_reply(("list_Person", two)) if capabilities is TOOLS else two
    model = strict_provider(tool_calls_reply(("search", '{"text": "Ann"}')), last, capabilities=capabilities)
    assert list(person_service(model).each("x")) == [Person("Ann", 31), Person("Bob", 5)]


def test_items_are_not_read_from_the_arguments_of_other_tools() -> None:
    def save(value: list[Person]) -> str:
        return "saved"

    saved, found = '{"value": [{"name": "Bob", "age": 5}]}', f'{{"value": [{ANN}]}}'
    model = strict_provider(tool_calls_reply(("save", saved)), tool_calls_reply(("list_Person", found)))
    assert list(person_service(model, save).each("x")) == [Person("Ann", 31)]
    assert len(model.requests) == 2


def test_texts_include_those_between_tool_calls() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL, text="I add. "), "It is 3.")

    assert list(text_service(model, add).texts("x")) == ["I ", "add. ", "It ", "is ", "3."]


@every_call_kind
def test_the_end_of_a_tool_is_reported_while_others_still_run(kind: str) -> None:
    reported = threading.Event()

    @tool
    def slow() -> bool:
        """Waits until the end of the other tool was reported."""
        return reported.wait(10)

    @tool
    def fast() -> str:
        """Returns at once."""
        return "fast"

    def listen(event: object) -> None:
        if isinstance(event, ToolFinished) and event.run.name == "fast":
            reported.set()

    model = strict_provider(tool_calls_reply(("slow", "{}"), ("fast", "{}")), "Done.")
    CALL_KINDS[kind](text_service(model, slow, fast, listeners=[listen]))
    results = [message.text for message in model.requests[1].messages[-2:]]
    assert results == ["true", "fast"]  # in the order of the calls


def test_a_stream_yields_the_end_of_a_tool_while_others_still_run() -> None:
    seen = threading.Event()

    @tool
    def slow() -> bool:
        """Waits until the stream has shown the end of the other tool."""
        return seen.wait(10)

    model = strict_provider(tool_calls_reply(("slow", "{}"), ADD_CALL), "Done.")
    finished = []
    for event in text_service(model, slow, add).stream("x").events():
        if isinstance(event, ToolFinished):
            finished.append(event.run.text)
            seen.set()
    assert finished == ["3", "true"]


def test_with_one_call_at_a_time_each_tool_starts_after_the_one_before() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL, ("add", '{"a": 3, "b": 4}')), "Done.")
    service = text_service(model, add, tool_limits=ToolLimits(max_concurrency=1))
    assert events_of(service.stream("x"))[1:5] == ["started add", "finished 3", "started add", "finished 7"]
