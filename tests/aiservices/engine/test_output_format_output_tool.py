"""Answers as the arguments of a tool call: what is sent, what is accepted, and what is rejected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AsyncStream,
    Capabilities,
    ChatReply,
    Coercion,
    FinishReason,
    OutputParsingError,
    Problem,
    RefusalError,
    Result,
    ScriptedChatModel,
    Strategy,
    Stream,
    ToolCall,
    Tooling,
    ToolSpecification,
    TruncatedError,
    UserMessage,
    create,
)
from aiservices.engine.output_format import _tool_call_reader
from output_parsers import Reading, TypeParser, parser_for

TOOLS = Capabilities(tools=True)
STRICT_TOOLS = Capabilities(tools=True, strict_schema=True)
ANN = '{"name": "Ann", "age": 31}'


@dataclass
class Person:
    """A person of a text."""

    name: str
    age: int


@dataclass
class Plain:
    name: str


class People(Protocol):
    def person(self, text: str) -> Result[Person]: ...

    async def aperson(self, text: str) -> Result[Person]: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def agrow(self, text: str) -> AsyncStream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def aeach(self, text: str) -> AsyncIterator[Person]: ...

    def count(self, text: str) -> Result[int]: ...


def calling(*arguments: str, name: str = "Person", text: str = "") -> ChatReply:
    calls = tuple(ToolCall(f"c{number}", name, one) for number, one in enumerate(arguments, 1))
    return ChatReply(AiMessage(text, calls), FinishReason.TOOL_CALLS)


def typed(form: Any) -> TypeParser[Any]:
    parser = parser_for(form)
    assert isinstance(parser, TypeParser)
    return parser


def read(reply: ChatReply) -> Reading[Any]:
    return _tool_call_reader(typed(Person), "Person")(reply)


def refused(reply: ChatReply) -> tuple[str, tuple[Problem, ...]]:
    with pytest.raises(OutputParsingError) as caught:
        read(reply)
    return caught.value.text, caught.value.problems


def sent(form: str, capabilities: Capabilities = TOOLS) -> Tooling:
    """Return the tooling of the only request that a method makes."""
    model = ScriptedChatModel(
        [calling('{"value": 7}', name="int") if form == "count" else calling(ANN)], capabilities=capabilities
    )
    getattr(create(People, model), form)("x")
    (request,) = model.requests
    assert request.response_format is None
    assert request.tooling is not None
    return request.tooling


def test_the_model_must_call_the_one_tool_and_only_once() -> None:
    tooling = sent("person")
    assert ([tool.name for tool in tooling.tools], tooling.choice, tooling.parallel_calls) == (
        ["Person"],
        "Person",
        False,
    )


def test_the_tool_has_the_schema_of_the_type_as_its_parameters() -> None:
    (tool,) = sent("person").tools
    assert tool.parameters == typed(Person).schema


def test_the_tool_is_described_by_the_docstring_of_the_type() -> None:
    (tool,) = sent("person").tools
    assert tool.description == "A person of a text."


def test_the_output_tool_of_a_type_without_a_docstring_has_a_default_description() -> None:
    class Plains(Protocol):
        def plain(self, text: str) -> Plain: ...

    model = ScriptedChatModel([calling('{"name": "Ann"}', name="Plain")], capabilities=TOOLS)
    create(Plains, model).plain("x")
    assert model.requests[0].tooling is not None
    (tool,) = model.requests[0].tooling.tools
    assert tool.description == "Gives the answer. Call it once, with the whole answer."


@pytest.mark.parametrize(("capabilities", "strict"), [(TOOLS, False), (STRICT_TOOLS, True)])
def test_the_tool_is_strict_where_the_provider_enforces_it(capabilities: Capabilities, strict: bool) -> None:
    (tool,) = sent("person", capabilities).tools
    assert tool.strict is strict


def test_a_number_is_the_one_argument_of_its_tool() -> None:
    (tool,) = sent("count").tools
    assert (type(tool), tool.name, tool.parameters["properties"]) == (
        ToolSpecification,
        "int",
        {"value": {"type": "integer"}},
    )


def test_nothing_is_added_to_the_words_of_the_user() -> None:
    model = ScriptedChatModel([calling(ANN)], capabilities=TOOLS)
    create(People, model).person("Who?")
    assert model.requests[0].messages == (UserMessage("Who?"),)


def test_a_call_is_read_without_a_note() -> None:
    assert read(calling(ANN)) == Reading(Person("Ann", 31), ())


def test_text_next_to_the_call_is_not_part_of_the_answer() -> None:
    assert read(calling(ANN, text="I will call the tool.")) == Reading(Person("Ann", 31), ())


def test_two_equal_calls_are_one_and_it_is_noted() -> None:
    assert read(calling(ANN, '{"age": 31, "name": "Ann"}')) == Reading(
        Person("Ann", 31), (Coercion("$", "2 equal calls of Person", "", ""),)
    )


def test_two_calls_that_differ_are_an_error() -> None:
    bob = '{"name": "Bob", "age": 31}'
    message = "expected one call of Person; the model called it 2 times with different answers"
    assert refused(calling(ANN, bob)) == (f"{ANN}\n{bob}", (Problem("$", message),))


def test_calls_with_values_that_only_python_holds_equal_are_different() -> None:
    parser = typed(bool | int)
    reply = calling("true", "1", name="value")
    with pytest.raises(OutputParsingError) as caught:
        _tool_call_reader(parser, "value")(reply)
    message = "expected one call of value; the model called it 2 times with different answers"
    assert caught.value.problems == (Problem("$", message),)


def test_values_that_only_python_holds_equal_are_different_inside_a_list_too() -> None:
    parser = typed(list[bool | int])
    reply = calling("[true]", "[1]", name="value")
    with pytest.raises(OutputParsingError) as caught:
        _tool_call_reader(parser, "value")(reply)
    message = "expected one call of value; the model called it 2 times with different answers"
    assert caught.value.problems == (Problem("$", message),)


def test_the_call_of_another_tool_is_an_error() -> None:
    message = "expected a call of Person and no other; the model called search"
    assert refused(calling(ANN, name="search")) == (ANN, (Problem("$", message),))


def test_the_call_of_another_tool_next_to_the_right_one_is_an_error() -> None:
    calls = (ToolCall("1", "Person", ANN), ToolCall("2", "search", "{}"))
    message = "expected a call of Person and no other; the model called search"
    assert refused(ChatReply(AiMessage("", calls))) == (f"{ANN}\n{{}}", (Problem("$", message),))


def test_an_answer_in_text_is_read_and_it_is_noted() -> None:
    assert read(ChatReply(AiMessage(ANN))) == Reading(
        Person("Ann", 31), (Coercion("$", "text instead of a call of Person", "", ""),)
    )


def test_coercions_come_after_the_note() -> None:
    reading = read(ChatReply(AiMessage('{"name": "Ann", "age": "31"}')))
    assert reading.coercions[0].rule == "text instead of a call of Person"
    assert [coercion.path for coercion in reading.coercions] == ["$", "$.age"]


def test_a_reply_with_neither_text_nor_call_is_an_error() -> None:
    text, problems = refused(ChatReply(AiMessage("")))
    assert (text, [problem.path for problem in problems]) == ("", ["$"])


def test_invalid_arguments_are_reported_like_an_invalid_text() -> None:
    assert refused(calling('{"name": "Ann"}'))[1] == typed_problems('{"name": "Ann"}')


def typed_problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(OutputParsingError) as caught:
        typed(Person).read(text)
    return caught.value.problems


@pytest.mark.parametrize("arguments", ["", "{", "null", "[]", ANN[:-1]])
def test_arguments_that_are_not_a_whole_object_are_an_error(arguments: str) -> None:
    with pytest.raises(OutputParsingError):
        read(calling(arguments))


def test_calls_in_a_refusal_are_not_an_answer() -> None:
    reply = ChatReply(AiMessage("", (ToolCall("1", "Person", ANN),)), refusal="No.")
    with pytest.raises(RefusalError) as caught:
        create(People, ScriptedChatModel([reply], capabilities=TOOLS)).person("x")
    assert str(caught.value) == "People.person: the model refused: No."


def test_a_call_that_was_cut_off_is_not_an_answer() -> None:
    reply = ChatReply(AiMessage("", (ToolCall("1", "Person", ANN),)), FinishReason.LENGTH)
    with pytest.raises(TruncatedError) as caught:
        create(People, ScriptedChatModel([reply], capabilities=TOOLS)).person("x")
    assert str(caught.value) == (
        "People.person: the answer was cut off by a length limit; raise max_tokens or ask for less"
    )


def test_the_result_has_the_tool_run_in_every_kind_of_call() -> None:
    service = create(People, ScriptedChatModel([calling(ANN)] * 4, capabilities=TOOLS))

    async def streamed() -> Result[Person]:
        return await service.agrow("x").result()

    results = [
        service.person("x"),
        asyncio.run(service.aperson("x")),
        service.grow("x").result(),
        asyncio.run(streamed()),
    ]
    outcomes = [(result.value, result.strategy, result.reasons, result.coercions) for result in results]
    reasons = ("scripted does not support JSON Schema, but calls tools",)
    assert outcomes == [(Person("Ann", 31), Strategy.OUTPUT_TOOL, reasons, ())] * 4


def test_snapshots_grow_from_the_arguments() -> None:
    service = create(People, ScriptedChatModel([calling(ANN, text="I call it.")], capabilities=TOOLS))
    assert [snapshot.to_python() for snapshot in service.grow("x")] == [
        {},
        {"name": "Ann"},
        {"name": "Ann"},
        {"name": "Ann", "age": 31},
    ]


def test_snapshots_show_the_first_of_several_calls_only() -> None:
    service = create(People, ScriptedChatModel([calling(ANN, ANN)], capabilities=TOOLS))
    values = [snapshot.value for snapshot in service.grow("x")]
    assert values[-1] == Person("Ann", 31)


def test_an_answer_in_text_is_the_last_snapshot_too() -> None:
    service = create(People, ScriptedChatModel([ChatReply(AiMessage(ANN))], capabilities=TOOLS))
    stream = service.grow("x")
    assert [(snapshot.value, snapshot.done) for snapshot in stream] == [(Person("Ann", 31), True)]
    assert stream.result().coercions == (Coercion("$", "text instead of a call of Person", "", ""),)


TWO = f'{{"value": [{ANN}, {{"name": "Bob", "age": 5}}]}}'
BOTH = [Person("Ann", 31), Person("Bob", 5)]


def test_items_come_from_the_arguments() -> None:
    model = ScriptedChatModel([calling(TWO, name="list_Person")] * 2, capabilities=TOOLS)
    service = create(People, model)

    async def collected() -> list[Person]:
        return [person async for person in service.aeach("x")]

    assert (list(service.each("x")), asyncio.run(collected())) == (BOTH, BOTH)


def test_items_that_come_as_text_instead_are_yielded_at_the_end() -> None:
    service = create(People, ScriptedChatModel([ChatReply(AiMessage(TWO))], capabilities=TOOLS))
    assert list(service.each("x")) == BOTH


@pytest.mark.parametrize("name", ["Person", "person", "Person "])
def test_only_the_very_name_of_the_tool_is_its_name(name: str) -> None:
    reply = calling(ANN, name=name)
    if name == "Person":
        assert read(reply).value == Person("Ann", 31)
    else:
        message = f"expected a call of Person and no other; the model called {name}"
        assert refused(reply) == (ANN, (Problem("$", message),))
