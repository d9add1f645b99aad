"""A real HTTP server on the loopback interface that plays a chat completion server from a script."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

LONGEST_WAIT = 20.0  # seconds; nothing in a test hangs for longer


class NetworkBlockedError(RuntimeError):
    """A test tried to reach another machine."""


@dataclass(frozen=True)
class Seen:
    """A request as it arrived; header names are in lower case, ``json`` is the parsed body."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What the server answers.

    ``chunks`` are sent one by one and make the answer a stream; before each chunk whose index is in
    ``held`` the server waits for that event. ``breaks``: the connection is cut without the proper end.
    ``after``: the whole answer waits for this event.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    held: Mapping[int, threading.Event] = field(default_factory=dict)
    breaks: bool = False
    after: threading.Event | None = None


Script = Reply | Callable[[Seen], Reply]


def answer(
    text: str | None,
    *,
    usage: Mapping[str, Any] | None = None,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    model: str = "test-model-1",
    **message: Any,
) -> Reply:
    """A chat completion; further arguments are further keys of its message."""
    said = {"role": "assistant", "content": text, "refusal": refusal, **message}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish_reason}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice]}
    return as_json(body if usage is None else {**body, "usage": usage})


def as_json(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Any JSON with any status."""
    return Reply(status, json.dumps(data).encode(), {"content-type": "application/json", **(headers or {})})


def error(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Reply:
    """An error as OpenAI words it."""
    return as_json({"error": {"message": message, "code": code}}, status=status, headers=headers)


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Reply:
    """Bytes as they are."""
    return Reply(status, body, {"content-type": content_type})


def reset() -> Reply:
    """The connection is reset before any answer."""
    return Reply(status=0)


def event(data: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def delta(finish_reason: str | None = None, **message: Any) -> bytes:
    """The event of one piece of a message."""
    choice = {"index": 0, "delta": message, "finish_reason": finish_reason}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]})


def used(**usage: Any) -> bytes:
    """The event with the usage, which comes last and has no choices."""
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})


DONE = b"data: [DONE]\n\n"


def sse(*chunks: bytes, held: Mapping[int, threading.Event] | None = None, breaks: bool = False) -> Reply:
    """A stream of server-sent events, cut where the chunks are."""
    return Reply(200, b"", {"content-type": "text/event-stream"}, chunks, held or {}, breaks)


def streamed(texts: Iterable[str], *, finish_reason: str = "stop") -> Reply:
    """A whole, well-formed stream of these texts."""
    return sse(*(delta(content=text) for text in texts), delta(finish_reason), DONE)


class Loopback:
    """The server: it gives the scripted replies in turn, and the last one again and again.

    ``requests`` holds what arrived; ``hung_up`` is set when a client left before a stream was sent.
    """

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.hung_up = threading.Event()
        self.connections: set[socket.socket] = set()
        self._script: list[Script] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def reply(self, *script: Script) -> Self:
        """Adds replies to the script."""
        self._script.extend(script)
        return self

    def take(self, seen: Seen) -> Reply:
        """Notes a request and gives what the script has for it."""
        with self._lock:
            self.requests.append(seen)
            if not self._script:
                return error(500, "the loopback server has no reply in its script")
            scripted = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return scripted if isinstance(scripted, Reply) else scripted(seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        for connection in tuple(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._server.server_close()
        self._thread.join(LONGEST_WAIT)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for its threads and leaves no socket open
    request_queue_size = 128

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is part of many a test, and no reason to print."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = LONGEST_WAIT
    disable_nagle_algorithm = True

    @property
    def loopback(self) -> Loopback:
        assert isinstance(self.server, _Server)
        return self.server.loopback

    def setup(self) -> None:
        super().setup()
        self.loopback.connections.add(self.connection)

    def finish(self) -> None:
        self.loopback.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.loopback.take(Seen(self.path, headers, body))
        if reply.after is not None:
            reply.after.wait(LONGEST_WAIT)
        if reply.status == 0:
            # lingering for 0 seconds turns the close into a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
        elif reply.chunks is None:
            self._send_whole(reply)
        else:
            try:
                self._send_chunks(reply, reply.chunks)
            except OSError:
                self.loopback.hung_up.set()
                self.close_connection = True

    def _send_whole(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def _send_chunks(self, reply: Reply, chunks: Sequence[bytes]) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for index, chunk in enumerate(chunks):
            if index in reply.held:
                self._wait(reply.held[index])
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if reply.breaks:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self, event: threading.Event) -> None:
        """Waits for the event, or until the client hangs up, which is an OSError."""
        self.connection.settimeout(0.02)
        try:
            for _ in range(int(LONGEST_WAIT / 0.02)):
                if event.is_set():
                    return
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        raise ConnectionAbortedError("the client hung up")
                except TimeoutError:
                    continue
        finally:
            self.connection.settimeout(LONGEST_WAIT)
