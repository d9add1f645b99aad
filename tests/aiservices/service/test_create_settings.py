"""Settings, return types, templates and interceptors that cannot work are errors that say what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import Field

from aiservices import create, user_message
from aiservices.models.errors import DefinitionError
from aiservices.models.scripted import ScriptedChatModel


class Counter(Protocol):
    @user_message("How many?")
    def count(self) -> int: ...

    @user_message("How many?")
    async def acount(self) -> int: ...


def counter(**settings: Any) -> Counter:
    return create(Counter, ScriptedChatModel(["1"] * 2), **settings)


def error_of(function: Callable[[], object]) -> str:
    with pytest.raises(DefinitionError) as caught:
        function()
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("budget", 3, "budget has the type int; pass a Budget"),
        ("options", {}, "options has the type dict; pass a ChatOptions"),
        ("options", {"temperature": 0}, "options has the type dict; pass a ChatOptions"),
        ("retry", "x", "retry has the type str; pass a Retry"),
        ("tool_limits", None, "tool_limits has the type NoneType; pass a ToolLimits"),
        ("tool_errors", len, "tool_errors has the type builtin_function_or_method; pass a ToolErrors"),
        ("localns", ["x"], "localns has the type list; pass a Mapping"),
        ("system_message", 3, "system_message has the type int; pass a template or a function"),
        ("transform", 3, "transform has the type int; pass a function of (request)"),
        ("parsers", 3, "parsers has the type int; put it into a list"),
        ("tools", "weather", "tools has the type str; put it into a list"),
        (
            "interceptors",
            [3],
            "an item of interceptors has the type int; pass a function of (invocation, proceed)",
        ),
        ("listeners", ["x"], "an item of listeners has the type str; pass a function of (event)"),
        ("parsers", [None], "an item of parsers has the type NoneType; pass functions"),
    ],
)
def test_a_setting_of_a_wrong_type_is_an_error(setting: str, value: object, message: str) -> None:
    assert error_of(lambda: counter(**{setting: value})) == f"Counter: {message}"


def test_all_settings_of_wrong_types_are_reported_at_once() -> None:
    message = error_of(lambda: counter(budget=3, options={}))
    assert "budget has the type int" in message
    assert "options has the type dict" in message


def test_settings_may_be_none_where_they_are_optional() -> None:
    assert counter(options=None, leniency=None, budget=None, retry=None, transform=None).count() == 1


class Nothing(Enum):
    pass


@pytest.mark.parametrize(
    ("output_type", "reason"),
    [
        (Literal[()], "it has no values"),
        (Nothing, "it has no members"),
        (Annotated[int, Field(ge=5, le=1)], "no value can be at least 5 and at most 1"),
        (Annotated[float, Field(gt=1, lt=1)], "no value can be more than 1 and less than 1"),
        (Annotated[str, Field(min_length=3, max_length=2)], "no value can be at least 3 characters and"),
        (Annotated[list[int], Field(min_length=3, max_length=2)], "no value can be at least 3 items and"),
        (dict[list[int], int], "its keys cannot be list[int], which is not hashable"),
        (set[list[int]], "its items cannot be list[int], which is not hashable"),
        (type[int], "no parser reads type[int]"),
        (list[type[int]], "no parser reads type[int] (in list[type[int]])"),
    ],
)
def test_a_type_without_values_is_an_error(output_type: object, reason: str) -> None:
    def ask(self: object) -> object: ...

    ask.__annotations__["return"] = output_type
    asks = type("Asks", (Protocol,), {"ask": user_message("x")(ask), "__module__": __name__})
    message = error_of(lambda: create(asks, ScriptedChatModel(["1"])))
    assert message.startswith("Asks.ask: ")
    assert reason in message


@pytest.mark.parametrize("bound", [1, 5])
def test_bounds_that_allow_one_value_are_accepted(bound: int) -> None:
    class Asks(Protocol):
        @user_message("x")
        def ask(self) -> Annotated[int, Field(ge=1, le=bound)]: ...

    assert create(Asks, ScriptedChatModel(["1"]), localns={"bound": bound}).ask() == 1


def test_an_if_without_an_else_is_an_error_of_the_template() -> None:
    class Letter(Protocol):
        @user_message("One\n{{ 'Dear' if formal }} you")
        def write(self, formal: bool) -> str: ...

    assert error_of(lambda: create(Letter, ScriptedChatModel(["1"]))) == (
        "Letter.write: prompt: the template has an if without an else in line 2; "
        "write {{ text if condition else '' }}"
    )


def returns_nothing(invocation: Any, proceed: Any) -> Iterator[Any]:
    yield from proceed(invocation)


def yields_a_number(invocation: Any, proceed: Any) -> Iterator[Any]:
    yield 5
    return (yield from proceed(invocation))


def is_not_a_generator(invocation: Any, proceed: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("interceptor", "message"),
    [
        (returns_nothing, "an interceptor returned a value of the type NoneType; it must return the answer"),
        (yields_a_number, "an interceptor yielded a value of the type int; it must yield effects"),
        (is_not_a_generator, "the interceptor is_not_a_generator is not a generator function"),
    ],
)
def test_an_interceptor_that_breaks_the_protocol_is_an_error(interceptor: Any, message: str) -> None:
    service = counter(interceptors=[interceptor])
    with pytest.raises((DefinitionError, TypeError), match=message):
        service.count()
    with pytest.raises((DefinitionError, TypeError), match=message):
        asyncio.run(service.acount())
