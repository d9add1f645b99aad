"""Build the HTTP responses for service method calls: JSON, a JSON error, or a stream of events.

The endpoints of ``router`` and of the playground share this module.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import aclosing
from itertools import count
from typing import TypeAlias, TypeVar

import anyio
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ...journal import CallInProgressError
from ...remote.calls import ApprovalStates, MethodCall, Threads, iterate, log_problem
from ...remote.contract import (
    EventEncoder,
    EventId,
    EventName,
    ItemEncoder,
    Method,
    SseEvent,
    StreamEncoder,
    StreamMode,
    error_event,
)
from ...remote.problems import Problem, WrongPart, argument_problem
from ...remote.request_check import NO_STORE
from ...remote.resumable_streams import (
    DEFAULT_KEEP_SECONDS,
    LAST_EVENTS,
    Received,
    ResumableStream,
    ResumableStreams,
    StreamReader,
    after,
)
from ...service.signatures import ReturnShape

T = TypeVar("T")
LOGGER = logging.getLogger("aiservices.integrations.fastapi")

EVENT_STREAM = "text/event-stream"
# X-Accel-Buffering keeps nginx from holding events back.
_EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PING = b": ping\n\n"
_PING_SECONDS = 15.0  # proxies close silent connections, nginx after 60 seconds
_MAX_WAIT_SECONDS = DEFAULT_KEEP_SECONDS + 10  # for a call that runs in another process
_WAIT_STEP = 0.25  # seconds


# --- JSON and problems ---


def json_response(text: str) -> Response:
    """Return an HTTP response whose body is the given JSON text."""
    return Response(text, media_type="application/json", headers=NO_STORE)


def validation_problem(error: RequestValidationError, qualname: str) -> Problem:
    """Return the JSON error for an HTTP request that FastAPI rejected, for example because it had no body."""
    parts = []
    for details in error.errors():
        origin, *steps = details["loc"]
        if origin == "body":
            message = "the body is missing; send a JSON object of the arguments"
            parts.append(WrongPart(path="$", message=message))
        else:
            path = ".".join(map(str, (origin, *steps)))
            parts.append(WrongPart(path=path, message=details["msg"]))
    return argument_problem(parts, qualname)


async def cancel_on_disconnect(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """Await a coroutine, or cancel it and raise ClientDisconnect if the HTTP client disconnects.

    Call it after the body of the request was read: then the only message left to receive is the disconnect.
    """
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for future in (task, disconnect):
            if not future.done():
                future.cancel()
        await asyncio.gather(task, disconnect, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    """Wait until the HTTP client disconnects."""
    message = await receive()
    if message["type"] != "http.disconnect":
        # The server does not follow the ASGI protocol. Never return, so that no call is cancelled by mistake.
        await asyncio.get_running_loop().create_future()


# --- Event streams ---


class DocumentedEventStream(JSONResponse):
    """Describes streaming endpoints in the OpenAPI document; no response of this class is ever sent.

    FastAPI documents a schema only for subclasses of JSONResponse. The route itself returns
    EventStreamResponse.
    """

    media_type = EVENT_STREAM


class EventStreamResponse(StreamingResponse):
    """Sends server-sent events as an HTTP response, and stops generating them if the client disconnects.

    ``sources`` are further generators and readers to close: closing a generator that has not started does not
    close what it reads from.
    """

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], *sources: AsyncGenerator[object, None] | StreamReader
    ) -> None:
        super().__init__(chunks, headers=_EVENT_HEADERS, media_type=EVENT_STREAM)
        self._generators = (chunks, *sources)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await cancel_on_disconnect(receive, self.stream_response(send))
        except ClientDisconnect:
            pass  # the client has gone, so the error cannot be reported to it
        finally:
            with anyio.CancelScope(shield=True):
                for generator in self._generators:
                    await generator.aclose()
        if self.background is not None:
            await self.background()


Start: TypeAlias = Callable[[MethodCall], AsyncGenerator[SseEvent, None]]
Report: TypeAlias = Callable[[Exception], SseEvent]


async def stream_method(
    request: Request,
    method: Method,
    call: MethodCall,
    mode: StreamMode,
    threads: Threads,
    streams: ResumableStreams,
    approvals: ApprovalStates | None = None,
    *,
    is_large: bool,
) -> Response:
    """Call a streaming service method, and return an HTTP response that sends its server-sent events."""

    def start(call: MethodCall) -> AsyncGenerator[SseEvent, None]:
        return _events(method, call, mode, threads, is_large=is_large)

    def report(error: Exception) -> SseEvent:
        return error_event(log_problem(error, method.qualname, LOGGER, approvals))

    return await stream_events(request, call, (method.qualname, mode), start, report, streams)


async def stream_events(
    request: Request,
    call: MethodCall,
    kind: object,
    start: Start,
    report: Report,
    streams: ResumableStreams,
    last_events: Collection[EventName] = LAST_EVENTS,
) -> Response:
    """Return an HTTP response that sends the server-sent events of a call.

    A request with a ``Last-Event-ID`` continues a stream that is kept, or the stream of a durable call. If
    there is nothing to continue, it gets the status 204, which tells a browser's ``EventSource`` not to
    reconnect.

    An error before the first visible event is raised, so that it can still become an error status. Later
    errors become the last event.

    Args:
        request: The HTTP request.
        call: The call.
        kind: The method, and what else distinguishes its streams.
        start: Returns the events of a call.
        report: Returns the event for an error.
        streams: The streams that are kept.
        last_events: The names of events that end a stream.
    """
    header = request.headers.get("last-event-id")
    last = None if header is None else EventId.parse(header)
    arguments = kind, call.arguments
    stream = streams.find(call, last, arguments)
    number = None if stream is None else stream.number_after(last)
    # An EventSource reconnects also after the last event. Without this, each reconnection would call the
    # model again.
    is_there = number is not None or call.durable_id is not None
    can_continue = last is not None and not last.is_last and is_there
    if header is not None and not can_continue:
        return Response(status_code=204, headers=NO_STORE)
    if stream is None or number is None:
        seconds = streams.seconds_for(call)
        if not seconds:
            return await _plain_stream(request, start(call), report)
        received = Received()
        events = start(call) if last is None else after(last, _start_when_free(call, start), received)
        stream = ResumableStream(events, report, received, seconds, last_events, last)
        streams.add(call, arguments, stream)
        number = 0
    reader = stream.begin_reading()
    try:
        await cancel_on_disconnect(request.receive, stream.wait_until_visible())
    except BaseException:
        await reader.aclose()
        raise
    return EventStreamResponse(stream.read(number, _PING, _PING_SECONDS), reader)


async def _plain_stream(request: Request, events: AsyncGenerator[SseEvent, None], report: Report) -> Response:
    """Send a stream that ends when its caller disconnects."""
    # Until the first event is sent, the status of the response is still open.
    try:
        first = await cancel_on_disconnect(request.receive, _first_events(events))
    # Also after a cancellation: otherwise the request to the model would continue.
    except BaseException:
        with anyio.CancelScope(shield=True):
            await events.aclose()
        raise
    return EventStreamResponse(_chunks(first, events, report), events)


async def _start_when_free(call: MethodCall, start: Start) -> AsyncGenerator[SseEvent, None]:
    """Yield the events of a durable call that another process may still be working on."""
    end = time.monotonic() + _MAX_WAIT_SECONDS
    has_begun = False
    while True:
        try:
            async with aclosing(start(call)) as events:
                async for event in events:
                    has_begun = True
                    yield event
            return
        except CallInProgressError:
            if has_begun or time.monotonic() > end:
                raise
        await asyncio.sleep(_WAIT_STEP)
        call = call.again()


async def _events(
    method: Method, call: MethodCall, mode: StreamMode, threads: Threads, *, is_large: bool
) -> AsyncGenerator[SseEvent, None]:
    is_async = method.returns.is_async
    stream = await call.open_stream(method.qualname, threads, is_async=is_async, is_large=is_large)
    is_stream = method.returns.shape is ReturnShape.STREAM
    encoder: EventEncoder = StreamEncoder(method, stream, mode) if is_stream else ItemEncoder(method)
    items = iterate(stream.events() if is_stream else stream, stream, threads.limiter)
    try:
        async for item in items:
            for event in encoder.encode(item):
                yield event
        for event in encoder.finish():
            yield event
    finally:
        await items.aclose()


async def _first_events(events: AsyncGenerator[SseEvent, None]) -> list[SseEvent]:
    """Return the server-sent events up to and including the first one that contains part of the answer."""
    first = []
    async for event in events:
        first.append(event)
        if event.name is not EventName.ATTEMPT:
            break
    return first


async def _chunks(
    first: list[SseEvent], events: AsyncGenerator[SseEvent, None], report: Report
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events as bytes, with a ping if there was no event for 15 seconds."""
    pending: asyncio.Future[SseEvent | None] | None = None
    ids = count(1)
    try:
        for event in first:
            yield event.to_bytes(next(ids))
        while True:
            # Unlike wait_for, asyncio.wait does not cancel the future after a timeout, so no event is lost.
            pending = pending or asyncio.ensure_future(anext(events, None))
            done, _ = await asyncio.wait((pending,), timeout=_PING_SECONDS)
            if not done:
                yield _PING
                continue
            next_event, pending = pending.result(), None
            if next_event is None:
                return
            yield next_event.to_bytes(next(ids))
    except Exception as error:
        yield report(error).to_bytes(next(ids))
    finally:
        with anyio.CancelScope(shield=True):
            if pending is not None and not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
            await events.aclose()
