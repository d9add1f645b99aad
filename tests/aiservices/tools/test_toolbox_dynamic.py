"""Tools that appear during a call, and tools that one call brings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    ADD_CALL,
    ANN,
    CALL_KINDS,
    Person,
    aadd,
    add,
    every_call_kind,
    messages_to,
    search,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    Budget,
    Capabilities,
    DefinitionError,
    ReturnBehavior,
    ScriptedChatModel,
    SuspendedCall,
    Tools,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.interceptors import Invocation
from aiservices.structured_model import structured


def offered(model: ScriptedChatModel) -> list[list[str]]:
    """Return the names of the tools that each request offered."""
    return [
        [] if request.tooling is None else [one.name for one in request.tooling.tools]
        for request in model.requests
    ]


class Grows:
    """A provider that returns the next list of tools each time it is called."""

    dynamic = True

    def __init__(self, *rounds: Sequence[Any]) -> None:
        self.rounds = list(rounds)
        self.asked = 0

    def tools(self, invocation: Invocation) -> Sequence[Any]:
        self.asked += 1
        return self.rounds[min(self.asked, len(self.rounds)) - 1]


def named(name: str, text: str) -> Callable[..., str]:
    def work() -> str:
        return text

    return tool(name=name)(work)


# dynamic providers


@every_call_kind
def test_a_dynamic_provider_adds_tools_before_each_request(kind: str) -> None:
    provider = Grows([add], [add, search])
    model = strict_provider(
        tool_calls_reply(ADD_CALL), tool_calls_reply(("search", '{"text": "Ann"}', "c2")), "Done."
    )
    assert CALL_KINDS[kind](text_service(model, provider)) == "Done."
    assert offered(model) == [["add"], ["add", "search"], ["add", "search"]]
    assert messages_to(model)[-1].text == "found Ann"


def test_a_tool_with_a_known_name_stays_what_it_was() -> None:
    provider = Grows([named("work", "old")], [named("work", "new"), add])
    calls = [tool_calls_reply(("work", "{}", f"c{number}")) for number in range(2)]
    model = strict_provider(*calls, "Done.")
    text_service(model, provider).ask("x")
    assert messages_to(model)[-1].text == "old"


def test_a_tool_that_is_not_returned_any_more_stays_available() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), tool_calls_reply((*ADD_CALL, "c2")), "Done.")
    text_service(model, Grows([add], [])).ask("x")
    assert offered(model) == [["add"]] * 3
    assert messages_to(model)[-1].text == "3"


def test_a_provider_without_dynamic_is_asked_once_per_call_also_for_a_repeated_answer() -> None:
    class Once(Grows):
        dynamic = False

    provider = Once([search])
    model = strict_provider(tool_calls_reply(("search", '{"text": "a"}')), "no person", ANN)

    class Finder(Protocol):
        def find(self, text: str) -> Person: ...

    service = create(Finder, model, tools=[provider], budget=Budget(max_attempts=3, first_wait=0))
    assert service.find("x") == Person("Ann", 31)
    assert (len(model.requests), provider.asked) == (3, 1)


def test_a_later_tool_with_the_name_of_another_ends_the_call() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "Done.")
    with pytest.raises(DefinitionError) as caught:
        text_service(model, add, Grows([], [add])).ask("x")
    message = (
        "TextService.ask: two tools are called add; rename one of them with tool(name=…) or "
        "McpTools(prefix=…)"
    )
    assert (str(caught.value), len(model.requests)) == (message, 1)


def test_an_agent_and_a_structured_model_get_the_tools_that_appear() -> None:
    replies = [tool_calls_reply(ADD_CALL), "Done."]
    model = strict_provider(*replies)
    assert ReActAgent("Ann", "Help.", model, [Grows([add], [search])]).reply("x").content == "Done."
    assert offered(model) == [["add"], ["add", "search"]]
    model = strict_provider(*replies)
    assert structured(model, str, tools=[Grows([add], [search])]).invoke("x") == "Done."
    assert offered(model) == [["add"], ["add", "search"]]


# tools of one call


class Clerk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str, extra: Annotated[Sequence[Any] | None, Tools] = None) -> str: ...

    @user_message("{{text}}")
    async def aask(self, text: str, extra: Annotated[Sequence[Any], Tools] = ()) -> str: ...

    @user_message("{{text}}")
    def count(self, text: str, extra: Annotated[list[Any], Tools]) -> int: ...


def test_a_call_brings_tools_that_only_it_can_use() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "3", "None.")
    clerk = create(Clerk, model, tools=[search])
    assert (clerk.ask("x", [add]), clerk.ask("x")) == ("3", "None.")
    assert offered(model) == [["search", "add"], ["search", "add"], ["search"]]
    assert all("add" not in repr(request.messages[0]) for request in model.requests)


def test_a_call_may_bring_the_only_tools_and_async_ones() -> None:
    model = strict_provider(tool_calls_reply(("aadd", '{"a": 1, "b": 2}')), "3", "None.")
    clerk = create(Clerk, model)
    assert (asyncio.run(clerk.aask("x", [aadd])), clerk.ask("x")) == ("3", "None.")
    assert offered(model) == [["aadd"], ["aadd"], []]


def test_a_call_may_bring_a_provider() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    assert create(Clerk, model).ask("x", [Grows([add], [search])]) == "3"
    assert offered(model) == [["add"], ["add", "search"]]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            [search],
            "Clerk.ask: two tools are called search; rename one of them with tool(name=…) or "
            "McpTools(prefix=…)",
        ),
        (
            [{"name": "x"}],
            "Clerk.ask: a dict describes a tool, but cannot run it; pass Tool.from_schema(DICT, ",
        ),
        ([named("a b", "")], "Clerk.ask: 'a b' is not a valid tool name; use 1 to 64 characters of "),
    ],
)
def test_invalid_tools_of_a_call_are_reported_before_a_request(extra: Any, message: str) -> None:
    model = strict_provider()
    with pytest.raises(DefinitionError) as caught:
        create(Clerk, model, tools=[search]).ask("x", extra)
    assert str(caught.value).startswith(message)
    assert model.requests == []


def test_tools_of_a_call_that_are_not_a_list_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"^Clerk\.ask: extra has the type function; pass a list of tools$"):
        create(Clerk, strict_provider()).ask("x", add)  # type: ignore[arg-type]


def test_an_immediate_tool_of_a_call_must_return_the_type_of_the_method() -> None:
    @tool(return_behavior=ReturnBehavior.IMMEDIATE)
    def text() -> str:
        return "x"

    with pytest.raises(DefinitionError) as caught:
        create(Clerk, strict_provider()).count("x", [text])
    assert str(caught.value).startswith("Clerk.count: the tool text gives the answer, but its result is of ")


def test_create_checks_the_parameter_for_tools() -> None:
    class Wrong(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, extra: Annotated[str, Tools]) -> str: ...

        @user_message("{{text}} {{extra}}")
        def show(self, text: str, extra: Annotated[list[Any], Tools]) -> str: ...

        @user_message("{{text}}")
        def two(self, text: str, a: Annotated[list[Any], Tools], b: Annotated[list[Any], Tools]) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, strict_provider())
    assert [str(problem) for problem in caught.value.problems] == [
        "Wrong.ask: the parameter extra takes tools; annotate it as Annotated[Sequence[Any], Tools]",
        "Wrong.show: the prompt uses {{extra}}, but a Tools parameter is not for the prompt",
        "Wrong.two: the parameters a and b have the same role, Tools",
    ]


def test_a_model_without_tools_cannot_get_them_by_a_parameter() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Clerk, ScriptedChatModel([], capabilities=Capabilities()))
    assert {problem.message for problem in caught.value.problems} == {
        "scripted does not support tools; remove them or use another model"
    }


def test_a_resumed_call_gets_its_tools_by_the_name_of_the_parameter() -> None:
    @tool(needs_approval=True)
    def reserve() -> str:
        return "reserved"

    model = strict_provider(tool_calls_reply(("reserve", "{}")), "Done.")
    clerk = create(Clerk, model)
    with pytest.raises(ApprovalRequiredError) as caught:
        clerk.ask("x", [reserve])
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(clerk.ask, state, True, extra=[reserve]) == "Done."
    assert messages_to(model)[-1].text == "reserved"
