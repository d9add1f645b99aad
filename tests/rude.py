"""A server on the loopback interface that breaks HTTP wherever a script says so."""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Self, TypeAlias

from loopback import LONGEST_WAIT

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
BODY = json.dumps(
    {"id": "c", "object": "chat.completion", "model": "m", "choices": [{"message": {"content": "Hi"}}]}
).encode()

Act: TypeAlias = Callable[[socket.socket], None]


def sends(*pieces: bytes, pause: float = 0.0) -> Act:
    """Sends pieces as packets of their own and keeps the connection."""

    def act(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
            if pause:
                time.sleep(pause)

    return act


def hangs_up(*pieces: bytes) -> Act:
    """Sends pieces, and closes the connection properly."""

    def act(connection: socket.socket) -> None:
        sends(*pieces)(connection)
        connection.shutdown(socket.SHUT_RDWR)

    return act


def half_closes(*pieces: bytes) -> Act:
    """Sends pieces, and sends no more."""

    def act(connection: socket.socket) -> None:
        sends(*pieces)(connection)
        connection.shutdown(socket.SHUT_WR)

    return act


def resets(*pieces: bytes) -> Act:
    """Sends pieces, and resets the connection."""

    def act(connection: socket.socket) -> None:
        sends(*pieces)(connection)
        time.sleep(0.02 if pieces else 0)  # a reset overtakes what was not read yet
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.detach_and_close()  # type: ignore[attr-defined]

    return act


def tunnels(port: int) -> Act:
    """What a proxy does with CONNECT, wherever it was to lead."""

    def act(connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pipe, args=(upstream, connection), daemon=True)
            back.start()
            _pipe(connection, upstream)
            back.join(LONGEST_WAIT)

    return act


def _pipe(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def whole(body: bytes = BODY, status: str = "200 OK", headers: str = "") -> bytes:
    """A proper response."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n", content_type: str = "application/json") -> bytes:
    """A response whose body comes in chunks."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


class _Socket(socket.socket):
    def detach_and_close(self) -> None:
        # the socket module waits for files that were made of it; a reset does not
        socket.close(self.detach())


class RudeServer:
    """Answers request after request by the acts of a script, the last one again and again.

    ``requests`` holds what arrived, ``opened`` counts connections, ``open`` those that are open now.
    """

    def __init__(self, *script: Act, context: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.requests: list[bytes] = []
        self.opened = 0
        self.script = list(script)
        self._context = context
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", port), backlog=512)
        self._listener = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    @property
    def base_url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def open(self) -> int:
        return len(self._connections)

    def settled(self, connections: int) -> bool:
        """Whether no more than so many connections are left open, after some patience."""
        deadline = time.monotonic() + LONGEST_WAIT
        while self.open > connections and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.open <= connections

    def paths(self) -> list[str]:
        return [request.split(b" ", 2)[1].decode() for request in self.requests]

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in tuple(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in [self._listener, *self._threads]:
            thread.join(LONGEST_WAIT)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            connection = _Socket(fileno=accepted.detach())
            connection.settimeout(LONGEST_WAIT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            with self._lock:
                self.opened += 1
                self._connections.add(connection)
            thread.start()

    def _serve(self, raw: socket.socket) -> None:
        connection = raw
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._connections ^= {raw, connection}
            while request := _request(connection):
                with self._lock:
                    self.requests.append(request)
                    act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                act(connection)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._connections -= {raw, connection}
            connection.close()


class HastyServer(RudeServer):
    """Acts as soon as somebody connects, and reads only then."""

    def _serve(self, raw: socket.socket) -> None:
        try:
            self.script[0](raw)
            while raw.recv(65536):
                pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(raw)
            raw.close()


def _request(connection: socket.socket) -> bytes:
    """One whole request; b"" when the client has left."""
    seen = b""
    while True:
        end = seen.find(b"\r\n\r\n")
        if end >= 0:
            length = LENGTH.search(seen, 0, end + 2)
            if len(seen) >= end + 4 + (int(length[1]) if length else 0):
                return seen
        piece = connection.recv(65536)
        if not piece:
            return b""
        seen += piece


def cut(data: bytes, *places: int) -> Sequence[bytes]:
    """The data in pieces that end at these places."""
    edges = [0, *places, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if end > start]
