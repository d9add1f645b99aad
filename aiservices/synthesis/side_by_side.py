"""Flows that run at the same time, in threads or as tasks, and hand over their answers in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Protocol, TypeAlias

from ..flow import Flow, arun, run
from ..pipeline import Answer

__all__ = ["Runs", "SideBySide", "Tasks", "Threads"]


class Runs(Protocol):
    """Flows that have begun. Where one fails, those that wait for their turn are not begun any more."""

    def outcome(self, number: int, /) -> Answer | Awaitable[Answer]:
        """The answer of one flow, by its place. Raises the error of any of them, as soon as it is there."""
        ...

    def stop(self) -> None:
        """Begin no more of them, and wait for none."""
        ...

    def ended(self) -> Awaitable[None] | None:
        """Wait until none of them runs any more, however it ends."""
        ...


# Begins flows.
SideBySide: TypeAlias = Callable[[Sequence[Flow[Answer]]], Runs]


class Threads:
    """Flows in threads. What runs in one cannot be stopped: it is left to come to its end."""

    def __init__(self, flows: Sequence[Flow[Answer]], at_once: int) -> None:
        self._pool = ThreadPoolExecutor(min(len(flows), at_once))
        self._runs = [self._pool.submit(copy_context().run, run, flow) for flow in flows]
        self._open = set(self._runs)
        for one in self._runs:
            one.add_done_callback(self._noted)

    def outcome(self, number: int, /) -> Answer:
        while self._runs[number] in self._open:
            ended, self._open = wait(self._open, return_when=FIRST_COMPLETED)
            for one in ended:
                one.result()
        return self._runs[number].result()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ended(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _noted(self, one: Future[Answer]) -> None:
        if not one.cancelled() and one.exception() is not None:
            self.stop()


class Tasks:
    """Flows as tasks of the running event loop."""

    def __init__(self, flows: Sequence[Flow[Answer]], at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._runs = [asyncio.ensure_future(self._run(flow)) for flow in flows]
        self._open = set(self._runs)
        for one in self._runs:
            one.add_done_callback(self._noted)

    async def outcome(self, number: int, /) -> Answer:
        while self._runs[number] in self._open:
            ended, self._open = await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                if not one.cancelled():  # that follows from the error of another one
                    one.result()
        return self._runs[number].result()

    def stop(self) -> None:
        for one in self._runs:
            one.cancel()

    async def ended(self) -> None:
        self.stop()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def _run(self, flow: Flow[Answer]) -> Answer:
        async with self._room:
            return await arun(flow)

    def _noted(self, one: asyncio.Task[Answer]) -> None:
        if not one.cancelled() and one.exception() is not None:
            self.stop()
