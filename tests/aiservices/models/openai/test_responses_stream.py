"""Streams of the Responses API: any cut of the bytes reads the same, and an incomplete reply is an error."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from loopback import DONE, MAX_WAIT, Loopback, raw_reply, sse
from responses_api import (
    arguments_delta,
    end_event,
    event,
    function_call,
    item_added,
    item_done,
    message,
    reasoning,
    reasoning_delta,
    refusal_delta,
    response,
    response_reply,
    start_events,
    stream_reply,
    text_delta,
    usage,
)

from aiservices.models.errors import (
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
)
from aiservices.models.http.replies import BrokenStreamError
from aiservices.models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    ReplyDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from aiservices.models.openai import OpenAiResponsesModel
from aiservices.models.openai.responses import ResponseStreamReader
from aiservices.models.requests import ChatOptions, ChatRequest

KEY = "sk-test-0123456789"
HELLO = ChatRequest.of("Hello")


@pytest.fixture
def model(loopback: Loopback) -> Iterator[OpenAiResponsesModel]:
    with OpenAiResponsesModel("m", base_url=loopback.base_url, api_key=KEY) as made:
        yield made


async def collect(model: OpenAiResponsesModel, request: ChatRequest = HELLO) -> list[ReplyDelta]:
    return [piece async for piece in model.astream(request)]


def complete_reply(text: str, **parts: Any) -> ChatReply:
    return ChatReply(AiMessage(text), model="test-model-1", id="resp_1", **parts)


def test_a_stream_is_requested(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(stream_reply("Hi"))
    list(model.stream(HELLO))
    assert loopback.requests[0].json == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "input": [{"role": "user", "content": "Hello"}],
    }


def test_deltas_arrive_as_they_are_sent_and_the_last_has_the_whole_reply(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    second = threading.Event()
    end = end_event(response(message("Héllo"), usage=usage(3, 4)))
    loopback.reply(
        sse(
            start_events(),
            item_added(0, message()),
            text_delta("Hé"),
            text_delta("llo"),
            end,
            wait_before={3: second},
        )
    )
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hé")
    second.set()
    assert list(deltas) == [ReplyDelta("llo"), ReplyDelta(reply=complete_reply("Héllo", usage=Usage(3, 4)))]
    assert len(loopback.requests) == 1


def test_an_async_stream_gives_the_same(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(stream_reply("Hé", "llo"))
    assert asyncio.run(collect(model)) == [
        ReplyDelta("Hé"),
        ReplyDelta("llo"),
        ReplyDelta(reply=complete_reply("Héllo")),
    ]


def test_reasoning_and_tool_calls_are_streamed(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    add, neg = function_call("call_1", "add", '{"a":1}'), function_call("call_2", "neg", '{"b":2}')
    loopback.reply(
        sse(
            start_events(),
            item_added(0, reasoning()),
            reasoning_delta("H"),
            reasoning_delta("m."),
            reasoning_delta("So.", part=1),
            item_done(0, reasoning("Hm.", "So.")),
            item_added(1, {**add, "arguments": ""}),
            arguments_delta('{"a"', 1),
            item_added(2, {**neg, "arguments": ""}),
            arguments_delta(":1}", 1),
            arguments_delta('{"b":2}', 2),
            item_done(1, add),
            item_done(2, neg),
            end_event(response(reasoning("Hm.", "So."), add, neg)),
        )
    )
    calls = (ToolCall("call_1", "add", '{"a":1}'), ToolCall("call_2", "neg", '{"b":2}'))
    reply = ChatReply(
        AiMessage("", calls, "Hm.\n\nSo."), FinishReason.TOOL_CALLS, None, "test-model-1", "resp_1"
    )
    assert list(model.stream(HELLO)) == [
        ReplyDelta(reasoning="H"),
        ReplyDelta(reasoning="m."),
        ReplyDelta(reasoning="\n\nSo."),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", ""),)),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", '{"a"'),)),
        ReplyDelta(tool_calls=(ToolCallDelta(1, "neg", ""),)),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", ":1}"),)),
        ReplyDelta(tool_calls=(ToolCallDelta(1, "neg", '{"b":2}'),)),
        ReplyDelta(tool_calls=(ToolCallDelta(0, "add", "", calls[0]),)),
        ReplyDelta(tool_calls=(ToolCallDelta(1, "neg", "", calls[1]),)),
        ReplyDelta(reply=reply),
    ]


def test_commentary_before_the_answer_is_streamed_as_reasoning(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    aside, answer = message("Let me see.", phase="commentary"), message("42", phase="final_answer")
    loopback.reply(
        sse(
            item_added(0, {**aside, "content": []}),
            text_delta("Let me "),
            text_delta("see."),
            raw_event("output_text.done", output_index=0, content_index=0, text="Let me see."),
            item_added(1, {**answer, "content": []}),
            text_delta("42", 1),
            raw_event("output_text.done", output_index=1, content_index=0, text="42"),
            end_event(response(aside, answer)),
        )
    )
    deltas = list(model.stream(HELLO))
    assert deltas[:-1] == [
        ReplyDelta(reasoning="Let me "),
        ReplyDelta(reasoning="see."),
        ReplyDelta("42"),
    ]
    assert deltas[-1].reply is not None
    assert deltas[-1].reply.message == AiMessage("42", reasoning="Let me see.")


def test_a_refusal_comes_with_the_whole_reply(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    end = end_event(response(message(refusal="I cannot.")))
    loopback.reply(sse(start_events(), refusal_delta("I can"), refusal_delta("not."), end))
    assert list(model.stream(HELLO)) == [ReplyDelta(reply=complete_reply("", refusal="I cannot."))]


@pytest.mark.parametrize(
    ("why", "expected_value"),
    [("max_output_tokens", FinishReason.LENGTH), ("content_filter", FinishReason.CONTENT_FILTER)],
)
def test_a_truncated_reply_has_the_reason_of_its_end(
    loopback: Loopback, model: OpenAiResponsesModel, why: str, expected_value: FinishReason
) -> None:
    cut = response(message("Hal"), status="incomplete", incomplete_details={"reason": why})
    loopback.reply(sse(start_events(), text_delta("Hal"), end_event(cut)))
    assert list(model.stream(HELLO)) == [
        ReplyDelta("Hal"),
        ReplyDelta(reply=complete_reply("Hal", finish_reason=expected_value)),
    ]


def test_unknown_events_are_ignored() -> None:
    reader = ResponseStreamReader()
    unknown = b'data: {"type": "response.telepathy.delta", "delta": 7}\n\ndata: {"a": 1}\n\n'
    assert list(reader.feed(unknown + text_delta("A") + arguments_delta("{}", 5))) == [ReplyDelta("A")]


def test_deltas_without_text_are_ignored() -> None:
    deltas = ResponseStreamReader().feed(text_delta("") + reasoning_delta("") + text_delta("A"))
    assert list(deltas) == [ReplyDelta("A")]


def test_the_output_is_collected_if_the_last_event_leaves_it_out(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    call = function_call("call_1", "f", "{}")
    pieces = (text_delta("Hi"), item_done(1, call), item_done(0, message("Hi")))
    loopback.reply(sse(*pieces, end_event(response())))
    reply = list(model.stream(HELLO))[-1].reply
    assert reply is not None
    assert reply.message == AiMessage("Hi", (ToolCall("call_1", "f", "{}"),))


def test_text_and_calls_that_arrived_only_in_pieces_are_kept_if_the_last_event_has_no_output(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    pieces = (
        text_delta("Let me "),
        text_delta("see."),
        item_added(1, function_call("call_1", "add", "")),
        arguments_delta('{"a"', 1),
        arguments_delta(":1}", 1),
    )
    loopback.reply(sse(*pieces, end_event(response())))
    *_, last = model.stream(HELLO)
    assert last.reply is not None
    assert last.reply.message == AiMessage("Let me see.", (ToolCall("call_1", "add", '{"a":1}'),))


def raw_event(kind: str, **members: Any) -> bytes:
    """Return an event that the SDK may not accept."""
    return b"data: " + json.dumps({"type": f"response.{kind}", **members}).encode() + b"\n\n"


def raw_call(call_id: str, arguments: Any, status: str = "completed") -> dict[str, Any]:
    return {**function_call(call_id, "f", arguments), "status": status}


ONE, TWO = ToolCall("x", "f", '{"a":1}'), ToolCall("y", "f", '{"a":2}')


@pytest.mark.parametrize(
    ("events", "text", "calls", "refusal"),
    [
        ([raw_event("output_text.done", output_index=0, text="A")], "A", (), None),
        ([raw_event("output_text.done", text="A")], "A", (), None),
        (
            [
                raw_event("output_text.delta", output_index=0, delta="A"),
                raw_event("output_text.done", output_index=0, text="A"),
            ],
            "A",
            (),
            None,
        ),
        ([raw_event("refusal.delta", delta="N"), raw_event("refusal.delta", delta="o")], "", (), "No"),
        ([raw_event("refusal.done", refusal="No")], "", (), "No"),
        (
            [
                raw_event("refusal.delta", output_index=0, delta="No"),
                raw_event("refusal.done", output_index=0, refusal="No"),
                raw_event("output_item.done", output_index=0, item=message(refusal="No")),
            ],
            "",
            (),
            "No",
        ),
        (
            [
                raw_event("output_item.added", output_index=0, item=raw_call("x", ONE.arguments)),
                raw_event("function_call_arguments.done", output_index=0, arguments=ONE.arguments),
            ],
            "",
            (ONE,),
            None,
        ),
        (
            [
                raw_event("output_item.added", output_index=0, item=raw_call("x", "", "in_progress")),
                raw_event("function_call_arguments.done", output_index=0, arguments=ONE.arguments),
            ],
            "",
            (ONE,),
            None,
        ),
        (
            [
                raw_event("output_item.done", output_index=0, item=raw_call("x", {"a": 1})),
                raw_event("output_item.done", output_index=0, item=raw_call("y", TWO.arguments)),
            ],
            "",
            (ONE, TWO),
            None,
        ),
        (
            [
                raw_event("output_item.added", output_index=0, item=raw_call("x", "", "in_progress")),
                raw_event("function_call_arguments.delta", output_index=0, delta=ONE.arguments),
                raw_event("output_item.added", output_index=0, item=raw_call("y", None, "in_progress")),
                raw_event("function_call_arguments.delta", output_index=0, delta=TWO.arguments),
            ],
            "",
            (ONE, TWO),
            None,
        ),
    ],
)
def test_nothing_is_lost_if_a_server_leaves_out_or_repeats_events(
    events: list[bytes], text: str, calls: tuple[ToolCall, ...], refusal: str | None
) -> None:
    reader = ResponseStreamReader()
    deltas = [one for raw in events for one in reader.feed(raw)]
    ended = {"status": "completed", "output": []}
    deltas += [*reader.feed(raw_event("completed", response=ended)), *reader.end()]
    reply = deltas[-1].reply
    assert reply is not None
    assert (reply.message.text, reply.message.tool_calls, reply.refusal) == (text, calls, refusal)
    assert "".join(one.text for one in deltas) == text


def test_a_stream_of_only_the_last_event_is_read(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    end = end_event(response(reasoning("Hm."), message("Hi"), function_call("c", "f", "{}")))
    loopback.reply(sse(start_events(), end))
    first, last = model.stream(HELLO)
    assert first == ReplyDelta(
        "Hi", "Hm.", tool_calls=(ToolCallDelta(0, "f", "{}", ToolCall("c", "f", "{}")),)
    )
    assert last.reply is not None
    assert last.reply.text == "Hi"


def test_a_whole_reply_to_a_stream_request_is_read(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(response_reply(message("Hi")))
    first, last = model.stream(HELLO)
    assert first == ReplyDelta("Hi")
    assert last.reply is not None
    assert last.reply.raw == response_reply(message("Hi")).body


TEXT = "Grüße, 世界 🌍\n!"
STREAM = (
    b": keep-alive\r\n\r\n"
    + start_events()
    + item_added(0, message()).replace(b"\n", b"\r\n")
    + text_delta("Grüße, ").replace(b"\n", b"\r\n")
    + text_delta("世界 🌍")
    + b": ping\n\nid: 7\nretry: 10\n"
    + b'data:{"type":"response.output_text.delta",\ndata: "output_index": 0, "delta": "\\n!"}\n\n'
    + item_done(0, message(TEXT))
    + end_event(response(message(TEXT), usage=usage(1, 2)))
)


def read_cut(pieces: list[bytes]) -> ReplyDelta:
    reader = ResponseStreamReader()
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


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_stream_cut_by_the_network_reads_the_same(
    loopback: Loopback, model: OpenAiResponsesModel, size: int
) -> None:
    loopback.reply(sse(*(STREAM[i : i + size] for i in range(0, len(STREAM), size))))
    assert "".join(item.text for item in model.stream(HELLO)) == TEXT
    assert "".join(item.text for item in asyncio.run(collect(model))) == TEXT


@given(st.integers(0, len(STREAM.rstrip()) - 1))
def test_a_stream_that_ends_anywhere_before_its_end_is_never_whole(place: int) -> None:
    reader = ResponseStreamReader()
    deltas = list(reader.feed(STREAM[:place]))
    with pytest.raises(BrokenStreamError):
        deltas += reader.end()
    assert TEXT.startswith(reader.text)  # which the error of a broken stream tells
    assert reader.text.startswith("".join(item.text for item in deltas))


END = end_event(response(message("Hi")))


@pytest.mark.parametrize("end", [(END,), (END.rstrip(b"\n"),), (END, DONE), (END, b"data: never read\n\n")])
def test_the_end_of_the_response_ends_the_stream_with_or_without_done(
    loopback: Loopback, model: OpenAiResponsesModel, end: tuple[bytes, ...]
) -> None:
    loopback.reply(sse(text_delta("Hi"), *end))
    assert list(model.stream(HELLO)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]


def test_a_connection_that_breaks_after_the_end_loses_nothing(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(sse(text_delta("Hi"), END, cut_off=True))
    assert list(model.stream(HELLO)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]
    assert asyncio.run(collect(model)) == [ReplyDelta("Hi"), ReplyDelta(reply=complete_reply("Hi"))]


@pytest.mark.parametrize(
    "rest", [(), (b'data: {"type": "response.comp',), (item_done(0, message("Hello")), DONE)]
)
def test_a_stream_that_ends_early_is_an_error_with_the_partial_text(
    loopback: Loopback, model: OpenAiResponsesModel, rest: tuple[bytes, ...]
) -> None:
    loopback.reply(sse(text_delta("Hello"), *rest))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hello")
    with pytest.raises(ModelConnectionError) as caught:
        next(deltas)
    assert str(caught.value) == (
        f"openai-responses:m at {loopback.base_url}: the stream ended after 5 characters, "
        "before the reply was complete; try again"
    )
    assert (caught.value.body, caught.value.retryable, caught.value.status) == ("Hello", True, None)


def test_a_connection_that_breaks_in_the_middle_is_an_error_with_the_partial_text(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(sse(text_delta("Hello"), cut_off=True))
    expected = (
        f"openai-responses:m at {loopback.base_url}: the connection was cut before the reply was complete; "
        "try again, and check the network"
    )
    with pytest.raises(ModelConnectionError) as caught:
        list(model.stream(HELLO))
    assert (str(caught.value), caught.value.body, caught.value.retryable) == (expected, "Hello", True)
    with pytest.raises(ModelConnectionError) as caught:
        asyncio.run(collect(model))
    assert (str(caught.value), caught.value.body) == (expected, "Hello")


def test_a_stream_that_falls_silent_times_out(loopback: Loopback, model: OpenAiResponsesModel) -> None:
    loopback.reply(sse(text_delta("Hello"), END, wait_before={1: threading.Event()}))
    request = ChatRequest.of("x", options=ChatOptions(timeout=0.2))
    with pytest.raises(ModelTimeoutError) as caught:
        list(model.stream(request))
    assert str(caught.value) == (
        f"openai-responses:m at {loopback.base_url}: no reply within 0.2 s; "
        "set a longer timeout in ChatOptions or ask for less"
    )
    assert caught.value.body == "Hello"
    with pytest.raises(ModelTimeoutError):
        asyncio.run(collect(model, request))


@pytest.mark.parametrize(
    ("sent", "kind", "expected_text"),
    [
        (
            event("error", code="server_error", message="Oh", param=None),
            ModelServerError,
            "500 the server failed: Oh; try again later",
        ),
        (
            event("error", code="rate_limit_exceeded", message="slow down", param=None),
            RateLimitError,
            "429 too many requests: slow down; send fewer requests",
        ),
        (
            b'data: {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}\n\n',
            BadRequestError,
            "400 the request is not accepted: too long; fix what the message reports",
        ),
        (
            end_event(response(status="failed", error={"code": "server_error", "message": "Oh"})),
            ModelServerError,
            "500 the server failed: Oh; try again later",
        ),
        (
            end_event(response(status="failed", error={"code": "invalid_prompt", "message": "No"})),
            BadRequestError,
            "400 the request is not accepted: No; fix what the message reports",
        ),
    ],
)
def test_an_error_in_the_stream_is_raised_as_its_own_type(
    loopback: Loopback, model: OpenAiResponsesModel, sent: bytes, kind: type[ModelError], expected_text: str
) -> None:
    loopback.reply(sse(start_events(), text_delta("Hello"), sent))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hello")
    with pytest.raises(kind) as caught:
        next(deltas)
    assert str(caught.value) == f"openai-responses:m at {loopback.base_url}: {expected_text}"
    assert caught.value.status is None


@pytest.mark.parametrize(
    ("sent", "reason", "begins"),
    [
        (b"data: <html>\n\n", "one of its events is not JSON", "'data: <html>\\n\\n'"),
        (
            b'data: {"type": "response.completed"}\n\n',
            "one of its events has an unexpected shape",
            '\'data: {"type": "response.completed"}\\n\\n\'',
        ),
        (
            b'data: {"type": "response.output_text.delta"}\n\n',
            "one of its events has an unexpected shape",
            '\'data: {"type": "response.output_text.delta"}\\n\\n\'',
        ),
    ],
)
def test_events_that_are_not_a_response_are_an_invalid_reply(
    loopback: Loopback, model: OpenAiResponsesModel, sent: bytes, reason: str, begins: str
) -> None:
    loopback.reply(sse(sent))
    with pytest.raises(InvalidReplyError) as caught:
        list(model.stream(HELLO))
    assert str(caught.value) == (
        f"openai-responses:m at {loopback.base_url}: the reply is not a response of the Responses API: "
        f"{reason}; check base_url. It begins: {begins}"
    )


def test_a_page_instead_of_a_stream_is_an_invalid_reply(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(raw_reply(b"<html></html>", content_type="text/html"))
    with pytest.raises(InvalidReplyError) as caught:
        list(model.stream(HELLO))
    assert caught.value.body == "<html></html>"


def test_closing_a_stream_early_closes_its_connection(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(sse(text_delta("Hello"), END, wait_before={1: threading.Event()}))
    deltas = model.stream(HELLO)
    assert next(deltas) == ReplyDelta("Hello")
    assert not loopback.hung_up.is_set()
    deltas.close()
    assert loopback.hung_up.wait(MAX_WAIT)


def test_closing_an_async_stream_early_closes_its_connection(
    loopback: Loopback, model: OpenAiResponsesModel
) -> None:
    loopback.reply(sse(text_delta("Hello"), END, wait_before={1: threading.Event()}))

    async def read_one() -> bool:
        deltas = model.astream(HELLO)
        assert await anext(deltas) == ReplyDelta("Hello")
        await deltas.aclose()
        return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert asyncio.run(read_one())
