"""A server of chat completions that answers at once: ``python -m benchmarks.server``.

It tells its port in one line and lives until its standard input is closed. The model's name in a request
says what the answer is: ``person``, ``truth``, ``customers`` or ``text``; or ``records-10000-2000`` for an
object of 10,000 characters in 2,000 chunks, whose only key is the first one of the schema that was sent, if
one was.
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

# As many headers, and as long ones, as an answer from a provider has.
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
    """What is streamed: a text, or an object that is cut evenly."""
    kind, *counts = request["model"].split("-")
    if kind != "records":
        return _pieces()
    size, chunks = map(int, counts)
    tp = request.get("response_format")
    key = next(iter(tp["json_schema"]["schema"]["properties"])) if tp else "records"
    told = {key: records_data(size)}
    text = json.dumps(told, separators=(",", ":"))
    cuts = [len(text) * number // chunks for number in range(chunks + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]


@cache
def _answer(body: bytes) -> bytes:
    request = json.loads(body)
    return _stream(request) if request.get("stream") else _completion(request)


def completion(request: dict[str, Any]) -> bytes:
    """The body of the answer to a request."""
    model = request["model"]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": _content(model),
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    told = {**_ABOUT, "object": "chat.completion", "model": model, "choices": [choice], "usage": _USAGE}
    return json.dumps(told).encode()


def _completion(request: dict[str, Any]) -> bytes:
    body = completion(request)
    head = (
        f"HTTP/1.1 200 OK\r\n{_HEADERS}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def events(request: dict[str, Any]) -> list[bytes]:
    """The server-sent events of the answer to a request."""
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    if request.get("tool_choice"):
        deltas += [({"tool_calls": [_call(request)]}, None), ({}, "tool_calls")]
    else:
        deltas += [({"content": piece}, None) for piece in _pieces_of(request)] + [({}, "stop")]
    about = {**_ABOUT, "object": "chat.completion.chunk", "model": request["model"]}
    told: list[dict[str, Any]] = []
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        told.append({**about, "choices": [choice], "usage": None})
    if (request.get("stream_options") or {}).get("include_usage"):
        told.append({**about, "choices": [], "usage": _USAGE})
    return [*(f"data: {json.dumps(event)}\n\n".encode() for event in told), b"data: [DONE]\n\n"]


def _call(request: dict[str, Any]) -> dict[str, Any]:
    """The answer as the call of the first tool, for libraries that ask for one."""
    function = {"name": request["tools"][0]["function"]["name"], "arguments": _content(request["model"])}
    return {"index": 0, "id": "call_1", "type": "function", "function": function}


def _stream(request: dict[str, Any]) -> bytes:
    """Every event in a chunk of its own, all in one burst: nothing is waited for but the client."""
    head = (
        f"HTTP/1.1 200 OK\r\n{_HEADERS}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return (
        head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(data), data) for data in events(request)) + b"0\r\n\r\n"
    )


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while (end := self._seen.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._seen, 0, end + 2)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._seen) < whole:
                return
            body, self._seen = self._seen[end + 4 : whole], self._seen[whole:]
            self._transport.write(_answer(body))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    options = argparse.ArgumentParser(prog="benchmarks.server", description=__doc__)
    options.add_argument("--core", type=int, help="the core to stay on")
    core = options.parse_args().core
    if core is not None:
        pin_to_core(core)
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
