"""Failures of OpenAiResponsesModel: each has its class and its whole message, and makes one request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from loopback import Loopback, Reply, error, json_reply, raw_reply, reset_reply
from responses_api import message, response, response_reply

from aiservices.models.errors import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
)
from aiservices.models.openai import OpenAiResponsesModel
from aiservices.models.requests import ChatOptions, ChatRequest

KEY = "sk-test-0123456789"
HELLO = ChatRequest.of("Hello")
NONE = "the reply is not a response of the Responses API: "


@pytest.fixture
def model(loopback: Loopback) -> Iterator[OpenAiResponsesModel]:
    with OpenAiResponsesModel("gpt-x", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


def failure(model: OpenAiResponsesModel, request: ChatRequest = HELLO) -> ModelError:
    """Return the error of a request, which must be the same for blocking, asynchronous and streamed calls."""
    with pytest.raises(ModelError) as blocking:
        model.complete(request)
    with pytest.raises(ModelError) as waiting:
        asyncio.run(model.acomplete(request))
    with pytest.raises(ModelError) as streaming:
        list(model.stream(request))
    for other in (waiting.value, streaming.value):
        assert type(other) is type(blocking.value)
        assert str(other) == str(blocking.value)
        assert other.retryable is blocking.value.retryable
    return blocking.value


@pytest.mark.parametrize(
    ("reply", "kind", "expected_text", "retryable"),
    [
        (
            error(400, "Unsupported parameter: 'top_p'"),
            BadRequestError,
            "400 the request is not accepted: Unsupported parameter: 'top_p'; fix what the message reports",
            False,
        ),
        (
            error(401, f"Incorrect API key provided: {KEY}."),
            AuthenticationError,
            "401 the key is not accepted: Incorrect API key provided: [redacted].; "
            "set OPENAI_API_KEY or pass api_key",
            False,
        ),
        (
            error(404, "Not Found"),
            ModelNotFoundError,
            "404 not found: Not Found; check the model's name and base_url",
            False,
        ),
        (
            error(429, "Rate limit reached", headers={"retry-after": "2"}),
            RateLimitError,
            "429 too many requests: Rate limit reached; wait 2 s or send fewer requests",
            True,
        ),
        (error(503, "later"), ModelServerError, "503 the server failed: later; try again later", True),
    ],
)
def test_every_status_has_its_error(
    loopback: Loopback,
    model: OpenAiResponsesModel,
    reply: Reply,
    kind: type[ModelError],
    expected_text: str,
    retryable: bool,
) -> None:
    loopback.reply(reply)
    caught = failure(model)
    assert str(caught) == f"openai-responses:gpt-x at {loopback.base_url}: {expected_text}"
    assert type(caught) is kind
    assert (caught.status, caught.retryable) == (reply.status, retryable)
    assert KEY not in (caught.body or "")
    assert len(loopback.requests) == 3  # one for each of the three ways


@pytest.mark.parametrize(
    ("code", "kind", "expected_text", "retryable"),
    [
        ("server_error", ModelServerError, "500 the server failed: Oh; try again later", True),
        ("rate_limit_exceeded", RateLimitError, "429 too many requests: Oh; send fewer requests", True),
        (
            "invalid_prompt",
            BadRequestError,
            "400 the request is not accepted: Oh; fix what the message reports",
            False,
        ),
    ],
)
def test_a_response_that_failed_is_the_error_that_it_names(
    loopback: Loopback,
    model: OpenAiResponsesModel,
    code: str,
    kind: type[ModelError],
    expected_text: str,
    retryable: bool,
) -> None:
    loopback.reply(response_reply(status="failed", error={"code": code, "message": "Oh"}))
    caught = failure(model)
    assert type(caught) is kind
    assert str(caught) == f"openai-responses:gpt-x at {loopback.base_url}: {expected_text}"
    assert (caught.status, caught.retryable) == (None, retryable)


def test_a_response_that_failed_without_a_reason_is_the_servers_failure(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(status="failed"))
    assert str(failure(model)) == (
        f"openai-responses:gpt-x at {loopback.base_url}: "
        "500 the server failed: the response failed; try again later"
    )


@pytest.mark.parametrize(
    ("sent", "expected_text"),
    [
        (b"<html>", NONE + "the body is not JSON; check base_url. It begins: '<html>'"),
        (b"[]", NONE + "the body is not a JSON object; check base_url. It begins: '[]'"),
        (
            b'{"choices": []}',
            NONE + "it has no output; check base_url. It begins: '{\"choices\": []}'",
        ),
        (
            b'{"output": ["Hi"]}',
            NONE + 'its output has an unexpected shape; check base_url. It begins: \'{"output": ["Hi"]}\'',
        ),
        (
            b'{"output": [{"type": "message"}]}',
            NONE + "its output has an unexpected shape; check base_url. "
            'It begins: \'{"output": [{"type": "message"}]}\'',
        ),
    ],
)
def test_a_reply_that_is_not_a_response_is_an_invalid_reply(
    loopback: Loopback, model: OpenAiResponsesModel, sent: bytes, expected_text: str
) -> None:
    loopback.reply(raw_reply(sent))
    caught = failure(model)
    assert type(caught) is InvalidReplyError
    assert str(caught) == f"openai-responses:gpt-x at {loopback.base_url}: {expected_text}"
    assert (caught.body, caught.retryable) == (sent.decode(), False)


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_an_unfinished_background_response_is_an_invalid_reply(
    loopback: Loopback, model: OpenAiResponsesModel, status: str
) -> None:
    loopback.reply(response_reply(message("Hal"), status=status))
    caught = failure(model)
    assert type(caught) is InvalidReplyError
    assert str(caught).startswith(
        f"openai-responses:gpt-x at {loopback.base_url}: {NONE}its status is {status}, "
        "and background responses are not supported; check base_url. It begins: '{"
    )


def test_an_error_with_a_good_status_is_still_an_error(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(json_reply({**response(), "error": {"message": "Oh", "code": "model_not_found"}}))
    assert type(failure(model)) is ModelNotFoundError


def test_a_reset_connection_is_a_connection_error(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(reset_reply())
    with pytest.raises(ModelConnectionError) as caught:
        model.complete(HELLO)
    assert str(caught.value) == (
        f"openai-responses:gpt-x at {loopback.base_url}: the connection failed (ConnectionResetError: "
        "[Errno 104] Recv failure: Connection reset by peer); check base_url and the network"
    )
    with pytest.raises(ModelConnectionError):
        asyncio.run(model.acomplete(HELLO))
    assert len(loopback.requests) == 2


def test_no_reply_in_time_is_a_timeout(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    release = threading.Event()
    loopback.reply(Reply(wait_for=release))
    caught = failure(model, ChatRequest.of("x", options=ChatOptions(timeout=0.2)))
    release.set()
    assert type(caught) is ModelTimeoutError
    assert str(caught) == (
        f"openai-responses:gpt-x at {loopback.base_url}: no reply within 0.2 s; "
        "set a longer timeout in ChatOptions or ask for less"
    )
    assert len(loopback.requests) == 3


def test_a_missing_key_says_how_to_set_one() -> None:
    caught = failure(OpenAiResponsesModel("gpt-x"))
    assert type(caught) is AuthenticationError
    assert str(caught) == "openai-responses:gpt-x: no API key; set OPENAI_API_KEY or pass api_key"


def test_a_text_that_cannot_be_written_as_json_is_never_sent(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(response_reply(message("Hi")))
    caught = failure(model, ChatRequest.of("half a \ud83d character"))
    assert type(caught) is BadRequestError
    assert str(caught).startswith(
        f"openai-responses:gpt-x at {loopback.base_url}: the request cannot be written as JSON: "
    )
    assert loopback.requests == []
