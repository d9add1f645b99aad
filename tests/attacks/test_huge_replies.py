"""Replies that are larger than any reply of a model: packed, in one line, or as errors."""

from __future__ import annotations

import asyncio
import socket
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

import pytest
from faulty_server import Action, FaultyServer

from aiservices import Budget, create, user_message
from aiservices.models.errors import InvalidReplyError, ModelError, ModelServerError
from aiservices.models.http.base import MAX_REPLY_BYTES
from aiservices.models.openai import OpenAiChatModel

MEGABYTE = 2**20


class Writer(Protocol):
    @user_message("Write")
    def text(self) -> str: ...

    @user_message("Write")
    def pieces(self) -> Iterator[str]: ...

    @user_message("Write")
    async def text_async(self) -> str: ...

    @user_message("Write")
    def pieces_async(self) -> AsyncIterator[str]: ...


async def collect(pieces: AsyncIterator[str]) -> str:
    return "".join([piece async for piece in pieces])


CALLS: dict[str, Callable[[Writer], object]] = {
    "text": lambda writer: writer.text(),
    "pieces": lambda writer: list(writer.pieces()),
    "asynchronous text": lambda writer: asyncio.run(writer.text_async()),
    "asynchronous pieces": lambda writer: asyncio.run(collect(writer.pieces_async())),
}
with_each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def send_megabytes(count: int, status: str = "200 OK", kind: str = "application/json") -> Action:
    """Return an action that sends a body of ``count`` megabytes without a line end."""

    def action(connection: socket.socket) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {count * MEGABYTE}\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(count):
            connection.sendall(b"x" * MEGABYTE)

    return action


def send_packed(megabytes: int) -> Action:
    """Return an action that sends a body that is small until it is unpacked."""
    packer = zlib.compressobj(wbits=31)  # gzip
    start = packer.compress(b" " * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    more = packer.compress(b" " * MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    body = start + more * (megabytes - 1)  # without an end, which no client reaches
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
    response = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    return lambda connection: connection.sendall(response)


def call_with_peak(call: Callable[[Writer], object], act: Action) -> tuple[ModelError, int]:
    """Return the error of a call, and the most memory in bytes that Python used for it."""
    with FaultyServer(act) as server, OpenAiChatModel("m", base_url=server.base_url, api_key="k") as model:
        writer = create(Writer, model, budget=Budget(max_attempts=1))
        tracemalloc.start()
        try:
            with pytest.raises(ModelError) as caught:
                call(writer)
            return caught.value, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@with_each_call
def test_a_body_that_is_huge_when_unpacked_is_an_error(call: Callable[[Writer], object]) -> None:
    error, peak = call_with_peak(call, send_packed(600))
    assert isinstance(error, InvalidReplyError)
    assert "the reply is larger than 64 MB" in str(error)
    assert peak < 4 * MAX_REPLY_BYTES


@with_each_call
def test_a_line_of_a_stream_that_never_ends_is_an_error(call: Callable[[Writer], object]) -> None:
    error, peak = call_with_peak(call, send_megabytes(200, kind="text/event-stream"))
    assert isinstance(error, InvalidReplyError)
    assert "larger than 64 MB" in str(error)
    assert peak < 4 * MAX_REPLY_BYTES


@with_each_call
def test_the_rest_of_a_huge_error_is_left_out(call: Callable[[Writer], object]) -> None:
    error, peak = call_with_peak(call, send_megabytes(50, "500 Oops"))
    assert isinstance(error, ModelServerError)
    assert sys.getsizeof(error.body) < 4 * MEGABYTE
    assert peak < MAX_REPLY_BYTES  # the body arrives before Python runs, and is not copied
