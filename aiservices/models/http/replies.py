"""Parsers for the HTTP responses of chat models: JSON objects and streams of events.

``EventStreamReader`` is the base class for the stream of an API. Its decoder splits the bytes into events:
``SseDecoder`` for server-sent events, or a decoder for the frames of another format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic_core import from_json

from ..media import Media, media_from_base64
from ..messages import ChatReply, ReplyDelta, TokenLogprob, ToolCallDelta
from .base import MAX_REPLY_BYTES, ReplyTooLargeError
from .errors import BrokenStreamError, ReportedError, UnreadableReplyError

JsonObject = dict[str, Any]  # the members of a provider's JSON are only known at run time


def parse_object(raw: bytes, source: str = "the body") -> JsonObject:
    """Parse a provider's JSON object, or raise an exception if it is invalid or contains an error.

    Raises UnreadableReplyError, or ReportedError if the object is an error. ``source`` describes the bytes in
    error messages.
    """
    try:
        data = from_json(raw)
    except ValueError:
        raise UnreadableReplyError(f"{source} is not JSON") from None
    if not isinstance(data, dict):
        raise UnreadableReplyError(f"{source} is not a JSON object")
    if data.get("error"):  # some servers send an error with the status 200
        raise ReportedError(data["error"])
    if data.get("object") == "error":  # the format of vLLM
        raise ReportedError(data)
    return data


def is_json_object(text: str) -> bool:
    """Return True if text is a complete JSON object, such as the arguments of a complete tool call."""
    try:
        return isinstance(from_json(text), dict)
    except ValueError:
        return False


class EventDecoder(Protocol):
    """The interface of decoders that split a byte stream into events with JSON data."""

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Decode a chunk of a byte stream, and return the data of all events that are now complete."""
        ...

    def end(self) -> list[bytes]:
        """Return the data of the events that are left at the end of the byte stream."""
        ...


class SseDecoder:
    """Splits a stream of server-sent events (SSE) into the data of each event.

    Bytes without a line end are only collected, so a line that arrives in many pieces costs no more than one
    that arrives whole. Raises ReplyTooLargeError for an event that is larger than any reply of a model.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0  # the total size of the pieces and the data

    def feed(self, chunk: bytes, /) -> list[bytes]:
        line_end = chunk.find(b"\n")
        if line_end < 0:  # joining the pieces here would take quadratic time
            self._pieces.append(chunk)
            self._grow(len(chunk))
            return []
        # most chunks are exactly one event of one line, which needs no splitting
        if (
            line_end == len(chunk) - 2
            and chunk.startswith(b"data: ")
            and b"\r" not in chunk
            and chunk.endswith(b"\n")
            and not (self._pieces or self._data)
        ):
            return [chunk[6:line_end]]
        if self._pieces:
            chunk = b"".join([*self._pieces, chunk])
        lines = chunk.split(b"\n")
        last = lines.pop()
        self._pieces = [last] if last else []
        return self._events(lines)

    def end(self) -> list[bytes]:
        """Return the data of the last server-sent event if the stream ended without a blank line."""
        line, self._pieces = b"".join(self._pieces), []
        return self._events([line, b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            # the names of events and comments are skipped: all APIs repeat the name in the data
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._grow(len(line))
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
                self._size = 0
        return events

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_REPLY_BYTES:
            raise ReplyTooLargeError


class StreamReader(ABC):
    """Base class of parsers that convert the bytes of a streamed HTTP response to parts of the reply.

    The chunks of bytes may be cut anywhere.

    Attributes:
        done: True if the provider marked the end of the stream, so it need not be read further.
    """

    done = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """True if the streamed reply is already complete, so that a broken connection can be ignored."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The text of the streamed reply that has arrived so far, for error messages."""

    @property
    def body(self) -> bytes:
        """The bytes received so far if the server sends one JSON reply instead of a stream of events."""
        return b""

    @abstractmethod
    def feed(self, chunk: bytes) -> list[ReplyDelta]:
        """Parse a chunk of the streamed response, and return all parts of the reply that are now complete.

        Raises UnreadableReplyError or ReportedError.
        """

    @abstractmethod
    def end(self) -> list[ReplyDelta]:
        """Return the last parts of a streamed reply; the very last one contains the whole reply.

        Raises BrokenStreamError if the reply is not complete, else the errors of ``feed``.
        """


class EventStreamReader(StreamReader):
    """Base class of parsers for streamed replies that are sent as JSON events.

    Attributes:
        keeps_events: True to add the JSON of each event to its part of the reply.
    """

    def __init__(self, decoder: EventDecoder | None = None) -> None:
        self.keeps_events = False
        self._decoder = SseDecoder() if decoder is None else decoder
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @abstractmethod
    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        """Convert a JSON event of a streamed reply to a part of the reply; None for an event without content.

        It may raise AttributeError, KeyError and TypeError for an event of unknown shape.
        """

    @abstractmethod
    def _last_deltas(self) -> list[ReplyDelta]:
        """Return the last parts of a streamed reply, such as the complete reply, after its last event."""

    def feed(self, chunk: bytes) -> list[ReplyDelta]:
        return self._read_events(self._decoder.feed(chunk))

    def end(self) -> list[ReplyDelta]:
        deltas: list[ReplyDelta] = []
        if not self.finished:  # the blank line after the last event may be missing
            try:
                deltas = self._read_events(self._decoder.end())
            except UnreadableReplyError:
                raise BrokenStreamError from None  # the stream broke in the middle of an event
        if not self.finished:
            raise BrokenStreamError
        return [*deltas, *self._last_deltas()]

    def _read_events(self, events: list[bytes]) -> list[ReplyDelta]:
        deltas: list[ReplyDelta] = []
        for event in events:
            if event.startswith(b"[DONE]"):  # OpenAI's end of a stream; JSON cannot begin like this
                self.done = True
                break
            try:
                delta = self._read_event(parse_object(event, "one of its events"))
            except (AttributeError, KeyError, TypeError):
                raise UnreadableReplyError("one of its events has an unexpected shape") from None
            if self.keeps_events:
                delta = (delta or ReplyDelta())._replace(raw=event)
            if delta is not None:
                deltas.append(delta)
        return deltas


class WholeReplyReader(StreamReader):
    """Parses the reply of a server that ignores ``stream=True`` and sends the whole reply at once."""

    def __init__(self, read: Callable[[bytes], ChatReply]) -> None:
        self._read = read
        self._chunks: list[bytes] = []
        self._size = 0

    @property
    def finished(self) -> bool:
        return False  # only the end of the connection shows that the reply is complete

    @property
    def text(self) -> str:
        return ""

    @property
    def body(self) -> bytes:
        return b"".join(self._chunks)

    def feed(self, chunk: bytes) -> list[ReplyDelta]:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            raise ReplyTooLargeError
        return []

    def end(self) -> list[ReplyDelta]:
        return whole_reply_deltas(self._read(self.body))


def whole_reply_deltas(reply: ChatReply) -> list[ReplyDelta]:
    """Split a complete model reply into the parts that a streamed reply would have."""
    calls = reply.message.tool_calls
    call_deltas = tuple([ToolCallDelta(index, call.name, call.arguments) for index, call in enumerate(calls)])
    return [
        ReplyDelta(reply.text, reply.message.reasoning or "", tool_calls=call_deltas),
        ReplyDelta(reply=reply),
    ]


def read_media(data: str, media_type: str | None) -> Media:
    """Convert base64 data in a reply to an image or another file, or raise UnreadableReplyError."""
    try:
        return media_from_base64(data, media_type)
    except ValueError as error:
        raise UnreadableReplyError(f"it has an image or a file that cannot be read: {error}") from None


def read_logprobs(tokens: Sequence[JsonObject] | None) -> tuple[TokenLogprob, ...]:
    """Convert the log probabilities of a reply's tokens from OpenAI's or llama.cpp's JSON format."""
    return tuple(
        [
            TokenLogprob(
                _bytes_of(token),
                token["logprob"],
                tuple([(_bytes_of(one), one["logprob"]) for one in token.get("top_logprobs") or ()]),
            )
            for token in tokens or ()
        ]
    )


def _bytes_of(token: JsonObject) -> bytes:
    # the text has replacement characters where a token is only a part of a character
    return str(token["token"]).encode() if token.get("bytes") is None else bytes(token["bytes"])
