"""A chat completions server that answers immediately: ``python -m benchmarks.server``.

It prints its port and runs until its standard input is closed. The model name of a request selects the
answer: ``person``, ``truth``, ``customers`` or ``text``; or ``records-10000-2000`` for an object of 10,000
characters in 2,000 chunks, whose only key is the first key of the schema in the request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from functools import cache
from itertools import pairwise
from typing import Any

from .cpu_pinning import pin_to_core
from .values import PERSON, record, records_data

CHUNKS = 2000
CUSTOMERS = 50

# As many headers of the same length as in the response of a provider.
_HEADERS = "".join(
    f"{name}: {value}\r\n"
    for name, value in {
        "date": "Sat, 21 Nov 2026 09:00:00 GMT",
        "server": "front",
        "cf-ray": "8f2d6c1e4b7a9035-AMS",
        "cf-cache-status": "DYNAMIC",
        "access-control-expose-headers": "X-Request-ID",
        "openai-organization": "org-benchmarks0000000000",
        "openai-project": "proj_benchmarks0000000000",
        "openai-processing-ms": "387",
        "openai-version": "2020-10-01",
        "x-envoy-upstream-service-time": "401",
        "x-openai-proxy-wasm": "v0.1",
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-limit-tokens": "4000000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-remaining-tokens": "3999900",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-reset-tokens": "1ms",
        "x-request-id": "req_00112233445566778899aabbccddeeff",
        "x-content-type-options": "nosniff",
        "strict-transport-security": "max-age=31536000; includeSubDomains; preload",
        "alt-svc": 'h3=":443"; ma=86400',
    }.items()
)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_USAGE = {
    "prompt_tokens": 61,
    "completion_tokens": 24,
    "total_tokens": 85,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_ABOUT = {
    "id": "chatcmpl-Bench0000000000000000000000",
    "created": 1795251600,
    "service_tier": "default",
    "system_fingerprint": "fp_00bench00",
}


def _content(model: str) -> str:
    values: dict[str, Any] = {
        "person": PERSON,
        "truth": {"value": True},
        "customers": {"records": [record(number) for number in range(CUSTOMERS)]},
    }
    return json.dumps(values[model]) if model in values else "".join(_pieces())


def _pieces() -> list[str]:
    return [f"piece{number} " for number in range(CHUNKS)]


def _pieces_of(request: dict[str, Any]) -> list[str]:
    """Return the pieces of a streamed reply: pieces of a text, or equal parts of a JSON object."""
    kind, *counts = request["model"].split("-")
    if kind != "records":
        return _pieces()
    size, chunks = map(int, counts)
    response_format = request.get("response_format")
    key = next(iter(response_format["json_schema"]["schema"]["properties"])) if response_format else "records"
    data = {key: records_data(size)}
    text = json.dumps(data, separators=(",", ":"))
    cuts = [len(text) * number // chunks for number in range(chunks + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]


# Cached, so that the server costs next to nothing and its core is not the bottleneck.
@cache
def _answer(body: bytes) -> bytes:
    request = json.loads(body)
    return _stream(request) if request.get("stream") else _completion(request)


def completion(request: dict[str, Any]) -> bytes:
    """Return the body of the chat completion for a request."""
    model = request["model"]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _content(model),
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    data = {**_ABOUT, "object": "chat.completion", "model": model, "choices": [choice], "usage": _USAGE}
    return json.dumps(data).encode()


def _completion(request: dict[str, Any]) -> bytes:
    body = completion(request)
    head = (
        f"HTTP/1.1 200 OK\r\n{_HEADERS}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def events(request: dict[str, Any]) -> list[bytes]:
    """Return the server-sent events of the streamed response to a request."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    if request.get("tool_choice"):
        deltas += [({"tool_calls": [_call(request)]}, None), ({}, "tool_calls")]
    else:
        deltas += [({"content": piece}, None) for piece in _pieces_of(request)] + [({}, "stop")]
    about = {**_ABOUT, "object": "chat.completion.chunk", "model": request["model"]}
    chunks: list[dict[str, Any]] = []
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunks.append({**about, "choices": [choice], "usage": None})
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({**about, "choices": [], "usage": _USAGE})
    return [*(f"data: {json.dumps(event)}\n\n".encode() for event in chunks), b"data: [DONE]\n\n"]


def _call(request: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call that gives the answer as a call of the first tool of the request."""
    function = {"name": request["tools"][0]["function"]["name"], "arguments": _content(request["model"])}
    return {"index": 0, "id": "call_1", "type": "function", "function": function}


def _stream(request: dict[str, Any]) -> bytes:
    """Return the response of a stream: each event in its own HTTP chunk, all sent at once."""
    head = (
        f"HTTP/1.1 200 OK\r\n{_HEADERS}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return (
        head.encode()
        + b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in events(request))
        + b"0\r\n\r\n"
    )


class _Connection(asyncio.Protocol):
    """A connection from a client to the benchmark server. It accepts pipelined requests."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._received, 0, end + 2)
            request_end = end + 4 + (int(length[1]) if length else 0)
            if len(self._received) < request_end:
                return
            body, self._received = self._received[end + 4 : request_end], self._received[request_end:]
            self._transport.write(_answer(body))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Not ``async with server``: since Python 3.12 it would wait for the clients to close their connections.
    try:
        await loop.run_in_executor(None, sys.stdin.read)
    finally:
        server.close()


def main() -> None:
    options = argparse.ArgumentParser(prog="benchmarks.server", description=__doc__)
    options.add_argument("--core", type=int, help="the core to run on")
    core = options.parse_args().core
    if core is not None:
        pin_to_core(core)
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
