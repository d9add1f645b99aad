"""The limits of tool rounds and tool calls, and how the budget counts rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tool_calling import (
    ADD_CALL,
    CALL_KINDS,
    TOOLS,
    TextService,
    add,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    Budget,
    BudgetExceededError,
    ChatReply,
    ChatRequest,
    DefinitionError,
    ModelServerError,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
    resume,
)
from aiservices.models.errors import ToolLimitError
from aiservices.tools.tool import tool
from aiservices.tools.toolbox import ToolLimits


def endless(request: ChatRequest) -> ChatReply:
    return tool_calls_reply(("add", '{"a": 1, "b": 1}', f"c{len(request.messages)}"))


@every_call_kind
def test_rounds_have_a_limit(kind: str) -> None:
    model = ScriptedChatModel(endless, capabilities=TOOLS)
    with pytest.raises(ToolLimitError) as caught:
        CALL_KINDS[kind](text_service(model, add, tool_limits=ToolLimits(max_rounds=3)))
    said = "the model called tools beyond the limit of 3 rounds; raise ToolLimits"
    assert str(caught.value).split(": ", 1)[1] == said
    assert caught.value.call == ToolCall("c7", "add", '{"a": 1, "b": 1}')
    assert (len(caught.value.attempts), len(model.requests)) == (4, 4)


def test_calls_have_a_limit_and_none_beyond_it_runs() -> None:
    ran: list[int] = []

    def note(number: int) -> None:
        ran.append(number)

    numbers = [("note", f'{{"number": {number}}}') for number in range(4)]
    model = strict_provider(tool_calls_reply(*numbers[:2]), tool_calls_reply(*numbers[2:]), "Done.")
    with pytest.raises(ToolLimitError) as caught:
        text_service(model, note, tool_limits=ToolLimits(max_calls=3)).ask("x")
    said = "TextService.ask: the model called tools beyond the limit of 3 calls; raise ToolLimits"
    assert (str(caught.value), sorted(ran)) == (said, [0, 1])


def test_rounds_of_tools_do_not_count_as_attempts() -> None:
    model = ScriptedChatModel(
        lambda request: "Done." if len(request.messages) > 12 else endless(request), capabilities=TOOLS
    )
    service = create(TextService, model, tools=[add], budget=Budget(max_attempts=1))
    result = service.told("x")
    assert (result.value, len(result.attempts)) == ("Done.", 7)


def test_a_budget_of_tokens_applies_to_all_rounds() -> None:
    model = strict_provider(*["a b c d"] * 3, tool_calls_reply(ADD_CALL))

    def worded(request: ChatRequest) -> ChatReply:
        reply = model.complete(request)
        return replace(reply, message=tool_calls_reply(ADD_CALL).message)

    service = create(
        TextService, ScriptedChatModel(worded, capabilities=TOOLS), tools=[add], budget=Budget(tokens=8)
    )
    with pytest.raises(BudgetExceededError) as caught:
        service.ask("x")
    assert (caught.value.limit, len(caught.value.attempts)) == ("tokens", 2)


def test_a_failed_request_is_repeated_with_the_results_of_the_tools() -> None:
    down = ModelServerError("down", status=500, retryable=True)
    model = strict_provider(tool_calls_reply(ADD_CALL), down, "3")
    assert text_service(model, add).ask("x") == "3"
    assert messages_to(model, 1) == messages_to(model, 2)
    assert messages_to(model, 2)[-1] == ToolMessage("c1", "add", "3")


def test_failures_after_tools_have_the_budget_of_a_call() -> None:
    down = ModelServerError("down", status=500, retryable=True)
    model = strict_provider(down, tool_calls_reply(ADD_CALL), down, down, "3")
    with pytest.raises(ModelServerError) as caught:
        text_service(model, add).ask("x")
    assert [attempt.reply is None for attempt in caught.value.attempts] == [True, False, True, True]


@every_call_kind
def test_a_tool_has_a_limit_of_its_own(kind: str) -> None:
    ran: list[int] = []

    @tool(max_calls=2)
    def note(number: int) -> str:
        """Notes."""
        ran.append(number)
        return "noted"

    numbers = [("note", f'{{"number": {number}}}', f"c{number}") for number in range(4)]
    model = strict_provider(tool_calls_reply(numbers[0]), tool_calls_reply(*numbers[1:], ADD_CALL), "Done.")
    assert CALL_KINDS[kind](text_service(model, note, add)).endswith("Done.")
    refused = "The limit of 2 calls of note is reached. Continue without it."
    texts = [message.text for message in messages_to(model) if isinstance(message, ToolMessage)]
    assert (texts, ran) == (["noted", "noted", refused, refused, "3"], [0, 1])


def test_the_run_beyond_the_limit_of_a_tool_is_in_the_result() -> None:
    @tool(max_calls=1)
    def note() -> str:
        """Notes."""
        return "noted"

    model = strict_provider(tool_calls_reply(("note", "{}")), tool_calls_reply(("note", "{}", "c2")), "Done.")
    first, second = text_service(model, note).told("x").tool_runs
    assert (first.error, second.arguments) == (None, None)
    assert isinstance(second.error, ToolLimitError)
    assert second.text == "The limit of 1 call of note is reached. Continue without it."


def test_each_call_of_a_method_may_use_a_tool_as_often() -> None:
    @tool(max_calls=1)
    def note() -> str:
        """Notes."""
        return "noted"

    model = strict_provider(*[tool_calls_reply(("note", "{}")), "Done."] * 2)
    service = text_service(model, note)
    assert [service.told("x").tool_runs[0].text for _ in range(2)] == ["noted", "noted"]


def test_calls_before_an_approval_count_and_a_person_is_not_asked_beyond_the_limit() -> None:
    paid: list[int] = []

    @tool(max_calls=1, needs_approval=True)
    def pay() -> str:
        """Pays."""
        paid.append(1)
        return "paid"

    call = tool_calls_reply(("pay", "{}"), ("pay", "{}", "c2"))
    model = strict_provider(call, tool_calls_reply(("pay", "{}", "c3")), "Done.")
    service = text_service(model, pay)
    with pytest.raises(ApprovalRequiredError) as waiting:
        service.ask("x")
    assert waiting.value.state.pending == ("c1",)
    assert resume(service.ask, waiting.value.state, True) == "Done."
    assert paid == [1]


@pytest.mark.parametrize("calls", [2, 3])
def test_a_reply_has_a_limit_of_calls(calls: int) -> None:
    ran: list[int] = []

    def note() -> None:
        ran.append(1)

    model = strict_provider(tool_calls_reply(*[("note", "{}")] * calls), "Done.")
    service = text_service(model, note, tool_limits=ToolLimits(max_calls_per_reply=2))
    if calls == 2:
        assert service.ask("x") == "Done."
        return
    with pytest.raises(ToolLimitError) as caught:
        service.ask("x")
    message = (
        "TextService.ask: the model called tools beyond the limit of 2 calls in one reply; raise ToolLimits"
    )
    assert (str(caught.value), ran) == (message, [])


@pytest.mark.parametrize("limit", [0, -1])
def test_wrong_limits_of_a_tool_are_definition_errors(limit: int) -> None:
    note = tool(max_calls=limit)(lambda: None)
    with pytest.raises(DefinitionError) as caught:
        text_service(strict_provider("x"), note)
    assert f"max_calls of the tool <lambda> is {limit!r}; it must be at least 1" in str(caught.value)
    with pytest.raises(DefinitionError, match="max_calls_per_reply is 0; it must be at least 1"):
        ToolLimits(max_calls_per_reply=0)
