"""Streams of chat completions: any cut of the bytes reads the same, and an incomplete reply is an error."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from loopback import (
    DONE,
    MAX_WAIT,
    Loopback,
    answer,
    delta,
    error,
    event,
    raw_reply,
    sse,
    stream_reply,
    usage_event,
)

from aiservices.models.errors import (
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
)
from aiservices.models.http.replies import SseDecoder
from aiservices.models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    ReplyDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.openai.chat import ChatStreamReader, read_chat_completion
from aiservices.models.requests import ChatOptions, ChatRequest

KEY = "sk-test-0123456789"
HELLO = ChatRequest.of("Hello")


@pytest.fixture
def model(loopback: Loopback) -> Iterator[OpenAiChatModel]:
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


async def collect(model: OpenAiChatModel, request: ChatRequest = HELLO) -> list[ReplyDelta]:
    return [piece async for piece in model.astream(request)]


def complete_reply(text: str, **parts: object) -> ChatReply:
    return ChatReply(AiMessage(text), model="m-1", id="chatcmpl-1", **parts)  # type: ignore[arg-type]


def test_a_stream_is_requested_with_its_usage(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(stream_reply(["Hi"]))
    list(model.stream(HELLO))
    assert loopback.requests[0].json == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Hello"}],
    }


def test_deltas_arrive_as_they_are_sent_and_the_last_has_the_whole_reply(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    second = threading.Event()
    usage = usage_event(prompt_tokens=3, completion_tokens=4)
    chunks = (delta(role="assistant", content=""), delta(content="Hé"), delta(content="llo"))
    loopback.reply(sse(*chunks, delta("stop"), usage, DONE, wait_before={2: second}))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hé")
    second.set()
    assert list(deltas) == [ReplyDelta("llo"), ReplyDelta(reply=complete_reply("Héllo", usage=Usage(3, 4)))]
    assert len(loopback.requests) == 1


def test_an_async_stream_gives_the_same(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(stream_reply(["Hé", "llo"]))
    assert asyncio.run(collect(model)) == [
        ReplyDelta("Hé"),
        ReplyDelta("llo"),
        ReplyDelta(reply=complete_reply("Héllo")),
    ]


def test_reasoning_refusals_and_tool_calls_are_collected(loopback: Loopback, model: OpenAiChatModel) -> None:
    first = {"index": 0, "id": "call_1", "function": {"name": "add", "arguments": ""}}
    second = {"index": 1, "id": "call_2", "function": {"name": "neg", "arguments": '{"b"'}}
    loopback.reply(
        sse(
            delta(reasoning_content="Hm"),
            delta(reasoning="."),
            delta(refusal="I can"),
            delta(refusal="not."),
            delta(tool_calls=[first]),
            delta(tool_calls=[second]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a":1}'}}]),
            delta("tool_calls", tool_calls=[{"index": 1, "function": {"arguments": ":2}"}}]),
            DONE,
        )
    )
    calls = (ToolCall("call_1", "add", '{"a":1}'), ToolCall("call_2", "neg", '{"b":2}'))
    reply = ChatReply(
        AiMessage("", calls, "Hm."), FinishReason.TOOL_CALLS, None, "m-1", "chatcmpl-1", "I cannot."
    )
    assert list(model.stream(HELLO)) == [
        ReplyDelta(reasoning="Hm"),
        ReplyDelta(reasoning="."),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", ""),)),
        ReplyDelta(tool_calls=(ToolCallDelta(1, "neg", '{"b"'),)),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", '{"a":1}'),)),
        ReplyDelta(tool_calls=(ToolCallDelta(1, "neg", ":2}"),)),
        ReplyDelta(reply=reply),
    ]


def test_tool_calls_without_an_index_are_distinguished_by_their_ids() -> None:
    reader = ChatStreamReader()
    for piece in (
        delta(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "{"}}]),
        delta(tool_calls=[{"function": {"arguments": "}"}}]),
        delta("tool_calls", tool_calls=[{"id": "b", "function": {"name": "g", "arguments": "{}"}}]),
    ):
        list(reader.feed(piece))
    (last,) = reader.end()
    assert last.reply is not None
    assert last.reply.message.tool_calls == (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))


def piece(
    index: Any = None, call_id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    members = {
        "index": index,
        "id": call_id,
        "function": {k: v for k, v in function.items() if v is not None},
    }
    return {key: value for key, value in members.items() if value is not None}


ONE, TWO = '{"a":1}', '{"a":2}'
F, G = ToolCall("x", "f", ONE), ToolCall("y", "g", TWO)
FF = ToolCall("y", "f", TWO)
# The calls that are assembled from the chunks of servers that do not number them as OpenAI does.
PIECES: dict[str, tuple[list[dict[str, Any]], tuple[ToolCall, ...]]] = {
    "index 0 for all calls": ([piece(0, "x", "f", ONE), piece(0, "y", "f", TWO)], (F, FF)),
    "index 0 for all calls in pieces": (
        [
            piece(0, "x", "f", '{"a"'),
            piece(0, None, None, ":1}"),
            piece(0, "y", "f", ""),
            piece(0, "y", "f", TWO),
        ],
        (F, FF),
    ),
    "index 0 for all calls without ids": (
        [piece(0, None, "f", ONE), piece(0, None, "g", TWO)],
        (ToolCall("", "f", ONE), ToolCall("", "g", TWO)),
    ),
    "the name in each piece": ([piece(0, "x", "f", '{"a"'), piece(0, None, "f", ":1}")], (F,)),
    "the name and the id in each piece": ([piece(0, "x", "f", '{"a"'), piece(0, "x", "f", ":1}")], (F,)),
    "a name in two pieces": (
        [piece(0, "x", "we"), piece(0, None, "ather", ONE)],
        (ToolCall("x", "weather", ONE),),
    ),
    "a repeated id without an index": (
        [piece(None, "x", "f", '{"a"'), piece(None, "x", None, ":1}"), piece(None, "y", "g", TWO)],
        (F, G),
    ),
    "interleaved ids without an index": (
        [piece(None, "x", "f", '{"a"'), piece(None, "y", "g", TWO), piece(None, "x", "f", ":1}")],
        (F, G),
    ),
    "neither ids nor an index": (
        [piece(None, None, "f", '{"a"'), piece(None, None, None, ":1}"), piece(None, None, "g", TWO)],
        (ToolCall("", "f", ONE), ToolCall("", "g", TWO)),
    ),
    "arguments that are an object": ([piece(0, "x", "f", {"a": 1})], (F,)),
    "an id in the last piece": ([piece(0, None, "f", ONE), piece(0, "x")], (F,)),
    "the whole call twice": ([piece(0, "x", "f", ONE), piece(0, "x", "f", ONE)], (F,)),
    "the same id with another index": ([piece(0, "x", "f", ONE), piece(1, "x", "f", ONE)], (F, F)),
    "an index of its own for the rest of a call": (
        [piece(0, "x", "f", ONE), piece(0, "y", "g", '{"a"'), piece(1, None, None, ":2}")],
        (F, G),
    ),
    "an empty name": ([piece(0, "x", "", ONE)], (ToolCall("x", "", ONE),)),
}


def test_pieces_of_tool_calls_are_put_together_whatever_the_server_repeats_or_leaves_out() -> None:
    for name, (pieces, expected) in PIECES.items():
        reader = ChatStreamReader()
        for one in pieces:
            list(reader.feed(delta(tool_calls=[json.loads(json.dumps(one))])))
        list(reader.feed(delta("tool_calls")))
        (last,) = reader.end()
        assert last.reply is not None
        calls = last.reply.message.tool_calls
        found = [replace(call, arguments=re.sub(r"\s", "", call.arguments)) for call in calls]
        assert found == list(expected), name


def test_text_and_refusals_in_parts_are_read_in_streams_and_whole_replies() -> None:
    for members, text, refusal in (
        ({"content": [{"type": "output_text", "text": "A"}, {"text": "B"}]}, "AB", None),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "", "No."),
        ({"content": "A", "refusal": ""}, "A", None),
        ({"content": None, "refusal": "No."}, "", "No."),
    ):
        reader = ChatStreamReader()
        list(reader.feed(delta("stop", **members)))
        (last,) = reader.end()
        body = {"choices": [{"message": members, "finish_reason": "stop"}]}
        whole = read_chat_completion(json.dumps(body).encode())
        for reply in (last.reply, whole):
            assert reply is not None
            assert (reply.message.text, reply.refusal) == (text, refusal)


def test_halves_of_a_character_are_joined_over_events_without_text() -> None:
    pieces = [
        delta(content="HIGH").replace(b"HIGH", b"a\\ud83d"),
        usage_event(prompt_tokens=1, completion_tokens=1),
        delta(content="LOW").replace(b"LOW", b"\\ude42b"),
    ]
    reader = ChatStreamReader()
    assert "".join(one.text for raw in pieces for one in reader.feed(raw)) == "a🙂b"


def test_only_the_first_of_several_choices_is_read() -> None:
    reader = ChatStreamReader()
    other = event({"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": None}]})
    assert list(reader.feed(delta(content="A") + other + delta("stop"))) == [ReplyDelta("A")]


STREAM = (
    b": keep-alive\r\n\r\n"
    + delta(content="Грüße, ").replace(b"\n", b"\r\n")
    + b"event: message\nid: 7\nretry: 10\n"
    + delta(content="世界 🌍")
    + b": ping\n\n"
    + b'data:{"choices":\ndata: [{"delta": {"content": "\\n!"}, "finish_reason": "stop"}]}\n\n'
    + usage_event(prompt_tokens=1, completion_tokens=2)
    + DONE
)
TEXT = "Грüße, 世界 🌍\n!"


def read_cut(pieces: list[bytes]) -> ReplyDelta:
    reader = ChatStreamReader()
    deltas = [item for piece in pieces for item in reader.feed(piece)]
    deltas += reader.end()
    assert "".join(item.text for item in deltas) == TEXT
    return deltas[-1]


def test_a_stream_cut_at_any_byte_reads_the_same() -> None:
    expected = ReplyDelta(reply=complete_reply(TEXT, usage=Usage(1, 2)))
    assert read_cut([STREAM]) == expected
    assert read_cut([STREAM[i : i + 1] for i in range(len(STREAM))]) == expected
    for place in range(len(STREAM) + 1):
        assert read_cut([STREAM[:place], STREAM[place:]]) == expected


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_a_stream_cut_at_many_places_reads_the_same(places: list[int]) -> None:
    cuts = [0, *sorted(places), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(cuts)]
    assert read_cut(pieces) == ReplyDelta(reply=complete_reply(TEXT, usage=Usage(1, 2)))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_a_stream_cut_by_the_network_reads_the_same(
    loopback: Loopback, model: OpenAiChatModel, size: int
) -> None:
    pieces = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    loopback.reply(sse(*pieces))
    assert "".join(item.text for item in model.stream(HELLO)) == TEXT
    assert "".join(item.text for item in asyncio.run(collect(model))) == TEXT


def test_one_long_line_in_many_pieces_takes_linear_time() -> None:
    splitter = SseDecoder()
    piece = b"x" * 100
    start = time.process_time()
    splitter.feed(b"data: ")
    for _ in range(100_000):
        assert splitter.feed(piece) == []
    (data,) = splitter.feed(b"\n\n")
    assert len(data) == 10_000_000
    assert time.process_time() - start < 5  # it would take minutes if the text were joined for every piece


@pytest.mark.parametrize(
    "end",
    [
        (delta("stop"),),
        (delta("stop").rstrip(b"\n"),),
        (delta("stop").removesuffix(b"\n"),),
        (delta("stop"), b"data: [DONE]"),
        (delta("stop"), DONE, b"data: never read\n\n"),
    ],
)
def test_a_finish_reason_ends_an_answer_with_or_without_done(
    loopback: Loopback, model: OpenAiChatModel, end: tuple[bytes, ...]
) -> None:
    loopback.reply(sse(delta(content="Hi"), *end))
    assert list(model.stream(HELLO)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]


def test_done_without_a_finish_reason_ends_a_complete_answer(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(sse(delta(content="Hi"), DONE))
    assert list(model.stream(HELLO))[-1].reply == complete_reply("Hi")


def test_a_connection_that_breaks_after_the_finish_reason_loses_nothing(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(sse(delta(content="Hi"), delta("stop"), cut_off=True))
    assert list(model.stream(HELLO)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]
    assert asyncio.run(collect(model)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]


@pytest.mark.parametrize("rest", [(), (b'data: {"choices": [{"delta": {"conte',)])
def test_a_stream_that_ends_early_is_an_error_with_the_partial_text(
    loopback: Loopback, model: OpenAiChatModel, rest: tuple[bytes, ...]
) -> None:
    loopback.reply(sse(delta(content="Hello"), *rest))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hello")
    with pytest.raises(ModelConnectionError) as caught:
        next(deltas)
    assert str(caught.value) == (
        f"openai:m at {loopback.base_url}: the stream ended after 5 characters, before the reply was "
        "complete; "
        "try again"
    )
    assert (caught.value.body, caught.value.retryable, caught.value.status) == ("Hello", True, None)


def test_a_connection_that_breaks_in_the_middle_is_an_error_with_the_partial_text(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(sse(delta(content="Hello"), cut_off=True))
    expected = (
        f"openai:m at {loopback.base_url}: the connection was cut before the reply was complete; "
        "try again, and check the network"
    )
    with pytest.raises(ModelConnectionError) as caught:
        list(model.stream(HELLO))
    assert str(caught.value) == expected
    assert (caught.value.body, caught.value.retryable) == ("Hello", True)
    assert type(caught.value.__cause__).__name__ == "CurlError"
    with pytest.raises(ModelConnectionError) as caught:
        asyncio.run(collect(model))
    assert (str(caught.value), caught.value.body) == (expected, "Hello")


def test_a_stream_that_falls_silent_times_out(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(sse(delta(content="Hello"), delta("stop"), wait_before={1: threading.Event()}))
    request = ChatRequest.of("x", options=ChatOptions(timeout=0.2))
    with pytest.raises(ModelTimeoutError) as caught:
        list(model.stream(request))
    assert str(caught.value) == (
        f"openai:m at {loopback.base_url}: no reply within 0.2 s; "
        "set a longer timeout in ChatOptions or ask for less"
    )
    assert caught.value.body == "Hello"
    with pytest.raises(ModelTimeoutError):
        asyncio.run(collect(model, request))


@pytest.mark.parametrize(
    ("sent", "kind", "expected_text", "status", "retryable"),
    [
        (
            {"error": {"message": "overloaded", "type": "server_error", "code": None}},
            ModelServerError,
            "500 the server failed: overloaded; try again later",
            None,
            True,
        ),
        (
            {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
            RateLimitError,
            "429 too many requests: slow down; send fewer requests",
            None,
            True,
        ),
        (
            {"error": {"message": "no upstream", "code": 502}},
            ModelServerError,
            "502 the server failed: no upstream; try again later",
            502,
            True,
        ),
        (
            {"object": "error", "message": "too long", "type": "invalid_request_error", "code": 400},
            ModelError,
            "400 the request is not accepted: too long; fix what the message reports",
            400,
            False,
        ),
        ({"error": "broken"}, ModelServerError, "500 the server failed: broken; try again later", None, True),
    ],
)
def test_an_error_in_the_stream_is_raised_as_its_own_type(
    loopback: Loopback,
    model: OpenAiChatModel,
    sent: object,
    kind: type[ModelError],
    expected_text: str,
    status: int | None,
    retryable: bool,
) -> None:
    loopback.reply(sse(delta(content="Hello"), event(sent), DONE))
    with pytest.raises(kind) as caught:
        list(model.stream(HELLO))
    assert str(caught.value) == f"openai:m at {loopback.base_url}: {expected_text}"
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


@pytest.mark.parametrize(
    ("sent", "reason", "begins"),
    [
        (b"data: <html>\n\n", "one of its events is not JSON", "'data: <html>\\n\\n'"),
        (b"data: [1]\n\n", "one of its events is not a JSON object", "'data: [1]\\n\\n'"),
        (
            b'data: {"choices": [1]}\n\n',
            "one of its events has an unexpected shape",
            "'data: {\"choices\": [1]}\\n\\n'",
        ),
        (DONE, "it has no choices", "''"),
    ],
)
def test_events_that_are_not_a_completion_are_an_invalid_reply(
    loopback: Loopback, model: OpenAiChatModel, sent: bytes, reason: str, begins: str
) -> None:
    loopback.reply(sse(sent))
    with pytest.raises(InvalidReplyError) as caught:
        list(model.stream(HELLO))
    assert str(caught.value) == (
        f"openai:m at {loopback.base_url}: the reply is not a chat completion: {reason}; check base_url. "
        f"It begins: {begins}"
    )


def test_what_arrives_together_with_an_error_is_shown_before_it(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    for fault in (event({"error": {"message": "overloaded", "type": "server_error"}}), b"data: {]\n\n"):
        loopback.reply(sse(delta(content="A") + delta(content="B") + fault))
        stream = model.stream(HELLO)
        assert [next(stream), next(stream)] == [ReplyDelta("A"), ReplyDelta("B")]
        with pytest.raises(ModelError):
            next(stream)


def test_an_http_error_comes_before_any_delta(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(error(429, "slow down"))
    expected = f"openai:m at {loopback.base_url}: 429 too many requests: slow down; send fewer requests"
    with pytest.raises(RateLimitError) as caught:
        next(model.stream(HELLO))
    assert str(caught.value) == expected
    with pytest.raises(RateLimitError) as caught:
        asyncio.run(collect(model))
    assert str(caught.value) == expected
    assert len(loopback.requests) == 2


def test_a_whole_reply_to_a_stream_request_is_read(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(answer("Hi", reasoning="Hm"))
    first, last = model.stream(HELLO)
    assert first == ReplyDelta("Hi", "Hm")
    assert last.reply is not None
    assert last.reply.message == AiMessage("Hi", reasoning="Hm")


def test_a_page_instead_of_a_stream_is_an_invalid_reply(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(raw_reply(b"<html></html>", content_type="text/html"))
    with pytest.raises(InvalidReplyError) as caught:
        list(model.stream(HELLO))
    assert str(caught.value) == (
        f"openai:m at {loopback.base_url}: the reply is not a chat completion: the body is not JSON; "
        "check base_url. It begins: '<html></html>'"
    )


def test_closing_a_stream_early_closes_its_connection(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(sse(delta(content="Hello"), delta("stop"), wait_before={1: threading.Event()}))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hello")
    assert not loopback.hung_up.is_set()
    deltas.close()
    assert loopback.hung_up.wait(MAX_WAIT)


def test_closing_an_async_stream_early_closes_its_connection(
    loopback: Loopback, model: OpenAiChatModel
) -> None:
    loopback.reply(sse(delta(content="Hello"), delta("stop"), wait_before={1: threading.Event()}))

    async def read_one() -> bool:
        deltas = model.astream(HELLO)
        assert await anext(deltas) == ReplyDelta("Hello")
        await deltas.aclose()
        return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert asyncio.run(read_one())


def test_a_cancelled_async_stream_closes_its_connection(loopback: Loopback, model: OpenAiChatModel) -> None:
    loopback.reply(sse(delta(content="Hello"), delta("stop"), wait_before={1: threading.Event()}))

    async def read_until_cancelled() -> bool:
        try:
            async with asyncio.timeout(0.2):
                async for _ in model.astream(HELLO):
                    pass
        except TimeoutError:
            pass
        return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert asyncio.run(read_until_cancelled())
