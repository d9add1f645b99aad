"""Builders of replies of the Responses API, validated with the types of the SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopback import Reply, json_reply, sse
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Item = dict[str, Any]
_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def message(*texts: str, refusal: str | None = None, phase: str | None = None) -> Item:
    """Return an output message with these text parts and a refusal."""
    parts: list[Item] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    if refusal is not None:
        parts.append({"type": "refusal", "refusal": refusal})
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts}
    return item if phase is None else {**item, "phase": phase}


def reasoning(*summary: str, content: Sequence[str] = ()) -> Item:
    """Return a reasoning item with its summary. Open models send the full reasoning as ``content``."""
    item = {"type": "reasoning", "id": "rs_1", "summary": _parts("summary_text", summary)}
    return {**item, "content": _parts("reasoning_text", content)} if content else item


def _parts(kind: str, texts: Sequence[str]) -> list[Item]:
    return [{"type": kind, "text": text} for text in texts]


def function_call(call_id: str, name: str, arguments: str) -> Item:
    item = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
    return {**item, "call_id": call_id, "name": name, "arguments": arguments}


def usage(input_tokens: int, output_tokens: int, *, cached: int = 0, reasoning_tokens: int = 0) -> Item:
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def response(*output: Item, status: str = "completed", **more: Any) -> Item:
    """Return a response; ``more`` are further fields of it."""
    data = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1741476777,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "test-model-1",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        **more,
    }
    Response.model_validate(data)
    return data


def response_reply(*output: Item, **more: Any) -> Reply:
    """Return the HTTP reply with a response."""
    return json_reply(response(*output, **more))


def event(kind: str, **members: Any) -> bytes:
    """Return a server-sent event in the format of OpenAI, validated by the SDK."""
    data = {"type": kind, "sequence_number": 0, **members}
    _EVENTS.validate_python(data)
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def start_events() -> bytes:
    """Return the events before any output."""
    in_progress = response(status="in_progress")
    return event("response.created", response=in_progress) + event(
        "response.in_progress", response=in_progress
    )


def item_added(index: int, item: Item) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def item_done(index: int, item: Item) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def text_delta(text: str, index: int = 0, part: int = 0) -> bytes:
    """Return a delta of an output text; ``part`` is the index of its content part."""
    position = {"item_id": "msg_1", "output_index": index, "content_index": part}
    return event("response.output_text.delta", **position, delta=text, logprobs=[])


def refusal_delta(text: str, index: int = 0) -> bytes:
    position = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    return event("response.refusal.delta", **position, delta=text)


def reasoning_delta(text: str, index: int = 0, part: int = 0) -> bytes:
    """Return a delta of the reasoning summary."""
    position = {"item_id": "rs_1", "output_index": index, "summary_index": part}
    return event("response.reasoning_summary_text.delta", **position, delta=text)


def arguments_delta(text: str, index: int) -> bytes:
    """Return a delta of the arguments of a function call."""
    kind = "response.function_call_arguments.delta"
    return event(kind, item_id="fc_1", output_index=index, delta=text)


def end_event(data: Mapping[str, Any]) -> bytes:
    """Return the event that ends a stream; ``data`` is the whole response."""
    return event(f"response.{data['status']}", response=data)


def stream_reply(*texts: str, **more: Any) -> Reply:
    """Return the reply with a complete stream of one message."""
    empty, whole = message(), message("".join(texts))
    pieces = (text_delta(text) for text in texts)
    return sse(
        start_events(), item_added(0, empty), *pieces, item_done(0, whole), end_event(response(whole, **more))
    )
