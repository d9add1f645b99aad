"""One of a thing for each event loop, closed when the loop ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar
from weakref import finalize, ref

__all__ = ["PerLoop"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    made: T
    closer: AsyncGenerator[None]


class PerLoop(Generic[T]):
    """Connections of an asynchronous client belong to one event loop. So each loop gets one.

    It is closed and forgotten when the loop shuts down its asynchronous generators, as asyncio.run does at
    its end; that of a loop which ended otherwise is abandoned when another loop asks for one. When nobody
    can ask any more, all are closed or abandoned.
    """

    def __init__(
        self,
        make: Callable[[], T],
        close: Callable[[T], Awaitable[None]],
        abandon: Callable[[T], None],
    ) -> None:
        self._make = make
        self._close = close
        self._abandon = abandon
        self._held: dict[asyncio.AbstractEventLoop, _Held[T]] = {}
        self._lock = Lock()
        # not __del__: where all is collected as one cycle, what was made would warn of not being closed
        finalize(self, _let_go, self._held, abandon)

    def __len__(self) -> int:
        return len(self._held)

    async def get(self) -> T:
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is not None:
            return held.made
        self._forget_the_closed()
        made = self._make()
        held = _Held(made, _closes_with_loop(made, self._close, ref(self)))
        with self._lock:
            self._held[loop] = held
        await anext(held.closer)
        return made

    async def aclose(self) -> None:
        """Closes that of the running loop."""
        held = self.forget(asyncio.get_running_loop())
        if held is not None:
            await held.closer.aclose()

    def _forget_the_closed(self) -> None:
        with self._lock:
            closed = [self._held.pop(loop) for loop in tuple(self._held) if loop.is_closed()]
        for held in closed:
            self._abandon(held.made)

    def forget(self, loop: asyncio.AbstractEventLoop) -> _Held[T] | None:
        with self._lock:
            return self._held.pop(loop, None)


def _let_go(held: dict[asyncio.AbstractEventLoop, _Held[T]], abandon: Callable[[T], None]) -> None:
    for loop, one in held.items():
        if loop.is_closed():
            abandon(one.made)
        else:
            loop.call_soon_threadsafe(_close_soon, loop, one.closer)


def _close_soon(loop: asyncio.AbstractEventLoop, closer: AsyncGenerator[None]) -> None:
    loop.create_task(closer.aclose())


async def _closes_with_loop(
    made: T, close: Callable[[T], Awaitable[None]], owner: ref[PerLoop[T]]
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        holder = owner()
        if holder is not None:
            holder.forget(asyncio.get_running_loop())
        await close(made)
