"""Running several flows at the same time, in threads or as asyncio tasks, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Protocol, TypeAlias

from ..engine.effects import Flow, arun, run
from ..engine.results import Answer


class ConcurrentFlows(Protocol):
    """Flows that run at the same time. If one of them fails, no more flows are started.

    The methods of ``ThreadedFlows`` block, those of ``TaskFlows`` are awaited.
    """

    def result(self, index: int, /) -> Answer | Awaitable[Answer]:
        """Wait for the answer of one flow. Raises the error of any flow as soon as it is known."""
        ...

    def stop(self) -> None:
        """Start no more flows, and do not wait for the others."""
        ...

    def join(self) -> Awaitable[None] | None:
        """Wait until no flow runs any more, whether it succeeds or fails."""
        ...


# Starts flows and returns them running.
StartFlows: TypeAlias = Callable[[Sequence[Flow[Answer]]], ConcurrentFlows]


class ThreadedFlows:
    """Runs flows in threads. A flow that runs cannot be stopped."""

    def __init__(self, flows: Sequence[Flow[Answer]], max_concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(min(len(flows), max_concurrency))
        # each thread gets a copy of the context, so that context variables such as spans are visible in it
        self._futures = [self._pool.submit(copy_context().run, run, flow) for flow in flows]
        self._running = set(self._futures)
        for future in self._futures:
            future.add_done_callback(self._stop_after_failure)

    def result(self, index: int, /) -> Answer:
        while self._futures[index] in self._running:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
        return self._futures[index].result()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _stop_after_failure(self, future: Future[Answer]) -> None:
        if not future.cancelled() and future.exception() is not None:
            self.stop()


class TaskFlows:
    """Runs flows as tasks of the running event loop."""

    def __init__(self, flows: Sequence[Flow[Answer]], max_concurrency: int) -> None:
        self._semaphore = asyncio.Semaphore(max_concurrency)
        self._tasks = [asyncio.ensure_future(self._run(flow)) for flow in flows]
        self._running = set(self._tasks)
        for task in self._tasks:
            task.add_done_callback(self._stop_after_failure)

    async def result(self, index: int, /) -> Answer:
        while self._tasks[index] in self._running:
            done, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():  # cancelled because of the error of another task, which is raised
                    task.result()
        return self._tasks[index].result()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def join(self) -> None:
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, flow: Flow[Answer]) -> Answer:
        async with self._semaphore:
            return await arun(flow)

    def _stop_after_failure(self, task: asyncio.Task[Answer]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.stop()
