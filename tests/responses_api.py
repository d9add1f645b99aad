"""What a server of the Responses API sends, checked against the SDK's own types."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopback import Reply, as_json, sse
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Item = dict[str, Any]
_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def message(*texts: str, refusal: str | None = None, phase: str | None = None) -> Item:
    """An output message of these text parts, and of a refusal."""
    parts: list[Item] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    if refusal is not None:
        parts.append({"type": "refusal", "refusal": refusal})
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts}
    return item if phase is None else {**item, "phase": phase}


def reasoning(*summary: str, content: Sequence[str] = ()) -> Item:
    """A reasoning item with its summary; open models give the thoughts themselves as ``content``."""
    item = {"type": "reasoning", "id": "rs_1", "summary": _parts("summary_text", summary)}
    return {**item, "content": _parts("reasoning_text", content)} if content else item


def _parts(kind: str, texts: Sequence[str]) -> list[Item]:
    return [{"type": kind, "text": text} for text in texts]


def function_call(call_id: str, name: str, arguments: str) -> Item:
    item = {"type": "function_call", "id": f"fc_{call_id}", "status": "completed"}
    return {**item, "call_id": call_id, "name": name, "arguments": arguments}


def usage(taken: int, given: int, *, cached: int = 0, reasoned: int = 0) -> Item:
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": given,
        "output_tokens_details": {"reasoning_tokens": reasoned},
        "total_tokens": taken + given,
    }


def response(*output: Item, status: str = "completed", **more: Any) -> Item:
    """A response; ``more`` are further members of it."""
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


def responded(*output: Item, **more: Any) -> Reply:
    """A response over HTTP."""
    return as_json(response(*output, **more))


def event(kind: str, **members: Any) -> bytes:
    """A server-sent event as OpenAI writes it, of a shape that the SDK knows."""
    data = {"type": kind, "sequence_number": 0, **members}
    _EVENTS.validate_python(data)
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def begun() -> bytes:
    """The events that come before any output."""
    early = response(status="in_progress")
    return event("response.created", response=early) + event("response.in_progress", response=early)


def added(index: int, item: Item) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: int, item: Item) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def wrote(text: str, index: int = 0, part: int = 0) -> bytes:
    """A piece of an output text; ``part`` is its place among the parts of the message."""
    where = {"item_id": "msg_1", "output_index": index, "content_index": part}
    return event("response.output_text.delta", **where, delta=text, logprobs=[])


def refused(text: str, index: int = 0) -> bytes:
    where = {"item_id": "msg_1", "output_index": index, "content_index": 0}
    return event("response.refusal.delta", **where, delta=text)


def thought(text: str, index: int = 0, part: int = 0) -> bytes:
    """A piece of the summary of what was thought."""
    where = {"item_id": "rs_1", "output_index": index, "summary_index": part}
    return event("response.reasoning_summary_text.delta", **where, delta=text)


def called(text: str, index: int) -> bytes:
    """A piece of the arguments of a call."""
    kind = "response.function_call_arguments.delta"
    return event(kind, item_id="fc_1", output_index=index, delta=text)


def ended(data: Mapping[str, Any]) -> bytes:
    """The event that ends a stream: ``data`` is the whole response."""
    return event(f"response.{data['status']}", response=data)


def streamed(*texts: str, **more: Any) -> Reply:
    """A whole, well-formed stream of one message."""
    empty, whole = message(), message("".join(texts))
    pieces = (wrote(text) for text in texts)
    return sse(begun(), added(0, empty), *pieces, done(0, whole), ended(response(whole, **more)))
