"""Tools whose result is the answer."""

from __future__ import annotations

from typing import Any

import pytest
from tool_calling import (
    KINDS,
    NATIVE,
    TOOLS,
    People,
    Person,
    Unsafe,
    asks,
    calls,
    every_kind,
    people,
    provider,
)

from aiservices import (
    Capabilities,
    Strategy,
    create,
)
from aiservices.models.errors import ToolError
from aiservices.tools.tool import tool


def immediate(behavior: str, name: str, result: Any) -> Any:
    @tool(name=name, return_behavior=behavior)
    def give() -> Any:
        return result

    return give


def fetch() -> str:
    return "fetched"


@every_kind
def test_an_immediate_result_is_the_answer(kind: str) -> None:
    model = provider(calls(("now", "{}")))
    assert KINDS[kind](asks(model, immediate("immediate", "now", "It is so."))) == "It is so."
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("called", "ends"),
    [
        (["now"], True),
        (["last"], True),
        (["now", "last"], True),
        (["last", "now"], True),
        (["fetch", "now"], False),
        (["now", "fetch"], False),
        (["fetch", "last"], True),
        (["last", "fetch"], False),
        (["now", "nope"], False),
        (["fail", "last"], False),
    ],
)
def test_when_a_result_is_the_answer(called: list[str], ends: bool) -> None:
    def fail() -> None:
        raise Unsafe

    tools = [
        immediate("immediate", "now", "now"),
        immediate("immediate_if_last", "last", "last"),
        fetch,
        fail,
    ]
    model = provider(calls(*[(name, "{}") for name in called]), "from the model")
    result = asks(model, *tools).told("x")
    assert (result.value, len(model.requests)) == ((called[-1], 1) if ends else ("from the model", 2))
    assert [run.name for run in result.tool_runs] == called


def test_the_reply_beside_an_immediate_result_is_the_one_that_called() -> None:
    reply = calls(("now", "{}"), text="I look.")
    result = asks(provider(reply), immediate("immediate", "now", "x")).told("x")
    assert (result.reply, result.value, result.strategy) == (reply, "x", Strategy.TEXT)


def test_an_immediate_result_is_of_the_type_of_the_method() -> None:
    model = provider(calls(("now", "{}")), calls(("now", "{}")), capabilities=NATIVE)
    right = create(People, model, tools=[immediate("immediate", "now", Person("Ann", 31))])
    assert right.find("x") == Person("Ann", 31)
    wrong = create(People, model, tools=[immediate("immediate", "now", "Ann")])
    with pytest.raises(ToolError) as caught:
        wrong.find("x")
    assert str(caught.value) == "People.find: the result of now is not of type Person: 'Ann'"


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_immediate_items_are_handed_over(capabilities: Capabilities) -> None:
    both = [Person("Ann", 31), Person("Bob", 5)]
    model = provider(calls(("now", "{}")), capabilities=capabilities)
    assert list(people(model, immediate("immediate", "now", both)).each("x")) == both


def test_an_immediate_tool_that_gives_nothing_has_no_answer() -> None:
    with pytest.raises(ToolError) as caught:
        asks(provider(calls(("now", "{}"))), immediate("immediate", "now", None)).ask("x")
    assert str(caught.value) == "Asks.ask: the result of now is not of type str: None"
