"""The stage ``providers``: calls and streams of Claude and Gemini, compared to the SDKs of their providers.

Run as a program, it is the server of the other stages with the replies of these providers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from aiservices import AnthropicChatModel, ChatModel, GeminiChatModel, create

from . import server
from .clerk import KEY, Clerk
from .measure import Effort, Work, compare
from .new_process import running_server
from .records import Person
from .results import Comparison, Skipped, Stage
from .values import PERSON

_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_SIZES = {"10 KB": 10_000, "100 KB": 100_000}
_PIECE = "a piece of a text, fifty characters long, more or less"
_CLAUDE, _GEMINI = "claude-sonnet-5", "gemini-3-pro"
_SCHEMA = {**Person.model_json_schema(), "additionalProperties": False}
_TARGET = 0.30
_SERVER = "benchmarks.providers_stage"


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """Run the stage ``providers``."""
    with running_server(server_core, module=_SERVER) as base_url, ExitStack() as opened:
        url = base_url.removesuffix("/v1")
        claude = opened.enter_context(AnthropicChatModel(_CLAUDE, base_url=url, api_key=KEY))
        gemini = opened.enter_context(GeminiChatModel(_GEMINI, base_url=f"{url}/v1beta", api_key=KEY))
        rows = [*_rows(effort, "Claude", claude, _AnthropicSdk, url)]
        rows += _rows(effort, "Gemini", gemini, _GoogleSdk, url)
        return Stage("providers", rows)


def _rows(effort: Effort, name: str, model: ChatModel, sdk: Any, url: str) -> Iterator[Comparison | Skipped]:
    try:
        opened = closing(sdk(url))
    except ImportError as error:
        yield Skipped(f"{name}: Person", f"the SDK is not installed ({error.name})")
        return
    with opened as theirs:
        yield from _compared(effort, name, model, theirs)


def _compared(effort: Effort, name: str, model: ChatModel, theirs: Any) -> Iterator[Comparison]:
    service = create(Clerk, model)
    baseline = f"{theirs.package} + validate_json"
    ours: Work = partial(service.person, _TEXT)
    _check_equal(ours(), theirs.person())
    yield Comparison.of(f"{name}: Person", baseline, compare(ours, theirs.person, effort), _TARGET)
    for size, count in _SIZES.items():
        words: Work = partial(_read, service, f"Write {count} characters.")
        stream: Work = partial(theirs.text, f"Go on: Write {count} characters.")
        _check_equal(words(), stream())
        pairs = compare(words, stream, effort)
        yield Comparison.of(f"{name}: text stream, {size}", f"{theirs.package} stream", pairs, _TARGET)


def _read(service: Clerk, text: str) -> str:
    return "".join(service.words(text))


def _check_equal(ours: object, theirs: object) -> None:
    if ours != theirs:
        raise AssertionError(f"{str(ours)[:200]!r} and {str(theirs)[:200]!r} must be equal")


class _AnthropicSdk:
    """Calls through the package anthropic."""

    package = "anthropic"

    def __init__(self, url: str) -> None:
        import anthropic

        self._client = anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)

    def close(self) -> None:
        self._client.close()

    def person(self) -> Person:
        message = self._client.messages.create(
            model=_CLAUDE,
            max_tokens=16_384,
            messages=[{"role": "user", "content": f"Who is meant? {_TEXT}"}],
            output_config={"format": {"type": "json_schema", "schema": _SCHEMA}},
        )
        return Person.model_validate_json(message.content[0].text)  # type: ignore[union-attr]

    def text(self, prompt: str) -> str:
        messages: Any = [{"role": "user", "content": prompt}]
        with self._client.messages.stream(model=_CLAUDE, max_tokens=16_384, messages=messages) as stream:
            return "".join(stream.text_stream)


class _GoogleSdk:
    """Calls through the package google-genai."""

    package = "google-genai"

    def __init__(self, url: str) -> None:
        from google import genai

        self._client: Any = genai.Client(api_key=KEY, http_options={"base_url": url})

    def close(self) -> None:
        self._client.close()

    def person(self) -> Person:
        response = self._client.models.generate_content(
            model=_GEMINI,
            contents=f"Who is meant? {_TEXT}",
            config={"response_mime_type": "application/json", "response_json_schema": _SCHEMA},
        )
        return Person.model_validate_json(response.text)

    def text(self, prompt: str) -> str:
        stream = self._client.models.generate_content_stream(model=_GEMINI, contents=prompt)
        return "".join(chunk.text or "" for chunk in stream)


# --- The server


def _answer_of(request: dict[str, Any]) -> bytes:
    is_gemini = "contents" in request
    text = json.dumps(request["contents"] if is_gemini else request["messages"])
    size = next((count for count in _SIZES.values() if f"Write {count} characters" in text), None)
    if size is None:
        return _whole(_gemini_body(json.dumps(PERSON)) if is_gemini else _claude_body(json.dumps(PERSON)))
    pieces = [_PIECE] * (size // len(_PIECE))
    return _events(_gemini_events(pieces) if is_gemini else _claude_events(pieces))


def _whole(data: dict[str, Any]) -> bytes:
    body = json.dumps(data).encode()
    head = f"{_HEAD}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _events(events: list[bytes]) -> bytes:
    head = f"{_HEAD}content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    return head.encode() + chunks + b"0\r\n\r\n"


_HEAD = f"HTTP/1.1 200 OK\r\n{server._HEADERS}"


def _claude_body(text: str) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": _CLAUDE,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 61, "output_tokens": 24},
    }


def _claude_events(pieces: list[str]) -> list[bytes]:
    start = {**_claude_body(""), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ],
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 24},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _gemini_body(text: str, finish: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    return {
        "candidates": [candidate if finish is None else {**candidate, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 61, "candidatesTokenCount": 24, "totalTokenCount": 85},
        "modelVersion": _GEMINI,
        "responseId": "bench",
    }


def _gemini_events(pieces: list[str]) -> list[bytes]:
    bodies = [_gemini_body(piece, None) for piece in pieces[:-1]] + [_gemini_body(pieces[-1])]
    return [f"data: {json.dumps(body)}\r\n\r\n".encode() for body in bodies]


if __name__ == "__main__":
    server._completion = _answer_of
    server._stream = _answer_of
    server.main()
