"""Reused connections: a stale one is replaced, and a request is never sent twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import openai
import pytest
from faulty_server import (
    BODY,
    Action,
    FaultyServer,
    http_response,
    send,
    send_and_close,
    send_and_end_tls,
    send_and_reset,
)

from aiservices import Budget, create, user_message
from aiservices.models.errors import ModelConnectionError, ModelError
from aiservices.models.http import curl
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

MakeCaller = Callable[[str], Any]


class Greeter(Protocol):
    @user_message("Greet")
    def greet(self) -> str: ...


def test_ten_calls_need_one_connection(make_caller: MakeCaller) -> None:
    with FaultyServer(send(http_response())) as server:
        client = make_caller(server.base_url)
        assert [client.ask() for _ in range(10)] == ["Hi"] * 10
        assert server.opened == 1
        client.close()
        assert server.settled(0)


@pytest.mark.parametrize(
    "act", [send_and_close(http_response()), send_and_reset(http_response())], ids=["FIN", "RST"]
)
def test_a_connection_that_the_server_closed_after_an_answer_costs_no_request(
    make_caller: MakeCaller, act: Action
) -> None:
    with FaultyServer(act) as server:
        client = make_caller(server.base_url)
        for _ in range(4):
            assert client.ask() == "Hi"
            assert server.settled(0)
        assert len(server.requests) == server.opened == 4


def test_only_the_connections_that_the_server_closed_are_replaced(echo: Any) -> None:
    async def ask() -> None:
        async with OpenAiChatModel("m", base_url=echo.base_url, api_key="k") as model:

            async def ask_many(count: int) -> None:
                calls = (model.acomplete(ChatRequest.of(f"{call}")) for call in range(count))
                replies = await asyncio.gather(*calls)
                assert [reply.text for reply in replies] == [f"{call}" for call in range(count)]

            echo.delay = 0.1
            await ask_many(20)
            echo.delay = 0.0
            assert echo.opened == 20
            for _ in range(10):
                echo.close_a_connection()
                await asyncio.sleep(0.01)
                await ask_many(1)
            assert echo.opened == 20
            await ask_many(5)
            assert echo.opened == 20

    asyncio.run(ask())


def test_connections_that_end_right_after_a_response_over_tls_are_noticed(
    make_caller: MakeCaller, trusted: Any
) -> None:
    with FaultyServer(send_and_end_tls(http_response()), context=trusted.server()) as server:
        client = make_caller(server.base_url)
        outcomes = []
        for _ in range(6):
            try:
                outcomes.append(client.ask())
            except ModelConnectionError:
                outcomes.append("")
        assert outcomes.count("") <= 1
        assert outcomes[-1] == "Hi"


@pytest.mark.parametrize("act", [send_and_close(), send_and_reset()], ids=["FIN", "RST"])
def test_a_connection_that_breaks_when_it_is_reused_is_an_error_once(
    make_caller: MakeCaller, act: Action
) -> None:
    with FaultyServer(send(http_response()), act, send(http_response())) as server:
        client = make_caller(server.base_url)
        assert client.ask() == "Hi"
        with pytest.raises(ModelConnectionError) as caught:
            client.ask()
        assert caught.value.retryable
        assert len(server.requests) == 2  # it may have reached the model
        assert client.ask() == "Hi"
        assert server.opened == 2


def test_a_restarted_server_is_reached_again(make_caller: MakeCaller) -> None:
    with FaultyServer(send(http_response())) as first:
        client = make_caller(first.base_url)
        assert client.ask() == "Hi"
        port = first.port
    with pytest.raises(ModelConnectionError) as caught:
        client.ask()
    assert str(caught.value).endswith(": connection refused; check base_url and that the server runs")
    with FaultyServer(send(http_response(BODY.replace(b"Hi", b"Ho"))), port=port) as second:
        assert client.ask() == "Ho"
        assert len(second.requests) == 1
        client.close()


@pytest.mark.slow
def test_a_connection_that_was_idle_for_long_is_not_used_again(
    make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl, "IDLE_SECONDS", 1)
    with FaultyServer(send(http_response())) as server:
        client = make_caller(server.base_url)
        for opened in (1, 2):
            assert [client.ask() for _ in range(3)] == ["Hi"] * 3
            assert server.opened == opened
            time.sleep(2.1)  # libcurl counts whole seconds


def test_a_service_tries_again_if_an_idle_connection_broke() -> None:
    with (
        FaultyServer(
            send(http_response()), send_and_close(), send_and_reset(), send(http_response())
        ) as server,
        OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
    ):
        greeter = create(Greeter, model, budget=Budget(max_attempts=3, first_wait=0))
        assert [greeter.greet(), greeter.greet()] == ["Hi", "Hi"]
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("act", "requests"),
    [
        (send_and_close(), 3),
        (send_and_reset(), 3),
        (send_and_reset(http_response()[:30]), 3),
        (send_and_close(http_response()[:-5]), 3),
        (send(http_response(status="500 Oops", headers="retry-after-ms: 1\r\n")), 3),
        (send(http_response(status="503 Oops", headers="retry-after-ms: 1\r\n")), 3),
        (send(http_response(status="429 Slow down", headers="retry-after-ms: 1\r\n")), 3),
        (send(http_response(status="408 Late", headers="retry-after-ms: 1\r\n")), 3),
        (send(http_response(status="409 Locked", headers="retry-after-ms: 1\r\n")), 3),
        (send(http_response(status="500 Oops", headers="x-should-retry: false\r\n")), 1),
        (send(http_response(status="400 No", headers="x-should-retry: true\r\nretry-after-ms: 1\r\n")), 3),
        (send(http_response(status="400 No")), 1),
        (send(http_response(status="401 Who")), 1),
        (send(http_response(status="404 Where")), 1),
        (send(http_response(status="422 What")), 1),
    ],
    ids=range(15),
)
def test_a_request_is_sent_as_often_as_the_sdk_sends_it(
    act: Action, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0)
    with (
        FaultyServer(act) as server,
        OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
        openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=2) as client,
    ):
        with pytest.raises(ModelError):
            create(Greeter, model, budget=Budget(max_attempts=3, first_wait=0)).greet()
        ours = len(server.requests)
        with pytest.raises(openai.OpenAIError):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Greet"}])
        assert (ours, len(server.requests) - ours) == (requests, requests)
