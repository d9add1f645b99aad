"""The event loop on which a server is spoken to, as seen from blocking code and from other loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread", "awaited", "waited_for"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def close(self) -> None:
        """End the loop, and wait for its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def waited_for(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """What a coroutine gives that runs on another thread's loop; this thread waits for it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # it has ended, or nobody waits for it any more
        raise


async def awaited(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """What a coroutine gives that runs on ``loop``, be it the running one or that of another thread."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
