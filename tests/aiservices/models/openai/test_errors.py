"""The error mapping: each failure has its class and its whole message, and makes one request."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate

import httpx2
import openai
import pytest
from loopback import Loopback, Reply, answer, error, json_reply, raw_reply, reset_reply

from aiservices.engine.budget import Budget
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
from aiservices.models.http.base import StatusError
from aiservices.models.http.replies import ErrorMapper
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest
from aiservices.structured_model import structured

KEY = "sk-test-0123456789"
HELLO = ChatRequest.of("Hello")
NO_JSON = "the reply is not a chat completion: the body is not JSON; check base_url. It begins: "


@pytest.fixture(params=["own connections", "clients of the SDK"])
def model(request: pytest.FixtureRequest, loopback: Loopback) -> Iterator[OpenAiChatModel]:
    if request.param == "own connections":
        with OpenAiChatModel("gpt-x", base_url=loopback.base_url, api_key=KEY) as made:
            yield made
        return
    unkept = openai.DefaultAsyncHttpxClient(limits=httpx2.Limits(max_keepalive_connections=0))
    waiting = openai.AsyncOpenAI(base_url=loopback.base_url, api_key=KEY, http_client=unkept)
    with openai.OpenAI(base_url=loopback.base_url, api_key=KEY) as client:
        yield OpenAiChatModel("gpt-x", client=client, async_client=waiting)


def failure(model: OpenAiChatModel, request: ChatRequest = HELLO) -> ModelError:
    """Return the error of a request, which must be the same for a blocking and an asynchronous call."""
    with pytest.raises(ModelError) as blocking:
        model.complete(request)
    with pytest.raises(ModelError) as waiting:
        asyncio.run(model.acomplete(request))
    assert type(waiting.value) is type(blocking.value)
    assert waiting.value.retryable is blocking.value.retryable
    return blocking.value


@pytest.mark.parametrize(
    ("reply", "kind", "expected_text", "retryable"),
    [
        (
            error(400, "'temperature' is not supported"),
            BadRequestError,
            "400 the request is not accepted: 'temperature' is not supported; fix what the message reports",
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
            error(403, "Your country is not supported"),
            AuthenticationError,
            "403 not permitted: Your country is not supported; check the permissions of the key",
            False,
        ),
        (
            error(404, "The model does not exist", code="model_not_found"),
            ModelNotFoundError,
            "404 not found: The model does not exist; check the model's name and base_url",
            False,
        ),
        (
            error(402, "Insufficient balance"),
            RateLimitError,
            "402 the quota is used up: Insufficient balance; check plan and billing of the account",
            False,
        ),
        (
            error(424, "The model stopped"),
            ModelServerError,
            "424 the model failed: The model stopped; try again later",
            True,
        ),
        (
            error(408, "Request timeout"),
            ModelTimeoutError,
            "408 the server ended the request with a timeout: Request timeout; try again",
            True,
        ),
        (
            error(409, "Conflict"),
            BadRequestError,
            "409 the request is not accepted: Conflict; fix what the message reports",
            True,
        ),
        (
            json_reply({"detail": [{"loc": ["body"], "msg": "bad"}]}, status=422),
            BadRequestError,
            '422 the request is not accepted: [{"loc":["body"],"msg":"bad"}]; fix what the message reports',
            False,
        ),
        (
            error(429, "Rate limit reached", code="rate_limit_exceeded"),
            RateLimitError,
            "429 too many requests: Rate limit reached; send fewer requests",
            True,
        ),
        (
            error(429, "You exceeded your current quota", code="insufficient_quota"),
            RateLimitError,
            "429 the quota is used up: You exceeded your current quota; check plan and billing of "
            "the account",
            False,
        ),
        (
            raw_reply(b"<h1>Bad\n  Gateway</h1>", status=502, content_type="text/html"),
            ModelServerError,
            "502 the server failed: <h1>Bad Gateway</h1>; try again later",
            True,
        ),
        (
            raw_reply(b"", status=503),
            ModelServerError,
            "503 the server failed; try again later",
            True,
        ),
        (
            json_reply({"message": "no"}, status=500, headers={"x-should-retry": "false"}),
            ModelServerError,
            "500 the server failed: no; try again later",
            False,
        ),
        (
            json_reply("just a text", status=400, headers={"x-should-retry": "true"}),
            BadRequestError,
            "400 the request is not accepted: just a text; fix what the message reports",
            True,
        ),
        (
            raw_reply(b"", status=304),
            InvalidReplyError,
            "304 unexpected status; check base_url",
            False,
        ),
        (
            raw_reply(b"x" * 400, status=418),
            BadRequestError,
            f"418 the request is not accepted: {'x' * 300}…; fix what the message reports",
            False,
        ),
    ],
)
def test_every_status_has_its_error(
    loopback: Loopback,
    model: OpenAiChatModel,
    reply: Reply,
    kind: type[ModelError],
    expected_text: str,
    retryable: bool,
) -> None:
    loopback.reply(reply)
    caught = failure(model)
    assert str(caught) == f"openai:gpt-x at {loopback.base_url}: {expected_text}"
    assert type(caught) is kind
    assert (caught.status, caught.retryable, caught.retry_after) == (reply.status, retryable, None)
    assert caught.body == reply.body.decode().replace(KEY, "[redacted]")
    assert isinstance(caught.__cause__, (StatusError, openai.APIStatusError))
    assert len(loopback.requests) == 2  # one for each of the two ways


def test_the_id_of_the_request_is_in_the_error(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(error(500, "no", headers={"x-request-id": "req_1"}))
    assert failure(model).request_id == "req_1"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_wait_that_the_server_asks_for_is_in_the_error(
    loopback: Loopback, model: OpenAiChatModel, headers: dict[str, str], seconds: float | None
) -> None:
    loopback.reply(error(429, "slow down", headers=headers))
    caught = failure(model)
    assert caught.retry_after == seconds
    advice = "send fewer requests" if seconds is None else f"wait {seconds:g} s or send fewer requests"
    assert str(caught) == f"openai:gpt-x at {loopback.base_url}: 429 too many requests: slow down; {advice}"


def test_a_wait_until_a_date_is_counted_from_now(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(error(503, "later", headers={"retry-after": formatdate(time.time() + 60, usegmt=True)}))
    wait = failure(model).retry_after
    assert wait is not None
    assert 50 < wait <= 60


@pytest.mark.parametrize(
    ("sent", "expected_text"),
    [
        (b"<html>Welcome</html>", NO_JSON + "'<html>Welcome</html>'"),
        (b"\xff", NO_JSON + "'\ufffd'"),
        (b"x" * 400, NO_JSON + f"'{'x' * 300}…'"),
        (
            b"[]",
            "the reply is not a chat completion: the body is not a JSON object; check base_url. "
            "It begins: '[]'",
        ),
        (
            b'{"models": []}',
            "the reply is not a chat completion: it has no choices; check base_url. "
            "It begins: '{\"models\": []}'",
        ),
        (
            b'{"choices": []}',
            "the reply is not a chat completion: it has no choices; check base_url. "
            "It begins: '{\"choices\": []}'",
        ),
        (
            b'{"choices": [{"text": "old"}]}',
            "the reply is not a chat completion: its choices have an unexpected shape; check base_url. "
            'It begins: \'{"choices": [{"text": "old"}]}\'',
        ),
        (
            b'{"choices": [{"message": {"content": 7}}]}',
            "the reply is not a chat completion: its choices have an unexpected shape; check base_url. "
            'It begins: \'{"choices": [{"message": {"content": 7}}]}\'',
        ),
    ],
)
def test_a_reply_that_is_not_a_completion_is_an_invalid_reply(
    loopback: Loopback, model: OpenAiChatModel, sent: bytes, expected_text: str
) -> None:
    loopback.reply(raw_reply(sent))
    caught = failure(model)
    assert str(caught) == f"openai:gpt-x at {loopback.base_url}: {expected_text}"
    assert type(caught) is InvalidReplyError
    assert caught.body == sent.decode(errors="replace")
    assert caught.retryable == (sent == b'{"choices": []}')  # another request may get an answer


def test_a_reply_without_a_body_may_be_requested_again(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(raw_reply(b""))
    caught = failure(model)
    assert str(caught) == f"openai:gpt-x at {loopback.base_url}: the reply is empty; try again"
    assert type(caught) is ModelConnectionError
    assert caught.retryable


def test_an_error_with_a_good_status_is_still_an_error(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(json_reply({"error": {"message": "Provider returned error", "code": 429}}))
    caught = failure(model)
    assert type(caught) is RateLimitError
    assert str(caught) == (
        f"openai:gpt-x at {loopback.base_url}: 429 too many requests: Provider returned error; send "
        "fewer requests"
    )
    assert (caught.status, caught.retryable) == (429, True)


def test_a_reset_connection_is_a_connection_error(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(reset_reply())
    caught = failure(model)
    assert type(caught) is ModelConnectionError
    name = "ReadError" if isinstance(caught.__cause__, openai.APIConnectionError) else "ConnectionResetError"
    message = str(caught)
    assert message.startswith(
        f"openai:gpt-x at {loopback.base_url}: the connection failed ({name}: [Errno 104] "
    )
    assert message.endswith("Connection reset by peer); check base_url and the network")
    assert caught.retryable
    assert isinstance(caught.__cause__, (OSError, openai.APIConnectionError))
    assert len(loopback.requests) == 2


def test_a_refused_connection_says_what_to_check() -> None:
    with OpenAiChatModel("gpt-x", base_url="http://127.0.0.1:1/v1", api_key=KEY) as model:
        caught = failure(model)
    assert type(caught) is ModelConnectionError
    assert str(caught) == (
        "openai:gpt-x at http://127.0.0.1:1/v1: connection refused; check base_url and that the server runs"
    )
    assert (caught.status, caught.retryable) == (None, True)
    assert isinstance(caught.__cause__, ConnectionRefusedError)


def test_the_advice_for_an_unreachable_server_names_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    with OpenAiChatModel.ollama("qwen3") as model:
        assert str(failure(model)) == (
            "ollama:qwen3 at http://127.0.0.1:1/v1: connection refused; start Ollama with `ollama serve`, or "
            "set OLLAMA_HOST"
        )
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:1/v1")
    with OpenAiChatModel.preset("vllm", "m") as model:
        assert str(failure(model)).endswith("refused; check VLLM_BASE_URL and that the server runs")
    with OpenAiChatModel("m", provider="ollama", base_url="http://127.0.0.1:1/v1") as model:
        assert str(failure(model)).endswith("refused; check base_url and that the server runs")


def test_an_error_that_the_caller_was_handling_is_not_mistaken_for_the_cause() -> None:
    with OpenAiChatModel("gpt-x", base_url="http://127.0.0.1:1/v1", api_key=KEY) as model:
        try:
            raise TimeoutError("of the caller")
        except TimeoutError:
            caught = failure(model)
    assert type(caught) is ModelConnectionError


def test_an_unknown_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with OpenAiChatModel("gpt-x", base_url="http://models.invalid/v1", api_key=KEY) as model:
        caught = failure(model)
    assert type(caught) is ModelConnectionError
    assert str(caught) == (
        "openai:gpt-x at http://models.invalid/v1: the host name is unknown; check base_url and the network"
    )


def test_an_untrusted_certificate_says_so() -> None:
    cause = ssl.SSLCertVerificationError(1, "certificate verify failed")
    cause.verify_message = "self-signed certificate"
    caught = ErrorMapper("openai:x at https://h/v1").from_exception(ExceptionGroup("all attempts", [cause]))
    assert str(caught) == (
        "openai:x at https://h/v1: its certificate is not trusted (self-signed certificate); "
        "check base_url and the certificates"
    )


def test_no_reply_in_time_is_a_timeout(loopback: Loopback, model: OpenAiChatModel) -> None:
    release = threading.Event()
    loopback.reply(Reply(wait_for=release))
    caught = failure(model, ChatRequest.of("x", options=ChatOptions(timeout=0.2)))
    release.set()
    assert type(caught) is ModelTimeoutError
    assert str(caught) == (
        f"openai:gpt-x at {loopback.base_url}: no reply within 0.2 s; "
        "set a longer timeout in ChatOptions or ask for less"
    )
    assert caught.retryable
    assert isinstance(caught.__cause__, (TimeoutError, openai.APITimeoutError))
    assert len(loopback.requests) == 2


def test_an_error_names_the_model_of_its_request(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(error(404, "no such model"))
    caught = failure(model, ChatRequest.of("x", options=ChatOptions(model="other")))
    assert str(caught) == (
        f"openai:other at {loopback.base_url}: 404 not found: no such model; "
        "check the model's name and base_url"
    )


def test_a_missing_key_says_how_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    caught = failure(OpenAiChatModel("gpt-x"))
    assert type(caught) is AuthenticationError
    assert str(caught) == "openai:gpt-x: no API key; set OPENAI_API_KEY or pass api_key"
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-0123456789")
    assert str(failure(OpenAiChatModel("gpt-x"))) == str(caught)


def test_azure_says_which_of_its_settings_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    caught = failure(OpenAiChatModel.azure("d"))
    assert type(caught) is AuthenticationError
    assert str(caught) == (
        "azure:d: no API key; set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or pass api_key"
    )
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    caught = failure(OpenAiChatModel.azure("d"))
    assert type(caught) is ModelConnectionError
    assert str(caught) == (
        "azure:d: Must provide either the `api_version` argument or the `OPENAI_API_VERSION` environment "
        "variable; set AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION"
    )


@pytest.mark.parametrize("key", ["sk-secret\n", "sk-секрет"])
def test_a_key_that_is_not_valid_in_a_header_is_rejected_without_being_shown(
    loopback: Loopback, key: str
) -> None:
    caught = failure(OpenAiChatModel("m", base_url=loopback.base_url, api_key=key))
    assert type(caught) is AuthenticationError
    assert str(caught) == (
        "openai:m: the API key contains a line break or another character that is not allowed in a key; "
        "set OPENAI_API_KEY or pass api_key"
    )
    assert loopback.requests == []


def test_a_header_that_http_does_not_allow_is_not_quoted(loopback: Loopback, model: OpenAiChatModel) -> None:
    headers = {"X-Api-Key": "line\nend"}
    caught = failure(model, ChatRequest.of("x", options=ChatOptions(extra_headers=headers)))
    assert str(caught) == (
        f"openai:gpt-x at {loopback.base_url}: a header contains a character that HTTP does not allow, "
        "such as a line break; "
        "check the key and extra_headers"
    )


@pytest.mark.parametrize(
    ("request_", "expected_text"),
    [
        (ChatRequest.of("half a \ud83d character"), "surrogates not allowed"),
        (ChatRequest.of("x", options=ChatOptions(extra_body={"a": object()})), "object has no JSON form"),
    ],
)
def test_a_request_that_cannot_be_written_as_json_is_never_sent(
    loopback: Loopback, model: OpenAiChatModel, request_: ChatRequest, expected_text: str
) -> None:
    loopback.reply(answer("Hi"))
    caught = failure(model, request_)
    assert type(caught) is BadRequestError
    assert str(caught).startswith(
        f"openai:gpt-x at {loopback.base_url}: the request cannot be written as JSON: "
    )
    assert expected_text in str(caught)
    assert str(caught).endswith("; texts must be valid Unicode, values plain JSON")
    assert loopback.requests == []


def test_a_short_key_is_an_ordinary_word_in_messages() -> None:
    expected_text = ErrorMapper("ollama:x at http://h/v1", ("ollama",)).broken_stream("")
    assert str(expected_text) == (
        "ollama:x at http://h/v1: the stream ended after 0 characters, before the reply was "
        "complete; try again"
    )


def test_a_reply_without_choices_may_be_requested_again(loopback: Loopback) -> None:
    loopback.reply(json_reply({"choices": []}), answer("hi"))
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k") as model:
        assert structured(model, str, budget=Budget(first_wait=0.0)).invoke("x") == "hi"
