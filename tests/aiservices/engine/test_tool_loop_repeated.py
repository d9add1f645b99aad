"""Repeated calls of a tool are stopped, and errors say which tools have run."""

from __future__ import annotations

import pytest
from tool_calling import CALL_KINDS, every_call_kind, strict_provider, text_service, tool_calls_reply

from aiservices import AuthenticationError, ScriptedChatModel, ToolLimitError, tool
from aiservices.guardrails import GuardrailError, OutputGuardrails, forbidden
from aiservices.tools.toolbox import ToolLimits


@every_call_kind
def test_a_call_that_is_repeated_is_answered_with_a_hint_and_then_stopped(kind: str) -> None:
    ran: list[str] = []

    @tool
    def look(x: str, y: int = 0) -> str:
        """Looks."""
        ran.append(x)
        return "found"

    calls = [
        '{"x": "a", "y": 1}',
        '{"y":1,"x":"a"}',
        '{"x": "b"}',
        '{"x": "a", "y": 1}',
        '{"x": "a", "y": 1}',
    ]
    model = strict_provider(*[tool_calls_reply(("look", one)) for one in calls], "Done.")
    service = text_service(model, look, tool_limits=ToolLimits(repeated=2))
    with pytest.raises(
        ToolLimitError, match="called look again with the same arguments after 2 times"
    ) as caught:
        CALL_KINDS[kind](service)
    assert ran == ["a", "a", "b"]
    hint = model.requests[-1].messages[-1].text
    assert hint == "You called look with these arguments 2 times before. Use the results, or try another way."
    assert [run.name for run in caught.value.tool_runs] == ["look"] * 4


def test_repeated_calls_have_no_limit_by_default() -> None:
    @tool
    def look() -> str:
        """Looks."""
        return "found"

    model = strict_provider(*[tool_calls_reply(("look", "{}"))] * 9, "Done.")
    assert text_service(model, look).ask("x") == "Done."


@every_call_kind
def test_an_error_has_the_tools_that_ran_before_it(kind: str) -> None:
    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    model = ScriptedChatModel([tool_calls_reply(("pay", "{}")), "a secret"])
    service = text_service(model, pay, interceptors=[OutputGuardrails(forbidden("secret"))])
    with pytest.raises(GuardrailError) as caught:
        CALL_KINDS[kind](service)
    assert [(run.name, run.result) for run in caught.value.tool_runs] == [("pay", "paid")]


def test_an_error_has_the_tools_of_a_round_that_another_tool_ended() -> None:
    @tool
    def pay() -> str:
        """Pays."""
        return "paid"

    @tool
    def ask() -> str:
        """Asks."""
        raise AuthenticationError("wrong key")

    model = strict_provider(tool_calls_reply(("pay", "{}"), ("ask", "{}")), "Done.")
    with pytest.raises(AuthenticationError) as caught:
        text_service(model, pay, ask, tool_limits=ToolLimits(max_concurrency=1)).ask("x")
    assert [run.name for run in caught.value.tool_runs] == ["pay", "ask"]
