"""Workers ask one server before each request, so that all of them together keep the limits."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any

import pytest

from aiservices import Budget, BudgetExceededError, ChatRequest, Limits, Price, SharedBudget, UserMessage
from aiservices.models.errors import ModelTimeoutError, RateLimitError
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RowsError
from aiservices.rows.engines import permissions
from aiservices.rows.engines.permissions import (
    PermissionAddress,
    PermissionClient,
    PermissionServer,
    PermittedChatModel,
)

REQUEST = ChatRequest([UserMessage("Hi")])
USAGE = Usage(100, 20)


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), 30))

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


SERVER = """
import asyncio, json
from aiservices import Budget, Limits, SharedBudget
from aiservices.rows.engines.permissions import PermissionServer

async def serve() -> None:
    server = PermissionServer(Limits(max_concurrency=3), SharedBudget(), Budget())
    print(json.dumps(await server.start("127.0.0.1")), flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


@in_loop
async def test_when_the_server_is_killed_only_what_it_permitted_is_sent() -> None:
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stdout=subprocess.PIPE)
    assert server.stdout is not None
    address = PermissionAddress(*json.loads(await server.stdout.readline()))
    clients, model = [PermissionClient(address) for _ in range(2)], HeldModel()
    models = [PermittedChatModel(model, client, asyncio.get_running_loop()) for client in clients]
    running = [asyncio.create_task(one.acomplete(REQUEST)) for one in models for _ in range(5)]
    while model.sent < 3:
        await asyncio.sleep(0.01)
    server.kill()
    await server.wait()
    model.may_answer.set()
    outcomes = await asyncio.gather(*running, return_exceptions=True)
    assert Counter(type(one) for one in outcomes) == {ChatReply: 3, RowsError: 7}
    for one in models:
        with pytest.raises(RowsError, match="without its permission, this worker sends no requests"):
            await one.acomplete(REQUEST)
    assert model.sent == 3
    for client in clients:
        await client.close()


class HeldModel(SlowModel):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        self.sent += 1
        await self.may_answer.wait()
        return ChatReply(AiMessage("Hello"), model="scripted", usage=USAGE)


@in_loop
async def test_a_network_that_fails_ends_what_waits_for_permission() -> None:
    server = PermissionServer(Limits(max_concurrency=1), SharedBudget(), Budget())
    async with workers(server, SlowModel(0.2), 1) as (worker,):
        sending, waiting = [asyncio.create_task(worker.acomplete(REQUEST)) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert worker._client._writer is not None
        error = OSError(errno.EHOSTUNREACH, "No route to host")
        worker._client._writer.transport.get_protocol().connection_lost(error)
        with pytest.raises(RowsError, match="cannot be reached"):
            await waiting
        assert (await sending).message.text == "Hello"


@in_loop
@pytest.mark.skipif(sys.platform != "linux", reason="the options of sockets are those of Linux")
async def test_a_machine_that_does_not_answer_is_lost_after_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections, end_when_lost = [], permissions._end_when_lost

    def observe(writer: asyncio.StreamWriter) -> None:
        end_when_lost(writer)
        connections.append(writer.get_extra_info("socket"))

    monkeypatch.setattr(permissions, "_end_when_lost", observe)
    server = PermissionServer(Limits(), SharedBudget(), Budget())
    async with workers(server, SlowModel(), 1) as (worker,):
        await worker.acomplete(REQUEST)
        assert len(connections) == 2  # the two ends
        for connection in connections:
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            idle, interval, count = [connection.getsockopt(socket.IPPROTO_TCP, one) for one in options]
            assert idle + interval * count == 30
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


@in_loop
async def test_a_connection_without_the_token_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_CONNECT_SECONDS", 0.1)
    server = PermissionServer(Limits(), SharedBudget(), Budget())
    address = await server.start("127.0.0.1")
    for first in (b"", b"guessed\n", b"x" * 2**21):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(first)
        writer.write(b'{"do": "ask", "number": 1}\n' if first else b"")
        with suppress(ConnectionError):  # the server does not read what was sent
            assert await reader.read() == b""
        writer.close()
    await server.close()
    assert server.limiters == {}


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
