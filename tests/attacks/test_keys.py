"""API keys and prompts reach only the server that they are for: no log, no error and no other host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import pytest
from faulty_server import FaultyServer, http_response, send

from aiservices import AiServiceError, Budget, create, user_message
from aiservices.models.openai import OpenAiChatModel

KEY = "sk-a-key-that-nobody-may-see"
IN_URL = "a-key-in-the-url-of-a-gateway"


class Writer(Protocol):
    @user_message("Write")
    def text(self) -> str: ...

    @user_message("Write")
    async def text_async(self) -> str: ...


CALLS: dict[str, Callable[[Writer], str]] = {
    "blocking": lambda writer: writer.text(),
    "asynchronous": lambda writer: asyncio.run(writer.text_async()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "answer",
    [
        http_response(),
        http_response(f'{{"error": {{"message": "wrong key {KEY}"}}}}'.encode(), "401 Who"),
        http_response(f"<html>{KEY}</html>".encode()),
        http_response(b"", "307 R", f"location: http://elsewhere.test/?api-key={IN_URL}\r\n"),
    ],
    ids=["reply", "an error with the key", "no reply but the key", "redirect"],
)
def test_keys_are_in_no_log_and_no_error(
    call: Callable[[Writer], str], answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with FaultyServer(send(answer)) as server:
        url = f"{server.base_url}?api-key={IN_URL}"
        with OpenAiChatModel("m", base_url=url, api_key=KEY) as model:
            message = ""
            try:
                call(create(Writer, model, budget=Budget(max_attempts=1)))
            except AiServiceError as error:
                message = f"{error!r} {error} {getattr(error, 'body', '')}"
        assert IN_URL in server.requests[0].decode()
    assert KEY not in caplog.text + message
    assert IN_URL not in caplog.text + message
    assert "elsewhere.test" in message or b"307" not in answer
