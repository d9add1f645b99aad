"""Clients of a served service cannot fill its memory, stop its event loop, or occupy its threads."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.testclient import TestClient
from pydantic import AfterValidator
from served import LONGEST_WAIT, serve_applications

from aiservices import (
    CallFailed,
    ChatRequest,
    DefinitionError,
    ScriptedChatModel,
    create,
    system_message,
    user_message,
)
from aiservices.integrations.fastapi import app, client
from aiservices.integrations.fastapi.remote_client import RemoteServiceError

MIB = 1024 * 1024
JSON = {"content-type": "application/json"}


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Return a function that serves an application until the test ends and returns its URL."""
    yield from serve_applications()


class Desk(Protocol):
    def write(self, text: str) -> str: ...

    async def awrite(self, text: str) -> str: ...

    @user_message("{{numbers}}")
    def number(self, numbers: list[int]) -> int: ...


def desk(*replies: Any, **settings: Any) -> Any:
    return create(Desk, ScriptedChatModel(replies or ["Done."]), **settings)


# --- sizes ---


@contextmanager
def connect(url: str) -> Iterator[socket.socket]:
    address = (urlsplit(url).hostname or "", urlsplit(url).port or 0)
    with socket.create_connection(address, timeout=LONGEST_WAIT) as connection:
        yield connection


def read_response(connection: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("path", ["/write", "/awrite"])
def test_a_body_without_an_end_is_not_read_on(path: str, serve: Callable[[Any], str]) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    chunk, sent = b"%x\r\n%s\r\n" % (65536, b"x" * 65536), 0
    with connect(serve(app(desk()))) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        try:
            # A client that tries until the server answers.
            while not select.select([connection], [], [], 0)[0] and sent < 100 * MIB:
                connection.sendall(chunk)
                sent += 65536
        except (BrokenPipeError, ConnectionResetError):
            pass
        received = read_response(connection)
    assert sent < 20 * MIB
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in received.lower()


def test_a_body_that_is_declared_too_large_is_not_read(serve: Callable[[Any], str]) -> None:
    head = "POST /write HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 300000000"
    with connect(serve(app(desk()))) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", ["/write", "/awrite"])
def test_the_limit_of_bodies_is_a_setting(path: str) -> None:
    body = json.dumps({"text": "x" * 87}).encode()
    assert len(body) == 99
    for size, expected in ((99, 200), (98, 413)):
        http = TestClient(app(desk("Done.", "Done."), max_body_size=size))
        assert http.post(path, content=body, headers=JSON).status_code == expected
        chunks = iter([body[:50], body[50:]])
        assert http.post(path, content=chunks, headers=JSON).status_code == expected
    assert http.post(path, content=body, headers=JSON).json() == {
        "type": "urn:aiservices:body-too-large",
        "title": "The body of the request is too large",
        "status": 413,
        "detail": "at most 98 bytes are accepted",
        "method": f"Desk.{path[1:]}",
    }


def test_a_client_learns_that_its_arguments_are_too_large(serve: Callable[[Any], str]) -> None:
    remote = client(Desk, serve(app(desk())), timeout=LONGEST_WAIT)
    assert remote.write("x" * 4 * MIB) == "Done."
    with pytest.raises(RemoteServiceError) as caught:
        remote.write("x" * 6 * MIB)
    assert str(caught.value) == "Desk.write: The body of the request is too large"


def test_headers_and_urls_have_a_limit() -> None:
    http = TestClient(app(desk(), allow_get=True))
    too_large = [
        http.post("/write", json={"text": "x"}, headers={"token": "x" * 40_000}),
        http.get("/write", params={"text": "x" * 40_000}),
    ]
    for answer in too_large:
        assert (answer.status_code, answer.json()["type"]) == (431, "urn:aiservices:headers-too-large")
    assert http.get("/write", params={"text": "x" * 20_000}).json() == "Done."


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        app(desk(), threads=0, max_waiting_calls=-1, max_body_size=0)
    assert str(caught.value) == (
        "3 problems:\n"
        "  - Desk: threads is 0; it must be at least 1\n"
        "  - Desk: max_waiting_calls is -1; it must be at least 0\n"
        "  - Desk: max_body_size is 0; it must be at least 1"
    )


# --- the event loop ---

RELEASED = threading.Event()


def wait_for_other_client(text: str) -> str:
    """Block until another client has been answered. That is never, if this blocks the event loop."""
    assert RELEASED.wait(LONGEST_WAIT)
    return text


class Reader(Protocol):
    @user_message("Read {{text}}")
    async def read(self, text: Annotated[str, AfterValidator(wait_for_other_client)]) -> str: ...

    @user_message("Render {{text}}")
    @system_message(wait_for_other_client)
    async def render(self, text: str) -> str: ...

    @user_message("Stream {{text}}")
    @system_message(wait_for_other_client)
    def stream(self, text: str) -> AsyncIterator[str]: ...


@pytest.mark.parametrize("path", ["/read", "/render", "/stream"])
def test_a_large_body_does_not_stop_other_requests(path: str, serve: Callable[[Any], str]) -> None:
    RELEASED.clear()
    web = app(create(Reader, ScriptedChatModel(["Done."])))
    arrived = threading.Event()

    @web.middleware("http")
    async def arrival(request: Any, call_next: Callable[[Any], Any]) -> Any:
        arrived.set()
        return await call_next(request)

    @web.get("/other")
    async def other() -> str:
        RELEASED.set()
        return "answered"

    url = serve(web)
    answers: list[Any] = []

    def call() -> None:
        body = {"text": "x" * 100_000}
        answers.append(httpx2.post(f"{url}{path}", json=body, timeout=3 * LONGEST_WAIT).text)

    calling = threading.Thread(target=call)
    calling.start()
    assert arrived.wait(LONGEST_WAIT)
    assert httpx2.get(f"{url}/other", timeout=LONGEST_WAIT / 2).json() == "answered"
    calling.join(LONGEST_WAIT)
    assert ['"Done."' in answer for answer in answers] == [True]


# --- threads ---


def test_more_calls_than_may_wait_are_refused(serve: Callable[[Any], str]) -> None:
    released = threading.Event()

    def reply(request: ChatRequest) -> str:
        assert released.wait(LONGEST_WAIT)
        return "Done."

    web = app(create(Desk, ScriptedChatModel(reply)), threads=1, max_waiting_calls=2)
    url = serve(web)

    async def ask() -> list[Any]:
        async with httpx2.AsyncClient(timeout=LONGEST_WAIT) as http:
            calls = [asyncio.ensure_future(http.post(f"{url}/write", json={"text": "x"})) for _ in range(5)]
            # Two are refused at once, while the others wait for the model.
            refused = []
            for done in asyncio.as_completed(calls):
                refused.append(await done)
                if len(refused) == 2:
                    break
            released.set()
            answers = await asyncio.gather(*calls)
        return [refused, answers]

    refused, answers = asyncio.run(ask())
    for answer in refused:
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.json() == {
            "type": "urn:aiservices:overloaded",
            "title": "Too many calls are waiting",
            "status": 503,
            "method": "Desk.write",
            "retryable": True,
            "retry_after": 1.0,
        }
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 503, 503]


def test_a_call_whose_client_has_left_sends_no_further_request(serve: Callable[[Any], str]) -> None:
    begun, released, left, failed = (threading.Event() for _ in range(4))

    def reply(request: ChatRequest) -> str:
        begun.set()
        assert released.wait(LONGEST_WAIT)
        return "This is not a number."  # the model would get a second request

    def listener(event: Any) -> None:
        if isinstance(event, CallFailed):
            failed.set()

    model = ScriptedChatModel(reply)
    web = app(create(Desk, model, listeners=[listener]))

    async def noting_departures(scope: Any, receive: Any, send: Any) -> None:
        await web(scope, receive, send)
        left.set()

    body = b'{"numbers": [1]}'
    head = (
        f"POST /number HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with connect(serve(noting_departures)) as connection:
        left.clear()  # the application has started
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        assert begun.wait(LONGEST_WAIT)
    assert left.wait(LONGEST_WAIT)
    released.set()
    assert failed.wait(LONGEST_WAIT)
    assert len(model.requests) == 1
