"""Reads a streamed chat completion: events to deltas, deltas to the whole reply."""

from __future__ import annotations

from typing import Any

from ..messages import AiMessage, ChatReply, ReplyDelta, ToolCall, ToolCallDelta, Usage
from .openai_chat_reply import finish_reason, read_reply, text_and_reasoning, usage_of
from .openai_events import EventReading
from .openai_payload import UnreadableReplyError

__all__ = ["ChatReading"]


class ChatReading(EventReading):
    """What has been read of one chat completion."""

    def __init__(self, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._model = self._id = ""
        self._answered = False

    @property
    def finished(self) -> bool:
        return self._reason is not None or self.done

    def _last(self) -> list[ReplyDelta]:
        if not self._answered:
            raise UnreadableReplyError("it has no choices")
        return [ReplyDelta(reply=self._reply())]

    def _read_whole(self) -> ChatReply:
        return read_reply(self.seen)

    def _take(self, data: dict[str, Any]) -> ReplyDelta | None:
        self._model = self._model or data.get("model") or ""
        self._id = self._id or data.get("id") or ""
        self._usage = usage_of(data.get("usage")) or self._usage
        choices = data.get("choices")
        if not choices:  # the event with the usage has none
            return None
        choice = choices[0]
        if choice.get("index"):  # another choice than the first, asked for with extra_body
            return None
        self._answered = True
        self._reason = choice.get("finish_reason") or self._reason
        delta = choice.get("delta") or {}
        if delta.get("refusal"):
            self._refusals.append(delta["refusal"])
        calls = delta.get("tool_calls")
        pieces = tuple(map(self._take_call, calls)) if calls else ()
        text, reasoning = text_and_reasoning(delta)
        if not text and not reasoning and not pieces:
            return None
        self._texts.append(text)
        self._thoughts.append(reasoning)
        return ReplyDelta(text, reasoning, tool_calls=pieces)

    def _take_call(self, call: dict[str, Any]) -> ToolCallDelta:
        # a piece without an index begins a call when it has an id, and goes on with the last one when not
        index = call.get("index")
        if index is None:
            index = len(self._calls) if call.get("id") or not self._calls else len(self._calls) - 1
        if index not in self._places:
            self._places[index] = len(self._calls)
            self._calls.append({"id": "", "name": "", "arguments": []})
        place = self._places[index]
        made = self._calls[place]
        function = call.get("function") or {}
        written = function.get("arguments") or ""
        made["id"] = made["id"] or call.get("id") or ""
        made["name"] += function.get("name") or ""
        made["arguments"].append(written)
        return ToolCallDelta(place, made["name"], written)

    def _reply(self) -> ChatReply:
        calls = tuple(ToolCall(call["id"], call["name"], "".join(call["arguments"])) for call in self._calls)
        message = AiMessage(self.text, calls, "".join(self._thoughts) or None)
        refusal = "".join(self._refusals) or None
        return ChatReply(message, finish_reason(self._reason), self._usage, self._model, self._id, refusal)
