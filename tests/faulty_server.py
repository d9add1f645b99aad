"""A server on the loopback interface that violates HTTP as a script says."""

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

from loopback import MAX_WAIT

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
BODY = json.dumps(
    {"id": "c", "object": "chat.completion", "model": "m", "choices": [{"message": {"content": "Hi"}}]}
).encode()

Action: TypeAlias = Callable[[socket.socket], None]


def send(*pieces: bytes, pause: float = 0.0) -> Action:
    """Return an action that sends each piece in its own packet and keeps the connection open."""

    def action(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)
            if pause:
                time.sleep(pause)

    return action


def send_and_close(*pieces: bytes) -> Action:
    """Return an action that sends pieces and closes the connection."""

    def action(connection: socket.socket) -> None:
        send(*pieces)(connection)
        connection.shutdown(socket.SHUT_RDWR)

    return action


def send_and_half_close(*pieces: bytes) -> Action:
    """Return an action that sends pieces and closes only its own direction of the connection."""

    def action(connection: socket.socket) -> None:
        send(*pieces)(connection)
        connection.shutdown(socket.SHUT_WR)

    return action


def send_and_reset(*pieces: bytes) -> Action:
    """Return an action that sends pieces and resets the connection."""

    def action(connection: socket.socket) -> None:
        send(*pieces)(connection)
        time.sleep(0.02 if pieces else 0)  # a reset discards data that the client has not read yet
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.detach_and_close()  # type: ignore[attr-defined]

    return action


def send_and_end_tls(*pieces: bytes) -> Action:
    """Return an action that sends pieces and ends TLS, but not the connection below it."""

    def action(connection: socket.socket) -> None:
        send(*pieces)(connection)
        assert isinstance(connection, ssl.SSLSocket)
        try:
            connection.unwrap()
        except OSError:
            pass  # the client closed the connection without an answer

    return action


def open_tunnel(port: int) -> Action:
    """Return an action that answers CONNECT like a proxy, and forwards everything to a local port."""

    def action(connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pipe, args=(upstream, connection), daemon=True)
            back.start()
            _pipe(connection, upstream)
            back.join(MAX_WAIT)

    return action


def _pipe(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def http_response(body: bytes = BODY, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a valid response."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked_response(
    *chunks: bytes, end: bytes = b"0\r\n\r\n", content_type: str = "application/json"
) -> bytes:
    """Return a response with a chunked body."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


class _Socket(socket.socket):
    def detach_and_close(self) -> None:
        # socket.close() waits for files made from the socket; a reset must not
        socket.close(self.detach())


class FaultyServer:
    """Answers each request with the next action of a script, and with the last one for all further requests.

    Attributes:
        requests: The requests that arrived.
        opened: The number of connections so far.
        script: The actions that are left.
    """

    def __init__(self, *script: Action, context: ssl.SSLContext | None = None, port: int = 0) -> None:
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
        """The number of open connections."""
        return len(self._connections)

    def settled(self, connections: int) -> bool:
        """Wait until at most ``connections`` are open; return False on a timeout."""
        deadline = time.monotonic() + MAX_WAIT
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
            thread.join(MAX_WAIT)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            connection = _Socket(fileno=accepted.detach())
            connection.settimeout(MAX_WAIT)
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
                    action = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                action(connection)
        except (OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._connections -= {raw, connection}
            connection.close()


class EagerServer(FaultyServer):
    """Runs its action as soon as a client connects, before it reads a request."""

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
    """Read one request; return b"" if the client closed the connection."""
    received = b""
    while True:
        end = received.find(b"\r\n\r\n")
        if end >= 0:
            length = CONTENT_LENGTH.search(received, 0, end + 2)
            if len(received) >= end + 4 + (int(length[1]) if length else 0):
                return received
        piece = connection.recv(65536)
        if not piece:
            return b""
        received += piece


def split_at(data: bytes, *positions: int) -> Sequence[bytes]:
    """Split the data at these positions."""
    edges = [0, *positions, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if end > start]
