"""The text that a model receives for the result of a tool."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel
from tool_calling import (
    CALL_KINDS,
    AsyncTextService,
    Person,
    aadd,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
    tool_result_text,
)

from aiservices import (
    ToolMessage,
    create,
)
from aiservices.engine.events import ToolFinished
from aiservices.memory import ChatMemory
from aiservices.tools.tool import ToolException, tool, tools_of
from aiservices.tools.toolbox import ToolLimits


class Colour(Enum):
    RED = "red"


class Word(str, Enum):  # noqa: UP042  # of which str() gives the name
    HELLO = "hello"


class Model(BaseModel):
    colour: Colour
    size: float | None = None


class Strange:
    def __str__(self) -> str:
        return "strange"


@pytest.mark.parametrize(
    ("result", "text_for_model"),
    [
        ("text", "text"),
        ("", ""),
        (None, "Done."),
        (3, "3"),
        (True, "true"),
        (Colour.RED, '"red"'),
        (Person("Ann", 31), '{"name":"Ann","age":31}'),
        (Model(colour=Colour.RED), '{"colour":"red","size":null}'),
        ([Person("Ann", 31), None], '[{"name":"Ann","age":31},null]'),
        ({"имя": (1, 2.5)}, '{"имя":[1,2.5]}'),
        (b"\xff\x00", '"_wA="'),
        (Strange(), '"strange"'),
        ((number for number in (1, 2)), "[1,2]"),
        ("x" * 100_000, "x" * 100_000),
        (Word.HELLO, "hello"),
    ],
)
def test_the_model_gets_a_result_as_text_or_as_json(result: Any, text_for_model: str) -> None:
    def give() -> Any:
        return result

    assert tool_result_text(give, call=("give", "{}")) == text_for_model


def test_a_result_that_has_no_json_form_is_a_tool_that_failed() -> None:
    def give() -> list[Any]:
        circle: list[Any] = []
        circle.append(circle)
        return circle

    assert tool_result_text(give, call=("give", "{}")) == "The tool give failed."


def test_a_blocking_function_that_gives_a_coroutine_is_a_tool_that_failed() -> None:
    def give() -> Any:
        return aadd(1, 2)

    model = strict_provider(tool_calls_reply(("give", "{}")), "Done.")
    result = text_service(model, give).told("x")
    assert str(result.tool_runs[0].error) == "the tool returned an awaitable; declare it with async def"


def test_an_async_wrapper_may_give_its_result_at_once() -> None:
    class Cached:
        async def __call__(self) -> str:
            raise AssertionError

    cached = Cached()
    made = tool(name="cached")(cached)
    model = strict_provider(tool_calls_reply(("cached", "{}")), "Done.")
    (found,) = tools_of(made)
    at_once = replace(found, function=lambda: "known")
    service = create(AsyncTextService, model, tools=[at_once])
    assert asyncio.run(service.ask("x")) == "Done."
    assert messages_to(model)[-1] == ToolMessage("c1", "cached", "known")


# results that are too long


def giving(result: Any) -> Any:
    def give() -> Any:
        return result

    return give


def cut(text: str, characters: int, whole: int) -> str:
    return (
        f"{text}\n\n[The result is cut here: you see the first {characters:,} of {whole:,} characters. "
        "If the rest matters, call the tool in a way that gives less at once.]"
    )


@every_call_kind
def test_the_model_gets_the_start_of_a_long_result_and_a_note(kind: str) -> None:
    model = strict_provider(tool_calls_reply(("give", "{}")), "Done.")
    limits = ToolLimits(max_characters=10)
    assert CALL_KINDS[kind](text_service(model, giving("0123456789abc"), tool_limits=limits)) == "Done."
    assert messages_to(model)[-1] == ToolMessage("c1", "give", cut("0123456789", 10, 13))


def test_five_million_characters_are_not_sent_by_default() -> None:
    long = "x" * 5_000_000
    assert tool_result_text(giving(long), call=("give", "{}")) == cut("x" * 100_000, 100_000, 5_000_000)
    unlimited = ToolLimits(max_characters=None)
    assert tool_result_text(giving(long), call=("give", "{}"), tool_limits=unlimited) == long


def test_the_run_has_the_whole_result_and_how_much_of_it_was_cut() -> None:
    model = strict_provider(tool_calls_reply(("give", "{}")), "Done.")
    numbers = list(range(100))
    (run,) = (
        text_service(model, giving(numbers), tool_limits=ToolLimits(max_characters=4)).told("x").tool_runs
    )
    assert (run.result, run.cut, run.text, run.error) == (numbers, 287, cut("[0,1", 4, 291), None)


def test_the_event_of_a_tool_has_the_number_of_cut_characters() -> None:
    model = strict_provider(tool_calls_reply(("give", "{}")), "Done.")
    stream = text_service(model, giving("abc"), tool_limits=ToolLimits(max_characters=1)).stream("x")
    assert [event.run.cut for event in stream.events() if isinstance(event, ToolFinished)] == [2]


@pytest.mark.parametrize(
    "result", [12345678, 1.25, -1000, True, [1, 2, 3], {"a": 1}, '"text"', None, "123456"]
)
@pytest.mark.parametrize("characters", [1, 2, 3])
def test_a_truncated_result_is_never_another_value(result: Any, characters: int) -> None:
    text_for_model = tool_result_text(
        giving(result), call=("give", "{}"), tool_limits=ToolLimits(max_characters=characters)
    )
    with pytest.raises(json.JSONDecodeError):
        json.loads(text_for_model)


def test_long_texts_of_errors_are_cut_as_well() -> None:
    def fail() -> None:
        raise ToolException("No: " + "x" * 100)

    text_for_model = tool_result_text(fail, call=("fail", "{}"), tool_limits=ToolLimits(max_characters=5))
    assert text_for_model == cut("No: x", 5, 104)


def test_an_immediate_result_is_whole_but_memory_stores_the_cut_text() -> None:
    memory = ChatMemory()
    give = tool(return_behavior="immediate")(giving("0123456789"))
    model, limits = strict_provider(tool_calls_reply(("give", "{}"))), ToolLimits(max_characters=3)
    assert text_service(model, give, tool_limits=limits, interceptors=[memory]).ask("x") == "0123456789"
    assert [message.text for message in memory.messages()] == ["x", "", cut("012", 3, 10), cut("012", 3, 10)]
