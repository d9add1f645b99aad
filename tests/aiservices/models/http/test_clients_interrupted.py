"""An exception of a signal handler leaves a call at once, without another request."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest
from faulty_server import Action, FaultyServer, chunked_response
from loopback import MAX_WAIT

from aiservices import create
from aiservices.models.openai import OpenAiChatModel

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers of signals")


class Interruption(Exception):
    """What the handler of a signal raises, as those of time limits and task queues do."""


class Desk(Protocol):
    def ask(self, question: str) -> str: ...

    def tell(self, question: str) -> Iterator[str]: ...

    async def ask_async(self, question: str) -> str: ...

    def tell_async(self, question: str) -> AsyncIterator[str]: ...


def ask(desk: Desk) -> str:
    return desk.ask("Hello")


def tell(desk: Desk) -> str:
    return "".join(desk.tell("Hello"))


def ask_async(desk: Desk) -> str:
    async def wait() -> str:
        return await desk.ask_async("Hello")

    return asyncio.run(wait())


def tell_async(desk: Desk) -> str:
    async def read() -> str:
        return "".join([piece async for piece in desk.tell_async("Hello")])

    return asyncio.run(read())


Call = Callable[[Desk], str]


@contextmanager
def handler_of(error: BaseException) -> Iterator[None]:
    """Let the handler of a signal raise an error."""

    def handle(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handle)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def desk_at(server: FaultyServer) -> Any:
    return create(Desk, OpenAiChatModel("m", base_url=server.base_url, api_key="sk-test-0123456789"))


def hang(connection: socket.socket) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    while connection.recv(65536):
        pass


def hang_in_the_body(connection: socket.socket) -> None:
    connection.sendall(chunked_response(b" ", end=b""))
    hang(connection)


def send_without_end(connection: socket.socket) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    connection.sendall(chunked_response(end=b""))
    end = time.monotonic() + MAX_WAIT
    while time.monotonic() < end:
        connection.sendall(b"100\r\n" + b" " * 256 + b"\r\n")


@pytest.mark.parametrize(
    "error", [Interruption(), TimeoutError("late"), OSError("late"), KeyboardInterrupt()]
)
@pytest.mark.parametrize(
    ("call", "action"),
    [
        *[(call, action) for call in (ask, tell) for action in (hang, hang_in_the_body, send_without_end)],
        # asyncio itself may lose an exception, or a task, while it is busy
        *[(call, action) for call in (ask_async, tell_async) for action in (hang, hang_in_the_body)],
    ],
)
def test_an_exception_of_a_signal_handler_is_raised_at_once(
    call: Call, action: Action, error: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    with FaultyServer(action) as server:
        desk = desk_at(server)
        start = time.monotonic()
        with pytest.raises(type(error)) as caught, handler_of(error):
            call(desk)
        assert caught.value is error
        assert time.monotonic() - start < MAX_WAIT / 4
        assert len(server.requests) == 1
    assert capfd.readouterr().err == ""  # pycurl prints the exceptions of callbacks


@pytest.mark.parametrize("call", [ask, tell, ask_async, tell_async])
def test_an_exception_of_a_function_for_the_key_is_raised_without_a_request(call: Call) -> None:
    def key() -> str:
        raise Interruption

    with FaultyServer(hang) as server:
        desk = create(Desk, OpenAiChatModel("m", base_url=server.base_url, api_key=key))
        with pytest.raises(Interruption):
            call(desk)
        assert server.requests == []
