"""The connection of a stream is reused after the last event, and closed if the stream is not at its end."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from faulty_server import FaultyServer, chunked_response, send, send_and_close
from loopback import MAX_WAIT

from aiservices.models.errors import ModelConnectionError
from aiservices.models.http import async_client as waiting, sync_client as blocking
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatRequest

MakeCaller = Callable[[str], Any]


def piece(text: str) -> bytes:
    return b'data: {"choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n' % text.encode()


LAST = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = chunked_response(piece("H"), piece("i"), LAST, DONE, content_type="text/event-stream")
ENDLESS = chunked_response(piece("H"), piece("i"), LAST, DONE, end=b"", content_type="text/event-stream")
HELD = chunked_response(piece("H"), piece("i"), end=b"", content_type="text/event-stream")


@pytest.mark.parametrize(
    "pieces",
    [(STREAM,), (STREAM[:-5], STREAM[-5:]), (STREAM[:-3], STREAM[-3:]), (STREAM[:-25], STREAM[-25:])],
    ids=["at once", "the end apart", "within the end", "within [DONE]"],
)
def test_ten_streams_need_one_connection(
    make_caller: MakeCaller, pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (blocking, waiting):
        monkeypatch.setattr(module, "DRAIN_SECONDS", MAX_WAIT)  # the end does come
    with FaultyServer(send(*pieces)) as server:
        client = make_caller(server.base_url)
        assert [client.stream() for _ in range(10)] == ["Hi"] * 10
        assert server.opened == 1
        client.close()
        assert server.settled(0)


def test_connections_of_streams_with_a_length_are_reused_too(make_caller: MakeCaller) -> None:
    body = piece("Hi") + LAST + DONE
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    with FaultyServer(send(head + body)) as server:
        client = make_caller(server.base_url)
        assert [client.stream() for _ in range(5)] == ["Hi"] * 5
        assert server.opened == 1


def test_a_body_that_does_not_end_after_the_last_event_is_closed(make_caller: MakeCaller) -> None:
    with FaultyServer(send(ENDLESS)) as server:
        client = make_caller(server.base_url)
        assert [client.stream() for _ in range(3)] == ["Hi"] * 3
        assert server.opened == 3
        assert server.settled(0)


def test_bytes_after_the_last_event_do_not_affect_later_streams(make_caller: MakeCaller) -> None:
    more = chunked_response(
        piece("H"), piece("i"), LAST, DONE, piece("No!"), piece("No!"), content_type="text/event-stream"
    )
    with FaultyServer(send(more), send(STREAM)) as server:
        client = make_caller(server.base_url)
        assert [client.stream() for _ in range(3)] == ["Hi"] * 3


def test_a_stream_that_is_left_in_the_middle_closes_its_connection(make_caller: MakeCaller) -> None:
    with FaultyServer(send(HELD), send(STREAM)) as server:
        client = make_caller(server.base_url)
        assert client.stream(until=1) == "H"
        assert server.settled(0)
        assert client.stream() == "Hi"


def test_a_closed_stream_closes_its_connection() -> None:
    with (
        FaultyServer(send(HELD)) as server,
        OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
    ):
        deltas = model.stream(ChatRequest.of("Hello"))
        assert next(deltas).text == "H"
        deltas.close()
        assert server.settled(0)


def test_an_async_stream_that_is_closed_or_dropped_closes_its_connection() -> None:
    with FaultyServer(send(HELD)) as server:

        async def leave() -> None:
            async with OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model:
                closed = model.astream(ChatRequest.of("Hello"))
                assert (await anext(closed)).text == "H"
                await closed.aclose()
                assert await asyncio.to_thread(server.settled, 0)
                forgotten = model.astream(ChatRequest.of("Hello"))
                assert (await anext(forgotten)).text == "H"
                del forgotten
                gc.collect()
                assert await asyncio.to_thread(server.settled, 0)

        asyncio.run(leave(), debug=True)


def test_a_stream_that_is_garbage_collected_closes_its_connection() -> None:
    with (
        FaultyServer(send(HELD)) as server,
        OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
    ):
        deltas = [model.stream(ChatRequest.of("Hello"))]
        assert next(deltas[0]).text == "H"
        deltas.append(deltas)  # a cycle, which only the collector finds
        del deltas
        gc.collect()
        assert server.settled(0)


def test_a_stream_that_is_read_slowly_is_not_kept_in_memory(make_caller: MakeCaller) -> None:
    sent = 0
    events = piece("x" * 1000) * 64

    def send_much(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(chunked_response(end=b"", content_type="text/event-stream"))
        connection.settimeout(0.2)
        try:
            while sent < 500:
                connection.sendall(b"%x\r\n%b\r\n" % (len(events), events))
                sent += 1
        except TimeoutError:
            connection.settimeout(MAX_WAIT)
            connection.recv(1)

    with FaultyServer(send_much) as server:

        async def read_slowly() -> None:
            async with (
                OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
                aclosing(model.astream(ChatRequest.of("Hello"))) as deltas,
            ):
                await anext(deltas)
                await asyncio.sleep(1)

        asyncio.run(read_slowly())
        assert 0 < sent < 400
        assert server.settled(0)


def test_an_error_while_a_stream_is_read_closes_its_connection() -> None:
    with (
        FaultyServer(send(HELD), send(STREAM)) as server,
        OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model,
    ):

        def read() -> None:
            for _ in model.stream(ChatRequest.of("Hello")):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            read()
        gc.collect()
        assert server.settled(0)
        assert "".join(delta.text for delta in model.stream(ChatRequest.of("Hello"))) == "Hi"


def test_a_stream_that_is_cut_does_not_affect_later_streams(make_caller: MakeCaller) -> None:
    with FaultyServer(send_and_close(HELD), send(STREAM)) as server:
        client = make_caller(server.base_url)
        with pytest.raises(ModelConnectionError):
            client.stream()
        assert client.stream() == "Hi"
        assert server.opened == 2
