"""Routes and clients of methods that return None."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import httpx2
import pytest

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatReply,
    FinishReason,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    create,
    resume,
    tool,
)
from aiservices.integrations.fastapi import ApprovalSettings, app, client

CALL = ChatReply(AiMessage("", (ToolCall("c1", "book", '{"day": "Monday"}'),)), FinishReason.TOOL_CALLS)


class Booker(Protocol):
    def book(self, text: str) -> None: ...

    async def abook(self, text: str) -> None: ...

    def told(self, text: str) -> Result[None]: ...

    def stream(self, text: str) -> Stream[None]: ...


def served_booker(days: list[str], *, needs_approval: bool = False) -> Any:
    @tool(needs_approval=needs_approval)
    def book(day: str) -> str:
        days.append(day)
        return "booked"

    booker = create(Booker, ScriptedChatModel([CALL, "Done."] * 4), tools=[book])
    return app(booker, approvals=ApprovalSettings() if needs_approval else None)


def test_the_response_has_no_body(serve: Callable[[Any], str]) -> None:
    days: list[str] = []
    url = serve(served_booker(days))
    response = httpx2.post(f"{url}/book", json={"text": "x"})
    assert (response.status_code, response.content, days) == (204, b"", ["Monday"])
    assert response.headers["cache-control"] == "no-store"
    assert "content-type" not in response.headers
    documented = httpx2.get(f"{url}/openapi.json").json()["paths"]["/book"]["post"]["responses"]
    assert [status for status in documented if status < "300"] == ["204"]
    assert "content" not in documented["204"]


def test_a_remote_client_returns_none(serve: Callable[[Any], str]) -> None:
    days: list[str] = []
    booker: Any = client(Booker, serve(served_booker(days)))
    assert booker.book("x") is None
    assert asyncio.run(booker.abook("x")) is None
    results = [booker.told("x"), booker.stream("x").result()]
    assert [(one.value, one.text, one.tool_runs[0].name) for one in results] == [(None, "Done.", "book")] * 2
    assert days == ["Monday"] * 4


def test_a_resumed_call_has_no_body_either(serve: Callable[[Any], str]) -> None:
    days: list[str] = []
    booker: Any = client(Booker, serve(served_booker(days, needs_approval=True)))
    with pytest.raises(ApprovalRequiredError) as caught:
        booker.book("x")
    assert resume(booker.book, caught.value.state, True) is None
    assert days == ["Monday"]
