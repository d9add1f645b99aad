"""Reads server-sent events, cut anywhere: bytes to events, and what is the same for every stream of them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any

from pydantic_core import from_json

from ..messages import ChatReply, ReplyDelta, ToolCallDelta


class UnreadableReplyError(ValueError):
    """The bytes are no answer of the API that was asked; the message says what is missing."""


class ReportedError(Exception):
    """The provider put an error where an answer should be; ``payload`` is what it said."""

    def __init__(self, payload: Any) -> None:
        super().__init__("the provider reported an error")
        self.payload = payload


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in ``raw``. Raises UnreadableReplyError, or ReportedError when it is an error."""
    try:
        data = from_json(raw)
    except ValueError:
        raise UnreadableReplyError("it is not JSON") from None
    if not isinstance(data, dict):
        raise UnreadableReplyError("it is no JSON object")
    if data.get("error"):
        raise ReportedError(data["error"])
    if data.get("object") == "error":  # how vLLM reports one
        raise ReportedError(data)
    return data


_ONE_EVENT = re.compile(rb"data: [^\r\n]*+\n\n").fullmatch


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
        line_end = chunk.find(b"\n")
        if line_end < 0:
            self._pieces.append(chunk)
            return []
        if (
            line_end == len(chunk) - 2
            and chunk.startswith(b"data: ")
            and b"\r" not in chunk
            and chunk.endswith(b"\n")
            and not (self._pieces or self._data)
        ):
            return [chunk[6:line_end]]  # as most chunks are
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


class EventReading(ABC):
    """What has been read of one stream, whichever API it is of.

    ``done``: the provider said that nothing more comes. ``finished``: the answer is whole, whatever
    becomes of the connection. A server that answers with ``whole`` JSON instead of events is understood.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.done = False
        self._splitter = EventSplitter()
        self._whole: list[bytes] | None = [] if whole else None
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """What the model has written so far."""
        return "".join(self._texts)

    @property
    def seen(self) -> bytes:
        """The bytes of an answer that came whole instead of as a stream."""
        return b"".join(self._whole or ())

    @property
    @abstractmethod
    def finished(self) -> bool: ...

    @abstractmethod
    def _take(self, data: dict[str, Any]) -> ReplyDelta | None:
        """What an event adds. May raise AttributeError, KeyError and TypeError at an unknown shape."""

    @abstractmethod
    def _last(self) -> list[ReplyDelta]:
        """The last deltas of a stream that is finished."""

    @abstractmethod
    def _read_whole(self) -> ChatReply:
        """The reply in ``seen``."""

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
            return at_once(self._read_whole())
        deltas: list[ReplyDelta] = []
        if not self.finished:
            try:
                deltas = self._read(self._splitter.end())
            except UnreadableReplyError:
                raise BrokenStreamError from None  # the stream broke in the middle of an event
        if not self.finished:
            raise BrokenStreamError
        return [*deltas, *self._last()]

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


def at_once(reply: ChatReply) -> list[ReplyDelta]:
    """The deltas of a reply that did not come in pieces."""
    calls = reply.message.tool_calls
    pieces = tuple(ToolCallDelta(at, call.name, call.arguments) for at, call in enumerate(calls))
    return [
        ReplyDelta(reply.text, reply.message.reasoning or "", tool_calls=pieces),
        ReplyDelta(reply=reply),
    ]
