"""Let time pass without waiting, for code that waits in one event loop or by ``time.sleep``."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class VirtualTime:
    """A clock that only moves when code waits for it."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in an event loop whose timers move this clock.

        The coroutine must not wait for threads or sockets, whose time is not that of this clock.
        """
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(self))) as runner:
            return runner.run(coroutine)


class _Selector(selectors.DefaultSelector):
    """A selector that moves a clock instead of waiting for the next timer."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "the coroutine waits for something other than time"
            self._clock.sleep(timeout)
        return ready


@contextmanager
def virtual_time() -> Iterator[VirtualTime]:
    """Replace ``time.monotonic`` and ``time.sleep`` by those of a clock that waits for nothing."""
    clock = VirtualTime()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock.monotonic)
        patch.setattr(time, "sleep", clock.sleep)
        yield clock
