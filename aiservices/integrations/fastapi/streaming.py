"""Sends events while a value is written, and stops the model when nobody listens any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...returns import Shape
from .answers import problem_told
from .calling import called, pieces_of, while_connected
from .contract import Method
from .events import Encoder, EventName, Frame, Growing, Pieces, Telling, error_frame

__all__ = ["EVENT_STREAM", "EventStream", "streamed"]

EVENT_STREAM = "text/event-stream"
_PING = b": ping\n\n"
_PING_SECONDS = 15.0  # proxies give up connections on which nothing is said
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(JSONResponse):
    """What the OpenAPI document takes a response with events for: it has a schema, that of one event."""

    media_type = EVENT_STREAM


class _Events(StreamingResponse):
    """A response with events, which ends its source when the client is gone."""

    def __init__(self, sent: AsyncGenerator[bytes, None], frames: AsyncGenerator[Frame, None]) -> None:
        super().__init__(sent, headers=_HEADERS, media_type=EVENT_STREAM)
        self._sources = (sent, frames)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self.stream_response(send))
        except ClientDisconnect:
            pass  # nobody hears the rest
        finally:
            with anyio.CancelScope(shield=True):
                for source in self._sources:  # the second is not closed by a first that has not begun
                    await source.aclose()
        if self.background is not None:
            await self.background()


async def streamed(
    request: Request,
    method: Method,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    telling: Telling,
    room: anyio.CapacityLimiter,
) -> Response:
    """The events of a call. What fails before there is anything to show is raised."""
    frames = _frames(method, function, args, kwargs, telling, room)
    try:
        first = await while_connected(request.receive, _first(frames))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await frames.aclose()
        raise
    return _Events(_sent(method, first, frames), frames)


async def _frames(
    method: Method,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    telling: Telling,
    room: anyio.CapacityLimiter,
) -> AsyncGenerator[Frame, None]:
    waits = method.returns.asynchronous
    stream = function(*args, **kwargs) if waits else await called(function, args, kwargs, room)
    growing = method.returns.shape is Shape.STREAM
    encoder: Encoder = Growing(method, stream, telling) if growing else Pieces(method)
    iterator = stream.events() if growing else stream
    pieces = pieces_of(iterator, stream, room)
    try:
        async for piece in pieces:
            for frame in encoder.take(piece):
                yield frame
        for frame in encoder.end():
            yield frame
    finally:
        await pieces.aclose()


async def _first(frames: AsyncGenerator[Frame, None]) -> list[Frame]:
    """The events up to the first one that shows something."""
    first = []
    async for frame in frames:
        first.append(frame)
        if frame.name is not EventName.ATTEMPT:
            break
    return first


async def _sent(
    method: Method, first: list[Frame], frames: AsyncGenerator[Frame, None]
) -> AsyncGenerator[bytes, None]:
    """All events as bytes; where the model takes its time, a ping keeps the connection."""
    waiting: asyncio.Future[Frame | None] | None = None
    try:
        for frame in first:
            yield frame.wire
        while True:
            waiting = waiting or asyncio.ensure_future(anext(frames, None))
            done, _ = await asyncio.wait((waiting,), timeout=_PING_SECONDS)
            if not done:
                yield _PING
                continue
            next_frame, waiting = waiting.result(), None
            if next_frame is None:
                return
            yield next_frame.wire
    except Exception as error:
        yield error_frame(problem_told(error, method.where)).wire
    finally:
        with anyio.CancelScope(shield=True):
            if waiting is not None and not waiting.done():
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await frames.aclose()
