"""A server that violates HTTP causes a clear error, and leaves nothing open; see also tests/http_faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from faulty_server import (
    BODY,
    Action,
    FaultyServer,
    chunked_response,
    http_response,
    send,
    send_and_close,
    send_and_half_close,
    send_and_reset,
    split_at,
)

from aiservices.models.errors import (
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
)
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

HELLO = ChatRequest.of("Hello", options=ChatOptions(timeout=5))
AskRequest = Callable[[OpenAiChatModel, ChatRequest], str]


def ask_blocking(model: OpenAiChatModel, request: ChatRequest = HELLO) -> str:
    with model:
        return model.complete(request).text


def ask_waiting(model: OpenAiChatModel, request: ChatRequest = HELLO) -> str:
    async def ask() -> str:
        async with model:
            return (await model.acomplete(request)).text

    return asyncio.run(ask())


def stream_blocking(model: OpenAiChatModel, request: ChatRequest = HELLO) -> str:
    with model:
        return "".join(delta.text for delta in model.stream(request))


def stream_waiting(model: OpenAiChatModel, request: ChatRequest = HELLO) -> str:
    async def ask() -> str:
        async with model:
            return "".join([delta.text async for delta in model.astream(request)])

    return asyncio.run(ask())


ASKS = pytest.mark.parametrize("ask", [ask_blocking, ask_waiting, stream_blocking, stream_waiting])
WHOLE_ASKS = pytest.mark.parametrize("ask", [ask_blocking, ask_waiting])


def model_at(server: FaultyServer) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=server.base_url, api_key="sk-test-0123456789")


HEAD = http_response()[: -len(BODY)]
CUT_SHORT = "the connection was cut before the reply was complete; try again, and check the network"


@ASKS
@pytest.mark.parametrize(
    "act",
    [
        send_and_reset(),
        send_and_close(),
        send_and_half_close(),
        send_and_reset(b"HTTP/1.1 200 O"),
        send_and_close(HEAD[:60]),
        send_and_half_close(HEAD[:60]),
        send_and_reset(HEAD + BODY[:20]),
        send_and_close(HEAD + BODY[:20]),
        send_and_half_close(HEAD + BODY[:20]),
        send_and_reset(chunked_response(BODY[:20], end=b"")),
        send_and_close(chunked_response(BODY[:20], end=b"")),
        send_and_close(chunked_response(BODY[:20], end=b"5\r\nab")),
        send_and_close(chunked_response(BODY[:20], end=b"zz\r\n")),
        send_and_close(chunked_response(BODY[:20], end=b"-5\r\n")),
        send_and_close(b"\x00\x01\x02 this is no HTTP\r\n\r\n"),
        send_and_close(b"HTTP/1.1 abc\r\n\r\n"),
        send_and_close(b"SSH-2.0-OpenSSH_9.2\r\n"),
    ],
    ids=range(17),
)
def test_a_connection_that_breaks_is_a_connection_error_that_may_be_tried_again(
    ask: AskRequest, act: Action
) -> None:
    with FaultyServer(act) as server:
        with pytest.raises(ModelError) as caught:
            ask(model_at(server), HELLO)
        assert type(caught.value) is ModelConnectionError
        assert caught.value.retryable
        assert str(caught.value).startswith(f"openai:m at {server.base_url}: the connection ")
        assert len(server.requests) == 1  # it may have reached the model: who asks decides on asking again
        assert server.settled(0)


@ASKS
@pytest.mark.parametrize(
    "act",
    [send_and_close(HEAD + BODY[:20]), send_and_half_close(chunked_response(BODY[:20], end=b""))],
    ids=["by length", "by chunks"],
)
def test_a_body_that_is_cut_says_so(ask: AskRequest, act: Action) -> None:
    with FaultyServer(act) as server:
        with pytest.raises(ModelConnectionError) as caught:
            ask(model_at(server), HELLO)
        assert str(caught.value) == f"openai:m at {server.base_url}: {CUT_SHORT}"


@WHOLE_ASKS
def test_a_response_may_be_cut_into_packets_anywhere(ask: AskRequest) -> None:
    response = chunked_response(BODY[:10], BODY[10:11], BODY[11:])
    places = range(1, len(response), 7)
    with FaultyServer(*(send(*split_at(response, place), pause=0.001) for place in places)) as server:

        def ask_all() -> list[str]:
            model = model_at(server)
            with model:
                return [model.complete(HELLO).text for _ in places]

        async def ask_all_waiting() -> list[str]:
            async with model_at(server) as model:
                return [(await model.acomplete(HELLO)).text for _ in places]

        expected_text = ask_all() if ask is ask_blocking else asyncio.run(ask_all_waiting())
        assert expected_text == ["Hi"] * len(places)
        assert server.opened == 1


@ASKS
def test_a_slow_drip_is_read_to_its_end(ask: AskRequest) -> None:
    response = http_response()
    with FaultyServer(send(*split_at(response, *range(1, len(response))), pause=0.0005)) as server:
        assert ask(model_at(server), HELLO) == "Hi"


@ASKS
def test_a_wait_that_is_too_long_is_a_timeout(ask: AskRequest) -> None:
    with FaultyServer(send(HEAD, BODY[:5])) as server:
        with pytest.raises(ModelTimeoutError) as caught:
            ask(model_at(server), ChatRequest.of("x", options=ChatOptions(timeout=0.1)))
        assert str(caught.value) == (
            f"openai:m at {server.base_url}: no reply within 0.1 s; set a longer timeout in ChatOptions or "
            "ask for less"
        )
        assert server.settled(0)


@ASKS
def test_a_body_that_is_not_compressed_as_it_says_is_an_error(ask: AskRequest) -> None:
    with FaultyServer(send(http_response(b"no gzip at all", headers="content-encoding: gzip\r\n"))) as server:
        with pytest.raises(ModelConnectionError):
            ask(model_at(server), HELLO)
        assert server.settled(0)


@ASKS
@pytest.mark.parametrize("length", ["-1", "five", "18446744073709551617"])
def test_an_invalid_length_does_not_block_forever(ask: AskRequest, length: str) -> None:
    wrong = HEAD.replace(b"content-length: %d" % len(BODY), b"content-length: " + length.encode()) + BODY
    with FaultyServer(send_and_close(wrong)) as server:
        try:
            assert ask(model_at(server), HELLO) == "Hi"
        except (ModelConnectionError, InvalidReplyError):
            pass
        assert server.settled(0)


@ASKS
@pytest.mark.parametrize(
    "act",
    [
        send(b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 300_000 + b"\r\n\r\n"),
        send(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: 1\r\n" % n for n in range(200_000)) + b"\r\n"),
        send(b"HTTP/1.1 200 " + b"O" * 300_000 + b"\r\n\r\n"),
    ],
    ids=["one", "many", "the status"],
)
def test_huge_headers_are_rejected(ask: AskRequest, act: Action) -> None:
    with FaultyServer(act) as server:
        with pytest.raises(ModelConnectionError):
            ask(model_at(server), ChatRequest.of("x", options=ChatOptions(timeout=2)))
        assert server.settled(0)


@ASKS
@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_is_followed_with_the_same_request(ask: AskRequest, status: str) -> None:
    there = send(http_response(b"", status, "location: /v2/chat/completions\r\n"))
    with FaultyServer(there, send(http_response())) as server:
        assert ask(model_at(server), HELLO) == "Hi"
        assert server.paths() == ["/v1/chat/completions", "/v2/chat/completions"]
        first, second = (request.partition(b"\r\n\r\n")[2] for request in server.requests)
        assert first == second
        assert all(b"Bearer sk-test-0123456789" in request for request in server.requests)


@ASKS
def test_a_redirect_to_another_server_is_an_error_that_names_it(ask: AskRequest) -> None:
    location = "location: http://user:word@elsewhere.test/v1/chat/completions?key=secret\r\n"
    with FaultyServer(send(http_response(b"", "307 Temporary Redirect", location))) as server:
        with pytest.raises(InvalidReplyError) as caught:
            ask(model_at(server), HELLO)
        assert str(caught.value) == (
            f"openai:m at {server.base_url}: 307 redirected to http://elsewhere.test/v1/chat/completions; "
            "set base_url to that address if it is the right server"
        )


@ASKS
@pytest.mark.parametrize(
    ("status", "location"),
    [
        ("301 Moved Permanently", "/v2/chat/completions"),
        ("302 Found", "/v2/chat/completions"),
        ("303 See Other", "/v2/chat/completions"),
        ("307 Temporary Redirect", ""),
        ("307 Temporary Redirect", "file:///etc/passwd"),
        ("308 Permanent Redirect", "/v1/chat/completions"),
    ],
)
def test_other_redirects_are_errors(ask: AskRequest, status: str, location: str) -> None:
    header = f"location: {location}\r\n" if location else ""
    with FaultyServer(send(http_response(b"", status, header))) as server:
        with pytest.raises(InvalidReplyError) as caught:
            ask(model_at(server), HELLO)
        assert str(caught.value).startswith(f"openai:m at {server.base_url}: {status[:3]} ")
        assert (location in str(caught.value)) or location.startswith("file")
        assert len(server.requests) == 1


@ASKS
def test_an_error_reply_before_the_request_was_read_is_raised(ask: AskRequest) -> None:
    refused = http_response(b'{"error": {"message": "too large"}}', "413 Too Large", "connection: close\r\n")
    with FaultyServer(send_and_close(refused)) as server, pytest.raises(BadRequestError) as caught:
        ask(model_at(server), HELLO)
    assert "too large" in str(caught.value)
