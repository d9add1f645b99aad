"""Calls with random faults, cancellations and closes all end, and none gets the reply of another."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from loopback import MAX_WAIT

from aiservices.models.errors import ModelError
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

THREADS = 8
LAST_MESSAGE = re.compile(rb'"content":"([^"]*)"\}\]')
HEAD = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
FAULTS = ("none",) * 12 + ("500", "cut", "close", "garbage", "slow", "reset", "empty", "hang")


class FaultyProtocol(asyncio.Protocol):
    """Repeats the last message of each request, with a random fault in some of the replies."""

    randomness = random.Random(0)
    open = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.received = b""
        FaultyProtocol.open += 1

    def connection_lost(self, error: Exception | None) -> None:
        FaultyProtocol.open -= 1

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        length = HEAD.search(self.received)
        if end < 0 or length is None or len(self.received) < end + 4 + int(length[1]):
            return
        message = LAST_MESSAGE.search(self.received)
        self.received = b""
        assert message is not None
        body = b'{"choices": [{"message": {"content": "%b"}, "finish_reason": "stop"}]}' % message[1]
        self.reply(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    def reply(self, response: bytes) -> None:
        fault = self.randomness.choice(FAULTS)
        write, close = self.transport.write, self.transport.close
        if fault == "500":
            write(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops")
        elif fault == "cut":
            write(response[: self.randomness.randrange(len(response))])
            close()
        elif fault == "close":
            write(response)
            close()
        elif fault == "garbage":
            write(self.randomness.randbytes(40))
            close()
        elif fault == "slow":
            asyncio.get_running_loop().call_later(0.005, write, response)
        elif fault == "reset":
            linger = struct.pack("ii", 1, 0)
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()
        elif fault == "empty":
            close()
        elif fault != "hang":
            write(response)


@pytest.fixture
def address() -> Iterator[str]:
    """Start the faulty server in a thread, and return its base URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    start = loop.create_server(FaultyProtocol, "127.0.0.1", 0, backlog=512)
    server = asyncio.run_coroutine_threadsafe(start, loop).result(MAX_WAIT)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(MAX_WAIT)
    loop.close()


def request(text: str) -> ChatRequest:
    return ChatRequest.of(text, options=ChatOptions(timeout=0.2))


def test_threads_get_their_own_replies_or_an_error(address: str) -> None:
    check_threads(address, 400)


def test_threads_always_get_their_own_replies(address: str, campaign: Iterable[int]) -> None:
    for _ in campaign:
        check_threads(address, 1_000)


def check_threads(address: str, calls: int) -> None:
    model = OpenAiChatModel("m", base_url=address, api_key="k")
    over = threading.Event()

    def ask(thread: int) -> int:
        replies = 0
        for call in range(calls // THREADS):
            text = f"{thread}.{call}"
            try:
                if call % 3:
                    answer = model.complete(request(text)).text
                else:
                    answer = "".join(delta.text for delta in model.stream(request(text)))
            except ModelError:
                continue
            assert answer == text
            replies += 1
        return replies

    def close() -> None:
        while not over.wait(0.01):
            model.close()

    closing = threading.Thread(target=close)
    closing.start()
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            replies = sum(pool.map(ask, range(THREADS)))
    finally:
        over.set()
        closing.join()
        model.close()
    assert calls * 0.1 < replies < calls * 0.95
    assert_all_closed()


def test_tasks_get_their_own_replies_or_an_error(address: str) -> None:
    check_tasks(address, 400, seed=1)


def test_tasks_always_get_their_own_replies(address: str, campaign: Iterable[int]) -> None:
    for seed in campaign:
        check_tasks(address, 1_000, seed)


def check_tasks(address: str, calls: int, seed: int) -> None:
    randomness = random.Random(seed)

    async def ask_all() -> int:
        model = OpenAiChatModel("m", base_url=address, api_key="k")
        limit = asyncio.Semaphore(50)

        async def ask(call: int) -> int:
            async with limit:
                try:
                    async with asyncio.timeout(0.002 if randomness.random() < 0.2 else 5):
                        answer = (await model.acomplete(request(str(call)))).text
                except (ModelError, TimeoutError):
                    return 0
                if randomness.random() < 0.01:
                    await model.aclose()
                assert answer == str(call)
                return 1

        replies = sum(await asyncio.gather(*(ask(call) for call in range(calls))))
        await model.aclose()
        return replies

    assert calls * 0.1 < asyncio.run(asyncio.wait_for(ask_all(), MAX_WAIT + calls / 50)) < calls * 0.95
    assert_all_closed()


def assert_all_closed() -> None:
    deadline = time.monotonic() + MAX_WAIT
    while FaultyProtocol.open:
        assert time.monotonic() < deadline, "connections were left open"
        gc.collect()
        time.sleep(0.01)
