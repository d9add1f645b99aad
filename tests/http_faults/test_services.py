"""The four kinds of methods of a service send a request again after the same faults of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from faulty_server import FaultyServer

from aiservices import AsyncStream, Budget, Stream, create, user_message
from aiservices.models.errors import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelServerError,
)

from .dialects import CHAT, KEY, TEXT
from .server import Http, Scene, Serve, raw, refuse
from .table import TRAILERS, coded, html, redirect


class Desk(Protocol):
    @user_message("Hello")
    def ask(self) -> str: ...

    @user_message("Hello")
    async def aask(self) -> str: ...

    @user_message("Hello")
    def tell(self) -> Stream[str]: ...

    @user_message("Hello")
    def atell(self) -> AsyncStream[str]: ...


async def awaited(desk: Any, *, streamed: bool) -> str:
    if not streamed:
        return str(await desk.aask())
    async with desk.atell() as stream:
        return str((await stream.result()).value)


CALLS: dict[str, Callable[[Any], str]] = {
    "blocking": lambda desk: str(desk.ask()),
    "async": lambda desk: asyncio.run(awaited(desk, streamed=False)),
    "stream": lambda desk: str(desk.tell().result().value),
    "async stream": lambda desk: asyncio.run(awaited(desk, streamed=True)),
}

# what the server does at first, what the call gives in the end, and the number of requests
FAULTS: dict[str, tuple[Serve, object, int]] = {
    "trailers": (Http(framing="chunked", last_chunk=TRAILERS), TEXT, 1),
    "trailers after a 400": (refuse("400 Bad", framing="chunked", last_chunk=TRAILERS), BadRequestError, 1),
    "a 503": (refuse("503 Down", "Retry-After: 0"), TEXT, 2),
    "a 503 that must not be repeated": (refuse("503 Down", "x-should-retry: false"), ModelServerError, 1),
    "a 429 with trailers": (
        refuse("429 Slow", "Retry-After: 0", framing="chunked", last_chunk=TRAILERS),
        TEXT,
        2,
    ),
    "a 401": (refuse("401 No"), AuthenticationError, 1),
    "a close before the response": (raw(), TEXT, 2),
    "a close in the body": (Http(cut=200, end="close"), TEXT, 2),
    "no body": (Http(b""), TEXT, 2),
    "a page": (html(), InvalidReplyError, 1),
    "damaged gzip": (coded("gzip", bytes), TEXT, 2),
    "a redirect": (redirect("/other"), TEXT, 2),
    "a redirect to another host": (redirect("http://localhost:PORT/"), InvalidReplyError, 1),
    "only faults": (lambda scene: [*raw()(scene)] * 9, ModelConnectionError, 3),
}


def outcome_of(case: tuple[str, str]) -> tuple[object, int]:
    """Return what a kind of call gives after a fault, and the number of requests."""
    kind, name = case
    with FaultyServer() as server:
        scene = Scene(CHAT, "stream" in kind, server.port)
        server.script[:] = [*FAULTS[name][0](scene), *Http()(scene)]
        with CHAT.model(f"http://127.0.0.1:{server.port}", KEY) as model:
            try:
                outcome: object = CALLS[kind](create(Desk, model, budget=Budget(max_attempts=3)))
            except Exception as error:
                outcome = type(error)
        return outcome, len(server.requests)


def test_requests_are_sent_again_after_the_same_faults_in_all_kinds_of_calls() -> None:
    cases = [(kind, name) for kind in CALLS for name in FAULTS]
    with ThreadPoolExecutor(len(cases)) as pool:  # they wait most of the time
        outcomes = dict(zip(cases, pool.map(outcome_of, cases), strict=True))
    assert outcomes == {case: FAULTS[case[1]][1:] for case in cases}
