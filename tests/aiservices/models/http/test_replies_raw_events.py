"""With ``ChatOptions(raw_events=True)`` a stream also has the events as the provider sent them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from loopback import DONE, Loopback, Reply, amazon_event, amazon_stream, event, sse

from aiservices import (
    AnthropicChatModel,
    BedrockChatModel,
    ChatOptions,
    ChatRequest,
    DefinitionError,
    GeminiChatModel,
    OpenAiChatModel,
    OpenAiResponsesModel,
    ReplyDelta,
    Stream,
    create,
    options,
)
from aiservices.guardrails import OutputGuardrails, masked, sentences
from aiservices.models.requests import request_hash

SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
CLAUDE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 9}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": SEARCH},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo."}},
    {"type": "a_new_event", "of": "tomorrow"},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]
GEMINI: list[dict[str, Any]] = [
    {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
    {
        "candidates": [
            {
                "content": {"parts": [{"text": "lo."}]},
                "groundingMetadata": {"webSearchQueries": ["tea"]},
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4},
    },
]
BEDROCK: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hel"}}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "lo."}}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"messageStop": {"stopReason": "end_turn"}},
    {"metadata": {"usage": {"inputTokens": 9, "outputTokens": 4}}},
]
CHAT: list[dict[str, Any]] = [
    {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
    {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
    {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "lo."}, "finish_reason": "stop"}],
    },
    {"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}},
]
MESSAGE = {
    "type": "message",
    "id": "i",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello."}],
}
RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {}},
    {"type": "response.web_search_call.searching", "output_index": 0},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Hel"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "lo."},
    {"type": "response.output_text.annotation.added", "annotation": {"url": "https://example.com"}},
    {
        "type": "response.completed",
        "response": {"id": "r", "model": "m", "status": "completed", "output": [MESSAGE], "usage": None},
    },
]


def frames(*events: dict[str, Any]) -> Reply:
    return amazon_stream(*(amazon_event(*member) for one in events for member in one.items()))


def sent(*events: dict[str, Any]) -> Reply:
    return sse(*map(event, events))


Api = tuple[Callable[..., Any], str, list[dict[str, Any]], Callable[..., Reply]]
APIS: dict[str, Api] = {
    "openai": (OpenAiChatModel, "gpt-5", CHAT, lambda *events: sse(*map(event, events), DONE)),
    "openai-responses": (OpenAiResponsesModel, "gpt-5", RESPONSES, sent),
    "anthropic": (AnthropicChatModel, "claude-sonnet-5", CLAUDE, sent),
    "gemini": (GeminiChatModel, "gemini-3-pro", GEMINI, sent),
    "bedrock": (BedrockChatModel, "anthropic.claude-sonnet-5", BEDROCK, frames),
}
every_api = pytest.mark.parametrize("api", APIS)
RAW = ChatOptions(raw_events=True)
HELLO = ChatRequest.of("Hello")


def model_of(api: str, server: Loopback, **settings: Any) -> Any:
    cls, name, events, reply = APIS[api]
    server.reply(reply(*events))
    return cls(name, base_url=server.base_url, api_key="k", **settings)


async def collected(deltas: Any) -> list[ReplyDelta]:
    return [delta async for delta in deltas]


@every_api
@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_event_of_a_stream_has_a_delta_with_its_json(
    api: str, asynchronous: bool, loopback: Loopback
) -> None:
    model, request = model_of(api, loopback), replace(HELLO, options=RAW)
    deltas = asyncio.run(collected(model.astream(request))) if asynchronous else list(model.stream(request))
    raw = [json.loads(delta.raw) for delta in deltas if delta.raw is not None]
    assert raw == APIS[api][2]
    assert "".join(delta.text for delta in deltas) == "Hello."
    texts = [json.dumps(json.loads(delta.raw)) for delta in deltas if delta.text and delta.raw]
    assert ["Hel" in texts[0], "lo." in texts[1]] == [True, True]


@every_api
def test_by_default_no_delta_has_the_json_of_its_event(api: str, loopback: Loopback) -> None:
    deltas = list(model_of(api, loopback).stream(HELLO))
    assert [delta.raw for delta in deltas] == [None] * len(deltas)
    assert [delta.text for delta in deltas if delta.text] == ["Hel", "lo."]


@every_api
def test_the_option_is_not_sent_and_the_reply_is_the_same(api: str, loopback: Loopback) -> None:
    model = model_of(api, loopback)
    replies = [list(model.stream(replace(HELLO, options=one)))[-1].reply for one in (ChatOptions(), RAW)]
    assert replies[0] == replies[1]
    assert loopback.requests[0].body == loopback.requests[1].body


class Chat(Protocol):
    def plain(self, text: str) -> Stream[str]: ...

    @options(raw_events=True)
    def raw(self, text: str) -> Stream[str]: ...

    @options(raw_events=True)
    def pieces(self, text: str) -> Iterator[str]: ...


def raw_types(stream: Stream[str]) -> list[str]:
    deltas = [event for event in stream.events() if isinstance(event, ReplyDelta)]
    return [json.loads(delta.raw)["type"] for delta in deltas if delta.raw]


def test_a_method_can_choose_the_events(loopback: Loopback) -> None:
    chat = create(Chat, model_of("anthropic", loopback))
    assert raw_types(chat.plain("x")) == []
    assert raw_types(chat.raw("x")) == [event["type"] for event in CLAUDE]
    assert list(chat.pieces("x")) == ["Hel", "lo."]
    assert [one.value for one in chat.raw("x")] == [one.value for one in chat.plain("x")]


def test_a_service_can_choose_the_events(loopback: Loopback) -> None:
    chat = create(Chat, model_of("anthropic", loopback), options=RAW)
    assert raw_types(chat.plain("x")) == [event["type"] for event in CLAUDE]


def test_guards_of_parts_do_not_let_the_text_of_events_pass(loopback: Loopback) -> None:
    guards = OutputGuardrails(masked("Hello"), chunks=sentences())
    stream = create(Chat, model_of("anthropic", loopback), interceptors=[guards]).raw("x")
    events = [event for event in stream.events() if isinstance(event, ReplyDelta)]
    assert [event.raw for event in events] == [None] * len(events)
    assert stream.result().value == "***."


def test_the_option_does_not_change_what_a_cache_finds() -> None:
    hashes = {request_hash("m", "a", replace(HELLO, options=one)) for one in (ChatOptions(), RAW)}
    assert len(hashes) == 1


def test_a_wrong_value_is_a_definition_error(loopback: Loopback) -> None:
    wrong: Any = 1
    with pytest.raises(DefinitionError, match="raw_events is 1; it must be True or False"):
        create(Chat, model_of("openai", loopback), options=ChatOptions(raw_events=wrong))
