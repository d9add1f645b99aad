"""Calls run concurrently on the server, and only while their client is connected."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import count
from typing import Annotated, Any, Protocol, cast

import httpx2
import pytest
from fastapi.testclient import TestClient
from pydantic import AfterValidator

from aiservices import (
    AiServiceError,
    AsyncStream,
    Budget,
    ChatReply,
    ChatRequest,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
    Stream,
    create,
    system_message,
    user_message,
)
from aiservices.integrations.fastapi import Problem, app, client, router
from aiservices.models.base import Capabilities

LONGEST_WAIT = 20.0  # seconds; nothing in a test hangs for longer


class Desk(Protocol):
    @user_message("{{it}}")
    def number(self, it: str) -> int: ...

    @user_message("{{it}}")
    async def anumber(self, it: str) -> int: ...

    @user_message("{{it}}")
    def tell(self, it: str) -> Iterator[str]: ...

    @user_message("{{it}}")
    def atell(self, it: str) -> AsyncIterator[str]: ...

    @user_message("{{it}}")
    def grow(self, it: str) -> Stream[list[int]]: ...

    @user_message("{{it}}")
    def agrow(self, it: str) -> AsyncStream[list[int]]: ...


class Endless:
    """A model that streams an endless list until the stream is closed."""

    name = "endless"
    capabilities = Capabilities(json_schema=True)

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()

    def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        self.begun.set()
        try:
            await asyncio.sleep(LONGEST_WAIT * 2)
        finally:
            self.stopped.set()
        raise AssertionError

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.begun.set()
        try:
            yield ReplyDelta('{"value": [')
            for number in count():
                time.sleep(0.01)
                yield ReplyDelta(f"{number}, ")
        finally:
            self.stopped.set()

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        self.begun.set()
        try:
            yield ReplyDelta('{"value": [')
            for number in count():
                await asyncio.sleep(0.01)
                yield ReplyDelta(f"{number}, ")
        finally:
            self.stopped.set()


@pytest.mark.parametrize("method", ["tell", "atell", "grow", "agrow"])
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_request_with_the_id_of_an_event_does_not_call_the_model_again(method: str, verb: str) -> None:
    model = ScriptedChatModel(["some text" if "tell" in method else '{"value": [1]}'] * 2)
    web = TestClient(app(create(Desk, model), allow_get=True))
    arguments: dict[str, Any] = {"params": {"it": "x"}} if verb == "GET" else {"json": {"it": "x"}}
    events = web.request(verb, f"/{method}", **arguments).text.strip().split("\n\n")
    ids = [event.split("\n")[2] for event in events]
    assert ids == [f"id: {number}" for number in range(1, len(events) + 1)]
    again = web.request(verb, f"/{method}", headers={"Last-Event-ID": ids[-1][4:]}, **arguments)
    assert (again.status_code, again.content, len(model.requests)) == (204, b"", 1)


@pytest.mark.parametrize("method", ["tell", "atell", "grow", "agrow"])
def test_a_stream_ends_when_its_client_disconnects(method: str, serve: Callable[[Any], str]) -> None:
    model = Endless()
    url = serve(app(create(Desk, model)))
    with httpx2.Client().sse(
        f"{url}/{method}", method="POST", json={"it": "x"}, timeout=LONGEST_WAIT
    ) as source:
        names = [next(iter(source)).event for _ in range(1)]
    assert names in (["text"], ["attempt"])
    assert model.stopped.wait(LONGEST_WAIT)


def test_an_async_call_is_cancelled_when_its_client_disconnects(serve: Callable[[Any], str]) -> None:
    model = Endless()
    url = serve(app(create(Desk, model)))
    with httpx2.Client() as http, pytest.raises(httpx2.ReadTimeout):
        http.post(f"{url}/anumber", json={"it": "x"}, timeout=httpx2.Timeout(LONGEST_WAIT, read=1.0))
    assert model.begun.is_set()
    assert model.stopped.wait(LONGEST_WAIT)


def test_closing_a_remote_stream_ends_it_on_the_server(serve: Callable[[Any], str]) -> None:
    model = Endless()
    desk = client(Desk, serve(app(create(Desk, model))), timeout=LONGEST_WAIT)
    with desk.grow("x") as stream:
        for snapshot in stream:
            if len(snapshot.to_python() or ()) > 2:
                break
    assert model.stopped.wait(LONGEST_WAIT)


def test_closing_a_remote_async_iterator_ends_it_on_the_server(serve: Callable[[Any], str]) -> None:
    model = Endless()
    desk = client(Desk, serve(app(create(Desk, model))), timeout=LONGEST_WAIT)

    async def read() -> str:
        async with asyncio.timeout(LONGEST_WAIT):
            async with aclosing(cast("AsyncGenerator[str]", desk.atell("x"))) as pieces:
                return await anext(pieces)

    assert asyncio.run(read()) == '{"value": ['
    assert model.stopped.wait(LONGEST_WAIT)


def test_blocking_methods_run_in_parallel_threads(serve: Callable[[Any], str]) -> None:
    meeting = threading.Barrier(4)

    def reply(request: ChatRequest) -> str:
        meeting.wait(LONGEST_WAIT)  # passes only if all four calls run at the same time
        return '{"value": 1}'

    desk = client(Desk, serve(app(create(Desk, ScriptedChatModel(reply)))), timeout=LONGEST_WAIT)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(desk.number("x"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert answers == [1, 1, 1, 1]


def test_at_most_threads_blocking_calls_run_at_once(serve: Callable[[Any], str]) -> None:
    from fastapi import FastAPI

    running, most, lock = 0, 0, threading.Lock()

    def reply(request: ChatRequest) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return '{"value": 1}'

    own = FastAPI()
    own.include_router(router(create(Desk, ScriptedChatModel(reply)), threads=2))
    url = serve(own)

    async def ask() -> list[int]:
        async with httpx2.AsyncClient(timeout=LONGEST_WAIT) as http:
            answers = await asyncio.gather(*(http.post(f"{url}/number", json={"it": "x"}) for _ in range(6)))
        return [answer.json() for answer in answers]

    assert asyncio.run(ask()) == [1] * 6
    assert most == 2


@pytest.mark.slow
def test_five_hundred_clients_of_an_unreliable_model_all_get_a_response(serve: Callable[[Any], str]) -> None:
    numbers, lock = count(1), threading.Lock()

    def reply(request: ChatRequest) -> str | Exception:
        with lock:
            number = next(numbers)
        if number % 5 == 0:
            return ModelServerError("down", status=500, retryable=True)
        return "some text" if request.response_format is None else '{"value": 1}'

    desk = create(Desk, ScriptedChatModel(reply), budget=Budget(max_attempts=1))
    url = serve(app(desk))

    async def one(http: httpx2.AsyncClient, method: str) -> str:
        answer = await http.post(f"{url}/{method}", json={"it": "x"})
        if answer.status_code != 200:
            assert answer.status_code == 503
            return Problem.model_validate(answer.json()).type
        if answer.headers["content-type"].startswith("text/event-stream"):
            last = answer.text.strip().split("\n\n")[-1].split("\n")
            return json.loads(last[1][6:])["type"] if last[0] == "event: error" else last[0]
        return "answer"

    async def ask() -> list[str]:
        limits = httpx2.Limits(max_connections=500)
        async with asyncio.timeout(4 * LONGEST_WAIT):
            async with httpx2.AsyncClient(timeout=4 * LONGEST_WAIT, limits=limits) as http:
                return await asyncio.gather(
                    *(one(http, ("anumber", "tell")[number % 2]) for number in range(500))
                )

    outcomes = asyncio.run(ask())
    assert len(outcomes) == 500
    assert outcomes.count("urn:aiservices:unavailable") == 100
    assert set(outcomes) == {"answer", "event: end", "urn:aiservices:unavailable"}


def test_an_unreachable_service_is_a_connection_error() -> None:
    desk = client(Desk, "http://127.0.0.1:9", timeout=5)
    with pytest.raises(AiServiceError) as caught:
        desk.number("x")
    assert str(caught.value) == (
        "Desk.number: http://127.0.0.1:9 cannot be reached, or the connection broke: ConnectError; "
        "check the address and that the service runs"
    )
    with pytest.raises(AiServiceError):
        list(desk.tell("x"))


class Silent(Endless):
    """A model that sends one chunk and then nothing."""

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        self.begun.set()
        try:
            yield ReplyDelta('{"value": [')
            await asyncio.sleep(LONGEST_WAIT * 2)
        finally:
            self.stopped.set()


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_silent_model_is_stopped_when_its_client_disconnects(
    method: str, serve: Callable[[Any], str]
) -> None:
    model = Silent()
    url = serve(app(create(Desk, model), allow_get=True))
    arguments: dict[str, Any] = {"json": {"it": "x"}} if method == "POST" else {"params": {"it": "x"}}
    with httpx2.Client().sse(f"{url}/atell", method=method, timeout=LONGEST_WAIT, **arguments) as source:
        assert next(iter(source)).event == "text"
    assert model.stopped.wait(LONGEST_WAIT / 2)


def test_a_silent_stream_sends_pings(serve: Callable[[Any], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.integrations.fastapi.responses._PING_SECONDS", 0.05)
    url = serve(app(create(Desk, Silent())))
    with httpx2.Client().stream("POST", f"{url}/atell", json={"it": "x"}, timeout=LONGEST_WAIT) as response:
        lines = response.iter_lines()
        assert ": ping" in [next(lines) for _ in range(6)]


def test_arguments_beyond_four_kilobytes_are_read_outside_of_the_event_loop() -> None:
    readers: list[str] = []
    renderers: list[str] = []

    def note(values: list[int]) -> list[int]:
        readers.append(threading.current_thread().name)
        return values

    def render(numbers: list[int]) -> str:
        renderers.append(threading.current_thread().name)
        return "Add."

    class Adder(Protocol):
        @system_message(render)
        @user_message("{{numbers}}")
        async def total(self, numbers: Annotated[list[int], AfterValidator(note)]) -> int: ...

    adder = create(Adder, ScriptedChatModel(["1"] * 4))
    with TestClient(app(adder, allow_get=True)) as web:
        loop = web.portal.call(threading.current_thread).name  # type: ignore[union-attr]
        for count_, is_outside in ((10, False), (1500, True)):
            readers.clear()
            renderers.clear()
            numbers = [500] * count_
            assert web.post("/total", json={"numbers": numbers}).json() == 1
            assert web.get("/total", params={"numbers": numbers}).json() == 1
            assert len(readers) == 2
            assert [reader != loop for reader in readers] == [is_outside] * 2
            assert [renderer != loop for renderer in renderers] == [is_outside] * 2
