"""Tests of functions as API keys: another key after a 401, asynchronous functions, and redacted keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from loopback import Loopback, ReceivedRequest, Reply, answer, error, json_reply

from aiservices import (
    AnthropicChatModel,
    AuthenticationError,
    BedrockChatModel,
    ChatModel,
    ChatRequest,
    DefinitionError,
    GeminiChatModel,
    ModelError,
    OpenAiChatModel,
)

HELLO = ChatRequest.of("Hello")
MODELS = [
    pytest.param(AnthropicChatModel, "x-api-key", "", id="anthropic"),
    pytest.param(BedrockChatModel, "authorization", "Bearer ", id="bedrock"),
    pytest.param(GeminiChatModel, "x-goog-api-key", "", id="gemini"),
    pytest.param(OpenAiChatModel, "authorization", "Bearer ", id="openai"),
]


def complete(model: ChatModel) -> None:
    model.complete(HELLO)


def acomplete(model: ChatModel) -> None:
    asyncio.run(model.acomplete(HELLO))  # type: ignore[arg-type]  # it is a coroutine


def stream(model: ChatModel) -> None:
    list(model.stream(HELLO))


def astream(model: ChatModel) -> None:
    async def read() -> None:
        async for _ in model.astream(HELLO):
            pass

    asyncio.run(read())


CALLS = [complete, acomplete, stream, astream]
ASYNC_CALLS = [acomplete, astream]


def echo_key(request: ReceivedRequest) -> Reply:
    """Refuse the key and quote it, as some servers do."""
    key = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
    return error(401, f"the key {key} is wrong")


def sent_keys(server: Loopback, header: str) -> list[str]:
    return [request.headers[header] for request in server.requests]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("make", "header", "prefix"), MODELS)
def test_another_key_is_asked_for_when_the_server_refuses_the_first(
    make: Any, header: str, prefix: str, call: Callable[[ChatModel], None], loopback: Loopback
) -> None:
    keys = iter(["expired-key", "current-key"])
    loopback.reply(error(401, "expired"), answer("Yes."))
    with suppress(ModelError):  # the reply is that of OpenAI
        call(make("m", base_url=loopback.base_url, api_key=lambda: next(keys)))
    assert sent_keys(loopback, header) == [f"{prefix}expired-key", f"{prefix}current-key"]
    assert loopback.requests[0].body == loopback.requests[1].body


@pytest.mark.parametrize("call", CALLS)
def test_a_request_is_repeated_only_once(call: Callable[[ChatModel], None], loopback: Loopback) -> None:
    keys = iter(["first-key", "second-key", "third-key"])
    loopback.reply(echo_key)
    with pytest.raises(AuthenticationError) as caught:
        call(OpenAiChatModel("m", base_url=loopback.base_url, api_key=lambda: next(keys)))
    assert len(loopback.requests) == 2
    assert "401 the key is not accepted: the key [redacted] is wrong" in str(caught.value)
    assert "second-key" not in f"{caught.value} {caught.value.body}"


@pytest.mark.parametrize("call", CALLS)
def test_the_same_key_is_not_sent_twice(call: Callable[[ChatModel], None], loopback: Loopback) -> None:
    loopback.reply(echo_key)
    with pytest.raises(AuthenticationError):
        call(OpenAiChatModel("m", base_url=loopback.base_url, api_key=lambda: "the-only-key"))
    assert sent_keys(loopback, "authorization") == ["Bearer the-only-key"]


def test_a_fixed_key_is_not_sent_twice(loopback: Loopback) -> None:
    loopback.reply(error(401, "wrong"))
    with pytest.raises(AuthenticationError):
        OpenAiChatModel("m", base_url=loopback.base_url, api_key="the-fixed-key").complete(HELLO)
    assert len(loopback.requests) == 1


@pytest.mark.parametrize("call", ASYNC_CALLS)
@pytest.mark.parametrize(("make", "header", "prefix"), MODELS)
def test_a_function_for_the_key_may_be_asynchronous(
    make: Any, header: str, prefix: str, call: Callable[[ChatModel], None], loopback: Loopback
) -> None:
    keys = iter(["expired-key", "current-key"])

    async def fetch() -> str:
        await asyncio.sleep(0)
        return next(keys)

    loopback.reply(error(401, "expired"), answer("Yes."))
    with suppress(ModelError):  # the reply is that of OpenAI
        call(make("m", base_url=loopback.base_url, api_key=fetch))
    assert sent_keys(loopback, header) == [f"{prefix}expired-key", f"{prefix}current-key"]


async def fetch_key() -> str:
    return "the-fetched-key"


def key_coroutine() -> Awaitable[str]:
    return fetch_key()


@pytest.mark.parametrize("get_key", [fetch_key, key_coroutine])
def test_an_asynchronous_function_cannot_be_used_in_a_blocking_call(
    get_key: Callable[[], Awaitable[str]], loopback: Loopback
) -> None:
    loopback.reply(answer("Yes."))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key=get_key)
    asyncio.run(model.acomplete(HELLO))  # type: ignore[arg-type]  # it is a coroutine
    with pytest.raises(DefinitionError) as caught:
        model.complete(HELLO)
    assert str(caught.value) == (
        "openai:m: the function for the API key is asynchronous; pass a blocking function, or call an "
        "asynchronous method"
    )
    assert sent_keys(loopback, "authorization") == ["Bearer the-fetched-key"]


def test_an_access_token_for_vertex_may_come_from_an_asynchronous_function(loopback: Loopback) -> None:
    loopback.reply(json_reply({"candidates": [{"content": {"parts": [{"text": "Yes."}]}}]}))
    model = GeminiChatModel("m", base_url=loopback.base_url, token=fetch_key)
    acomplete(model)
    assert sent_keys(loopback, "authorization") == ["Bearer the-fetched-key"]
    with pytest.raises(DefinitionError, match="google-vertex:m: the function for the access token is async"):
        model.complete(HELLO)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", [AnthropicChatModel, OpenAiChatModel])
def test_a_key_of_a_function_is_not_in_errors_and_logs(
    make: Any, call: Callable[[ChatModel], None], loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    loopback.reply(echo_key)
    with pytest.raises(AuthenticationError) as caught:
        call(make("m", base_url=loopback.base_url, api_key=lambda: "secret-key-123"))
    assert "the key [redacted] is wrong" in caplog.text
    for text in (str(caught.value), repr(caught.value.body), caplog.text):
        assert "secret-key-123" not in text


def test_a_key_stays_secret_after_many_others(loopback: Loopback) -> None:
    number = 0

    def next_key() -> str:
        nonlocal number
        number += 1
        return f"secret-key-{number}"

    loopback.reply(lambda request: error(400, f"keys: {' '.join(f'secret-key-{n}' for n in (39, 40))}"))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key=next_key)
    for _ in range(40):
        with pytest.raises(ModelError) as caught:
            model.complete(HELLO)
    assert "keys: [redacted] [redacted];" in str(caught.value)
