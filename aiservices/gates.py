"""Holds what a model answers until others, who are asked while it works, have said that it may be shown."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from .messages import ChatReply, ReplyDelta

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

__all__ = ["Withheld", "agated", "astream_gated", "stream_gated"]

T = TypeVar("T")
_END: Any = object()


class Withheld(Exception):
    """A reply may not be shown; ``reply`` is the whole of it, None where the request was ended before."""

    def __init__(self, reply: ChatReply | None) -> None:
        super().__init__("the reply may not be shown")
        self.reply = reply


def stream_gated(
    deltas: Generator[ReplyDelta, None, ChatReply], opens: Callable[[], bool]
) -> Generator[ReplyDelta, None, ChatReply]:
    """The pieces of a reply, once ``opens`` has said yes; until then a thread reads and holds them.

    Raises Withheld at once where it says no. What is left while the thread reads it is closed by the thread,
    when the next piece has come.
    """
    from queue import SimpleQueue  # few streams are held

    held: SimpleQueue[ReplyDelta] = SimpleQueue()
    decided = threading.Event()

    def read() -> ChatReply | None:
        while not decided.is_set():
            try:
                held.put(next(deltas))
            except StopIteration as stop:
                whole: ChatReply = stop.value
                return whole
        return None

    reading = _begun(read)
    reading.add_done_callback(lambda _: held.put(_END))
    try:
        if not opens():
            raise Withheld(_come_of(reading))
        decided.set()
        while (delta := held.get()) is not _END:
            yield delta
        reply = reading.result()
        return (yield from deltas) if reply is None else reply
    finally:
        decided.set()
        reading.add_done_callback(lambda _: deltas.close())


async def astream_gated(
    deltas: AsyncGenerator[ReplyDelta, None], opens: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[ReplyDelta, None]:
    """As ``stream_gated``; one task reads it all, since some streams bear no other, and ends with this."""
    import asyncio  # a third of the cost of importing this package, and blocking calls do without

    held: asyncio.Queue[ReplyDelta] = asyncio.Queue()

    async def read() -> ChatReply | None:
        reply = None
        async with aclosing(deltas):
            async for delta in deltas:
                reply = delta.reply
                held.put_nowait(delta)
        return reply

    async with _abegun(read()) as reading:
        reading.add_done_callback(lambda _: held.put_nowait(_END))
        if not await opens():
            raise Withheld(_come_of(reading))
        while (delta := await held.get()) is not _END:
            yield delta
        await reading


async def agated(
    answering: Coroutine[Any, Any, ChatReply], opens: Callable[[], Awaitable[bool]]
) -> ChatReply:
    """A whole reply, once ``opens`` has said yes. Raises Withheld, and ends the request, where it says no."""
    async with _abegun(answering) as reading:
        if not await opens():
            raise Withheld(_come_of(reading))
        return await reading


def _begun(work: Callable[[], T]) -> Future[T]:
    """Work that is under way in a thread, which no program waits for at its end."""
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return future


@asynccontextmanager
async def _abegun(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Work that is under way in a task, which ends with the block."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(0)  # it has begun, even where the verdict comes at once
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _come_of(reading: Future[ChatReply | None] | asyncio.Task[Any]) -> ChatReply | None:
    """The reply, where it is whole by now."""
    failed = not reading.done() or reading.cancelled() or reading.exception() is not None
    return None if failed else reading.result()
