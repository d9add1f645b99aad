"""Workers ask one server before each request, so that all of them together keep the limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps

import pytest

from aiservices import Budget, BudgetExceededError, ChatRequest, Limits, Price, SharedBudget, UserMessage
from aiservices.models.errors import ModelTimeoutError, RateLimitError
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RowsError
from aiservices.rows.engines.permissions import PermissionClient, PermissionServer, PermittedChatModel

REQUEST = ChatRequest([UserMessage("Hi")])
USAGE = Usage(100, 20)


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run an async test."""

    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 30))

    return run


class SlowModel(ScriptedChatModel):
    """Counts the requests in flight."""

    def __init__(self, seconds: float = 0.01) -> None:
        super().__init__([])
        self.seconds = seconds
        self.in_flight = self.most = self.sent = 0

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        self.sent += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(self.seconds)
        self.in_flight -= 1
        return ChatReply(AiMessage("Hello"), model="scripted", usage=USAGE)


@asynccontextmanager
async def workers(
    server: PermissionServer, model: ScriptedChatModel, count: int
) -> AsyncIterator[list[PermittedChatModel]]:
    address = await server.start("127.0.0.1")
    loop = asyncio.get_running_loop()
    clients = [PermissionClient(address) for _ in range(count)]
    try:
        yield [PermittedChatModel(model, client, loop) for client in clients]
    finally:
        for client in clients:
            await client.close()
        await server.close()


@in_loop
async def test_workers_share_the_limit_of_requests_at_the_same_time() -> None:
    server, model = PermissionServer(Limits(max_concurrency=3), SharedBudget(), Budget()), SlowModel()
    async with workers(server, model, 2) as models:
        await asyncio.gather(*[one.acomplete(REQUEST) for one in models for _ in range(20)])
    assert model.sent == 40
    assert model.most == 3


@in_loop
async def test_workers_share_the_requests_per_minute() -> None:
    server, model = PermissionServer(Limits(requests_per_minute=6000), SharedBudget(), Budget()), SlowModel(0)
    async with workers(server, model, 4) as models:
        began_at = time.monotonic()
        await asyncio.gather(*[one.acomplete(REQUEST) for one in models for _ in range(25)])
        assert time.monotonic() - began_at > 0.9  # 100 a second


@in_loop
async def test_workers_share_a_budget() -> None:
    spent = SharedBudget(requests=7, prices={"scripted": Price(1, 1)})
    server, model = PermissionServer(Limits(), spent, Budget()), SlowModel()
    async with workers(server, model, 3) as models:
        outcomes = await asyncio.gather(
            *[one.acomplete(REQUEST) for one in models for _ in range(5)], return_exceptions=True
        )
    assert model.sent == 7
    refused = [one for one in outcomes if isinstance(one, BudgetExceededError)]
    assert len(refused) == 8
    assert refused[0].limit == "requests"
    assert spent.usage == Usage(700, 140)
    assert spent.cost == pytest.approx(840 / 1_000_000)


@in_loop
async def test_a_refused_request_waits_and_is_sent_again() -> None:
    refusal = RateLimitError("slow down", retryable=True, status=429, retry_after=0.1)
    server = PermissionServer(Limits(), SharedBudget(), Budget())
    async with workers(server, ScriptedChatModel([refusal, refusal, "Hello"]), 1) as (worker,):
        began_at = time.monotonic()
        assert (await worker.acomplete(REQUEST)).message.text == "Hello"
        assert time.monotonic() - began_at > 0.15
    (limiter,) = server.limiters.values()
    assert limiter.refused == 2


@in_loop
async def test_a_request_that_waits_too_long_is_an_error() -> None:
    server = PermissionServer(Limits(max_concurrency=1, max_wait=0.1), SharedBudget(), Budget())
    async with workers(server, SlowModel(0.5), 1) as (worker,):
        first = asyncio.create_task(worker.acomplete(REQUEST))
        await asyncio.sleep(0.05)
        with pytest.raises(ModelTimeoutError, match="did not allow the request"):
            await worker.acomplete(REQUEST)
        await first


@in_loop
async def test_the_requests_of_a_worker_that_is_lost_have_ended() -> None:
    server = PermissionServer(Limits(max_concurrency=1), SharedBudget(), Budget())
    async with workers(server, SlowModel(), 1) as (worker,):
        lost = PermissionClient(worker._client.address)
        assert await lost.ask(SlowModel(), REQUEST, 1.0) is not None
        waiting = asyncio.create_task(worker.acomplete(REQUEST))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await lost.close()  # without a word about its request
        assert (await waiting).message.text == "Hello"


@in_loop
async def test_without_the_server_nothing_is_sent() -> None:
    server, model = PermissionServer(Limits(max_concurrency=1), SharedBudget(), Budget()), SlowModel(0.1)
    async with workers(server, model, 1) as (worker,):
        running = [asyncio.create_task(worker.acomplete(REQUEST)) for _ in range(5)]
        await asyncio.sleep(0.05)
        await server.close()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert model.sent == 1
        assert [type(one) for one in outcomes] == [ChatReply] + [RowsError] * 4
        with pytest.raises(RowsError, match="sends no requests"):
            await worker.acomplete(REQUEST)
        assert model.sent == 1


@in_loop
async def test_a_client_without_the_token_is_refused() -> None:
    server, model = PermissionServer(Limits(), SharedBudget(), Budget()), SlowModel()
    async with workers(server, model, 1) as (worker,):
        stranger = PermissionClient(worker._client.address._replace(token="guessed"))
        refused = PermittedChatModel(model, stranger, asyncio.get_running_loop())
        with pytest.raises(RowsError, match="cannot be reached"):
            await asyncio.gather(worker.acomplete(REQUEST), refused.acomplete(REQUEST))
        await stranger.close()
    assert model.sent == 1
