"""Tests of how results are shown and converted to JSON."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from typing import Protocol

from aiservices import (
    AiMessage,
    Budget,
    ChatReply,
    Price,
    Result,
    ScriptedChatModel,
    ToolCall,
    Usage,
    create,
    preview,
    user_message,
)


@dataclass
class Person:
    name: str
    age: int


class Reader(Protocol):
    @user_message("Who? {{text}}")
    def person(self, text: str) -> Result[Person]: ...


def reader(budget: Budget | None = None) -> Reader:
    reply = ChatReply(AiMessage('{"name": "<Ann>", "age": 31}'), usage=Usage(20, 5), model="m-1")
    return create(Reader, ScriptedChatModel([reply], name="m"), budget=budget)


def test_a_result_is_shown_briefly() -> None:
    result = reader().person("x")
    text = repr(result)
    assert text.startswith("Result(value=Person(name='<Ann>', age=31), model='m-1', strategy='")
    assert "tokens='20 + 5', attempts=1, seconds=" in text
    assert dict(result.__rich_repr__())["model"] == "m-1"


def test_a_result_is_a_table_in_notebooks() -> None:
    html = reader().person("x")._repr_html_()
    assert "<tr><th>value</th><td>Person(name=&#x27;&lt;Ann&gt;&#x27;, age=31)</td></tr>" in html


def test_a_result_has_a_json_form() -> None:
    data = json.loads(reader().person("x").to_json())
    assert data["value"] == {"name": "<Ann>", "age": 31}
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
