"""Blocking methods in async code, and async methods in blocking code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Protocol

import pytest
from loopback import MAX_WAIT
from tool_calling import tool_calls_reply

from aiservices import (
    AsyncStream,
    ChatReply,
    ChatRequest,
    DefinitionError,
    MemoryId,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    acall,
    call,
    create,
    options,
)
from aiservices.guardrails import OutputGuardrails, passed
from aiservices.interceptors import Invocation
from aiservices.memory import ChatMemory


@dataclass
class Ticket:
    team: str


TICKET = '{"team": "billing"}'
TICKETS = '{"value": [{"team": "a"}, {"team": "b"}]}'


class Desk(Protocol):
    def ticket(self, text: str) -> Ticket: ...

    def told(self, text: str) -> Result[Ticket]: ...

    def growing(self, text: str) -> Stream[Ticket]: ...

    def words(self, text: str) -> Iterator[str]: ...

    def each(self, text: str) -> Iterator[Ticket]: ...


class AsyncDesk(Protocol):
    async def ticket(self, text: str) -> Ticket: ...

    async def told(self, text: str) -> Result[Ticket]: ...

    def growing(self, text: str) -> AsyncStream[Ticket]: ...

    def words(self, text: str) -> AsyncIterator[str]: ...

    def each(self, text: str) -> AsyncIterator[Ticket]: ...


REPLIES = [TICKET, TICKET, TICKET, "Hello there.", TICKETS]
EXPECTED = [
    Ticket("billing"),
    Ticket("billing"),
    Ticket("billing"),
    "Hello there.",
    [Ticket("a"), Ticket("b")],
]


@pytest.mark.parametrize("interface", [Desk, AsyncDesk])
def test_all_methods_can_be_awaited(interface: Any) -> None:
    async def main() -> list[object]:
        desk = create(interface, ScriptedChatModel(REPLIES))
        return [
            await acall(desk.ticket, "x"),
            (await acall(desk.told, text="x")).value,
            (await acall(desk.growing, "x").result()).value,
            "".join([piece async for piece in acall(desk.words, "x")]),
            [item async for item in acall(desk.each, "x")],
        ]

    assert asyncio.run(main()) == EXPECTED


@pytest.mark.parametrize("interface", [Desk, AsyncDesk])
def test_all_methods_can_be_called_by_blocking_code(interface: Any) -> None:
    desk = create(interface, ScriptedChatModel(REPLIES))
    assert [
        call(desk.ticket, "x"),
        call(desk.told, text="x").value,
        call(desk.growing, "x").result().value,
        "".join(call(desk.words, "x")),
        list(call(desk.each, "x")),
    ] == EXPECTED


def test_a_call_does_not_block_the_event_loop() -> None:
    all_wait = asyncio.Barrier(5)  # never passed if one call waits for another

    class Slow(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await all_wait.wait()
            return await super().acomplete(request)

    async def main() -> None:
        desk = create(Desk, Slow([TICKET] * 5))
        async with asyncio.timeout(MAX_WAIT):
            await asyncio.gather(*[acall(desk.ticket, "x") for _ in range(5)])

    asyncio.run(main())


def test_the_settings_of_the_method_apply() -> None:
    memory = ChatMemory()

    class Chat(Protocol):
        @options(interceptors=[memory], retry=None)
        def ask(self, text: str, who: Annotated[str, MemoryId]) -> int: ...

    chat = create(Chat, ScriptedChatModel(['{"value": 3}', "x"]))
    assert asyncio.run(acall(chat.ask, "a", "ann")) == 3
    assert [message.text for message in memory.messages("ann")] == ["a", '{"value": 3}']
    with pytest.raises(ServiceOutputError) as caught:
        asyncio.run(acall(chat.ask, "a", "ann"))
    assert len(caught.value.attempts) == 1


def test_blocking_tools_run_in_async_code() -> None:
    days: list[str] = []

    def book(day: str) -> None:
        days.append(day)

    model = ScriptedChatModel([tool_calls_reply(("book", '{"day": "Monday"}')), TICKET])
    assert asyncio.run(acall(create(Desk, model, tools=[book]).ticket, "x")) == Ticket("billing")
    assert days == ["Monday"]


async def book(day: str) -> str:
    """Book a day."""
    return "booked"


async def approve(text: str, invocation: Invocation) -> Any:
    return passed()


async def listen(event: object) -> None: ...


def around(invocation: Any, proceed: Any) -> Any:
    return (yield from proceed(invocation))


around.async_parts = ("the approval of tools",)  # type: ignore[attr-defined]


def test_what_must_be_awaited_is_named() -> None:
    desk = create(
        AsyncDesk,
        ScriptedChatModel([]),
        tools=[book],
        interceptors=[OutputGuardrails(approve)],
        listeners=[listen],
        tool_interceptors=[around],
    )
    with pytest.raises(DefinitionError) as caught:
        call(desk.ticket, "x")
    message = "is async, so blocking code cannot call the method; await it"
    assert [str(problem) for problem in caught.value.problems] == [
        f"AsyncDesk.ticket: the approval of tools {message}",
        f"AsyncDesk.ticket: the guard approve {message}",
        f"AsyncDesk.ticket: the listener listen {message}",
    ]


def test_wrong_arguments_are_reported_at_the_call() -> None:
    desk = create(Desk, ScriptedChatModel([]))
    with pytest.raises(TypeError) as caught:
        acall(desk.ticket, "x", "y")  # type: ignore[call-arg]
    assert str(caught.value) == "Desk.ticket: too many positional arguments"


def test_other_functions_are_refused() -> None:
    def plain(text: str) -> str:
        return text

    with pytest.raises(TypeError, match="is not a method of a service made by create"):
        call(plain, "x")


def test_a_decorated_method_is_refused() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    method = logged(create(Desk, ScriptedChatModel([])).ticket)
    with pytest.raises(TypeError) as caught:
        acall(method, "x")
    assert str(caught.value).endswith(
        "Desk.ticket has a decorator, which would be skipped; call it, or pass the method itself"
    )
