"""One provider, one event loop and one model of each kind for all tests of the matrix."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from loopback import Loopback
from matrix.bench import Bench


@pytest.fixture(scope="session")
def bench(only_loopback: None) -> Iterator[Bench]:
    loop = asyncio.new_event_loop()
    with Loopback() as server:
        bench = Bench(server, loop)
        yield bench
        bench.close()
    loop.close()
