"""Methods that return None: the call runs with its tools, and the text of the model is discarded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from tool_calling import tool_calls_reply

from aiservices import (
    AsyncStream,
    Budget,
    Completed,
    DefinitionError,
    RefusalError,
    Result,
    ScriptedChatModel,
    Stream,
    ToolFinished,
    create,
    options,
    preview,
    tool,
)
from aiservices.engine.interceptor import Proceed
from aiservices.engine.plan import Invocation
from aiservices.guardrails import InputGuardrails, max_length
from aiservices.interceptors import Answer, Flow
from aiservices.memory import ChatMemory
from aiservices.testing import FakeChatModel

CALL = tool_calls_reply(("book", '{"day": "Monday"}'))


class Booker(Protocol):
    def book(self, text: str) -> None: ...

    async def abook(self, text: str) -> None: ...

    def told(self, text: str) -> Result[None]: ...

    def stream(self, text: str) -> Stream[None]: ...

    def astream(self, text: str) -> AsyncStream[None]: ...


class Days:
    """A calendar that tools write to."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    @tool
    def book(self, day: str) -> str:
        """Book a day."""
        self.booked.append(day)
        return "booked"


async def finished(stream: AsyncStream[None]) -> Result[None]:
    return await stream.result()


@pytest.mark.parametrize("text", ["It is done.", "", "null", '{"value": 3}'])
def test_the_tools_run_and_any_text_is_discarded(text: str) -> None:
    days, model = Days(), ScriptedChatModel([CALL, text] * 2)
    booker: Any = create(Booker, model, tools=[days])
    assert booker.book("Monday, please") is None
    assert asyncio.run(booker.abook("Monday, please")) is None
    assert days.booked == ["Monday", "Monday"]
    assert [request.response_format for request in model.requests] == [None] * 4


def test_results_and_streams_of_none_have_the_text_and_the_tool_runs() -> None:
    days, model = Days(), ScriptedChatModel([CALL, "Done."] * 3)
    booker = create(Booker, model, tools=[days])
    results = [booker.told("x"), booker.stream("x").result(), asyncio.run(finished(booker.astream("x")))]
    shown = [(result.value, result.text, [run.name for run in result.tool_runs]) for result in results]
    assert shown == [(None, "Done.", ["book"])] * 3


def test_a_stream_of_none_has_the_events_of_tools() -> None:
    booker = create(Booker, ScriptedChatModel([CALL, "Done."]), tools=[Days()])
    events = list(booker.stream("x").events())
    assert [event.run.name for event in events if isinstance(event, ToolFinished)] == ["book"]
    assert [event.result.value for event in events if isinstance(event, Completed)] == [None]


def test_a_refusal_is_an_error() -> None:
    refused = replace(tool_calls_reply(), refusal="No.")
    booker = create(Booker, ScriptedChatModel([refused]), tools=[Days()], budget=Budget(max_attempts=1))
    with pytest.raises(RefusalError):
        booker.book("x")


def test_a_method_that_can_do_nothing_is_refused() -> None:
    class Quiet(Protocol):
        def book(self, text: str) -> None: ...

        async def abook(self, text: str) -> None: ...

    message = (
        "it returns None and has no tools, so a call would do nothing; pass tools, or annotate the type of "
        "the answer"
    )
    with pytest.raises(DefinitionError) as caught:
        create(Quiet, ScriptedChatModel([]), interceptors=[InputGuardrails(max_length(99))])
    assert [(one.location, one.message) for one in caught.value.problems] == [
        ("Quiet.book", message),
        ("Quiet.abook", message),
    ]


def test_results_and_streams_of_none_need_no_tools() -> None:
    class Told(Protocol):
        def told(self, text: str) -> Result[None]: ...

        def stream(self, text: str) -> Stream[None]: ...

    told = create(Told, ScriptedChatModel(["a", "b"]))
    assert (told.told("x").text, told.stream("x").result().text) == ("a", "b")


class Note(Protocol):
    def note(self, text: str) -> None: ...


def test_a_memory_is_an_effect() -> None:
    memory = ChatMemory()
    create(Note, ScriptedChatModel(["Noted."]), interceptors=[memory]).note("I am Ann.")
    assert [message.text for message in memory.messages()] == ["I am Ann.", "Noted."]


def test_an_interceptor_of_a_user_may_have_effects() -> None:
    texts = []

    def keep(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        texts.append(answer.reply.text)
        return answer

    create(Note, ScriptedChatModel(["Noted."]), interceptors=[keep]).note("I am Ann.")
    assert texts == ["Noted."]


def test_a_tool_of_the_provider_is_an_effect() -> None:
    class Search(Protocol):
        @options(server_tools=[{"type": "code_interpreter"}])
        def compute(self, text: str) -> None: ...

    create(Search, ScriptedChatModel(["Done."])).compute("2+2")


def test_an_iterator_of_none_has_no_items() -> None:
    class Items(Protocol):
        def items(self, text: str) -> Iterator[None]: ...

    with pytest.raises(DefinitionError) as caught:
        create(Items, ScriptedChatModel([]))
    assert str(caught.value) == (
        "Items.items: Iterator[None] has no items; return None, Result[None] or Stream[None]"
    )


@pytest.mark.parametrize("behavior", ["immediate", "immediate_if_last"])
def test_an_immediate_tool_of_any_type_ends_the_call(behavior: Any) -> None:
    @tool(return_behavior=behavior)
    def book(day: str) -> int:
        return 7

    @tool(return_behavior=behavior)
    def cancel(day: str) -> str:
        return "cancelled"

    both = tool_calls_reply(("book", '{"day": "a"}'), ("cancel", '{"day": "b"}'))
    model = ScriptedChatModel([both, both])
    booker: Any = create(Booker, model, tools=[book, cancel])
    assert booker.book("x") is None
    result = booker.told("x")
    assert (result.value, [run.result for run in result.tool_runs]) == (None, [7, "cancelled"])
    assert len(model.requests) == 2


def test_a_fake_model_can_answer_it() -> None:
    days = Days()
    booker: Any = create(Booker, FakeChatModel(calls=["book"]), tools=[days])
    assert booker.book("x") is None
    assert len(days.booked) == 1
    assert preview(booker.book, "x").strategy == "text"


def test_a_method_can_be_a_tool_of_another_service() -> None:
    class Desk(Protocol):
        def ask(self, text: str) -> str: ...

    days = Days()
    booker = create(Booker, ScriptedChatModel([CALL, "Done."]), tools=[days])
    model = ScriptedChatModel([tool_calls_reply(("book", '{"text": "Monday"}')), "I booked it."])
    assert create(Desk, model, tools=[booker.book]).ask("Book Monday") == "I booked it."
    assert (days.booked, model.requests[1].messages[-1].text) == (["Monday"], "Done.")
