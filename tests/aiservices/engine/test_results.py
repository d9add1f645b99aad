"""Tests of how results are shown and converted to JSON."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar

import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    Budget,
    ChatReply,
    History,
    Message,
    Price,
    Result,
    ScriptedChatModel,
    Stream,
    SuspendedCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    create,
    messages_from_json,
    messages_to_json,
    preview,
    resume,
    system_message,
    tool,
    user_message,
)
from aiservices.memory import ChatMemory

T = TypeVar("T")


@dataclass
class Person:
    name: str
    age: int


class Reader(Protocol):
    @user_message("Who? {{text}}")
    def person(self, text: str) -> Result[Person]: ...


def reader(budget: Budget | None = None) -> Reader:
    reply = ChatReply(AiMessage('{"name": "<b>", "age": 31}'), usage=Usage(20, 5), model="m-1")
    return create(Reader, ScriptedChatModel([reply], name="m"), budget=budget)


def test_a_result_is_shown_briefly() -> None:
    result = reader().person("x")
    text = repr(result)
    assert text.startswith("Result(value=Person(name='<b>', age=31), model='m-1', strategy='")
    assert "tokens='20 + 5', attempts=1, seconds=" in text
    assert dict(result.__rich_repr__())["model"] == "m-1"


def test_a_result_is_a_table_in_notebooks() -> None:
    html = reader().person("x")._repr_html_()
    assert "<tr><th>value</th><td>Person(name=&#x27;&lt;b&gt;&#x27;, age=31)</td></tr>" in html


def test_a_result_has_a_json_form() -> None:
    data = json.loads(reader().person("x").to_json())
    assert data["value"] == {"name": "<b>", "age": 31}
    assert (data["model"], data["finish_reason"], data["cost"]) == ("m-1", "stop", None)
    assert data["usage"]["input_tokens"] == 20
    assert [attempt["usage"]["output_tokens"] for attempt in data["attempts"]] == [5]


def test_a_result_has_its_cost_where_the_price_is_known() -> None:
    prices = {"m": Price(1_000_000, 2_000_000)}
    assert reader(Budget(prices=prices)).person("x").cost == 30.0
    assert reader(Budget(prices={"other": Price(1, 1)})).person("x").cost is None


def test_services_and_previews_are_shown_briefly() -> None:
    service = reader()
    assert repr(service) == "<Reader service, model='m'>"
    shown = preview(service.person, "<b>")
    assert repr(shown) == "<Preview of Reader.person: 1 message to m, strategy json_schema>"
    assert "&lt;b&gt;" in shown._repr_html_()


def test_a_service_keeps_the_repr_of_its_class() -> None:
    class Named:
        def __repr__(self) -> str:
            return "named"

        @user_message("x")
        def ask(self) -> str:
            raise NotImplementedError

    assert repr(create(Named, ScriptedChatModel([]))) == "named"


def test_a_result_can_be_copied_and_pickled() -> None:
    def search(query: str) -> str:
        """Search the shop."""
        return "found"

    class Shop(Protocol):
        @user_message("{{text}}")
        def stars(self, text: str) -> Result[int]: ...

    call = ToolCall("c1", "search", '{"query": "lamp"}')
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), '{"value": 4}'])
    result = create(Shop, model, tools=[search]).stars("A lamp")
    for again in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert again == result
        assert again.tool_runs[0].call == call


# --- The messages of a call


class Talk(Protocol):
    @system_message("Be brief. {{format_instructions}}")
    @user_message("{{text}}")
    def number(self, text: str, past: Annotated[list[Message], History]) -> Result[int]: ...

    @user_message("{{text}}")
    def say(self, text: str, past: Annotated[list[Message], History] = ()) -> Result[str]: ...  # type: ignore[assignment]

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...

    @user_message("{{text}}")
    async def asay(self, text: str) -> Result[str]: ...


def test_the_messages_of_a_call_continue_the_conversation_of_the_next() -> None:
    model = ScriptedChatModel(["no number", "4", "5"])
    talk = create(Talk, model)
    first = talk.number("2 + 2?", [])
    assert first.messages == first.new_messages == (UserMessage("2 + 2?"), AiMessage("4"))
    stored = messages_to_json(first.messages)
    second = talk.number("And 1 more?", messages_from_json(stored))
    assert second.earlier_messages == first.messages
    assert second.new_messages == (UserMessage("And 1 more?"), AiMessage("5"))
    assert messages_from_json(messages_to_json(second.messages)) == [*second.messages]
    assert [message.text for message in model.requests[-1].messages[1:3]] == ["2 + 2?", "4"]


def test_a_system_message_of_the_history_stays_in_the_conversation() -> None:
    past: list[Message] = [SystemMessage("Be kind."), UserMessage("Hi"), AiMessage("Hello")]
    result = create(Talk, ScriptedChatModel(["Fine."])).say("How are you?", past)
    assert result.messages == (*past, UserMessage("How are you?"), AiMessage("Fine."))


def test_the_messages_contain_tool_calls_and_what_a_memory_adds() -> None:
    def look(place: str) -> str:
        return f"{place} is old."

    call = ToolCall("1", "look", '{"place": "Rome"}')
    model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "Old.", "Yes.", "Ok.", "Sure."])
    talk = create(Talk, model, tools=[look], interceptors=[ChatMemory()])
    first = talk.say("Rome?")
    assert first.messages == (
        UserMessage("Rome?"),
        AiMessage("", (call,)),
        ToolMessage("1", "look", "Rome is old."),
        AiMessage("Old."),
    )
    assert talk.stream("Really?").result().earlier_messages == first.messages
    assert asyncio.run(plain(talk.asay("And?"))).new_messages == (UserMessage("And?"), AiMessage("Ok."))
    assert len(talk.say("So?").earlier_messages) == 8


def test_a_resumed_call_has_its_messages_without_rejected_answers() -> None:
    @tool(needs_approval=True)
    def pay(euros: int) -> str:
        return f"paid {euros}"

    class Pays(Protocol):
        @user_message("{{text}}")
        def pay(self, text: str) -> Result[int]: ...

    call = ToolCall("1", "pay", '{"euros": 9}')
    model = ScriptedChatModel(["not a number", ChatReply(AiMessage("", (call,))), "also not", "9"])
    pays = create(Pays, model, tools=[pay], budget=Budget(max_attempts=9))
    with pytest.raises(ApprovalRequiredError) as caught:
        pays.pay("Pay 9.")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    result = resume(pays.pay, state, True)
    expected = (
        UserMessage("Pay 9."),
        AiMessage("", (call,)),
        ToolMessage("1", "pay", "paid 9"),
        AiMessage("9"),
    )
    assert result.messages == expected


async def plain(awaitable: Awaitable[T]) -> T:
    return await awaitable
