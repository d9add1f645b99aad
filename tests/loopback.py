"""A real HTTP server on the loopback interface that sends scripted replies, and builders of replies."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from zlib import crc32

MAX_WAIT = 20.0  # seconds; no test waits longer


class NetworkBlockedError(RuntimeError):
    """A test tried to connect to another machine."""


@dataclass(frozen=True)
class ReceivedRequest:
    """A request that arrived.

    Attributes:
        path: The path of the URL.
        headers: The headers; their names are in lower case.
        body: The body.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """The reply of the server.

    Attributes:
        status: The status code; 0 resets the connection instead.
        body: The body of a whole reply.
        headers: The headers.
        chunks: The chunks of a stream, sent one by one.
        wait_before: By the index of a chunk, the event to wait for before it is sent.
        cut_off: True to close the connection without the proper end of the stream.
        wait_for: The event to wait for before anything is sent.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    wait_before: Mapping[int, threading.Event] = field(default_factory=dict)
    cut_off: bool = False
    wait_for: threading.Event | None = None


Script = Reply | Callable[[ReceivedRequest], Reply]


def answer(
    text: str | None,
    *,
    usage: Mapping[str, Any] | None = None,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    model: str = "test-model-1",
    **message: Any,
) -> Reply:
    """Return the reply with a chat completion. Further arguments become keys of its message."""
    data = {"role": "assistant", "content": text, "refusal": refusal, **message}
    choice = {"index": 0, "message": data, "logprobs": None, "finish_reason": finish_reason}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [choice]}
    return json_reply(body if usage is None else {**body, "usage": usage})


def json_reply(data: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply with any JSON."""
    return Reply(status, json.dumps(data).encode(), {"content-type": "application/json", **(headers or {})})


def error(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Reply:
    """Return an error reply in the format of OpenAI."""
    return json_reply({"error": {"message": message, "code": code}}, status=status, headers=headers)


def raw_reply(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Reply:
    """Return a reply with any bytes."""
    return Reply(status, body, {"content-type": content_type})


def reset_reply() -> Reply:
    """Return a reply that resets the connection."""
    return Reply(status=0)


def event(data: object) -> bytes:
    """Return one server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def delta(finish_reason: str | None = None, **message: Any) -> bytes:
    """Return the event with one delta of a message."""
    choice = {"index": 0, "delta": message, "finish_reason": finish_reason}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]})


def usage_event(**usage: Any) -> bytes:
    """Return the event with the usage, which comes last and has no choices."""
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage})


DONE = b"data: [DONE]\n\n"


def sse(
    *chunks: bytes, wait_before: Mapping[int, threading.Event] | None = None, cut_off: bool = False
) -> Reply:
    """Return the reply with a stream of server-sent events, sent in these chunks."""
    return Reply(200, b"", {"content-type": "text/event-stream"}, chunks, wait_before or {}, cut_off)


def amazon_event(kind: str, data: object, *, message_type: str = "event") -> bytes:
    """Return one event, or one exception, of a stream in Amazon's binary format."""
    values = {
        f":{message_type}-type": kind,
        ":content-type": "application/json",
        ":message-type": message_type,
    }
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in values.items()
    )
    payload = json.dumps(data, ensure_ascii=False).encode()
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return message + struct.pack(">I", crc32(message))


def amazon_stream(*events: bytes, **settings: Any) -> Reply:
    """Return the reply with a stream of such events; the settings are those of ``Reply``."""
    return Reply(200, b"", {"content-type": "application/vnd.amazon.eventstream"}, events, **settings)


def stream_reply(texts: Iterable[str], *, finish_reason: str = "stop") -> Reply:
    """Return the reply with a complete stream of these texts."""
    return sse(*(delta(content=text) for text in texts), delta(finish_reason), DONE)


class Loopback:
    """The server. It sends the scripted replies in order, and the last one for all further requests.

    Attributes:
        requests: The requests that arrived.
        hung_up: Set when a client disconnects before the end of a stream.
        connections: The open connections.
    """

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.hung_up = threading.Event()
        self.connections: set[socket.socket] = set()
        self._script: list[Script] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def reply(self, *script: Script) -> Self:
        """Add replies to the script."""
        self._script.extend(script)
        return self

    def next_reply(self, request: ReceivedRequest) -> Reply:
        """Record a request and return its reply."""
        with self._lock:
            self.requests.append(request)
            if not self._script:
                return error(500, "the loopback server has no reply in its script")
            scripted = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return scripted if isinstance(scripted, Reply) else scripted(request)

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
        self._thread.join(MAX_WAIT)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing the server waits for its threads, so that no socket stays open
    request_queue_size = 128

    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: many tests disconnect on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = MAX_WAIT
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
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.loopback.next_reply(ReceivedRequest(self.path, headers, body))
        if reply.wait_for is not None:
            reply.wait_for.wait(MAX_WAIT)
        if reply.status == 0:
            # with a linger time of 0 seconds, close() sends a reset
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
            if index in reply.wait_before:
                self._wait(reply.wait_before[index])
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if reply.cut_off:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self, event: threading.Event) -> None:
        """Wait for the event. Raises OSError if the client disconnects."""
        self.connection.settimeout(0.02)
        try:
            for _ in range(int(MAX_WAIT / 0.02)):
                if event.is_set():
                    return
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        raise ConnectionAbortedError("the client hung up")
                except TimeoutError:
                    continue
        finally:
            self.connection.settimeout(MAX_WAIT)
