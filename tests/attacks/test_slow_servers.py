"""Servers that send a little at a time, or nothing, until the time of a call is over."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest
from faulty_server import BODY, Action, EagerServer, FaultyServer, http_response, send

from aiservices import Budget, Stream, create, user_message
from aiservices.models.errors import BudgetExceededError
from aiservices.models.openai import OpenAiChatModel

BUDGET = Budget(max_attempts=3, seconds=0.5, first_wait=0.01)
DRIP_SECONDS = 8.0  # a call that waits for the end of the drip takes so long
EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
EMPTY_DELTA = b'data: {"choices": [{"index": 0, "delta": {}}]}\n\n'


class Writer(Protocol):
    @user_message("Write")
    def text(self) -> str: ...

    @user_message("Write")
    def pieces(self) -> Iterator[str]: ...

    @user_message("Write")
    def numbers(self) -> Stream[list[int]]: ...

    @user_message("Write")
    async def text_async(self) -> str: ...

    @user_message("Write")
    def pieces_async(self) -> AsyncIterator[str]: ...


def drip(*pieces: bytes, head: bytes = b"") -> Action:
    """Return an action that sends a head and then the pieces, spread over DRIP_SECONDS."""

    def action(connection: socket.socket) -> None:
        connection.sendall(head)
        for piece in pieces:
            time.sleep(DRIP_SECONDS / len(pieces))
            connection.sendall(piece)

    return action


def byte_by_byte(data: bytes, head: bytes = b"") -> Action:
    return drip(*(data[index : index + 1] for index in range(len(data))), head=head)


def error_head(length: int) -> bytes:
    return f"HTTP/1.1 500 Oops\r\ncontent-length: {length}\r\n\r\n".encode()


async def collect(pieces: AsyncIterator[str]) -> str:
    return "".join([piece async for piece in pieces])


CALLS: dict[str, Callable[[Writer], object]] = {
    "text": lambda writer: writer.text(),
    "pieces": lambda writer: list(writer.pieces()),
    "a stream of a list": lambda writer: list(writer.numbers()),
    "asynchronous text": lambda writer: asyncio.run(writer.text_async()),
    "asynchronous pieces": lambda writer: asyncio.run(collect(writer.pieces_async())),
}
DRIPS = {
    "comments": drip(*[b": ping\n\n"] * 50, head=EVENTS),
    "empty deltas": drip(*[EMPTY_DELTA] * 50, head=EVENTS),
    "headers byte by byte": byte_by_byte(http_response()[:80]),
    "a body byte by byte": byte_by_byte(BODY, head=http_response()[: -len(BODY)]),
    "an error body byte by byte": byte_by_byte(b"x" * 100, head=error_head(100)),
    "nothing": send(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_budget_ends_a_call_however_slowly_the_server_sends(call: Callable[[Writer], object]) -> None:
    def seconds(act: Action) -> float:
        with (
            FaultyServer(act) as server,
            OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
        ):
            writer = create(Writer, model, budget=BUDGET)
            start = time.monotonic()
            with pytest.raises(BudgetExceededError):
                call(writer)
            return time.monotonic() - start

    with ThreadPoolExecutor(len(DRIPS)) as threads:
        spent = dict(zip(DRIPS, threads.map(seconds, DRIPS.values()), strict=True))
    # 0.3 s are promised; a loaded machine may need more, but far less than the drip
    assert {name: time for name, time in spent.items() if time >= DRIP_SECONDS / 3} == {}


def test_a_handshake_that_never_ends_is_bounded_by_the_budget() -> None:
    with (
        EagerServer(drip(*[b"\x16"] * 50)) as server,
        OpenAiChatModel("m", base_url=f"https://127.0.0.1:{server.port}/v1", api_key="k") as model,
    ):
        start = time.monotonic()
        with pytest.raises(BudgetExceededError):
            create(Writer, model, budget=BUDGET).text()
        assert time.monotonic() - start < DRIP_SECONDS / 3


INTERRUPTED = """
import signal, sys
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

signal.signal(signal.SIGINT, signal.default_int_handler)
model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")
try:
    if sys.argv[2] == "stream":
        list(model.stream(ChatRequest.of("x")))
    else:
        model.complete(ChatRequest.of("x"))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends signals in another way")
@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_an_interrupt_ends_a_blocking_call_at_once(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    root = str(Path(__file__).parents[2])
    with FaultyServer(send()) as server:
        process = subprocess.Popen(
            [sys.executable, str(script), server.base_url, kind],
            env={"PYTHONPATH": root},
            stdout=subprocess.PIPE,
            text=True,
        )
        while not server.requests:
            assert process.poll() is None
            time.sleep(0.01)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DRIP_SECONDS)
        assert output == "interrupted\n"
        assert time.monotonic() - start < DRIP_SECONDS / 3
