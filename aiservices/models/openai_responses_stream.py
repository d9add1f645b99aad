"""Reads a streamed response of the Responses API: events to deltas, and the whole reply of the last one."""

from __future__ import annotations

from typing import Any

from ..messages import ChatReply, ReplyDelta, ToolCallDelta
from .openai_events import EventReading, at_once
from .openai_payload import ReportedError
from .openai_responses_reply import is_aside, read_response, reply_of

__all__ = ["ResponseReading"]


class ResponseReading(EventReading):
    """What has been read of one response. The event that ends it brings the whole of it once more."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self._reply: ChatReply | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._calls: dict[int, ToolCallDelta] = {}
        self._asides: set[int] = set()
        self._thought: tuple[object, ...] | None = None
        self._told = False

    @property
    def finished(self) -> bool:
        return self._reply is not None

    def _last(self) -> list[ReplyDelta]:
        assert self._reply is not None
        first, last = at_once(self._reply)
        # a server may send the end alone, without pieces before it
        return [last] if self._told or first == ReplyDelta() else [first, last]

    def _read_whole(self) -> ChatReply:
        return read_response(self.seen)

    def _take(self, data: dict[str, Any]) -> ReplyDelta | None:
        delta = self._delta(data)
        self._told = self._told or delta is not None
        return delta

    def _delta(self, data: dict[str, Any]) -> ReplyDelta | None:
        match data.get("type"):
            case "response.output_text.delta":
                return self._write(data)
            case "response.function_call_arguments.delta":
                return self._call_on(data)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._think(data)
            case "response.output_item.added":
                return self._begin(data["output_index"], data["item"])
            case "response.output_item.done":
                self._items[data["output_index"]] = data["item"]
            case "response.completed" | "response.incomplete" | "response.failed" as ended:
                self._end(data["response"], ended.removeprefix("response."))
            case "error":
                raise ReportedError({"message": data.get("message"), "code": data.get("code")})
            case _:  # most events tell what is known already, and new kinds of them come with time
                pass
        return None

    def _write(self, data: dict[str, Any]) -> ReplyDelta | None:
        if data.get("output_index") in self._asides:
            return self._think(data)
        if not data["delta"]:
            return None
        self._texts.append(data["delta"])
        return ReplyDelta(data["delta"])

    def _think(self, data: dict[str, Any]) -> ReplyDelta | None:
        if not data["delta"]:
            return None
        before = self._thought
        self._thought = tuple(data.get(key) for key in ("output_index", "summary_index", "content_index"))
        # as the parts are joined in the whole reply
        return ReplyDelta(reasoning=("" if before in (None, self._thought) else "\n\n") + data["delta"])

    def _begin(self, index: int, item: dict[str, Any]) -> ReplyDelta | None:
        if is_aside(item):
            self._asides.add(index)
        if item["type"] != "function_call":
            return None
        call = ToolCallDelta(len(self._calls), item["name"], item.get("arguments") or "")
        self._calls[index] = call
        return ReplyDelta(tool_calls=(call,))

    def _call_on(self, data: dict[str, Any]) -> ReplyDelta | None:
        call = self._calls.get(data["output_index"])
        if call is None:  # what is called is told by the end
            return None
        return ReplyDelta(tool_calls=(ToolCallDelta(call.index, call.name, data["delta"]),))

    def _end(self, response: dict[str, Any], ended: str) -> None:
        # some servers leave the output out at the end, since all of its items have been sent
        output = response.get("output") or [item for _, item in sorted(self._items.items())]
        self._reply = reply_of({"status": ended, **response, "output": output})
        self.done = True
