"""Run async functions of users, such as async tools, in blocking calls: on a loop in the background."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable
from contextvars import ContextVar, copy_context
from typing import TypeVar

T = TypeVar("T")
# True in what the loop runs. A blocking call there holds up the loop, so it cannot wait for it.
_RUNS_IN_BACKGROUND: ContextVar[bool] = ContextVar("aiservices_runs_in_background", default=False)


class _BackgroundLoop:
    """An event loop that runs in a thread of its own until the process ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="aiservices-async", daemon=True)
        self._thread.start()
        atexit.register(self._close)

    def _close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self.loop.close()


_lock = threading.Lock()
_background: _BackgroundLoop | None = None


def _forget() -> None:
    """Let a forked process, which does not have the thread, begin with a loop of its own."""
    global _lock, _background
    if _background is not None:
        atexit.unregister(_background._close)
    _lock, _background = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_in_background(coroutine: Awaitable[T]) -> T:
    """Run a coroutine on the event loop of the process for blocking calls, and return its result.

    The coroutine sees the context variables of the caller. It is cancelled if the wait is interrupted.
    """
    if _RUNS_IN_BACKGROUND.get():  # a blocking call of an async tool
        return _run_in_thread(coroutine)
    global _background
    with _lock:
        background = _background = _background or _BackgroundLoop()
    # asyncio copies the context of this thread.
    future = asyncio.run_coroutine_threadsafe(_marked(coroutine), background.loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def _marked(coroutine: Awaitable[T]) -> T:
    _RUNS_IN_BACKGROUND.set(True)
    return await coroutine


def _run_in_thread(coroutine: Awaitable[T]) -> T:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, _marked(coroutine)).result()
