"""Many calls at once on one model: in threads, in event loops and in forked processes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from faulty_server import FaultyServer, http_response, send
from loopback import MAX_WAIT

from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="/proc is of Linux")


def model_at(server: Any) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=server.base_url, api_key="sk-test-0123456789")


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
def test_fifty_threads_get_their_own_replies_over_at_most_fifty_connections(echo: Any) -> None:
    with model_at(echo) as model, ThreadPoolExecutor(50) as pool:

        def ask(thread: int) -> list[str]:
            return [model.complete(ChatRequest.of(f"{thread}.{call}")).text for call in range(20)]

        answers = list(pool.map(ask, range(50)))
    assert answers == [[f"{thread}.{call}" for call in range(20)] for thread in range(50)]
    assert echo.opened <= 50
    assert echo.request_count == 1000


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
def test_a_thousand_calls_wait_at_once_in_one_loop(echo: Any) -> None:
    patient = ChatOptions(timeout=60)  # the server may be slow to accept so many connections

    async def ask_all() -> list[str]:
        async with model_at(echo) as model:
            replies = await asyncio.gather(
                *(model.acomplete(ChatRequest.of(f"{call}", options=patient)) for call in range(1000))
            )
        return [reply.text for reply in replies]

    assert asyncio.run(ask_all()) == [f"{call}" for call in range(1000)]
    assert echo.opened <= 1000


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
def test_two_loops_in_two_threads_share_a_model(echo: Any) -> None:
    model = model_at(echo)
    both = threading.Barrier(2)

    async def ask_all(loop: int) -> list[str]:
        both.wait(20)
        calls = (model.acomplete(ChatRequest.of(f"{loop}.{call}")) for call in range(200))
        return [reply.text for reply in await asyncio.gather(*calls)]

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda loop: asyncio.run(ask_all(loop)), range(2)))
    assert answers == [[f"{loop}.{call}" for call in range(200)] for loop in range(2)]
    assert not len(model._clients._async_clients)


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
def test_more_calls_than_connections_wait_for_their_turn(echo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.models.http.async_client.MAX_CONNECTIONS", 3)

    async def ask_all() -> list[str]:
        async with model_at(echo) as model:
            calls = (model.acomplete(ChatRequest.of(f"{call}")) for call in range(30))
            return [reply.text for reply in await asyncio.gather(*calls)]

    assert asyncio.run(ask_all()) == [f"{call}" for call in range(30)]
    assert echo.opened == 3


def test_closing_a_model_while_threads_use_it_breaks_no_reply(echo: Any) -> None:
    model = model_at(echo)
    over = threading.Event()

    def ask(thread: int) -> bool:
        return all(
            model.complete(ChatRequest.of(f"{thread}.{call}")).text == f"{thread}.{call}"
            for call in range(30)
        )

    def close() -> None:
        while not over.wait(0.001):
            model.close()

    closing = threading.Thread(target=close)
    closing.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(8)))
    finally:
        over.set()
        closing.join()
        model.close()


def test_closing_a_model_while_a_loop_uses_it_breaks_no_reply(echo: Any) -> None:
    async def ask_all() -> None:
        model = model_at(echo)
        over = asyncio.Event()

        async def ask(task: int) -> None:
            for call in range(50):
                text = f"{task}.{call}"
                assert (await model.acomplete(ChatRequest.of(text))).text == text

        async def close() -> None:
            while not over.is_set():
                await model.aclose()
                await asyncio.sleep(0.0005)

        closing = asyncio.create_task(close())
        await asyncio.gather(*(ask(task) for task in range(8)))
        over.set()
        await closing
        await model.aclose()

    asyncio.run(asyncio.wait_for(ask_all(), MAX_WAIT))


def test_closing_a_model_lets_a_stream_finish(echo: Any) -> None:
    async def read() -> str:
        model = model_at(echo)
        deltas = model.astream(ChatRequest.of("streamed"))
        first = await anext(deltas)
        await model.aclose()
        return first.text + "".join([delta.text async for delta in deltas])

    assert asyncio.run(read()) == "streamed"
    with model_at(echo) as model:
        deltas = model.stream(ChatRequest.of("streamed"))
        first = next(deltas)
        model.close()
        assert first.text + "".join(delta.text for delta in deltas) == "streamed"


class UnwatchingLoop(asyncio.SelectorEventLoop):
    """An event loop that does not watch sockets for others, as the one that is the default on Windows."""

    add_reader = asyncio.AbstractEventLoop.add_reader
    remove_reader = asyncio.AbstractEventLoop.remove_reader
    add_writer = asyncio.AbstractEventLoop.add_writer
    remove_writer = asyncio.AbstractEventLoop.remove_writer


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_a_loop_that_does_not_watch_sockets_makes_the_same_calls(
    echo: Any, secure_echo: Any, secure: bool
) -> None:
    async def ask_all() -> list[str]:
        async with model_at(secure_echo if secure else echo) as model:

            async def ask(call: int) -> str:
                if call % 3 == 0:
                    return (await model.acomplete(ChatRequest.of(f"{call}"))).text
                if call % 3 == 1:
                    deltas = model.astream(ChatRequest.of(f"{call}"))
                    return "".join([delta.text async for delta in deltas])
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(model.acomplete(ChatRequest.of("cancelled")), 0)
                return f"{call}"

            return [await ask(call) for call in range(30)] + await asyncio.gather(*map(ask, range(30, 300)))

    with asyncio.Runner(loop_factory=UnwatchingLoop) as runner:
        assert runner.run(ask_all()) == [f"{call}" for call in range(300)]


@needs_proc
@pytest.mark.usefixtures("leaves_nothing")
def test_calls_in_the_middle_of_which_a_loop_was_closed_are_dropped_by_the_next_loop() -> None:
    for make_loop in (asyncio.SelectorEventLoop, UnwatchingLoop):
        with FaultyServer(send(http_response()[:-5]), send(http_response())) as server:
            model = model_at(server)
            loop = make_loop()
            call = loop.create_task(model.acomplete(ChatRequest.of("x")))
            loop.run_until_complete(asyncio.sleep(0.05))
            loop.close()
            with asyncio.Runner(loop_factory=make_loop) as runner:
                assert runner.run(model.acomplete(ChatRequest.of("x"))).text == "Hi"
            assert server.settled(0)
            call._log_destroy_pending = False  # type: ignore[attr-defined]
            del call


FORK = """
import json, os, sys
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")
ask = lambda text: model.complete(ChatRequest.of(text)).text
replies = [ask("before")]
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, json.dumps([ask(f"child {n}") for n in range(50)]).encode())
    os._exit(0)
os.close(writing)
replies.append([ask(f"parent {n}") for n in range(50)])
with os.fdopen(reading) as pipe:
    replies.append(json.load(pipe))
os.waitpid(child, 0)
model.close()
print(json.dumps(replies))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own_connection(echo: Any, run: Any) -> None:
    before, parent, child = run(FORK, echo.base_url)
    assert before == "before"
    assert parent == [f"parent {n}" for n in range(50)]
    assert child == [f"child {n}" for n in range(50)]
    assert echo.opened == 2


THREADS_FORK = """
import json, multiprocessing, sys, threading, warnings
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads, which later versions warn of
model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")
over = threading.Event()
wrong = []

def ask(text):
    replies = model.complete(ChatRequest.of(text)).text
    if replies != text:
        wrong.append((text, replies))
    return replies

def keep_asking(number):
    while not over.is_set():
        ask(f"thread {number}")

def child(number, queue):
    queue.put([ask(f"child {number}.{n}") for n in range(10)])

ask("the modules are loaded")
threads = [threading.Thread(target=keep_asking, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
children = [context.Process(target=child, args=(n, queue)) for n in range(6)]
for process in children:
    process.start()
replies = sorted(queue.get() for _ in children)
for process in children:
    process.join()
over.set()
for thread in threads:
    thread.join()
model.close()
print(json.dumps([replies, wrong]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_that_are_forked_during_calls_get_their_own_replies(echo: Any, run: Any) -> None:
    message, wrong = run(THREADS_FORK, echo.base_url)
    assert message == [[f"child {number}.{n}" for n in range(10)] for number in range(6)]
    assert wrong == []


TLS_FORK = """
import json, os, sys
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")
ask = lambda text: model.complete(ChatRequest.of(text)).text
replies = [ask("before")]
for n in range(5):
    child = os.fork()
    if not child:
        sys.exit(ask("in the child") != "in the child")  # with all that Python does at its end
    assert os.waitpid(child, 0)[1] == 0
    replies.append(ask(f"parent {n}"))
model.close()
print(json.dumps(replies))
"""


TLS_FORK_IN_A_LOOP = """
import asyncio, json, os, sys
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")

async def ask(text):
    return (await model.acomplete(ChatRequest.of(text))).text

async def ask_all():
    replies = [await ask("before")]
    for n in range(5):
        running = asyncio.create_task(ask(f"running {n}"))
        await asyncio.sleep(0)
        child = os.fork()
        if not child:
            sys.exit()  # with all that Python does at its end
        assert os.waitpid(child, 0)[1] == 0
        replies += [await running, await ask(f"parent {n}")]
    return replies

replies = asyncio.run(ask_all())
print(json.dumps(replies))
"""


_NEVER_ENDS = pytest.mark.skipif(
    sys.version_info >= (3, 14),
    reason="a process forked in a loop cannot end in Python 3.14",
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "is_async", [pytest.param(False, id="blocking"), pytest.param(True, id="async", marks=_NEVER_ENDS)]
)
def test_the_end_of_a_forked_process_leaves_the_connections_of_its_parent_open(
    secure_echo: Any, run: Any, is_async: bool
) -> None:
    if is_async:
        replies = run(TLS_FORK_IN_A_LOOP, secure_echo.base_url)
        assert replies == ["before", *(f"{who} {n}" for n in range(5) for who in ("running", "parent"))]
        assert secure_echo.opened == 1
    else:
        assert run(TLS_FORK, secure_echo.base_url) == ["before", *(f"parent {n}" for n in range(5))]
        assert secure_echo.opened == 6


ASYNC_FORK = """
import asyncio, json, os, sys
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

model = OpenAiChatModel("m", base_url=sys.argv[1], api_key="k")

async def ask_all(who):
    calls = (model.acomplete(ChatRequest.of(f"{who} {n}")) for n in range(20))
    return [reply.text for reply in await asyncio.gather(*calls)]

asyncio.run(ask_all("before"))
reading, writing = os.pipe()
child = os.fork()
if not child:
    os.write(writing, json.dumps(asyncio.run(ask_all("child"))).encode())
    os._exit(0)
os.close(writing)
parent = asyncio.run(ask_all("parent"))
with os.fdopen(reading) as pipe:
    print(json.dumps([parent, json.load(pipe)]))
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_loops_of_a_forked_process_have_their_own_connections(echo: Any, run: Any) -> None:
    parent, child = run(ASYNC_FORK, echo.base_url)
    assert parent == [f"parent {n}" for n in range(20)]
    assert child == [f"child {n}" for n in range(20)]
