"""The table of faults: what a server does wrong, and the value or the error that each kind of call gives."""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from faulty_server import Action, send

from aiservices.models.errors import (
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

from .dialects import BEDROCK, CHAT, DIALECTS, PIECES, TEXT, TOKENS, Dialect, Json, json_bytes
from .server import Http, Scene, Serve, drip, error_body, in_turn, raw, refuse, stall

KINDS = ("blocking", "async", "stream", "async stream")
WHOLE, STREAMS = KINDS[:2], KINDS[2:]
SSE = tuple(dialect for dialect in DIALECTS if dialect.is_sse)


@dataclass(frozen=True)
class Value:
    """A reply is expected.

    Attributes:
        text: Its text.
        tokens: Its token counts; None for any that are valid.
    """

    text: str = TEXT
    tokens: tuple[int, int] | None = TOKENS

    def __repr__(self) -> str:
        return f"{self.text!r} with {self.tokens or 'any'} tokens"


@dataclass(frozen=True)
class Failure:
    """An error is expected.

    Attributes:
        error: Its class.
        status: The HTTP status that it reports.
        retryable: Whether a repetition may help.
        wait: The seconds that the server asks to wait; compared with a tolerance.
    """

    error: type[ModelError]
    status: int | None = None
    retryable: bool = False
    wait: float | None = None

    def __repr__(self) -> str:
        again = " that may be repeated" if self.retryable else ""
        wait = "" if self.wait is None else f" after {self.wait:g} s"
        return f"{self.error.__name__}({self.status or ''}){again}{wait}"


@dataclass(frozen=True, eq=False)
class Fault:
    """One line of the table.

    Attributes:
        name: What the server does.
        serve: Returns its actions.
        expected: What the call gives.
        kinds: The kinds of calls for which the fault is possible.
        dialects: The dialects for which it is possible.
        requests: The number of requests that the call sends.
        timeout: The seconds that the call waits for.
        key: The API key, or a function that makes a function that returns one.
    """

    name: str
    serve: Serve
    expected: Value | Failure
    kinds: Sequence[str] = KINDS
    dialects: Sequence[Dialect] = DIALECTS
    requests: int = 1
    timeout: float = 10.0
    key: Callable[[], Callable[[], str]] | None = None


VALUE = Value()
BROKEN = Failure(ModelConnectionError, retryable=True)
INVALID = Failure(InvalidReplyError)
TIMEOUT = Failure(ModelTimeoutError, retryable=True)
BAD = Failure(BadRequestError, 400)
DENIED = Failure(AuthenticationError, 401)
LIMITED = Failure(RateLimitError, 429, True)
MOST_BYTES = 1 << 20  # a reply may have fewer bytes in these tests than otherwise, so that they are quick
TOO_MUCH = MOST_BYTES + 10_000
TRAILERS = b"0\r\nx-checksum: 1\r\nServer-Timing: a;dur=1\r\n\r\n"


def limited(wait: float | None) -> Failure:
    return Failure(RateLimitError, 429, True, wait)


def failed(status: int, *, retryable: bool = True) -> Failure:
    return Failure(ModelServerError, status, retryable)


# --- How bytes are changed ---


def packed(pack: Callable[[bytes], bytes]) -> Callable[[Scene], bytes]:
    return lambda scene: pack(scene.body)


def gzip_members(data: bytes) -> bytes:
    middle = len(data) // 2
    return gzip.compress(data[:middle]) + gzip.compress(data[middle:])


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def coded(coding: str, pack: Callable[[bytes], bytes], **more: Any) -> Http:
    return Http(packed(pack), headers=[f"Content-Encoding: {coding}"], **more)


def sse(change: Callable[[bytes], bytes], **more: Any) -> Http:
    """Return a response whose stream of events was changed."""
    return Http(packed(change), **more)


def events(change: Callable[[list[Json], Dialect], list[Json]], **more: Any) -> Http:
    """Return a response whose stream has other events."""
    return Http(lambda scene: scene.dialect.stream(change(list(scene.dialect.events), scene.dialect)), **more)


def middle_event(data: bytes) -> Callable[[bytes], bytes]:
    """Return a function that puts bytes between the second and the third event of a stream."""

    def change(stream: bytes) -> bytes:
        first, second, rest = stream.split(b"\n\n", 2)
        return b"\n\n".join((first, second, data + rest))

    return change


def each_line(stream: bytes) -> bytes:
    """Write the JSON of each event over several lines."""
    lines = []
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            text = json.dumps(json.loads(line[6:]), ensure_ascii=False, indent=1)
            lines += [b"data: " + part.encode() for part in text.split("\n")]
        else:
            lines.append(line)
    return b"\n".join(lines)


def escaped(stream: bytes) -> bytes:
    return stream.replace("🙂".encode(), b"\\ud83d\\ude42")


def in_halves(dialect: Dialect) -> list[Json]:
    """Return the events of a reply, with the first half of the last character in the event before it."""
    last, before = PIECES[-1], PIECES[-2]
    events = []
    for event in dialect.events:
        text = json.dumps(event, ensure_ascii=False)
        text = text.replace(f'"{last}"', '"\\\\ude42!"').replace(f'"{before}"', f'"{before}\\\\ud83d"')
        events.append(json.loads(text))
    return events


def raw_lines(end: bytes) -> Serve:
    """Return what a server does that ends the lines of its headers in another way."""

    def serve(scene: Scene) -> Sequence[Action]:
        head, _, body = REPLY.bytes(scene).partition(b"\r\n\r\n")
        return [send(head.replace(b"\r\n", end) + 2 * end + body)]

    return serve


def json_body(body: bytes | Callable[[Scene], bytes], **more: Any) -> Http:
    """Return a whole reply in JSON, also to a call that asks for a stream."""
    return Http(body, content_type="application/json", **more)


def whole(change: Callable[[Json, Dialect], object], **more: Any) -> Http:
    """Return a whole reply that was changed, also to a call that asks for a stream."""
    return json_body(lambda scene: json_bytes(change(json.loads(scene.dialect.body), scene.dialect)), **more)


def html(status: str = "200 OK", **more: Any) -> Http:
    page = b"<!doctype html><html><body><h1>Bad gateway</h1>\r\n\x1b[31m</body></html>"
    return Http(page, status, content_type="text/html", **more)


def in_usage(path: tuple[str, ...], data: Json, value: object) -> Json:
    """Replace all token counts of a reply, at any depth."""
    for name, part in data.items():
        if name in path and isinstance(part, dict):
            data[name] = {key: value if isinstance(count, int) else count for key, count in part.items()}
        elif isinstance(part, dict):
            in_usage(path, part, value)
    return data


def usage_of(value: object) -> Http:
    """Return a reply, whole or streamed, with other token counts."""

    def body(scene: Scene) -> bytes:
        path = scene.dialect.usage_path
        if not scene.is_stream:
            return json_bytes(in_usage(path, json.loads(scene.dialect.body), value))
        copies = json.loads(json.dumps(list(scene.dialect.events)))
        return scene.dialect.stream([in_usage(path, event, value) for event in copies])

    return Http(body)


def with_refusal(data: bytes) -> bytes:
    """Return a chat completion, whole or streamed, with a member that some servers always send."""
    return data.replace(b'"content":', b'"refusal":"","content":')


def in_parts(data: bytes) -> bytes:
    """Return a chat completion, whole or streamed, with its text in a list of parts."""
    return re.sub(rb'"content":\s*("(?:[^"\\]|\\.)*")', rb'"content":[{"type":"text","text":\1}]', data)


def both(change: Callable[[bytes], bytes]) -> Http:
    """Return a reply, whole or streamed, that was changed."""
    return Http(
        lambda scene: change(
            scene.dialect.stream(scene.dialect.events) if scene.is_stream else scene.dialect.body
        )
    )


def no_usage(value: object) -> Http:
    """Return a reply, whole or streamed, with another value in place of its token counts."""

    def change(data: Json, path: tuple[str, ...]) -> Json:
        return {
            name: (value if name in path else change(part, path) if isinstance(part, dict) else part)
            for name, part in data.items()
        }

    def body(scene: Scene) -> bytes:
        path = scene.dialect.usage_path
        if not scene.is_stream:
            return json_bytes(change(json.loads(scene.dialect.body), path))
        return scene.dialect.stream([change(event, path) for event in scene.dialect.events])

    return Http(body)


def cut_stream(at: Callable[[list[Json], Dialect], int], end: str, extra: int = 0) -> Serve:
    """Return what a server does that breaks a stream after some events and some bytes of the next one."""

    def body(scene: Scene) -> bytes:
        dialect = scene.dialect
        count = at(list(dialect.events), dialect)
        sent = b"".join(map(dialect.encode_event, dialect.events[:count]))
        if extra:
            sent += dialect.encode_event(dialect.events[count])[:extra]
        return sent

    return Http(body, framing="chunked", last_chunk=b"", end=end)


def redirect(location: str, status: str = "307 Temporary Redirect") -> Http:
    return Http(b"", status, [f"Location: {location}"], "")


def keys(*texts: str) -> Callable[[], Callable[[], str]]:
    """Return a function that makes a function that returns these API keys in turn, and then the last one."""

    def make() -> Callable[[], str]:
        left = list(texts)
        return lambda: left.pop(0) if len(left) > 1 else left[0]

    return make


def insert(index: int, *new: Json) -> Callable[[list[Json], Dialect], list[Json]]:
    return lambda before, dialect: [*before[:index], *new, *before[index:]]


def dated(seconds: float) -> str:
    return f"Retry-After: {formatdate(time.time() + seconds, usegmt=True)}"


def _with_details(data: Json, dialect: Dialect, value: object) -> Json:
    usage = data[dialect.usage_path[0]]
    usage |= dict.fromkeys(
        (
            "prompt_tokens_details",
            "completion_tokens_details",
            "input_tokens_details",
            "output_tokens_details",
        ),
        value,
    )
    return data


def _error_event(dialect: Dialect) -> Json:
    if dialect is BEDROCK:
        return {"serviceUnavailableException": {"message": "Down."}}
    return {"type": "error", "error": {"message": "Down.", "code": 503, "type": "overloaded_error"}}


REPLY = Http()

FAULTS = [
    # --- framing ---
    Fault("nothing wrong", REPLY, VALUE),
    Fault("chunked", Http(framing="chunked"), VALUE),
    Fault("chunks of one byte", Http(framing="chunked", chunk=1), VALUE),
    Fault("chunks that cut characters and events", Http(framing="chunked", chunk=7), VALUE),
    Fault("packets of three bytes", drip(Http(framing="chunked", chunk=50), 3, 0), VALUE),
    Fault("slow packets", drip(Http(framing="chunked", chunk=50), 100), VALUE),
    Fault("a chunk extension", Http(framing="chunked", last_chunk=b"0;a=b\r\n\r\n"), VALUE),
    Fault("trailers", Http(framing="chunked", last_chunk=TRAILERS), VALUE),
    Fault(
        "trailers that look like headers",
        Http(framing="chunked", last_chunk=b"0\r\nStatus: 500\r\nRetry-After: 7\r\n\r\n"),
        VALUE,
    ),
    Fault("trailers after a 400", refuse("400 Bad", framing="chunked", last_chunk=TRAILERS), BAD),
    Fault("trailers after a 401", refuse("401 No", framing="chunked", last_chunk=TRAILERS), DENIED),
    Fault(
        "trailers after a 401 whose key is replaced",
        in_turn(refuse("401 No", framing="chunked", last_chunk=TRAILERS), REPLY),
        VALUE,
        requests=2,
        key=keys("key-number-1", "key-number-2"),
    ),
    Fault(
        "trailers after a 429",
        refuse("429 Slow", "Retry-After: 900", framing="chunked", last_chunk=TRAILERS),
        limited(900),
    ),
    Fault("trailers after a 503", refuse("503 Down", framing="chunked", last_chunk=TRAILERS), failed(503)),
    Fault(
        "a chunk size that is not a number",
        Http(framing="chunked", last_chunk=b"zz\r\n", cut=200, end="close"),
        BROKEN,
    ),
    Fault(
        "a negative chunk size",
        Http(framing="chunked", last_chunk=b"-5\r\n", cut=200, end="close"),
        BROKEN,
    ),
    Fault("no last chunk", Http(framing="chunked", last_chunk=b"", end="close"), BROKEN, WHOLE),
    Fault(
        "no last chunk of a complete stream",
        Http(framing="chunked", last_chunk=b"", end="close"),
        VALUE,
        STREAMS,
    ),
    Fault("a body that ends with the connection", Http(framing="none", end="close"), VALUE),
    Fault("a body that ends with half a connection", Http(framing="none", end="half-close"), VALUE),
    Fault("HTTP/1.0", Http(version="HTTP/1.0", framing="none", end="close"), VALUE),
    Fault("HTTP/1.0 with a length", Http(version="HTTP/1.0", end="close"), VALUE),
    Fault(
        "HTTP/1.0 that keeps the connection",
        Http(version="HTTP/1.0", headers=["Connection: keep-alive"]),
        VALUE,
    ),
    Fault("a length that is too long", Http(length=lambda size: size + 9, end="close"), BROKEN, WHOLE),
    Fault(
        "a length that is too long for a complete stream",
        Http(length=lambda size: size + 9, end="close"),
        VALUE,
        STREAMS,
    ),
    Fault("a length that is too short", Http(length=lambda size: size - 30), INVALID, WHOLE),
    Fault("a length that is too short for the stream", Http(length=lambda size: size // 2), BROKEN, STREAMS),
    Fault("a length of 0", Http(length=lambda size: 0), BROKEN),
    Fault("a negative length", Http(length=lambda size: -1, end="close"), BROKEN),
    Fault("a length that is not a number", Http(length=lambda size: "five", end="close"), BROKEN),
    Fault("a length beyond all numbers", Http(length=lambda size: 2**64 + 1, end="close"), INVALID),
    Fault("the same length twice", Http(length=lambda size: f"{size}\r\nContent-Length: {size}"), VALUE),
    Fault(
        "two lengths",
        Http(length=lambda size: f"{size}\r\nContent-Length: {size + 1}", end="close"),
        BROKEN,
    ),
    Fault("a length with chunks", Http(framing="chunked", headers=["Content-Length: 5"]), VALUE),
    # --- the start of a response ---
    Fault("100 Continue first", Http(before=b"HTTP/1.1 100 Continue\r\n\r\n"), VALUE),
    Fault(
        "102 and 103 first",
        Http(before=b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nLink: <a>\r\n\r\n"),
        VALUE,
    ),
    Fault("100 Continue before a 400", refuse("400 Bad", before=b"HTTP/1.1 100 Continue\r\n\r\n"), BAD),
    Fault("only 100 Continue", raw(b"HTTP/1.1 100 Continue\r\n\r\n"), BROKEN),
    Fault("204", raw(b"HTTP/1.1 204 No Content\r\n\r\n", end="keep"), BROKEN),
    Fault("200 without a body", Http(b""), BROKEN),
    Fault("206", Http(status="206 Partial Content"), VALUE),
    Fault("a status without a reason", Http(status="200"), VALUE),
    Fault("a reason that is not ASCII", Http(status="200 Très bien"), VALUE),
    Fault("lower-case header names", Http(name=str.lower), VALUE),
    Fault("upper-case header names", Http(name=str.upper), VALUE),
    Fault("a header twice", Http(headers=["X-Request-Id: a", "x-request-id: b"]), VALUE),
    Fault("the content type twice", Http(headers=["Content-Type: text/plain"]), VALUE),
    Fault("a header without a value", Http(headers=["X-Empty:"]), VALUE),
    Fault("a header that is not ASCII", Http(headers=["X-Name: Grüße"]), VALUE),
    Fault("a header of 16,000 bytes", Http(headers=[f"X-Long: {'a' * 16_000}"]), VALUE),
    Fault("a header of 300,000 bytes", Http(headers=[f"X-Long: {'a' * 300_000}"]), BROKEN),
    Fault("200,000 headers", Http(headers=[f"X-{number}: 1" for number in range(200_000)]), BROKEN),
    Fault("a status line of 300,000 bytes", Http(status="200 " + "O" * 300_000), BROKEN),
    Fault("another protocol", raw(b"SSH-2.0-OpenSSH_9.2\r\n"), BROKEN),
    Fault("bytes that are not HTTP", raw(b"\x00\x01\x02 this is not HTTP\r\n\r\n"), BROKEN),
    Fault("a status that is not a number", raw(b"HTTP/1.1 abc\r\n\r\n"), BROKEN),
    Fault("bytes after the response", Http(after=b"HTTP/1.1 500 Surprise\r\n\r\n"), VALUE),
    Fault("a cookie", Http(headers=["Set-Cookie: a=b"]), VALUE),
    Fault("100 Continue for ever", raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000), BROKEN),
    Fault("only blank lines", raw(b"\r\n\r\n"), BROKEN),
    Fault("a blank line first", Http(before=b"\r\n", end="close"), BROKEN),
    Fault("a close in the blank line", raw(b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r"), BROKEN),
    Fault("a header over two lines", Http(headers=["X-Folded: a\r\n b"]), VALUE),
    Fault("a header without a colon", Http(headers=["X-Odd\r\nX-A: b"]), BROKEN),
    Fault("a space before the colon", Http(headers=["X-Odd : a"]), VALUE),
    Fault("a header with a NUL", Http(headers=["X-Odd: a\x00b"]), BROKEN),
    Fault("line ends of LF in the headers", raw_lines(b"\n"), VALUE),
    Fault(
        "an unknown transfer coding",
        Http(headers=["Transfer-Encoding: odd"], framing="none", end="close"),
        BROKEN,
    ),
    # --- connections ---
    Fault("a reset before the response", raw(end="reset"), BROKEN),
    Fault("a close before the response", raw(), BROKEN),
    Fault("half a close before the response", raw(end="half-close"), BROKEN),
    Fault("a close in the status line", raw(b"HTTP/1.1 20"), BROKEN),
    Fault("a reset in the headers", raw(b"HTTP/1.1 200 OK\r\nContent-", end="reset"), BROKEN),
    Fault("a close in the headers", raw(b"HTTP/1.1 200 OK\r\nContent-"), BROKEN),
    Fault("a close in the body", Http(cut=200, end="close"), BROKEN),
    Fault("a reset in the body", Http(cut=200, end="reset"), BROKEN),
    Fault("half a close in the body", Http(cut=200, end="half-close"), BROKEN),
    Fault("a close after the response", Http(end="close"), VALUE),
    Fault("a reset after the response", Http(end="reset"), VALUE),
    Fault("Connection: close", Http(headers=["Connection: close"], end="close"), VALUE),
    Fault("Connection: close, but the connection stays open", Http(headers=["Connection: close"]), VALUE),
    Fault("silence", stall(REPLY, 10**9), TIMEOUT, timeout=1.0),
    Fault(
        "silence after the headers",
        stall(Http(length=lambda size: size + 1, body=b""), 0),
        TIMEOUT,
        timeout=1.0,
    ),
    Fault("silence in the body", stall(REPLY, 200), TIMEOUT, timeout=1.0),
    # --- codings ---
    Fault("gzip", coded("gzip", gzip.compress), VALUE),
    Fault("gzip in chunks", coded("gzip", gzip.compress, framing="chunked", chunk=10), VALUE),
    Fault("x-gzip", coded("x-gzip", gzip.compress), VALUE),
    Fault("GZIP in upper case", coded("GZIP", gzip.compress), VALUE),
    Fault("gzip of two members", coded("gzip", gzip_members), VALUE),
    Fault(
        "gzip with bytes after its end", coded("gzip", lambda data: gzip.compress(data) + b"garbage"), VALUE
    ),
    Fault(
        "gzip that is cut",
        coded("gzip", lambda data: gzip.compress(data)[: len(gzip.compress(data)) // 2]),
        BROKEN,
    ),
    Fault(
        "gzip with a wrong checksum",
        coded("gzip", lambda data: gzip.compress(data)[:-8] + b"12345678"),
        BROKEN,
        WHOLE,
    ),
    Fault("gzip twice", coded("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))), VALUE),
    Fault("gzip that is not gzip", coded("gzip", bytes), BROKEN),
    Fault(
        "gzip of an error",
        refuse("400 Bad", "Content-Encoding: gzip", body=lambda scene: gzip.compress(error_body()(scene))),
        BAD,
    ),
    Fault("deflate", coded("deflate", zlib.compress), VALUE),
    Fault("deflate without its header", coded("deflate", raw_deflate), VALUE),
    Fault("br, which was not asked for", coded("br", lambda data: b"\x0b\x02\x80" + data), BROKEN),
    Fault("identity", coded("identity", bytes), VALUE),
    Fault("an unknown coding", coded("utf-8", bytes), VALUE),
    Fault("an unknown coding of an error", refuse("400 Bad", "Content-Encoding: utf-8"), BAD),
    Fault("a gzip bomb", coded("gzip", lambda data: gzip.compress(b'{"a": "' + b"x" * TOO_MUCH, 1)), INVALID),
    # --- redirects ---
    Fault("307 on the same server", in_turn(redirect("/other"), REPLY), VALUE, requests=2),
    Fault("308 on the same server", in_turn(redirect("/other", "308 R"), REPLY), VALUE, requests=2),
    Fault("a relative redirect", in_turn(redirect("other?a=b"), REPLY), VALUE, requests=2),
    Fault("a complete URL", in_turn(redirect("http://127.0.0.1:PORT/other"), REPLY), VALUE, requests=2),
    Fault("301", redirect("/other", "301 Moved"), Failure(InvalidReplyError, 301)),
    Fault("302", redirect("/other", "302 Found"), Failure(InvalidReplyError, 302)),
    Fault("303", redirect("/other", "303 See"), Failure(InvalidReplyError, 303)),
    Fault("304", Http(b"", "304 Not Modified", content_type=""), Failure(InvalidReplyError, 304)),
    Fault("a redirect to another host", redirect("http://localhost:PORT/"), Failure(InvalidReplyError, 307)),
    Fault("a redirect to another port", redirect("http://127.0.0.1:1/"), Failure(InvalidReplyError, 307)),
    Fault(
        "a redirect to another scheme", redirect("https://127.0.0.1:PORT/"), Failure(InvalidReplyError, 307)
    ),
    Fault("a redirect to a file", redirect("file:///etc/passwd"), Failure(InvalidReplyError, 307)),
    Fault("a redirect to nowhere", Http(b"", "307 R", content_type=""), Failure(InvalidReplyError, 307)),
    Fault("a redirect to an invalid URL", redirect("http://[::1"), Failure(InvalidReplyError, 307)),
    Fault("a redirect to itself", redirect("/same"), Failure(InvalidReplyError, 307), requests=2),
    Fault(
        "a circle of redirects",
        in_turn(*[redirect(f"/{number % 2}") for number in range(20)]),
        Failure(InvalidReplyError, 307),
        requests=6,
    ),
    Fault(
        "a redirect with trailers",
        in_turn(Http(b"", "307 R", ["Location: /other"], "", "chunked", last_chunk=TRAILERS), REPLY),
        VALUE,
        requests=2,
    ),
    Fault(
        "a redirect after a 401",
        in_turn(refuse("401 No"), redirect("/other"), REPLY),
        VALUE,
        requests=3,
        key=keys("key-number-1", "key-number-2"),
    ),
    # --- statuses ---
    Fault("400", refuse("400 Bad"), BAD),
    Fault("401", refuse("401 No"), DENIED),
    Fault(
        "401 with another key",
        in_turn(refuse("401 No"), REPLY),
        VALUE,
        requests=2,
        key=keys("key-number-1", "key-number-2"),
    ),
    Fault("401 with the same key", refuse("401 No"), DENIED, key=keys("key-number-1")),
    Fault(
        "401 for all keys",
        refuse("401 No"),
        DENIED,
        requests=2,
        key=keys("key-number-1", "key-number-2", "key-number-3"),
    ),
    Fault("403", refuse("403 No"), Failure(AuthenticationError, 403)),
    Fault("404", refuse("404 No"), Failure(ModelNotFoundError, 404)),
    Fault("408", refuse("408 Slow"), Failure(ModelTimeoutError, 408, True)),
    Fault("409", refuse("409 Conflict"), Failure(BadRequestError, 409, True)),
    Fault("413 before the request is read", refuse("413 Large", end="close"), Failure(BadRequestError, 413)),
    Fault("418", refuse("418 Teapot"), Failure(BadRequestError, 418)),
    Fault("425", refuse("425 Too Early"), Failure(BadRequestError, 425, True)),
    Fault("498", refuse("498 Capacity"), Failure(RateLimitError, 498, True)),
    Fault("500", refuse("500 Down"), failed(500)),
    Fault("501", refuse("501 Never"), failed(501, retryable=False)),
    Fault("502 with a page", html("502 Bad Gateway"), failed(502)),
    Fault(
        "503 with Retry-After", refuse("503 Down", "Retry-After: 7"), Failure(ModelServerError, 503, True, 7)
    ),
    Fault("529", refuse("529 Overloaded"), failed(529)),
    Fault("599 without a body", Http(b"", "599 Odd", content_type=""), failed(599)),
    Fault("600", Http(b"", "600 Odd", content_type=""), failed(600)),
    Fault("x-should-retry: false", refuse("503 Down", "x-should-retry: false"), failed(503, retryable=False)),
    Fault(
        "x-should-retry: true", refuse("400 Bad", "X-Should-Retry: true"), Failure(BadRequestError, 400, True)
    ),
    Fault("an error without a body", Http(b"", "400 Bad", content_type=""), BAD),
    Fault("an error that is a list", refuse("400 Bad", body=b"[1]"), BAD),
    Fault("an error that is null", refuse("400 Bad", body=b'{"error": null}'), BAD),
    Fault("an error that is a text", refuse("400 Bad", body=b'{"error": "No."}'), BAD),
    Fault("an error that is a number", refuse("400 Bad", body=b'{"error": 7}'), BAD),
    Fault(
        "an error whose fields are lists",
        refuse("400 Bad", body=b'{"error": {"message": [1], "code": [2], "type": {}}}'),
        BAD,
    ),
    Fault(
        "an error whose code has 5,000 digits",
        refuse("400 Bad", body=b'{"error": {"code": "%s"}}' % (b"4" * 5000)),
        BAD,
    ),
    Fault("an error that is not UTF-8", refuse("400 Bad", body=b'{"error": {"message": "\xff\xfe"}}'), BAD),
    Fault(
        "an error with half a surrogate", refuse("400 Bad", body=b'{"error": {"message": "\\ud800"}}'), BAD
    ),
    Fault(
        "an error with control characters",
        refuse("400 Bad", body=error_body("a\r\nX: b\x1b[31m\x00\x9b\u2028c")),
        BAD,
    ),
    Fault("a page with control characters", html("400 Bad"), BAD),
    Fault("a huge error", refuse("400 Bad", body=error_body("x" * TOO_MUCH)), BAD),
    Fault("an error that is cut", refuse("400 Bad", length=lambda size: size + 9, end="close"), BAD),
    Fault(
        "an error whose chunks break",
        refuse("400 Bad", framing="chunked", last_chunk=b"zz\r\n", end="close"),
        BAD,
    ),
    Fault(
        "a 429 that is cut",
        refuse("429 Slow", "Retry-After: 9", length=lambda size: size + 9, end="close"),
        limited(9),
    ),
    # --- Retry-After ---
    Fault("429", refuse("429 Slow"), LIMITED),
    Fault("Retry-After: 30", refuse("429 Slow", "Retry-After: 30"), limited(30)),
    Fault("Retry-After: 0", refuse("429 Slow", "retry-after: 0"), limited(0)),
    Fault("Retry-After: 1.5", refuse("429 Slow", "Retry-After: 1.5"), limited(1.5)),
    Fault("Retry-After: a date", lambda scene: refuse("429 Slow", dated(90))(scene), limited(90)),
    Fault(
        "Retry-After: a date that is over", lambda scene: refuse("429 Slow", dated(-90))(scene), limited(0)
    ),
    Fault("Retry-After: -5", refuse("429 Slow", "Retry-After: -5"), LIMITED),
    Fault("Retry-After: soon", refuse("429 Slow", "Retry-After: soon"), LIMITED),
    Fault("Retry-After: nan", refuse("429 Slow", "Retry-After: nan"), LIMITED),
    Fault("Retry-After: inf", refuse("429 Slow", "Retry-After: inf"), LIMITED),
    Fault(
        "Retry-After in years beyond all dates",
        refuse("429 Slow", "Retry-After: Wed, 21 Oct 99999 07:28:00 GMT"),
        LIMITED,
    ),
    Fault("Retry-After twice", refuse("429 Slow", "Retry-After: 3", "Retry-After: 5"), limited(5)),
    Fault("retry-after-ms", refuse("429 Slow", "Retry-After-Ms: 1500", "Retry-After: 9"), limited(1.5)),
    # --- whole replies ---
    Fault("JSON for a stream", json_body(lambda scene: scene.dialect.body), VALUE, STREAMS),
    Fault("JSON with a BOM", json_body(lambda scene: b"\xef\xbb\xbf" + scene.dialect.body), VALUE),
    Fault("JSON in UTF-16", json_body(lambda scene: scene.dialect.body.decode().encode("utf-16")), INVALID),
    Fault(
        "white space around the JSON", json_body(lambda scene: b"\n \t" + scene.dialect.body + b"\r\n"), VALUE
    ),
    Fault(
        "JSON that is labelled text", Http(lambda scene: scene.dialect.body, content_type="text/plain"), VALUE
    ),
    Fault(
        "JSON that is labelled a stream",
        Http(lambda scene: scene.dialect.body, content_type="text/event-stream"),
        VALUE,
    ),
    Fault("JSON without a content type", Http(lambda scene: scene.dialect.body, content_type=""), VALUE),
    Fault("a page with the status 200", html(), INVALID),
    Fault("a text with the status 200", Http(b"Internal error\n", content_type="text/plain"), INVALID),
    Fault("invalid JSON", json_body(b'{"choices": '), INVALID),
    Fault("two JSON objects", json_body(lambda scene: scene.dialect.body * 2), INVALID),
    Fault("text after the JSON", json_body(lambda scene: scene.dialect.body + b"}"), INVALID),
    Fault("a list instead of an object", json_body(lambda scene: b"[" + scene.dialect.body + b"]"), INVALID),
    Fault("null", json_body(b"null"), INVALID),
    Fault("an empty object", json_body(b"{}"), INVALID),
    Fault("all fields are null", whole(lambda data, dialect: dict.fromkeys(data)), INVALID),
    Fault(
        "all fields are lists",
        whole(lambda data, dialect: {key: None if key == "error" else [7] for key in data}),
        INVALID,
    ),
    Fault(
        "all fields are numbers",
        whole(lambda data, dialect: {**dict.fromkeys(data, 7), "error": None}),
        INVALID,
    ),
    Fault("NaN", whole(lambda data, dialect: {**data, "x": float("nan")}), VALUE),
    Fault(
        "an error with the status 200",
        json_body(lambda scene: json_bytes({"error": {"message": "Down.", "code": 503}})),
        Failure(ModelServerError, 503, True),
    ),
    Fault(
        "invalid UTF-8 in the text",
        json_body(lambda scene: scene.dialect.body.replace("ö".encode(), b"\xff")),
        Value(TEXT.replace("ö", "\ufffd")),
    ),
    Fault(
        "half a surrogate in the text",
        json_body(lambda scene: scene.dialect.body.replace("🙂".encode(), b"\\ud83d")),
        Value(TEXT.replace("🙂", "\ufffd")),
    ),
    Fault("a pair of surrogates in the text", json_body(lambda scene: escaped(scene.dialect.body)), VALUE),
    Fault(
        "a control character in the text",
        json_body(lambda scene: scene.dialect.body.replace(b"! ", b"\x00")),
        VALUE,
    ),
    Fault(
        "more than a reply may have",
        json_body(b'{"a": "' + b"x" * TOO_MUCH, framing="chunked", chunk=1 << 16),
        INVALID,
    ),
    Fault("deeply nested JSON", json_body(b'{"a": ' + b"[" * 100_000), INVALID),
    # --- token counts ---
    Fault("no token counts", no_usage(None), Value(tokens=None)),
    Fault("token counts that are a text", no_usage("x"), Value(tokens=None)),
    Fault("token counts that are a list", no_usage([1]), Value(tokens=None)),
    *[
        Fault(f"a token count of {json.dumps(value)[:20]}", usage_of(value), Value(tokens=None))
        for value in (None, True, 2.5, "3", "x", -1, 10**30, 1e308, [], {})
    ],
    Fault(
        "details of token counts that are a text",
        whole(lambda data, dialect: _with_details(data, dialect, "x")),
        VALUE,
    ),
    # --- streams of events ---
    Fault("CR LF", sse(lambda data: data.replace(b"\n", b"\r\n")), VALUE, STREAMS, SSE),
    Fault("CR", sse(lambda data: data.replace(b"\n", b"\r")), VALUE, STREAMS, SSE),
    Fault(
        "CR LF in packets of one byte",
        sse(lambda data: data.replace(b"\n", b"\r\n"), framing="chunked", chunk=1),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault(
        "CR in packets of one byte",
        sse(lambda data: data.replace(b"\n", b"\r"), framing="chunked", chunk=1),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault(
        "mixed line ends",
        sse(lambda data: data.replace(b"\n\n", b"\r\n\n", 2).replace(b"}\n\n", b"}\r\r", 1)),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("a BOM", sse(lambda data: b"\xef\xbb\xbf" + data), VALUE, STREAMS, SSE),
    Fault(
        "a BOM in packets of one byte",
        sse(lambda data: b"\xef\xbb\xbf" + data, framing="chunked", chunk=1),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("a comment first", sse(lambda data: b": hello\n\n" + data), VALUE, STREAMS, SSE),
    Fault(
        "a comment in an event",
        sse(lambda data: data.replace(b"data: ", b":\n: x\ndata: ")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("blank lines", sse(lambda data: b"\n\n" + data.replace(b"\n\n", b"\n\n\n\n")), VALUE, STREAMS, SSE),
    Fault("an empty data line", sse(middle_event(b"data:\n\n")), VALUE, STREAMS, SSE),
    Fault("an empty data line with a space", sse(middle_event(b"data: \n\n")), VALUE, STREAMS, SSE),
    Fault("a data line without a colon", sse(middle_event(b"data\n\n")), VALUE, STREAMS, SSE),
    Fault("two empty data lines", sse(middle_event(b"data:\ndata:\n\n")), VALUE, STREAMS, SSE),
    Fault("data: {}", sse(middle_event(b"data: {}\n\n")), VALUE, STREAMS, SSE),
    Fault(
        "an event without data",
        sse(middle_event(b"event: heartbeat\nid: 3\nretry: 10\n\n")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault(
        "an event of an unknown kind",
        sse(middle_event(b'event: x\ndata: {"type": "x.y"}\n\n')),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault(
        "fields of unknown names",
        sse(lambda data: data.replace(b"data: ", b"datas: 1\ndat\nDATA: 2\ndata: ")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault(
        "no space after the colon", sse(lambda data: data.replace(b"data: ", b"data:")), VALUE, STREAMS, SSE
    ),
    Fault(
        "two spaces after the colon",
        sse(lambda data: data.replace(b"data: {", b"data:  {")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("data over several lines", sse(each_line), VALUE, STREAMS, SSE),
    Fault(
        "data over several lines with CR",
        sse(lambda data: each_line(data).replace(b"\n", b"\r")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("no blank line at the end", sse(lambda data: data.rstrip(b"\n")), VALUE, STREAMS, SSE),
    Fault("one line end at the end", sse(lambda data: data.rstrip(b"\n") + b"\n"), VALUE, STREAMS, SSE),
    Fault("all events in one packet of one chunk", sse(bytes, framing="chunked"), VALUE, STREAMS, SSE),
    Fault("a stream that is labelled JSON", sse(bytes, content_type="application/json"), VALUE, STREAMS, SSE),
    Fault(
        "a stream that is labelled text", sse(bytes, content_type="text/plain; charset=utf-8"), VALUE, STREAMS
    ),
    Fault("a stream without a content type", sse(bytes, content_type=""), VALUE, STREAMS),
    Fault("a pair of surrogates in an event", sse(escaped), VALUE, STREAMS, SSE),
    Fault(
        "invalid UTF-8 in an event",
        sse(lambda data: data.replace("ö".encode(), b"\xff")),
        Value(TEXT.replace("ö", "\ufffd")),
        STREAMS,
        SSE,
    ),
    Fault(
        "half a surrogate in an event",
        sse(lambda data: data.replace("🙂".encode(), b"\\ud83d")),
        Value(TEXT.replace("🙂", "\ufffd")),
        STREAMS,
        SSE,
    ),
    Fault(
        "a pair of surrogates over two events",
        Http(lambda scene: scene.dialect.stream(in_halves(scene.dialect)).replace(b"\\\\u", b"\\u")),
        VALUE,
        STREAMS,
        SSE,
    ),
    Fault("an event that is not JSON", sse(middle_event(b"data: {x\n\n")), INVALID, STREAMS, SSE),
    Fault("an event that is a text", sse(middle_event(b'data: "x"\n\n')), INVALID, STREAMS, SSE),
    Fault("an event that is a list", sse(middle_event(b"data: [1]\n\n")), INVALID, STREAMS, SSE),
    Fault("an event that is null", sse(middle_event(b"data: null\n\n")), INVALID, STREAMS, SSE),
    Fault(
        "events after the end", sse(lambda data: data + b"data: {x\n\n"), VALUE, STREAMS, (CHAT, *SSE[1:3])
    ),
    Fault("an empty refusal", both(with_refusal), VALUE, dialects=(CHAT,)),
    Fault("a text in parts", both(in_parts), VALUE, dialects=(CHAT,)),
    Fault("no [DONE]", sse(lambda data: data.removesuffix(b"data: [DONE]\n\n")), VALUE, STREAMS, (CHAT,)),
    Fault("[DONE] twice", sse(lambda data: data + CHAT.end), VALUE, STREAMS, (CHAT,)),
    Fault("[DONE] first", sse(lambda data: CHAT.end + data), INVALID, STREAMS, (CHAT,)),
    Fault("[DONE] in the middle", sse(middle_event(CHAT.end)), Value("Grüße, ", None), STREAMS, (CHAT,)),
    Fault(
        "[DONE] without a finish reason",
        events(lambda events, dialect: events[:4]),
        Value(tokens=None),
        STREAMS,
        (CHAT,),
    ),
    Fault("[DONE] in an API that has none", sse(lambda data: data + CHAT.end), VALUE, STREAMS, SSE[1:]),
    Fault(
        "an error in the middle",
        events(lambda events, dialect: [*events[:2], _error_event(dialect)]),
        Failure(ModelServerError, 503, True),
        STREAMS,
    ),
    Fault(
        "an error first",
        events(lambda events, dialect: [_error_event(dialect)]),
        Failure(ModelServerError, 503, True),
        STREAMS,
    ),
    Fault("no events", sse(lambda data: b""), BROKEN, STREAMS),
    Fault("no events, in chunks", sse(lambda data: b"", framing="chunked"), BROKEN, STREAMS),
    Fault("only comments", sse(lambda data: b": ping\n\n: ping\n\n"), BROKEN, STREAMS, SSE),
    Fault("only [DONE]", sse(lambda data: CHAT.end), INVALID, STREAMS, (CHAT,)),
    Fault("a reset before the first event", cut_stream(lambda events, dialect: 0, "reset"), BROKEN, STREAMS),
    Fault("a close before the first event", cut_stream(lambda events, dialect: 0, "close"), BROKEN, STREAMS),
    Fault("a reset between two events", cut_stream(lambda events, dialect: 2, "reset"), BROKEN, STREAMS),
    Fault("a close between two events", cut_stream(lambda events, dialect: 2, "close"), BROKEN, STREAMS),
    Fault("a close in an event", cut_stream(lambda events, dialect: 2, "close", 20), BROKEN, STREAMS),
    Fault(
        "a stream that ends between two events",
        events(lambda events, dialect: events[:2]),
        BROKEN,
        STREAMS,
        (*SSE[1:], BEDROCK),
    ),
    Fault(
        "a close after the finish reason",
        cut_stream(lambda events, dialect: dialect.finish + 1, "close"),
        Value(tokens=None),
        STREAMS,
    ),
    Fault(
        "a reset after the finish reason",
        cut_stream(lambda events, dialect: dialect.finish + 1, "reset"),
        Value(tokens=None),
        STREAMS,
    ),
    Fault(
        "a close in the event after the finish reason",
        cut_stream(lambda events, dialect: dialect.finish + 1, "close", 20),
        Value(tokens=None),
        STREAMS,
        (CHAT, BEDROCK),
    ),
    Fault(
        "an endless comment",
        sse(lambda data: b":" + b"x" * TOO_MUCH, framing="chunked", chunk=1 << 16),
        INVALID,
        STREAMS,
        SSE,
    ),
    Fault(
        "an endless event",
        sse(lambda data: b"data: x\n" * (TOO_MUCH // 4), framing="chunked", chunk=1 << 16),
        INVALID,
        STREAMS,
        SSE,
    ),
    Fault(
        "a damaged frame",
        Http(lambda scene: scene.body[:5] + b"\xff" + scene.body[6:]),
        INVALID,
        STREAMS,
        (BEDROCK,),
    ),
    Fault(
        "a damaged payload",
        Http(lambda scene: scene.body.replace(b"Gr", b"gr")),
        INVALID,
        STREAMS,
        (BEDROCK,),
    ),
]
