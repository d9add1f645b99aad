"""A retriever tool sends ids and texts to the model, and the tool runs have the contents."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aiservices import (
    AiMessage,
    ChatReply,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
)
from aiservices.retrieval import Content, Excerpts, Query, contents_by_id, retriever_tool

NINE = Content("The ferry leaves at nine.", "ferry-1", score=0.9)
TEN = Content("It comes back at ten.", "ferry-2", score=0.8)
CALL = ToolCall("1", "timetable", '{"query": "departure"}')
CALLED = ChatReply(AiMessage("", (CALL,)))
ANSWERED = '{"text": "At nine.", "sources": ["ferry-1"]}'


class Shelf:
    def __init__(self, *contents: Content) -> None:
        self.contents = contents
        self.asked: list[str] = []

    def retrieve(self, query: Query, /) -> Sequence[Content]:
        self.asked.append(query.text)
        return self.contents


class FarShelf:
    async def retrieve(self, query: Query, /) -> Sequence[Content]:
        return [NINE]


@dataclass
class Answer:
    text: str
    sources: list[str]


class Guide(Protocol):
    def answer(self, question: str) -> Result[Answer]: ...


class FarGuide(Protocol):
    async def answer(self, question: str) -> Result[Answer]: ...


def test_the_model_gets_ids_and_texts_and_can_cite_them() -> None:
    shelf, model = Shelf(NINE, TEN), ScriptedChatModel([CALLED, ANSWERED])
    tool = retriever_tool(shelf, "timetable", "Finds lines of the timetable.")
    result = create(Guide, model, tools=[tool]).answer("When does it leave?")
    assert result.value == Answer("At nine.", ["ferry-1"])
    assert shelf.asked == ["departure"]
    expected = "[ferry-1]\nThe ferry leaves at nine.\n\n[ferry-2]\nIt comes back at ten."
    assert model.requests[1].messages[-1] == ToolMessage("1", "timetable", expected)
    [run] = result.tool_runs
    assert isinstance(run.result, Excerpts)
    assert run.result.contents == (NINE, TEN)
    assert contents_by_id(result.tool_runs) == {"ferry-1": NINE, "ferry-2": TEN}


def test_the_tool_shows_metadata_beside_the_ids() -> None:
    shelf, model = (
        Shelf(Content("At nine.", "3", {"page": 7, "secret": 1})),
        ScriptedChatModel([CALLED, ANSWERED]),
    )
    tools = [retriever_tool(shelf, "timetable", metadata=["page"])]
    create(Guide, model, tools=tools).answer("When does it leave?")
    assert model.requests[1].messages[-1] == ToolMessage("1", "timetable", "[3; page: 7]\nAt nine.")


def test_the_tool_has_a_name_and_a_description() -> None:
    model = ScriptedChatModel([ANSWERED])
    create(Guide, model, tools=[retriever_tool(Shelf(), "timetable", "Finds lines.")]).answer("When?")
    tooling = model.requests[0].tooling
    assert tooling is not None
    [offered] = [one for one in tooling.tools if one.name == "timetable"]
    assert offered.description == "Finds lines."
    assert offered.parameters["properties"] == {
        "query": {"type": "string", "description": "what to look for, as a question or in keywords"}
    }


def test_the_tool_reports_that_nothing_was_found() -> None:
    model = ScriptedChatModel([CALLED, ANSWERED])
    result = create(Guide, model, tools=[retriever_tool(Shelf(), "timetable")]).answer("When?")
    assert model.requests[1].messages[-1] == ToolMessage("1", "timetable", "Nothing was found.")
    assert contents_by_id(result.tool_runs) == {}


def test_an_async_retriever_serves_async_and_blocking_methods() -> None:
    tools = [retriever_tool(FarShelf(), "timetable")]
    result = asyncio.run(create(FarGuide, ScriptedChatModel([CALLED, ANSWERED]), tools=tools).answer("When?"))
    assert contents_by_id(result.tool_runs) == {"ferry-1": NINE}
    result = create(Guide, ScriptedChatModel([CALLED, ANSWERED]), tools=tools).answer("When?")
    assert contents_by_id(result.tool_runs) == {"ferry-1": NINE}


def test_a_blocking_retriever_serves_async_methods_too() -> None:
    tools = [retriever_tool(Shelf(NINE), "timetable")]
    result = asyncio.run(create(FarGuide, ScriptedChatModel([CALLED, ANSWERED]), tools=tools).answer("When?"))
    assert result.value == Answer("At nine.", ["ferry-1"])


def test_excerpts_can_be_copied_and_pickled() -> None:
    found = Excerpts([NINE, Content("x", "x-1", {"page": 7})], ["page"])
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert (again, again.contents, type(again)) == (found, found.contents, Excerpts)
        assert again.metadata == ("page",)


def test_contents_have_a_hash_whatever_their_metadata() -> None:
    assert {Content("x", metadata={"tags": ["a"]}), Content("x", metadata={"tags": ["a"]})} == {
        Content("x", metadata={"tags": ["a"]})
    }
