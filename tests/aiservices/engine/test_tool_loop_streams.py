"""Streams, item iterators and text iterators of calls with tools."""

from __future__ import annotations

from typing import Any

import pytest
from tool_calling import (
    ADD_CALL,
    ANN,
    NATIVE,
    TOOLS,
    Person,
    add,
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
from aiservices.engine.events import ToolFinished, ToolStarted
from aiservices.tools.tool import tool


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
