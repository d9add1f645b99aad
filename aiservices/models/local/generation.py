"""One reply being written in a thread of its own, read from a blocking caller or from an event loop."""

from __future__ import annotations

import asyncio
import atexit
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, TypeAlias

from aiservices.errors import ModelTimeoutError

from .grammar import Form
from .runtime import Runtime

__all__ = ["Job", "achunks", "chunks"]

Chunk: TypeAlias = Mapping[str, Any]


class _End:
    """The last thing that the thread says; ``error`` is why it ended, None when the reply is whole."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Job:
    """What to run: the runtime (loaded in the thread, as loading takes seconds), the body, the form.

    ``timeout`` is in seconds from the start of the job, loading and waiting for its turn included.
    """

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        body: Mapping[str, Any],
        form: Form,
        timeout: float | None,
    ) -> None:
        self._runtime, self._body, self._form = runtime, body, form
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, deliver: Callable[[Chunk | _End], None]) -> None:
        # A daemon, because a stream that is left open must not keep the interpreter from ending; what
        # still runs then is stopped by _stop_all.
        self._thread = threading.Thread(
            target=self._run, args=[deliver], name="aiservices-local", daemon=True
        )
        with _starting:
            _running.add(self)
        self._thread.start()

    def _run(self, deliver: Callable[[Chunk | _End], None]) -> None:
        def receive(chunk: Chunk) -> bool:
            deliver(chunk)
            return self._stopped.is_set()

        error: Exception | None = None
        try:
            runtime = self._runtime()
            runtime.chat(self._body, self._form, receive, self._stopped)
        except Exception as raised:
            error = raised
        finally:
            with _starting:
                _running.discard(self)
            deliver(_End(error))

    def stop(self) -> None:
        """Have the thread end at its next token, or its next batch of the prompt."""
        self._stopped.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def left(self) -> float | None:
        """Seconds that are left of the timeout."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def too_late(self) -> ModelTimeoutError:
        return ModelTimeoutError(
            f"the embedded model did not finish within {self._timeout:g} s: raise timeout, lower max_tokens, "
            "or use smaller weights",
            retryable=True,
        )


_running: set[Job] = set()
_starting = threading.Lock()


@atexit.register
def _stop_all() -> None:
    with _starting:
        jobs = list(_running)
    for job in jobs:
        job.stop()
    for job in jobs:
        job.join()


def chunks(job: Job) -> Generator[Chunk, None, None]:
    """The chunks as they come. Closing it stops the job and waits until its thread has ended."""
    inbox: queue.SimpleQueue[Chunk | _End] = queue.SimpleQueue()
    job.start(inbox.put)
    try:
        while True:
            try:
                said = inbox.get(timeout=job.left())
            except queue.Empty:
                raise job.too_late() from None
            if isinstance(said, _End):
                if said.error is not None:
                    raise said.error
                return
            yield said
    finally:
        job.stop()
        job.join()


async def achunks(job: Job) -> AsyncGenerator[Chunk, None]:
    """The same for an event loop. Closing or cancelling it stops the job, which ends by itself."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Chunk | _End] = asyncio.Queue()

    def deliver(said: Chunk | _End) -> None:
        try:
            loop.call_soon_threadsafe(inbox.put_nowait, said)
        except RuntimeError:  # the loop was closed while the thread was still writing
            job.stop()

    job.start(deliver)
    try:
        while True:
            try:
                said = await asyncio.wait_for(inbox.get(), job.left())
            except TimeoutError:
                raise job.too_late() from None
            if isinstance(said, _End):
                if said.error is not None:
                    raise said.error
                return
            yield said
    finally:
        job.stop()
