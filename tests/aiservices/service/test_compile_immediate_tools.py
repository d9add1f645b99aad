"""``create`` refuses immediate tools whose results cannot be answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from aiservices import (
    AiMessage,
    ChatReply,
    DefinitionError,
    Result,
    ScriptedChatModel,
    Stream,
    create,
    options,
    tool,
)


@dataclass
class Person:
    name: str


@dataclass
class Child(Person):
    age: int


class Movie(TypedDict):
    title: str


def method_returning(answer_type: Any) -> Any:
    class Service(Protocol):
        def ask(self, text: str) -> Any: ...

    Service.ask.__annotations__["return"] = answer_type
    return Service


def tool_returning(result_type: Any) -> Any:
    def give() -> Any: ...

    give.__annotations__["return"] = result_type
    return tool(return_behavior="immediate")(give)


@pytest.mark.parametrize(
    ("result_type", "answer_type"),
    [
        (str, str),
        (Any, int),
        (object, int),
        (str | None, str),
        (int | str, str | bool),
        (Person, Result[Person]),
        (Child, Person),
        (BaseModel, Any),
        (dict[str, Any], Movie),
        (Mapping[str, Any], Movie),
        (list[str], list[str]),
        (list[Any], list[int]),
        (Sequence[int], list[int]),
        (tuple[int, ...], tuple[int, ...]),
        (Literal["a"], str),
        (Annotated[int, "count"], int),
        (Result[str], str),
        (Stream[str], str),
        (Awaitable[str], str),
        (Iterator[int], list[int]),
        (list[Person], Iterator[Person]),
        (str, Iterator[str]),
        (Person, Stream[Person]),
        (ChatReply, ChatReply),
    ],
)
def test_a_result_that_may_be_the_answer_is_accepted(result_type: Any, answer_type: Any) -> None:
    create(method_returning(answer_type), ScriptedChatModel([]), tools=[tool_returning(result_type)])


@pytest.mark.parametrize(
    ("result_type", "answer_type", "result_name", "answer_name"),
    [
        (int, str, "int", "str"),
        (None, str, "None", "str"),
        (str, Person, "str", "Person"),
        (int | None, str, "int | None", "str"),
        (list[int], list[str], "list[int]", "list[str]"),
        (dict[str, int], dict[str, Person], "dict[str, int]", "dict[str, Person]"),
        (Person, Iterator[Person], "Person", "list[Person]"),
        (Iterator[str], str, "list[str]", "str"),
        (Result[int], str, "int", "str"),
        (Stream[Person], Result[str], "Person", "str"),
        (str, ChatReply, "str", "ChatReply"),
        (str, AiMessage, "str", "AiMessage"),
    ],
)
def test_a_result_that_cannot_be_the_answer_is_refused(
    result_type: Any, answer_type: Any, result_name: str, answer_name: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(method_returning(answer_type), ScriptedChatModel([]), tools=[tool_returning(result_type)])
    assert str(caught.value) == (
        f"Service.ask: the tool give gives the answer, but its result is of type {result_name} and the "
        f"method returns {answer_name}; make them equal, or choose the tools of the method with "
        "@options(tools=…)"
    )


def test_the_tools_of_each_method_are_compared_with_its_own_type() -> None:
    now = tool_returning(str)

    class Clock(Protocol):
        def say(self, text: str) -> str: ...

        @options(tools=[])
        def hour(self, text: str) -> int: ...

    create(Clock, ScriptedChatModel([]), tools=[now])


def test_the_text_of_an_iterator_of_another_service_may_be_the_answer() -> None:
    class Writer(Protocol):
        def write(self, text: str) -> Iterator[str]: ...

        def awrite(self, text: str) -> AsyncIterator[str]: ...

    class Editor(Protocol):
        async def edit(self, text: str) -> str: ...

    writer = create(Writer, ScriptedChatModel([]))
    tools = [tool(return_behavior="immediate")(method) for method in (writer.write, writer.awrite)]
    create(Editor, ScriptedChatModel([]), tools=tools)
