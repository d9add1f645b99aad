"""Fixtures with every conversation store whose package or server is available."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aiservices.memory import (
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    RedisChatMemoryStore,
    SqlAlchemyChatMemoryStore,
    SqliteChatMemoryStore,
)

KINDS = ["in_memory", "sqlite", "sqlalchemy", "redis"]
Opened = Callable[[], ChatMemoryStore]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Redis server on a socket for this test run; skip the tests if Redis is not installed."""
    pytest.importorskip("redis", reason="the extra redis is not installed")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server on the PATH (apt install redis-server)")
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "redis.sock"
    settings = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    server = subprocess.Popen([program, *settings], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert server.poll() is None, "the redis-server ended"
            assert time.monotonic() < deadline, "the redis-server did not start"
            time.sleep(0.02)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Return a function that opens stores with shared conversations, like those of several processes."""
    kind, made = request.param, []
    memory = InMemoryChatMemoryStore()
    if kind == "sqlalchemy":
        pytest.importorskip("sqlalchemy", reason="the extra sqlalchemy is not installed")
    url = request.getfixturevalue("redis_url") if kind == "redis" else ""

    def opening() -> Any:
        if kind == "in_memory":
            return memory
        if kind == "sqlite":
            made.append(SqliteChatMemoryStore(tmp_path / "memory.db"))
        elif kind == "sqlalchemy":
            made.append(SqlAlchemyChatMemoryStore(f"sqlite:///{tmp_path}/alchemy.db"))
        else:
            made.append(RedisChatMemoryStore(url, prefix=f"{tmp_path}:"))
        return made[-1]

    yield opening
    for store in made:
        with closing(store):
            pass
