"""Parse the HTTP responses of chat models: JSON objects, streams of events, and errors.

``EventStreamReader`` is the base class for the stream of an API. Its decoder splits the bytes into events:
``SseDecoder`` for server-sent events, or a decoder for the frames of another format. Error responses become
this package's ModelError exceptions.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol, TypeAlias

from pydantic_core import from_json, to_json

from output_parsers.result.errors import shorten
from output_parsers.result.reading import JsonObject

from ..errors import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
)
from ..media import Media, media_from_base64
from ..messages import ChatReply, ReplyDelta, TokenLogprob, ToolCall, whole_reply_deltas
from .base import (
    ENDED_EARLY,
    INVALID_HEADER,
    MAX_REPLY_BYTES,
    DeadlineError,
    ProxyError,
    ReplyTooLargeError,
    TransportError,
    display_url,
)


def parse_object(
    raw: bytes, source: str = "the body", repair: Callable[[bytes], bytes] | None = None
) -> JsonObject:
    """Parse a provider's JSON object, or raise an exception if it is invalid or contains an error.

    Raises UnreadableReplyError, or ReportedError if the object is an error. ``source`` describes the bytes in
    error messages. ``repair`` changes bytes that are not valid JSON.
    """
    try:
        data = from_json(raw)
    except ValueError as error:
        if "recursion" in str(error):  # the other parser would need the whole stack
            raise UnreadableReplyError(f"{source} is nested too deeply") from None
        data = parse_invalid_unicode(raw if repair is None else repair(raw), source)
    if not isinstance(data, dict):
        raise UnreadableReplyError(f"{source} is not a JSON object")
    if data.get("error"):  # some servers send an error with the status 200
        raise ReportedError(data["error"])
    if data.get("object") == "error":  # the format of vLLM
        raise ReportedError(data)
    return data


def parse_invalid_unicode(raw: bytes, source: str) -> object:
    """Parse JSON with a byte order mark, invalid UTF-8, half surrogate pairs or raw control characters.

    Invalid Unicode becomes replacement characters.
    """
    try:
        data = json.loads(raw.decode("utf-8-sig", errors="replace"), strict=False)
    except (ValueError, RecursionError):
        raise UnreadableReplyError(f"{source} is not JSON") from None
    text = json.dumps(data, ensure_ascii=False)
    return from_json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


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


class ServerSentEvent(NamedTuple):
    """A server-sent event: its name, which is "" if it has none, its data, and the last id of the stream."""

    name: str
    data: bytes
    id: str = ""


class SseDecoder:
    """Splits a stream of server-sent events (SSE) into events, as the HTML standard says.

    Lines end with CR, LF or both, and a byte order mark at the start is skipped. Events without data are
    dropped. Bytes without a line end are only collected, so a line that arrives in many pieces costs no more
    than one that arrives whole. Raises ReplyTooLargeError for an event that is larger than any reply.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._id = ""
        self._size = 0  # the total size of the pieces and the data
        self._at_start = True
        self._after_cr = False  # a line feed belongs to the carriage return before it

    def feed(self, chunk: bytes, /) -> list[bytes]:
        """Decode a chunk of a byte stream, and return the data of all events that are now complete."""
        # most chunks are exactly one event of one line, which needs no splitting
        if (
            chunk.startswith(b"data: ")
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk.endswith(b"\n")
            and b"\r" not in chunk
            and not (self._pieces or self._data or self._after_cr)
        ):
            return [chunk[6:-2]] if len(chunk) > 8 else []
        return [event.data for event in self.events(chunk)]

    def end(self) -> list[bytes]:
        """Return the data of the last event if the stream ended without a blank line."""
        return [event.data for event in self.events(b"\n\n")]

    def events(self, chunk: bytes) -> list[ServerSentEvent]:
        """Decode a chunk of a byte stream, and return all events that are now complete."""
        if self._at_start:
            chunk = b"".join([*self._pieces, chunk])
            self._pieces = []
            if len(chunk) < 3 and codecs.BOM_UTF8.startswith(chunk):
                self._pieces = [chunk]
                return []
            self._at_start = False
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:  # joining the pieces here would take quadratic time
            if chunk:
                self._pieces.append(chunk)
                self._grow(len(chunk))
            return []
        lines = b"".join([*self._pieces, chunk]).split(b"\n")
        last = lines.pop()
        self._pieces = [last] if last else []
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                self._grow(len(line))
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif line.startswith(b"id:"):
                self._id = line[3:].removeprefix(b" ").decode(errors="replace")
            elif not line:
                if data:
                    joined = data[0] if len(data) == 1 else b"\n".join(data)
                    if joined.strip():
                        name = self._name.decode(errors="replace")
                        events.append(ServerSentEvent(name, joined, self._id))
                    data.clear()
                self._name = b""
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
        """The received bytes if the server sends one JSON object instead of a stream, else ``b""``."""
        return b""

    @abstractmethod
    def feed(self, chunk: bytes) -> Iterable[ReplyDelta]:
        """Parse a chunk of the streamed response while its parts of the reply are iterated over.

        Raises UnreadableReplyError or ReportedError, after the parts before the error.
        """

    @abstractmethod
    def end(self) -> list[ReplyDelta]:
        """Return the last parts of a streamed reply; the very last one contains the whole reply.

        Raises BrokenStreamError if the reply is not complete, else the errors of ``feed``.
        """


# halves of a surrogate pair, whose backslash is not escaped, at the end and the start of a JSON string
_ENDS_WITH_HIGH = re.compile(rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})\"")
_STARTS_WITH_LOW = re.compile(rb"\"(?=\\u[dD][c-fC-F][0-9a-fA-F]{2})")


class EventStreamReader(StreamReader):
    """Base class of parsers for streamed replies that are sent as JSON events.

    Attributes:
        keeps_events: True to add the JSON of each event to its part of the reply.
    """

    def __init__(self, decoder: EventDecoder | None = None) -> None:
        self.keeps_events = False
        self._decoder = SseDecoder() if decoder is None else decoder
        self._texts: list[str] = []
        self._high_surrogate = b""  # the first half of a character whose second half is in a later event

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @abstractmethod
    def _read_event(self, data: JsonObject) -> ReplyDelta | None:
        """Convert a JSON event to a ReplyDelta, or return None if the event has no content.

        It may raise AttributeError, KeyError and TypeError for an event of unknown shape.
        """

    @abstractmethod
    def _last_deltas(self) -> list[ReplyDelta]:
        """Return the parts that end a streamed reply; the last part contains the complete reply."""

    def feed(self, chunk: bytes) -> Iterable[ReplyDelta]:
        return self._read_events(self._decoder.feed(chunk))

    def end(self) -> list[ReplyDelta]:
        deltas: list[ReplyDelta] = []
        try:
            # the blank line after the last event may be missing
            deltas = list(self._read_events(self._decoder.end()))
        except UnreadableReplyError:
            pass  # the stream broke in the middle of an event
        if not self.finished:
            raise BrokenStreamError
        return [*deltas, *self._last_deltas()]

    def sends_whole_reply(self, start: bytes, content_type: str) -> bool:
        """Return True if the server ignores ``stream=True`` and sends a whole reply, or a page.

        Args:
            start: The first bytes of the response, which are not white space.
            content_type: The content type, which is wrong for some servers.
        """
        if not isinstance(self._decoder, SseDecoder):
            return "json" in content_type or start.startswith((b'{"', b"{ ", b"{\n"))
        if start.startswith((b"{", b"[", b"<", b'"')):
            return True
        # comments and the names of fields begin like this
        return "event-stream" not in content_type and not start.startswith((b":", b"d", b"e", b"i", b"r"))

    def _read_events(self, events: list[bytes]) -> Iterator[ReplyDelta]:
        for event in events:
            if event.startswith(b"[DONE]"):  # OpenAI's end of a stream; JSON cannot begin like this
                self.done = True
            if self.done:
                break
            data = parse_object(event, "one of its events", self._join_surrogates)
            try:
                delta = self._read_event(data) if data else None
                if delta is not None:
                    _check_types(delta)
                    self._texts.append(delta.text)
            except (AttributeError, KeyError, TypeError):
                raise UnreadableReplyError("one of its events has an unexpected shape") from None
            if self.keeps_events:
                delta = (delta or ReplyDelta())._replace(raw=event)
            if delta is not None:
                yield delta

    def _join_surrogates(self, event: bytes) -> bytes:
        """Move half a surrogate pair at the end of a text to the event with the other half."""
        if self._high_surrogate:
            half = b'"%b' % self._high_surrogate.replace(b"\\", b"\\\\")
            event, count = _STARTS_WITH_LOW.subn(half, event, count=1)
            if count:  # other events, such as a ping, may come first
                self._high_surrogate = b""
        match = _ENDS_WITH_HIGH.search(event)
        if match is None:
            return event
        self._high_surrogate = match[1]
        return event[: match.start(1)] + event[match.end(1) :]


def call_arguments(arguments: object) -> str:
    """Return the arguments of a tool call as JSON text: some servers send the object, null or nothing."""
    if isinstance(arguments, str):
        return arguments
    return to_json(arguments).decode() if arguments else ""


def read_tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """Return a tool call of a reply; raise TypeError if a part of it is not text: servers may send any JSON.

    A number as the id becomes text, and a missing id is "".
    """
    call_id = str(call_id) if type(call_id) is int else call_id or ""
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str)):
        raise TypeError
    return ToolCall(call_id, name, arguments)


def _check_types(delta: ReplyDelta) -> None:
    """Raise TypeError for a part of a reply that is not text: a server may send any JSON."""
    texts = [delta.text, delta.reasoning]
    for call in delta.tool_calls:
        texts += [call.name, call.arguments]
    for text in texts:
        if type(text) is not str:
            raise TypeError


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

    def feed(self, chunk: bytes) -> Iterable[ReplyDelta]:
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            raise ReplyTooLargeError
        return ()

    def end(self) -> list[ReplyDelta]:
        return whole_reply_deltas(self._read(self.body))


def read_media(data: str, media_type: str | None) -> Media:
    """Convert base64 data in a reply to an image or another file, or raise UnreadableReplyError."""
    try:
        return media_from_base64(data, media_type)
    except ValueError as error:
        raise UnreadableReplyError(f"it has an image or a file that cannot be read: {error}") from None


def read_logprobs(tokens: Sequence[JsonObject] | None) -> tuple[TokenLogprob, ...]:
    """Convert token log probabilities in OpenAI's or llama.cpp's JSON format to TokenLogprobs."""
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


# --- Errors ---


_MIN_SECRET_LENGTH = 8  # a shorter key ("ollama") protects nothing and may be an ordinary word of a message
_MAX_QUOTED = 300
_ERROR_STATUS = re.compile(r"[45][0-9][0-9]")
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")  # they could forge lines of a log
# the texts of our clients and of httpx2 for a body that ends too early
_CUT_SHORT = (ENDED_EARLY, "without sending complete message body")
# for errors that arrive within a stream, when the HTTP status was already a success
_STATUS_OF_CODE = {
    "authentication_error": 401,
    "bio_policy": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "misalignment_policy_violation": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
}


class UnsupportedRequestError(ValueError):
    """Raised when a chat request contains something that the provider's API does not support."""


def result_part(convert: Callable[[str | Media], JsonObject], part: str | Media) -> JsonObject:
    """Convert a part of a tool's result; media that the API does not take become a note for the model.

    Unlike for messages of the program, this is not an error: a program does not know what all tools return.
    """
    try:
        return convert(part)
    except UnsupportedRequestError:
        return convert(f"[left out, because this model cannot read it: {str(part)[1:-1]}]")


class UnreadableReplyError(ValueError):
    """Raised when an HTTP response is not a valid reply of the provider's API; the message says why."""


class NoChoicesError(UnreadableReplyError):
    """Raised when a reply contains no answer; another request may get one."""

    def __init__(self) -> None:
        super().__init__("it has no choices")


class BrokenStreamError(Exception):
    """Raised when a streamed reply ends before it is complete."""


class ReportedError(Exception):
    """Raised when the provider sent a JSON error object (``payload``) instead of a reply."""

    def __init__(self, payload: object) -> None:
        super().__init__("the provider reported an error")
        self.payload = payload


# The exceptions for a reply that reports an error or has an unexpected shape.
REPLY_ERRORS = (ReportedError, AttributeError, LookupError, TypeError, ValueError)


class ErrorDetails(NamedTuple):
    """The parsed content of an HTTP error response, with the same fields for all providers.

    Attributes:
        message: The provider's text; "" if it sent none.
        status: The HTTP status in the body of the error, if there is one. It is used for errors that arrive
            with a success status, as in streams.
        code_status: The HTTP status that belongs to the code of the error, such as 429 for
            "rate_limit_exceeded". It is used if ``status`` is None.
        quota_exceeded: The account has no quota left, so waiting does not help.
        request_id: The provider's id of the request.
        retry_after: Seconds that the provider asks to wait.
    """

    message: str
    status: int | None = None
    code_status: int | None = None
    quota_exceeded: bool = False
    request_id: str | None = None
    retry_after: float | None = None


# Reads the headers and the body of an error; the headers are empty for an error within a stream.
DetailsReader: TypeAlias = Callable[[Mapping[str, str], str], ErrorDetails]


def read_error_details(headers: Mapping[str, str], body: str) -> ErrorDetails:
    """Parse an HTTP error response in OpenAI's API format, which many servers use."""
    message, codes = _message_and_codes(body)
    return ErrorDetails(
        message,
        next((int(code) for code in codes if _ERROR_STATUS.fullmatch(code)), None),
        next((_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE), None),
        "insufficient_quota" in codes,
        headers.get("x-request-id"),
        retry_after(headers),
    )


def _message_and_codes(body: str) -> tuple[str, list[str]]:
    try:
        data = from_json(body)
    except ValueError:
        return " ".join(body.split()), []
    if isinstance(data, dict):
        data = data.get("error") or data
    if not isinstance(data, dict):  # Ollama, for one, sends the text itself
        return str(data), []
    message = data.get("message") or data.get("detail") or ""
    codes = [str(data[key]) for key in ("code", "type") if data.get(key)]
    return message if isinstance(message, str) else to_json(message).decode(), codes


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before a retry according to the HTTP response headers, or None.

    The headers have milliseconds, seconds or a date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:  # a header that comes twice has a list of numbers
            seconds = max(map(float, headers.get(name, "").split(","))) / unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


@dataclass(frozen=True, slots=True)
class ErrorMapper:
    """Converts exceptions of HTTP requests to ModelErrors, with secrets such as API keys removed.

    Attributes:
        label: The model and its address; every message starts with it.
        secrets: Texts that messages must not contain, such as API keys.
        key_advice: How to set a valid key, for messages.
        timeout: The timeout of the call, in seconds.
        reply_name: The name of a valid reply in messages, as in "the reply is not a chat completion".
        read_details: Parses an error in the format of the provider.
        address_setting: The parameter or environment variable with the server's address, for messages.
        start_advice: How to start the server, if it runs on the user's machine.
    """

    label: str
    secrets: tuple[str, ...] = ()
    key_advice: str = ""
    timeout: float | None = None
    reply_name: str = "chat reply"
    read_details: DetailsReader = read_error_details
    address_setting: str = "base_url"
    start_advice: str = ""

    def from_exception(self, error: Exception) -> ModelError:
        """Convert an exception of an HTTP client or the openai SDK to a ModelError."""
        response = getattr(error, "response", None)
        if response is not None:
            details = self._details(response.headers, response.text)
            return self._from_status(response.status_code, details, response.headers, response.text)
        chain = list(_cause_chain(error))
        if any(isinstance(link, DeadlineError) for link in chain):
            return self.reply_too_late()
        if any(isinstance(link, ReplyTooLargeError) for link in chain):
            return InvalidReplyError(
                self._message(f"the reply is larger than {MAX_REPLY_BYTES >> 20} MB; {self._check_address}")
            )
        # By name, because the classes belong to several HTTP libraries, most of which are not imported.
        if any("Timeout" in type(link).__name__ for link in chain):
            limit = "in time" if self.timeout is None else f"within {self.timeout:g} s"
            return ModelTimeoutError(
                self._message(f"no reply {limit}; set a longer timeout in ChatOptions or ask for less"),
                retryable=True,
            )
        return ModelConnectionError(self._message(self._connection_problem(chain)), retryable=True)

    def reply_too_late(self) -> ModelTimeoutError:
        """Return the error for a model reply that was not complete before the deadline of the call."""
        return ModelTimeoutError(
            self._message("the reply was not complete before the timeout; ask for less"), retryable=True
        )

    def empty_reply(self) -> ModelConnectionError:
        """Return the error for an HTTP response that has a success status but no body."""
        return ModelConnectionError(self._message("the reply is empty; try again"), retryable=True)

    def broken_stream(self, text: str) -> ModelConnectionError:
        """Return the error for a streamed reply that ended too early.

        ``text`` is the part that arrived.
        """
        return ModelConnectionError(
            self._message(
                f"the stream ended after {len(text)} characters, before the reply was complete; try again"
            ),
            retryable=True,
            body=text,
        )

    def unusable_reply(self, error: Exception, body: bytes) -> ModelError:
        """Return the error for an HTTP response that has a success status but is not a valid model reply."""
        if isinstance(error, ReportedError):
            return self._from_payload(error.payload)
        reason = str(error)
        if not isinstance(error, UnreadableReplyError):
            reason = f"it has an unexpected shape ({type(error).__name__}: {error})"
        text = self.redacted(body.decode(errors="replace"))
        start = text[:_MAX_QUOTED] + ("…" if len(text) > _MAX_QUOTED else "")
        # It is usually an error page of a proxy or for a wrong path, whose beginning shows the reason.
        return InvalidReplyError(
            self._message(
                f"the reply is not a {self.reply_name}: {reason}; {self._check_address}. It begins: {start!r}"
            ),
            retryable=isinstance(error, NoChoicesError),
            body=text,
        )

    def invalid_request(self, error: Exception) -> BadRequestError:
        """Return the error for a chat request that was not sent because it is invalid or not supported."""
        if isinstance(error, UnsupportedRequestError):
            return BadRequestError(self._message(str(error)))
        return BadRequestError(
            self._message(
                f"the request cannot be written as JSON: {error}; "
                "texts must be valid Unicode, values plain JSON"
            )
        )

    @property
    def _check_address(self) -> str:
        return f"check {self.address_setting}"

    def _connection_problem(self, chain: list[BaseException]) -> str:
        """Return text for an error message: why an HTTP connection failed, and what to do."""
        for link in chain:
            if isinstance(link, ProxyError):
                return f"the proxy failed ({link}); check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
            if isinstance(link, ConnectionRefusedError):
                if self.start_advice:
                    return f"connection refused; {self.start_advice}, or set {self.address_setting}"
                return f"connection refused; {self._check_address} and that the server runs"
            if isinstance(link, socket.gaierror):
                return f"the host name is unknown; {self._check_address} and the network"
            if isinstance(link, ssl.SSLCertVerificationError):
                return (
                    f"its certificate is not trusted ({link.verify_message}); "
                    f"{self._check_address} and the certificates"
                )
            if getattr(link, "reason", None) == "WRONG_VERSION_NUMBER":
                return f"the server does not speak TLS; check https in {self.address_setting}"
            if any(text in str(link) for text in _CUT_SHORT):
                return (
                    "the connection was cut before the reply was complete; try again, and check the network"
                )
            if isinstance(link, TransportError):
                return f"{link}; check the key and extra_headers"
        # the inner exception says more than the SDK's "Connection error." or "Connection aborted."
        inner = chain[1] if len(chain) > 1 else chain[0]
        if "Illegal header" in str(inner):  # its text quotes the header, which may contain the key
            return f"{INVALID_HEADER}; check the key and extra_headers"
        text = shorten(" ".join(str(inner).split()), _MAX_QUOTED)
        return (
            f"the connection failed ({type(inner).__name__}: {text}); {self._check_address} and the network"
        )

    def _details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        try:
            return self.read_details(headers, body)
        except (AttributeError, LookupError, TypeError, ValueError):
            # The error came from a proxy and not from the provider, so it has another format.
            return read_error_details(headers, body)

    def _from_payload(self, payload: object) -> ModelError:
        body = to_json(payload).decode()
        details = self._details({}, body)
        error = self._from_status(details.status or details.code_status or 500, details, {}, body)
        error.status = details.status  # the HTTP status was a success
        return error

    def _from_status(
        self, status: int, details: ErrorDetails, headers: Mapping[str, str], body: str
    ) -> ModelError:
        error_type, summary, advice, retryable = _classify(status, details.quota_exceeded, self.key_advice)
        wait = details.retry_after
        if wait is not None and error_type is RateLimitError and retryable:
            advice = f"wait {wait:g} s or {advice}"
        message = self.redacted(details.message)
        message = message[:_MAX_QUOTED] + "…" if len(message) > _MAX_QUOTED else message
        if status in (301, 302, 303, 307, 308) and (location := _location(headers)):
            summary = f"redirected to {location}"
            advice = "set base_url to that address if it is the right server"
        should_retry = headers.get("x-should-retry")  # OpenAI and Anthropic use it to overrule the status
        return error_type(
            self._message(f"{status} {summary}{': ' + message if message else ''}; {advice}"),
            status=status,
            request_id=details.request_id,
            retryable=should_retry == "true" if should_retry in ("true", "false") else retryable,
            retry_after=wait,
            body=self.redacted(body),
        )

    def _message(self, text: str) -> str:
        return f"{self.label}: {_CONTROL_CHARACTERS.sub(' ', self.redacted(text))}"

    def redacted(self, text: str) -> str:
        """Return text with secrets, such as the API key, replaced by ``[redacted]``."""
        for secret in self.secrets:
            if len(secret) >= _MIN_SECRET_LENGTH:
                text = text.replace(secret, "[redacted]")
        return text


def _classify(status: int, quota_exceeded: bool, key_advice: str) -> tuple[type[ModelError], str, str, bool]:
    """Return the exception class, the reason and the advice for an HTTP error status.

    Also returns whether a retry may help.
    """
    if status == 401:
        return AuthenticationError, "the key is not accepted", key_advice, False
    if status == 403:
        return AuthenticationError, "not permitted", "check the permissions of the key", False
    if status == 404:
        return ModelNotFoundError, "not found", "check the model's name and base_url", False
    if status == 408:
        return ModelTimeoutError, "the server ended the request with a timeout", "try again", True
    if status == 402 or (status == 429 and quota_exceeded):
        return RateLimitError, "the quota is used up", "check plan and billing of the account", False
    if status in (429, 498):  # 498: the flexible capacity of Groq is used up
        return RateLimitError, "too many requests", "send fewer requests", True
    if status == 424:  # a status that only Bedrock uses
        return ModelServerError, "the model failed", "try again later", True
    if status == 501:
        return ModelServerError, "not supported by the server", "check the model's name and base_url", False
    if status >= 500:
        return ModelServerError, "the server failed", "try again later", True
    if status >= 400:
        return (
            BadRequestError,
            "the request is not accepted",
            "fix what the message reports",
            status in (409, 425),
        )
    return InvalidReplyError, "unexpected status", "check base_url", False


def _location(headers: Mapping[str, str]) -> str:
    """Return the redirect URL of an HTTP response, without its query string.

    Returns "" if the URL is invalid.
    """
    try:
        return display_url(headers.get("location", ""))
    except ValueError:
        return ""


def _cause_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and the whole chain of its causes.

    In an exception group, the first member counts as the cause. The context of an error is left out: it may
    be an error that the caller was handling. The HTTP libraries drop the cause in one case, but keep it as an
    argument.
    """
    while error is not None:
        yield error
        nested = error.exceptions if isinstance(error, BaseExceptionGroup) else error.args
        inner = next((argument for argument in nested if isinstance(argument, BaseException)), None)
        error = inner or error.__cause__
