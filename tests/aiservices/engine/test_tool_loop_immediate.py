"""Tools whose result is the answer."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from tool_calling import (
    CALL_KINDS,
    NATIVE,
    TOOLS,
    Person,
    PersonService,
    TextService,
    Unsafe,
    every_call_kind,
    person_service,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    ScriptedChatModel,
    Strategy,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory
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


@every_call_kind
@pytest.mark.parametrize(
    "called", [["log", "one", "number"], ["number", "one", "log"], ["one", "one", "same"]]
)
def test_the_order_of_immediate_tools_does_not_matter(kind: str, called: list[str]) -> None:
    tools = [
        immediate("immediate", "log", None),
        immediate("immediate", "number", 1),
        immediate("immediate", "one", "1"),
        immediate("immediate_if_last", "same", "1"),
    ]
    model = strict_provider(tool_calls_reply(*[(name, "{}") for name in called]))
    assert CALL_KINDS[kind](text_service(model, *tools)) == "1"


@every_call_kind
@pytest.mark.parametrize(
    ("called", "names"),
    [
        (["one", "two"], "one and two"),
        (["two", "log", "one"], "two and one"),
        (["one", "last"], "one and last"),
    ],
)
def test_different_results_of_immediate_tools_are_an_error(kind: str, called: list[str], names: str) -> None:
    tools = [
        immediate("immediate", "log", None),
        immediate("immediate", "one", "1"),
        immediate("immediate", "two", "2"),
        immediate("immediate_if_last", "last", "3"),
    ]
    model = strict_provider(tool_calls_reply(*[(name, "{}") for name in called]))
    with pytest.raises(ToolError) as caught:
        CALL_KINDS[kind](text_service(model, *tools))
    assert str(caught.value).split(": ", 1)[1] == (
        f"the results of {names} differ, and each could be the answer; only one tool that is called in a "
        "round may be immediate"
    )


def test_memory_stores_the_result_that_is_the_answer() -> None:
    memory = ChatMemory()
    tools = [immediate("immediate", "one", "1"), immediate("immediate", "log", None)]
    reply = tool_calls_reply(("one", "{}"), ("log", "{}"))
    service = create(TextService, strict_provider(reply), tools=tools, interceptors=[memory])
    assert service.ask("x") == "1"
    assert memory.messages() == (
        UserMessage("x"),
        reply.message,
        ToolMessage("c1", "one", "1"),
        ToolMessage("c2", "log", "null"),
        AiMessage("1"),
    )


def test_none_is_the_answer_if_the_return_type_allows_it() -> None:
    class Finder(Protocol):
        def find(self, text: str) -> str | None: ...

    model = strict_provider(tool_calls_reply(("log", "{}")))
    assert create(Finder, model, tools=[immediate("immediate", "log", None)]).find("x") is None


def test_the_result_of_another_service_is_the_answer_without_its_details() -> None:
    inner = text_service(ScriptedChatModel(["fine"] * 6))
    for method in (inner.told, inner.stream, inner.texts):
        model = strict_provider(tool_calls_reply((method.__name__, '{"text": "x"}')))
        result = text_service(model, tool(return_behavior="immediate")(method)).told("x")
        assert result.value == "fine"


def test_a_method_that_returns_the_reply_takes_no_other_result() -> None:
    class Replies(Protocol):
        def ask(self, text: str) -> ChatReply: ...

    model = strict_provider(tool_calls_reply(("now", "{}")))
    with pytest.raises(ToolError) as caught:
        create(Replies, model, tools=[immediate("immediate", "now", "x")]).ask("x")
    assert str(caught.value) == (
        "Replies.ask: a tool must return the answer, of type ChatReply; the result of now is 'x'"
    )


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
    assert str(caught.value) == (
        "PersonService.find: a tool must return the answer, of type Person; the result of now is 'Ann'"
    )


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
    assert str(caught.value) == (
        "TextService.ask: a tool must return the answer, of type str; the result of now is None"
    )
