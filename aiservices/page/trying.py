"""The endpoints of the page: a method is run and told of, or only what it would send is shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
from anyio.to_thread import run_sync
from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..integrations.fastapi.answers import ProblemError, json_response, problem_told
from ..integrations.fastapi.calling import called, pieces_of, while_connected
from ..integrations.fastapi.contract import Method
from ..integrations.fastapi.endpoints import Endpoints
from ..integrations.fastapi.events import EventName, Frame, Growing, Pieces, Telling, error_frame
from ..integrations.fastapi.streaming import EVENT_STREAM
from ..methods import is_planned
from ..previewing import preview
from ..returns import Shape
from ..streams import Completed
from .run import Run
from .said import preview_json

__all__ = ["Previews", "Runs"]

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Runs(Endpoints):
    """Runs the method. The answer is events for every shape: those of the shape, and after ``result`` or
    ``error`` the account of the call with ``end``."""

    async def _answer(
        self, request: Request, service: Any, given: Mapping[str, Any], telling: Telling
    ) -> Response:
        function = getattr(service, self._method.name)
        run = Run(function, *self._method.bound(given), planned=is_planned(function))
        return _Events(_frames(self._method, run, self._room))


class Previews(Endpoints):
    """Tells what the method would send, and asks no model."""

    async def _answer(
        self, request: Request, service: Any, given: Mapping[str, Any], telling: Telling
    ) -> Response:
        args, kwargs = self._method.bound(given)
        function = getattr(service, self._method.name)
        try:
            # what renders a prompt may be code of the user's that blocks
            shown = await run_sync(partial(preview, function, *args, **kwargs), limiter=self._room)
        except Exception as error:
            raise ProblemError(problem_told(error, self._method.where)) from error
        return json_response(preview_json(shown))


class _Events(StreamingResponse):
    """Events that end with their listener: when the page is left, the call is ended."""

    def __init__(self, frames: AsyncGenerator[Frame, None]) -> None:
        self._frames = frames
        super().__init__((frame.wire async for frame in frames), headers=_HEADERS, media_type=EVENT_STREAM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await while_connected(receive, self.stream_response(send))
        except ClientDisconnect:
            pass  # nobody hears the rest
        finally:
            with anyio.CancelScope(shield=True):
                await self._frames.aclose()


async def _frames(method: Method, run: Run, room: anyio.CapacityLimiter) -> AsyncGenerator[Frame, None]:
    try:
        async with aclosing(_answered(method, run, room)) as frames:
            async for frame in frames:
                yield frame
    except Exception as error:
        yield error_frame(problem_told(error, method.where))
    yield Frame(EventName.END, run.account_json())


async def _answered(method: Method, run: Run, room: anyio.CapacityLimiter) -> AsyncGenerator[Frame, None]:
    came = await called(run.function, [], {}, room)
    if not method.streams:
        yield Frame(EventName.RESULT, run.finished(came, method.value))
        return
    growing = method.returns.shape is Shape.STREAM
    encoder = Growing(method, came, Telling.SNAPSHOTS) if growing else Pieces(method)
    async with aclosing(pieces_of(came.events() if growing else came, came, room)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completed):
                yield Frame(EventName.RESULT, run.finished(piece.result, method.value))
                continue
            if not growing:
                run.pieces.append(piece)
            for frame in encoder.take(piece):
                yield frame
