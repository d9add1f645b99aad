"""The same reply in each provider's API format, whole and streamed, and models that read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import responses_api as responses
from loopback import amazon_event

from aiservices.models.http.model import HttpChatModel
from aiservices.models.openai import OpenAiChatModel, OpenAiResponsesModel
from aiservices.models.providers.anthropic import AnthropicChatModel
from aiservices.models.providers.bedrock import BedrockChatModel
from aiservices.models.providers.gemini import GeminiChatModel

PIECES = ("Grüße, ", "wörld ", "🙂!")
TEXT = "".join(PIECES)
TOKENS = (11, 7)  # of the input and the output
KEY = "sk-test-0123456789"

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Dialect:
    """One provider's API format.

    Attributes:
        name: Its name in failures.
        model: Makes a model for a base URL and an API key or a function that returns one.
        whole: The JSON of a whole reply.
        events: The JSON of each event of the streamed reply. The last one ends the reply.
        encode_event: Writes an event to the stream.
        stream_type: The content type of the stream.
        end: The bytes after the last event.
        error: The JSON of an error with a message.
        usage_path: The keys that lead to the token counts of the whole reply.
        finish: The index of the event that says why the reply ended.
    """

    name: str
    model: Callable[[str, Any], HttpChatModel]
    whole: Json
    events: Sequence[Json]
    encode_event: Callable[[Json], bytes]
    stream_type: str
    end: bytes
    error: Callable[[str], Json]
    usage_path: tuple[str, ...]
    finish: int

    def stream(self, events: Sequence[Json] | None = None) -> bytes:
        """Return the bytes of a stream with these events, by default those of the whole reply."""
        events = self.events if events is None else events
        return b"".join(map(self.encode_event, events)) + self.end

    @property
    def body(self) -> bytes:
        return json_bytes(self.whole)

    @property
    def is_sse(self) -> bool:
        return self.stream_type == "text/event-stream"


def json_bytes(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def sse_event(data: Json) -> bytes:
    name = b"event: %s\n" % data["type"].encode() if "type" in data else b""
    return name + b"data: " + json_bytes(data) + b"\n\n"


def frame(event: Json) -> bytes:
    """Return an event in Amazon's binary format."""
    ((kind, data),) = event.items()
    return amazon_event(kind, data, message_type="exception" if kind.endswith("Exception") else "event")


def _openai_error(message: str) -> Json:
    return {"error": {"message": message, "type": "a_type", "param": None, "code": None}}


_CHAT_USAGE = {"prompt_tokens": TOKENS[0], "completion_tokens": TOKENS[1], "total_tokens": sum(TOKENS)}


def _chat_event(
    finish_reason: str | None = None, usage: Mapping[str, int] | None = None, **delta: str
) -> Json:
    choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": choices, "usage": usage}


CHAT = Dialect(
    "chat",
    lambda url, key: OpenAiChatModel("m", base_url=f"{url}/v1", api_key=key),
    {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": _CHAT_USAGE,
    },
    [
        _chat_event(role="assistant", content=""),
        *[_chat_event(content=piece) for piece in PIECES],
        _chat_event("stop"),
        _chat_event(usage=_CHAT_USAGE),
    ],
    sse_event,
    "text/event-stream",
    b"data: [DONE]\n\n",
    _openai_error,
    ("usage",),
    4,
)

_RESPONSE = responses.response(responses.message(TEXT), usage=responses.usage(*TOKENS))
_STARTED = responses.response(status="in_progress")


def _event_data(event: bytes) -> Json:
    data: Json = json.loads(event.partition(b"data: ")[2])
    return data


RESPONSES = Dialect(
    "Responses",
    lambda url, key: OpenAiResponsesModel("m", base_url=f"{url}/v1", api_key=key),
    _RESPONSE,
    [
        _event_data(event)
        for event in (
            responses.event("response.created", response=_STARTED),
            responses.item_added(0, responses.message()),
            *map(responses.text_delta, PIECES),
            responses.item_done(0, responses.message(TEXT)),
            responses.end_event(_RESPONSE),
        )
    ],
    sse_event,
    "text/event-stream",
    b"",
    _openai_error,
    ("usage",),
    6,
)

_CLAUDE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": TEXT}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": TOKENS[0], "output_tokens": TOKENS[1]},
}

ANTHROPIC = Dialect(
    "Anthropic",
    lambda url, key: AnthropicChatModel("claude-sonnet-5", base_url=url, api_key=key),
    _CLAUDE,
    [
        {
            "type": "message_start",
            "message": {
                **_CLAUDE,
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": TOKENS[0], "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *[
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in PIECES
        ],
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": TOKENS[1]},
        },
        {"type": "message_stop"},
    ],
    sse_event,
    "text/event-stream",
    b"",
    lambda message: {"type": "error", "error": {"type": "a_type", "message": message}},
    ("usage",),
    7,
)

_GEMINI_USAGE = {
    "promptTokenCount": TOKENS[0],
    "candidatesTokenCount": TOKENS[1],
    "totalTokenCount": sum(TOKENS),
}


def _gemini_reply(text: str, finish_reason: str | None, usage: Json | None) -> Json:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if finish_reason is not None:
        candidate["finishReason"] = finish_reason
    reply = {"candidates": [candidate], "modelVersion": "gemini", "responseId": "r1"}
    return reply if usage is None else {**reply, "usageMetadata": usage}


GEMINI = Dialect(
    "Gemini",
    lambda url, key: (
        GeminiChatModel("gemini-3-pro", base_url=url, api_key=key)
        if isinstance(key, str)
        else GeminiChatModel("gemini-3-pro", base_url=url, token=key)
    ),
    _gemini_reply(TEXT, "STOP", _GEMINI_USAGE),
    [
        _gemini_reply(PIECES[0], None, {"promptTokenCount": TOKENS[0]}),
        _gemini_reply(PIECES[1], None, None),
        _gemini_reply(PIECES[2], "STOP", _GEMINI_USAGE),
    ],
    sse_event,
    "text/event-stream",
    b"",
    lambda message: {"error": {"code": 0, "message": message, "status": "A_STATUS"}},
    ("usageMetadata",),
    2,
)

_BEDROCK_USAGE = {"inputTokens": TOKENS[0], "outputTokens": TOKENS[1], "totalTokens": sum(TOKENS)}

BEDROCK = Dialect(
    "Bedrock",
    lambda url, key: BedrockChatModel("anthropic.claude-sonnet-5", base_url=url, api_key=key),
    {
        "output": {"message": {"role": "assistant", "content": [{"text": TEXT}]}},
        "stopReason": "end_turn",
        "usage": _BEDROCK_USAGE,
        "metrics": {"latencyMs": 1},
    },
    [
        {"messageStart": {"role": "assistant"}},
        *[{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}} for piece in PIECES],
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": _BEDROCK_USAGE, "metrics": {"latencyMs": 1}}},
    ],
    frame,
    "application/vnd.amazon.eventstream",
    b"",
    lambda message: {"message": message},
    ("usage",),
    5,
)

DIALECTS = (CHAT, RESPONSES, ANTHROPIC, GEMINI, BEDROCK)
