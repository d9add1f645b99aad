"""The text that a model receives for the result of a tool."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

import attrs
import msgspec
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
    AiMessage,
    AsyncStream,
    ChatReply,
    Cited,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolMessage,
    create,
)
from aiservices.engine.streams import ToolFinished
from aiservices.memory import ChatMemory
from aiservices.structured_model import structured
from aiservices.tools.tool import ToolException, ToolRun, tool, tools_of
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


class Colours:
    def __str__(self) -> str:
        return "red green"


@attrs.define
class Point:
    x: int
    y: int


class Spot(msgspec.Struct):
    z: int


class Row:
    pass


class Summaries(Protocol):
    def chunks(self, text: str) -> Iterator[str]: ...

    def stream(self, text: str) -> Stream[str]: ...

    def result(self, text: str) -> Result[str]: ...

    def words(self, text: str) -> Iterator[Word]: ...

    def achunks(self, text: str) -> AsyncIterator[str]: ...

    def astream(self, text: str) -> AsyncStream[str]: ...


def summaries(reply: str) -> Summaries:
    return create(Summaries, ScriptedChatModel([reply]))


@pytest.mark.parametrize(
    ("result", "text_for_model"),
    [
        ("text", "text"),
        ("", ""),
        (None, "null"),
        (Colours(), '"red green"'),
        ([Point(1, 2)], '[{"x":1,"y":2}]'),
        ({"at": Spot(3)}, '{"at":{"z":3}}'),
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


def test_a_tool_that_is_not_declared_to_return_anything_is_done() -> None:
    def save() -> None: ...

    def untyped():  # type: ignore[no-untyped-def]
        ...

    def price() -> float | None:
        return None

    texts = [tool_result_text(one, call=(one.__name__, "{}")) for one in (save, untyped, price)]
    assert texts == ["Done.", "Done.", "null"]


def run_of(*tools: Any, call: tuple[str, str], **settings: Any) -> ToolRun:
    model = strict_provider(tool_calls_reply(call), "Done.")
    (run,) = text_service(model, *tools, **settings).told("x").tool_runs
    return run


def arun_of(*tools: Any, call: tuple[str, str]) -> ToolRun:
    class Told(Protocol):
        async def told(self, text: str) -> Result[str]: ...

    model = strict_provider(tool_calls_reply(call), "Done.")
    (run,) = asyncio.run(create(Told, model, tools=tools).told("x")).tool_runs
    return run


@pytest.mark.parametrize(
    ("result", "name"),
    [(Row(), "Row"), ([Row()], "Row"), ({"a": Row()}, "Row"), (Row, "type"), (object(), "object")],
    ids=["object", "list", "dict", "class", "bare object"],
)
def test_a_result_that_has_only_an_address_is_a_tool_that_failed(result: Any, name: str) -> None:
    run = run_of(giving(result), call=("give", "{}"))
    assert (run.text, repr(run.error)) == (
        "The tool give failed.",
        f"TypeError('{name} cannot be written as JSON; return text, a dataclass or other data')",
    )


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_the_items_of_an_iterator_are_the_result(timeout: float | None) -> None:
    def give() -> Iterator[str]:
        yield from ("a", "b")

    run = run_of(give, call=("give", "{}"), tool_limits=ToolLimits(timeout=timeout))
    assert (run.result, run.text) == (["a", "b"], '["a","b"]')


def test_the_time_of_a_tool_includes_its_iterator() -> None:
    def give() -> Iterator[int]:
        yield 1
        time.sleep(0.2)

    assert run_of(give, call=("give", "{}")).seconds >= 0.2
    late = run_of(give, call=("give", "{}"), tool_limits=ToolLimits(timeout=0.05))
    assert late.text == "The tool give did not finish in time."


CALL = '{"text": "x"}'


def test_streams_of_other_services_are_read_to_their_end() -> None:
    service = summaries("one two three")
    run = run_of(service.chunks, call=("chunks", CALL))
    assert (run.result, run.text) == ("one two three", "one two three")
    for method in ("stream", "result"):
        run = run_of(getattr(summaries("one two"), method), call=(method, CALL))
        assert (run.result.value, run.text) == ("one two", "one two")
    run = run_of(summaries('{"value": ["hello"]}').words, call=("words", CALL))
    assert (run.result, run.text) == ([Word.HELLO], '["hello"]')


def test_async_streams_of_other_services_are_read_to_their_end() -> None:
    async def count() -> AsyncIterator[int]:
        yield 1
        yield 2

    run = arun_of(summaries("one two").achunks, call=("achunks", CALL))
    assert (run.result, run.text) == ("one two", "one two")
    run = arun_of(summaries("one two").astream, call=("astream", CALL))
    assert (run.result.value, run.text) == ("one two", "one two")
    run = arun_of(count, call=("count", "{}"))
    assert (run.result, run.text) == ([1, 2], "[1,2]")


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


# --- Odd results and arguments ---


def _call(name: str, arguments: str = "{}") -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("1", name, arguments),)))


def _text_of_result(function: Callable[[], object], arguments: str = "{}") -> str:
    model = ScriptedChatModel([_call(function.__name__, arguments), "done"])
    structured(model, str, tools=[function]).invoke("x")
    return model.requests[-1].messages[-1].text


def test_numbers_that_are_not_json_are_texts_in_a_result() -> None:
    def measure() -> dict[str, float]:
        """Measure."""
        return {"a": float("nan"), "b": float("inf"), "c": 1.5}

    assert _text_of_result(measure) == '{"a":"NaN","b":"Infinity","c":1.5}'


def test_an_exception_that_a_tool_returns_is_a_failure() -> None:
    def look() -> object:
        """Look."""
        return ToolException("not found")

    assert _text_of_result(look) == "not found"


@pytest.mark.parametrize("arguments", ["null", " null ", "", "{}"])
def test_a_tool_without_arguments_may_be_called_with_null(arguments: str) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    assert _text_of_result(look, arguments) == "seen"


def test_a_cited_value_is_sent_with_its_quote_and_without_its_place() -> None:
    @tool
    def rent() -> list[Cited[int]]:
        """Return the rents."""
        return [Cited(900, "rent is 900", document="a.pdf", start=4, end=15, match="exact")]

    class Desk(Protocol):
        def ask(self, question: str) -> str: ...

    call = ChatReply(AiMessage("", (ToolCall("1", "rent", "{}"),)))
    model = ScriptedChatModel([call, "It is 900."])
    assert create(Desk, model, tools=[rent]).ask("What is the rent?") == "It is 900."
    assert model.requests[1].messages[-1].text == '[{"value":900,"quote":"rent is 900"}]'
