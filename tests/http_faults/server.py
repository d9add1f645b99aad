"""What a faulty server does: builders of the actions in the table of faults."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from faulty_server import Action, send, send_and_close, send_and_half_close, send_and_reset
from loopback import MAX_WAIT

from .dialects import Dialect, json_bytes


@dataclass(frozen=True)
class Scene:
    """A call whose server behaves wrongly.

    Attributes:
        dialect: The API format that the server speaks.
        is_stream: True if the call asks for a stream.
        port: The port of the server.
    """

    dialect: Dialect
    is_stream: bool
    port: int

    @property
    def body(self) -> bytes:
        """The right body of the reply."""
        return self.dialect.stream() if self.is_stream else self.dialect.body

    @property
    def content_type(self) -> str:
        return self.dialect.stream_type if self.is_stream else "application/json"


Serve: TypeAlias = Callable[[Scene], Sequence[Action]]  # the last action answers all further requests
Bytes: TypeAlias = bytes | Callable[[Scene], bytes]
ENDS = {"keep": send, "close": send_and_close, "half-close": send_and_half_close, "reset": send_and_reset}


@dataclass(frozen=True)
class Http:
    """An HTTP response; by default the right one.

    Attributes:
        body: The body, or a function that makes it.
        status: The status code and its reason.
        headers: Header lines after the content type.
        content_type: The content type; None for the right one, "" for none.
        framing: "length", "chunked", or "none" for a body that the end of the connection ends.
        length: The value of the Content-Length header, if it is wrong.
        chunk: The size of each chunk; 0 for a single one.
        last_chunk: What follows the chunks.
        before: What precedes the response, such as interim responses.
        after: What follows the response.
        version: The version in the first line.
        end: What happens to the connection then; see ``ENDS``.
        cut: How many bytes at the end of the body are not sent.
        name: Changes the names of headers.
    """

    body: Bytes = field(default=lambda scene: scene.body)
    status: str = "200 OK"
    headers: Sequence[str] = ()
    content_type: str | None = None
    framing: str = "length"
    length: Callable[[int], object] = lambda size: size
    chunk: int = 0
    last_chunk: bytes = b"0\r\n\r\n"
    before: Bytes = b""
    after: bytes = b""
    version: str = "HTTP/1.1"
    end: str = "keep"
    cut: int = 0
    name: Callable[[str], str] = str

    def __call__(self, scene: Scene) -> Sequence[Action]:
        return [ENDS[self.end](self.bytes(scene))]

    def bytes(self, scene: Scene) -> bytes:
        body = bytes_of(self.body, scene)
        content_type = scene.content_type if self.content_type is None else self.content_type
        lines = [f"{self.version} {self.status}"]
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        lines += [line.replace("PORT", str(scene.port)) for line in self.headers]
        if self.framing == "length":
            lines.append(f"Content-Length: {self.length(len(body))}")
        elif self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        if self.cut:
            body = body[: -self.cut]
        if self.framing == "chunked":
            chunks = _split(body, self.chunk or len(body) or 1)
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + self.last_chunk
        lines[1:] = [
            self.name(name) + colon + value
            for name, colon, value in (line.partition(":") for line in lines[1:])
        ]
        head = "\r\n".join([*lines, "", ""]).encode()
        return bytes_of(self.before, scene) + head + body + self.after


def bytes_of(value: Bytes, scene: Scene) -> bytes:
    return value(scene) if callable(value) else value


def error_body(message: str = "No.") -> Callable[[Scene], bytes]:
    """Return a function that makes the body of an error in the dialect of a scene."""
    return lambda scene: json_bytes(scene.dialect.error(message))


def refuse(
    status: str,
    *headers: str,
    body: Bytes | None = None,
    content_type: str = "application/json",
    **more: object,
) -> Http:
    """Return an error response, by default with an error of the provider."""
    chosen = error_body() if body is None else body
    return Http(chosen, status, headers, content_type, **more)  # type: ignore[arg-type]


def in_turn(*steps: Serve) -> Serve:
    """Return what a server does that answers one request after the other."""
    return lambda scene: [action for step in steps for action in step(scene)]


def raw(*pieces: bytes, end: str = "close") -> Serve:
    """Return what a server does that sends these bytes."""
    return lambda scene: [ENDS[end](*pieces)]


def drip(response: Http, size: int, pause: float = 0.002) -> Serve:
    """Return what a server does that sends a response in small packets."""
    return lambda scene: [send(*_split(response.bytes(scene), size), pause=pause)]


def stall(response: Http, cut: int) -> Serve:
    """Return the action of a server that stops sending some bytes before the end of the response."""

    def wait(connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        while connection.recv(65536):
            pass

    def serve(scene: Scene) -> Sequence[Action]:
        data = response.bytes(scene)
        return [lambda connection: wait(connection, data[: len(data) - cut] if cut < len(data) else b"")]

    return serve


def _split(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


class Running:
    """Counts the actions that a server is performing."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def track(self, actions: Iterable[Action]) -> list[Action]:
        return [self._tracked(action) for action in actions]

    def wait(self) -> None:
        """Wait until no action is performed any more."""
        deadline = time.monotonic() + MAX_WAIT
        with self._changed:
            while self._count and self._changed.wait(deadline - time.monotonic()):
                pass

    def _tracked(self, action: Action) -> Action:
        def act(connection: socket.socket) -> None:
            with self._changed:
                self._count += 1
            try:
                action(connection)
            finally:
                with self._changed:
                    self._count -= 1
                    self._changed.notify_all()

        return act
