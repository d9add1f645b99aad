"""Async functions of users in blocking calls: tools, their rules and undo functions, and system messages."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import pytest
from tool_calling import tool_calls_reply

from aiservices import (
    AsyncStream,
    Budget,
    BudgetExceededError,
    Result,
    ScriptedChatModel,
    Stream,
    ToolLimits,
    create,
    preview,
    user_message,
)
from aiservices.engine.background_loop import run_in_background

TENANT: ContextVar[str] = ContextVar("tenant", default="none")
CALL = tool_calls_reply(("look", '{"place": "Rome"}'))


class Asks(Protocol):
    def ask(self, text: str) -> str: ...


class Kinds(Protocol):
    @user_message("Say {{text}}.")
    def value(self, text: str) -> str: ...

    @user_message("Say {{text}}.")
    async def avalue(self, text: str) -> str: ...

    @user_message("Say {{text}}.")
    def result(self, text: str) -> Result[str]: ...

    @user_message("Say {{text}}.")
    def stream(self, text: str) -> Stream[str]: ...

    @user_message("Say {{text}}.")
    def astream(self, text: str) -> AsyncStream[str]: ...

    @user_message("Say {{text}}.")
    def words(self, text: str) -> Iterator[str]: ...

    @user_message("Say {{text}}.")
    def awords(self, text: str) -> AsyncIterator[str]: ...


async def awaited(stream: Any) -> None:
    async for _ in stream:
        pass


# Each makes one call of a method of ``Kinds``.
CALLS: list[Callable[[Kinds], object]] = [
    lambda kinds: kinds.value("a"),
    lambda kinds: asyncio.run(kinds.avalue("a")),  # type: ignore[arg-type]
    lambda kinds: kinds.result("a"),
    lambda kinds: kinds.stream("a").result(),
    lambda kinds: asyncio.run(awaited(kinds.astream("a"))),
    lambda kinds: list(kinds.words("a")),
    lambda kinds: asyncio.run(awaited(kinds.awords("a"))),
]


def test_async_tools_run_in_each_kind_of_call_and_see_the_context_of_the_caller() -> None:
    async def look(place: str) -> str:
        await asyncio.sleep(0)
        return f"{place} for {TENANT.get()}"

    token = TENANT.set("acme")
    for call in CALLS:
        model = ScriptedChatModel([CALL, "Done."])
        call(create(Kinds, model, tools=[look]))
        assert model.requests[-1].messages[-1].text == "Rome for acme"
    TENANT.reset(token)


def test_an_async_function_makes_the_system_message_of_each_kind_of_call() -> None:
    async def rules(text: str) -> str | None:
        await asyncio.sleep(0)
        return f"Rules for {text}, {TENANT.get()}." if text == "a" else None

    token = TENANT.set("acme")
    model = ScriptedChatModel(["x"] * len(CALLS))
    kinds = create(Kinds, model, system_message=rules)
    for call in CALLS:
        call(kinds)
    for request in model.requests:
        assert [message.text for message in request.messages] == ["Rules for a, acme.", "Say a."]
    assert [message.text for message in preview(kinds.avalue, "a").messages] == [
        "Rules for a, acme.",
        "Say a.",
    ]
    assert [message.text for message in preview(kinds.value, "b").messages] == ["Say b."]
    TENANT.reset(token)


def test_a_wrong_system_message_of_an_async_function_is_an_error() -> None:
    async def rules() -> int:
        return 5

    wrong: Any = rules
    with pytest.raises(TypeError, match="the function for the system message returned int"):
        create(Kinds, ScriptedChatModel([]), system_message=wrong).value("a")


def test_the_budget_and_the_timeout_of_tools_end_async_functions_in_blocking_calls() -> None:
    cancelled = []

    async def look(place: str) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(place)
            raise
        return place

    async def rules() -> str:
        await asyncio.sleep(30)
        return ""

    started = time.monotonic()
    model = ScriptedChatModel([CALL, "Done."])
    assert create(Asks, model, tools=[look], tool_limits=ToolLimits(timeout=0.05)).ask("x") == "Done."
    with pytest.raises(BudgetExceededError):
        create(Asks, ScriptedChatModel([CALL]), tools=[look], budget=Budget(seconds=0.05)).ask("x")
    with pytest.raises(BudgetExceededError):
        create(Asks, ScriptedChatModel([]), system_message=rules, budget=Budget(seconds=0.05)).ask("x")
    assert cancelled == ["Rome", "Rome"]
    assert time.monotonic() - started < 10


def test_an_async_tool_may_make_blocking_calls_with_async_tools() -> None:
    async def look(place: str) -> str:
        await asyncio.sleep(0)
        return place

    async def inner(place: str) -> str:
        return create(Asks, ScriptedChatModel([CALL, "seen"]), tools=[look]).ask(place)

    async def middle(place: str) -> str:
        call = tool_calls_reply(("inner", '{"place": "Rome"}'))
        return create(Asks, ScriptedChatModel([call, "told"]), tools=[inner]).ask(place)

    model = ScriptedChatModel([tool_calls_reply(("middle", '{"place": "Rome"}')), "Done."])
    assert create(Asks, model, tools=[middle]).ask("x") == "Done."
    assert model.requests[-1].messages[-1].text == "told"


def test_all_threads_share_one_loop() -> None:
    async def loop() -> int:
        await asyncio.sleep(0.01)
        return id(asyncio.get_running_loop())

    loops: list[int] = []
    threads = [threading.Thread(target=lambda: loops.append(run_in_background(loop()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loops == [run_in_background(loop())] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    async def answer() -> int:
        return 42

    run_in_background(answer())
    child = os.fork()
    if child == 0:
        os._exit(run_in_background(answer()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
