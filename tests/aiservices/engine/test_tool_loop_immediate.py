"""Tools whose result is the answer."""

from __future__ import annotations

from typing import Any

import pytest
from tool_calling import (
    CALL_KINDS,
    NATIVE,
    TOOLS,
    Person,
    PersonService,
    Unsafe,
    every_call_kind,
    person_service,
    strict_provider,
    text_service,
    tool_calls_reply,
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


@every_call_kind
def test_an_immediate_result_is_the_answer(kind: str) -> None:
    model = strict_provider(tool_calls_reply(("now", "{}")))
    assert CALL_KINDS[kind](text_service(model, immediate("immediate", "now", "It is so."))) == "It is so."
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
    model = strict_provider(tool_calls_reply(*[(name, "{}") for name in called]), "from the model")
    result = text_service(model, *tools).told("x")
    assert (result.value, len(model.requests)) == ((called[-1], 1) if ends else ("from the model", 2))
    assert [run.name for run in result.tool_runs] == called


def test_the_reply_next_to_an_immediate_result_is_the_one_that_called() -> None:
    reply = tool_calls_reply(("now", "{}"), text="I look.")
    result = text_service(strict_provider(reply), immediate("immediate", "now", "x")).told("x")
    assert (result.reply, result.value, result.strategy) == (reply, "x", Strategy.TEXT)


def test_an_immediate_result_is_of_the_type_of_the_method() -> None:
    model = strict_provider(
        tool_calls_reply(("now", "{}")), tool_calls_reply(("now", "{}")), capabilities=NATIVE
    )
    right = create(PersonService, model, tools=[immediate("immediate", "now", Person("Ann", 31))])
    assert right.find("x") == Person("Ann", 31)
    wrong = create(PersonService, model, tools=[immediate("immediate", "now", "Ann")])
    with pytest.raises(ToolError) as caught:
        wrong.find("x")
    assert str(caught.value) == "PersonService.find: the result of now is not of type Person: 'Ann'"


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_immediate_items_are_yielded(capabilities: Capabilities) -> None:
    both = [Person("Ann", 31), Person("Bob", 5)]
    model = strict_provider(tool_calls_reply(("now", "{}")), capabilities=capabilities)
    assert list(person_service(model, immediate("immediate", "now", both)).each("x")) == both


def test_an_immediate_tool_that_gives_nothing_has_no_answer() -> None:
    with pytest.raises(ToolError) as caught:
        text_service(
            strict_provider(tool_calls_reply(("now", "{}"))), immediate("immediate", "now", None)
        ).ask("x")
    assert str(caught.value) == "TextService.ask: the result of now is not of type str: None"
