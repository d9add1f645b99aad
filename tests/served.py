"""Servers on the loopback interface, for tests: applications that uvicorn serves, and other processes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

LONGEST_WAIT = 20.0  # seconds; nothing in a test hangs for longer


class Served:
    """An application that uvicorn serves in a thread."""

    def __init__(self, app: Any) -> None:
        uvicorn = pytest.importorskip("uvicorn")
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        config = uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        self._thread.start()
        end = time.monotonic() + LONGEST_WAIT
        while not self._server.started and time.monotonic() < end:
            time.sleep(0.005)
        assert self._server.started

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(LONGEST_WAIT)
        self._socket.close()
        assert not self._thread.is_alive()


def wait_until_listening(port: int) -> None:
    """Wait until a process accepts connections at a port of this machine."""
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no server listens on port {port}")


def serve_applications() -> Iterator[Callable[[Any], str]]:
    """Yield a function that serves an application until the test ends and returns its URL."""
    running: list[Served] = []

    def start(app: Any) -> str:
        served = Served(app)
        served.start()
        running.append(served)
        return served.url

    yield start
    for served in running:
        served.stop()
