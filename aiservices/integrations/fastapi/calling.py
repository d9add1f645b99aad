"""Calls a method for a request: blocking ones in threads, and none for a client that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect
from starlette.types import Receive

__all__ = ["called", "pieces_of", "while_connected"]

T = TypeVar("T")
_END: Any = object()


async def called(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], room: anyio.CapacityLimiter
) -> Any:
    """What a method gives. A blocking one runs in a thread, of which as many run as there is ``room``."""
    if asyncio.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    # A thread cannot be stopped: where the client is gone, it goes on to its end unheard.
    return await run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True, limiter=room)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives. When the client goes away before, it is cancelled, and ClientDisconnect raised.

    The body of the request has been read: what ``receive`` gives next is that the client has gone.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for one in (task, gone):
            if not one.done():
                one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    if (await receive())[
        "type"
    ] != "http.disconnect":  # of a server that says something else nothing is known
        await asyncio.get_running_loop().create_future()


async def pieces_of(iterator: Any, source: Any, room: anyio.CapacityLimiter) -> AsyncGenerator[Any, None]:
    """What an iterator gives, blocking or async; ``source``, which it is of, is closed whatever happens."""
    asynchronous = hasattr(iterator, "__aiter__")
    try:
        if asynchronous:
            async for piece in iterator:
                yield piece
        else:
            given: Iterator[Any] = iter(iterator)
            while (piece := await _to_the_end(run_sync(next, given, _END, limiter=room))) is not _END:
                yield piece
    finally:
        with anyio.CancelScope(shield=True):
            if asynchronous and hasattr(source, "aclose"):
                await source.aclose()
            elif hasattr(source, "close"):  # a list has nothing to close
                await run_sync(source.close, limiter=room)


async def _to_the_end(step: Coroutine[Any, Any, T]) -> T:
    """What a step in a thread gives. Cancelled, it is waited for: what it works at cannot be closed yet."""
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
