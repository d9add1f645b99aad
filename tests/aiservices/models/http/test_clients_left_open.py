"""Calls that are cancelled or interrupted, and models that are never closed, leave nothing open."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from faulty_server import FaultyServer, chunked_response, http_response, send

from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc is of Linux")


def model_at(base_url: str) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=base_url, api_key="sk-test-0123456789")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable interrupts, which a shell disables for tests that run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def cancelled_after_each_step(base_url: str, steps: int, *, new_connection: bool) -> None:
    """Cancel calls after 0, 1, 2 … steps of the loop, and check that the next call works."""
    model = model_at(base_url)
    for step in range(steps):
        call = asyncio.create_task(model.acomplete(ChatRequest.of("cancelled")))
        for _ in range(step):
            await asyncio.sleep(0)
        call.cancel()
        (message,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(message, asyncio.CancelledError) or message.text == "cancelled"
        assert (await model.acomplete(ChatRequest.of(f"after {step}"))).text == f"after {step}"
        if new_connection:
            await model.aclose()
    await model.aclose()


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("new_connection", [False, True], ids=["over a reused connection", "over a new one"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_call_may_be_cancelled_at_any_step(echo: Any, host: str, new_connection: bool) -> None:
    url = echo.base_url.replace("127.0.0.1", host)
    asyncio.run(cancelled_after_each_step(url, 61, new_connection=new_connection), debug=True)


@pytest.mark.usefixtures("leaves_nothing", "trusted")
def test_a_call_may_be_cancelled_within_the_handshake(secure_echo: Any) -> None:
    asyncio.run(cancelled_after_each_step(secure_echo.base_url, 40, new_connection=True))


@pytest.mark.usefixtures("leaves_nothing")
def test_a_call_that_waits_for_a_connection_may_be_cancelled(
    echo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.models.http.async_client.MAX_CONNECTIONS", 1)

    async def ask() -> None:
        async with model_at(echo.base_url) as model:
            calls = [asyncio.create_task(model.acomplete(ChatRequest.of(f"{n}"))) for n in range(10)]
            await asyncio.sleep(0.001)
            for call in calls[1::2]:
                call.cancel()
            message = await asyncio.gather(*calls, return_exceptions=True)
            assert [reply.text for reply in message[::2]] == ["0", "2", "4", "6", "8"]
            assert (await model.acomplete(ChatRequest.of("after"))).text == "after"

    asyncio.run(ask())


@pytest.mark.usefixtures("leaves_nothing")
def test_a_body_that_is_left_in_the_middle_is_never_continued() -> None:
    half = http_response()[:-20]
    with FaultyServer(send(half), send(http_response())) as server:

        async def ask() -> str:
            async with model_at(server.base_url) as model:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(model.acomplete(ChatRequest.of("x")), 0.05)
                return (await model.acomplete(ChatRequest.of("x"))).text

        assert asyncio.run(ask()) == "Hi"
        assert server.opened == 2


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize(
    "half", [b"", http_response()[:30], http_response()[:-20]], ids=["nothing", "headers", "body"]
)
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_within_a_blocking_call_leaves_no_broken_connection(half: bytes) -> None:
    def interrupts(connection: socket.socket) -> None:
        connection.sendall(half)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with (
        FaultyServer(send(http_response()), interrupts, send(http_response())) as server,
        model_at(server.base_url) as model,
    ):
        assert model.complete(ChatRequest.of("x")).text == "Hi"
        with pytest.raises(KeyboardInterrupt):
            model.complete(ChatRequest.of("x"))
        gc.collect()
        assert model.complete(ChatRequest.of("x")).text == "Hi"
        assert server.opened == 2


UNCLOSED = """
import asyncio, gc, json, sys, warnings
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

def model():
    return OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")

replies = [model().complete(ChatRequest.of("blocking")).text]
gc.collect()

async def ask():
    replies.append((await model().acomplete(ChatRequest.of("in a loop"))).text)
    gc.collect()
    await asyncio.sleep(0)
    kept = model()
    replies.append((await kept.acomplete(ChatRequest.of("until the end"))).text)
    return kept

kept = asyncio.run(ask())
replies.append(asyncio.run(kept.acomplete(ChatRequest.of("another loop"))).text)

# asyncio itself warns of the sockets of a loop that is closed before them
warnings.simplefilter("ignore", ResourceWarning)
loop = asyncio.new_event_loop()
replies.append(loop.run_until_complete(kept.acomplete(ChatRequest.of("a loop of its own"))).text)
loop.close()
replies.append(asyncio.run(kept.acomplete(ChatRequest.of("after it"))).text)
del kept
gc.collect()

loop = asyncio.new_event_loop()
alone = model()
replies.append(loop.run_until_complete(alone.acomplete(ChatRequest.of("never asked again"))).text)
loop.close()
del alone
gc.collect()
print(json.dumps(replies))
"""


def test_a_model_that_is_not_closed_causes_no_warnings(echo: Any, run: Any) -> None:
    assert run(UNCLOSED, echo.base_url) == [
        "blocking",
        "in a loop",
        "until the end",
        "another loop",
        "a loop of its own",
        "after it",
        "never asked again",
    ]


OPEN_STREAM = """
import asyncio, json, sys, warnings
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

warnings.simplefilter("ignore", ResourceWarning)  # asyncio itself warns of a loop that is not closed
deltas = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k").astream(ChatRequest.of("Hello"))
loop = asyncio.new_event_loop()
print(json.dumps(loop.run_until_complete(anext(deltas)).text))
if sys.argv[2] == "closed":
    loop.close()
"""


_WARNS_ITSELF = pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="Python itself warns if a loop is never closed",
)


@pytest.mark.parametrize("loop", [pytest.param("open", marks=_WARNS_ITSELF), "closed"])
def test_a_stream_that_is_open_at_the_end_of_the_process_causes_no_warnings(loop: str, run: Any) -> None:
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
    held = chunked_response(event, end=b"", content_type="text/event-stream")
    with FaultyServer(send(held)) as server:
        assert run(OPEN_STREAM, server.base_url, loop) == "Hi"
