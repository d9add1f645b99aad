"""Tests of SharedBudget, which limits and sums several calls."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import pytest

from aiservices import (
    AiMessage,
    Budget,
    BudgetExceededError,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Price,
    ScriptedChatModel,
    SharedBudget,
    Usage,
    create,
)

PRICES = {"m": Price(1_000_000, 2_000_000)}  # one per input token, two per output token


class Asks(Protocol):
    def ask(self, text: str) -> str: ...

    async def aask(self, text: str) -> str: ...


def reply(input_tokens: int = 10, output_tokens: int = 1) -> ChatReply:
    return ChatReply(AiMessage("Yes."), usage=Usage(input_tokens, output_tokens), model="m")


def asks(*replies: ChatReply | str) -> tuple[Asks, ScriptedChatModel]:
    model = ScriptedChatModel([*replies], name="m")
    return create(Asks, model), model


def test_the_calls_of_a_block_are_summed() -> None:
    service, _ = asks(*[reply()] * 3)
    service.ask("before")
    with SharedBudget(prices=PRICES) as spent:
        service.ask("one")
        service.ask("two")
    assert (spent.usage, spent.cost, spent.requests) == (Usage(20, 2), 24.0, 2)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"tokens": 20}, "shared budget exceeded: 22 of 20 tokens used; raise SharedBudget(tokens=…)"),
        (
            {"money": 15.0, "prices": PRICES},
            "shared budget exceeded: 24 of 15 spent; raise SharedBudget(money=…)",
        ),
    ],
)
def test_a_call_after_the_limit_sends_nothing(limits: dict[str, object], message: str) -> None:
    service, model = asks(*[reply()] * 3)
    with SharedBudget(**limits) as spent:  # type: ignore[arg-type]
        service.ask("one")
        service.ask("two")
        with pytest.raises(BudgetExceededError) as caught:
            service.ask("three")
    assert str(caught.value) == message
    assert caught.value.limit == next(iter(limits))
    assert (len(model.requests), spent.requests) == (2, 2)


def test_the_limits_hold_for_tasks_and_for_threads_of_asyncio() -> None:
    service, model = asks(*[reply()] * 4)

    async def run() -> SharedBudget:
        with SharedBudget() as spent:
            await asyncio.gather(
                service.aask("one"), service.aask("two"), asyncio.to_thread(service.ask, "x")
            )
        await service.aask("after")
        return spent

    spent = asyncio.run(run())
    assert (spent.requests, spent.usage.total_tokens, len(model.requests)) == (3, 33, 4)


def test_blocks_may_be_nested() -> None:
    service, _ = asks(*[reply()] * 3)
    with SharedBudget() as outer:
        service.ask("one")
        with SharedBudget(tokens=1) as inner:
            service.ask("two")
            with pytest.raises(BudgetExceededError):
                service.ask("three")
    assert (outer.requests, inner.requests) == (2, 1)


def test_the_price_of_the_call_counts_where_the_block_has_none() -> None:
    service = create(Asks, ScriptedChatModel([reply()], name="m"), budget=Budget(prices=PRICES))
    with SharedBudget(money=100.0, prices={"other": Price(1, 1)}) as spent:
        service.ask("one")
    assert spent.cost == 12.0


def test_tokens_are_estimated_where_the_provider_reports_none() -> None:
    service, _ = asks(ChatReply(AiMessage("four")), "more")
    with SharedBudget(tokens=1) as spent:
        service.ask("x" * 40)
        with pytest.raises(BudgetExceededError):
            service.ask("y")
    assert spent.usage == Usage(10, 1)


def test_the_time_of_a_block_ends_a_call() -> None:
    class Slow(ScriptedChatModel):
        def complete(self, request: ChatRequest) -> ChatReply:
            time.sleep(0.3)
            return reply()

        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(30)
            return reply()

    service = create(Asks, Slow([]))
    with (
        SharedBudget(seconds=0.2),
        pytest.raises(BudgetExceededError, match=r"shared budget exceeded: 0\.2 seconds passed"),
    ):
        asyncio.run(service.aask("one"))
    with SharedBudget(seconds=0.2), pytest.raises(BudgetExceededError, match="shared budget exceeded"):
        service.ask("one")  # a blocking model is checked when it returns


def test_a_block_in_use_cannot_be_entered_again() -> None:
    shared = SharedBudget()
    with shared, pytest.raises(RuntimeError, match="create one for each"), shared:
        pass
    with shared:  # after its end it may be used again
        pass


def test_wrong_limits_are_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="money is limited, but prices is empty"):
        SharedBudget(money=1.0)
    with pytest.raises(DefinitionError, match="tokens is 0; it must be greater than 0"):
        SharedBudget(tokens=0)
