"""Reads a streamed chat completion: bytes to events, events to deltas, deltas to the whole reply."""

from __future__ import annotations

from typing import Any

from ..messages import AiMessage, ChatReply, ReplyDelta, ToolCall, ToolCallDelta, Usage
from .openai_reply import (
    UnreadableReplyError,
    finish_reason,
    parse_object,
    read_reply,
    text_and_reasoning,
    usage_of,
)

__all__ = ["BrokenStreamError", "EventSplitter", "StreamReading"]


class BrokenStreamError(Exception):
    """The stream ended before the answer did."""


class EventSplitter:
    """Splits the bytes of server-sent events, cut anywhere, into the data of whole events.

    Bytes without a line end are only collected, so a line that comes in many pieces costs no more
    than one that comes whole.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._pieces.append(chunk)
            return []
        if self._pieces:
            chunk = b"".join([*self._pieces, chunk])
        lines = chunk.split(b"\n")
        last = lines.pop()
        self._pieces = [last] if last else []
        return self._events(lines)

    def end(self) -> list[bytes]:
        """What is left when no more bytes come: an event whose closing blank line is missing."""
        line, self._pieces = b"".join(self._pieces), []
        return self._events([line, b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
        return events


class StreamReading:
    """What has been read of one stream.

    ``done``: the provider said that nothing more comes. ``finished``: the answer is whole, whatever
    becomes of the connection. A server that answers with ``whole`` JSON instead of events is understood.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.done = False
        self._splitter = EventSplitter()
        self._whole: list[bytes] | None = [] if whole else None
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._model = self._id = ""
        self._answered = False

    @property
    def text(self) -> str:
        """What the model has written so far."""
        return "".join(self._texts)

    @property
    def seen(self) -> bytes:
        """The bytes of an answer that came whole instead of as a stream."""
        return b"".join(self._whole or ())

    @property
    def finished(self) -> bool:
        return self._reason is not None or self.done

    def feed(self, chunk: bytes) -> list[ReplyDelta]:
        """The deltas that these bytes complete. Raises UnreadableReplyError or ReportedError."""
        if self._whole is not None:
            self._whole.append(chunk)
            return []
        return self._read(self._splitter.feed(chunk))

    def end(self) -> list[ReplyDelta]:
        """The last deltas, when no more bytes come; the very last one carries the whole reply.

        Raises BrokenStreamError when the answer is not whole, else what feed raises.
        """
        if self._whole is not None:
            reply = read_reply(self.seen)
            calls = reply.message.tool_calls
            pieces = tuple(ToolCallDelta(at, call.name, call.arguments) for at, call in enumerate(calls))
            return [
                ReplyDelta(reply.text, reply.message.reasoning or "", tool_calls=pieces),
                ReplyDelta(reply=reply),
            ]
        deltas: list[ReplyDelta] = []
        if not self.finished:
            try:
                deltas = self._read(self._splitter.end())
            except UnreadableReplyError:
                raise BrokenStreamError from None  # the stream broke in the middle of an event
        if not self.finished:
            raise BrokenStreamError
        if not self._answered:
            raise UnreadableReplyError("it has no choices")
        return [*deltas, ReplyDelta(reply=self._reply())]

    def _read(self, events: list[bytes]) -> list[ReplyDelta]:
        deltas: list[ReplyDelta] = []
        for event in events:
            if event.startswith(b"[DONE]"):
                self.done = True
                break
            try:
                delta = self._take(parse_object(event))
            except (AttributeError, KeyError, TypeError):
                raise UnreadableReplyError("one of its events has another shape") from None
            if delta is not None:
                deltas.append(delta)
        return deltas

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
