"""Methods of remote clients in the other kind of code, blocking or async."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import httpx2
import pytest

from aiservices import AsyncStream, Result, ScriptedChatModel, Stream, acall, call, create
from aiservices.integrations.fastapi import app, client


class Desk(Protocol):
    def number(self, text: str) -> int: ...

    def told(self, text: str) -> Result[int]: ...

    def growing(self, text: str) -> Stream[int]: ...

    def words(self, text: str) -> Iterator[str]: ...


class AsyncDesk(Protocol):
    async def number(self, text: str) -> int: ...

    async def told(self, text: str) -> Result[int]: ...

    def growing(self, text: str) -> AsyncStream[int]: ...

    def words(self, text: str) -> AsyncIterator[str]: ...


REPLIES = ['{"value": 3}'] * 3 + ["Hello there."]


def test_a_blocking_client_can_be_awaited(serve: Callable[[Any], str]) -> None:
    url = serve(app(create(Desk, ScriptedChatModel(REPLIES))))

    async def main() -> list[object]:
        desk = client(Desk, url)
        return [
            await acall(desk.number, "x"),
            (await acall(desk.told, "x")).value,
            (await acall(desk.growing, "x").result()).value,
            "".join([piece async for piece in acall(desk.words, "x")]),
        ]

    assert asyncio.run(main()) == [3, 3, 3, "Hello there."]


def test_an_async_client_can_be_called_by_blocking_code(serve: Callable[[Any], str]) -> None:
    desk = client(AsyncDesk, serve(app(create(AsyncDesk, ScriptedChatModel(REPLIES)))))
    assert call(desk.number, "x") == 3
    assert call(desk.told, "x").value == 3
    assert call(desk.growing, "x").result().value == 3
    assert "".join(call(desk.words, "x")) == "Hello there."


def test_http_clients_are_needed_for_both_kinds() -> None:
    with httpx2.Client() as http:
        desk = client(Desk, "http://localhost", http=http)
        with pytest.raises(TypeError) as caught:
            acall(desk.number, "x")
    assert str(caught.value) == (
        "client() got only the other HTTP client; pass async_http=httpx2.AsyncClient(...) too"
    )
