"""Build the HTTP responses for service method calls: JSON, a JSON error, or a stream of events.

The endpoints of ``router`` and of the playground share this module.
@@MERGED The server-sent events of streaming methods: their names, JSON data and schemas.

| Return type | Events |
|---|---|
| text chunks | ``text`` (a chunk as JSON string) … ``end`` |
| items | ``item`` (a value) or ``unfit`` (an item that cannot be read) … ``end`` |
| a stream of one value | ``attempt`` (discard what came before), ``snapshot``, ``field`` … ``result`` |

Every stream may end with ``error`` instead, whose data is a problem. A stream without any of these last
events was cut off.

The ids of the events number them. A browser that reconnects after the end of a stream sends the last id, by
which the server recognizes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from enum import StrEnum
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio
from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from output_parsers.types.node import JsonSchema
from output_parsers.types.records import EnvelopeNode

from ...engine.streams import AttemptStarted, Completed, FieldCompleted
from ...models.messages import ReplyDelta
from ...service.compile import ReturnShape
from .calls import NO_STORE, ApprovalStates, MethodCall, Threads, iterate, log_problem
from .codec import write_result
from .contract import Method
from .problems import Problem, WrongPart, argument_problem

_EMPTY_SNAPSHOT = '{"value":null,"done":false}'


class EventName(StrEnum):
    """The names of the server-sent events that streaming service methods send to HTTP clients."""

    TEXT = "text"
    ITEM = "item"
    UNFIT = "unfit"
    END = "end"
    ATTEMPT = "attempt"
    SNAPSHOT = "snapshot"
    DELTA = "delta"
    FIELD = "field"
    RESULT = "result"
    ERROR = "error"
    STEP = "step"  # of a call, on the page for trying services only


class StreamMode(StrEnum):
    """How a stream sends an incomplete value: as JSON snapshots or as the model's text."""

    SNAPSHOTS = "snapshots"
    DELTAS = "deltas"


class SseEvent(NamedTuple):
    """One server-sent event.

    Attributes:
        name: The event's name.
        data: The event's data, as JSON text without line breaks.
    """

    name: EventName
    data: str

    def to_bytes(self, event_id: int | None = None) -> bytes:
        """Return the event as bytes in the text format of server-sent events."""
        last_line = "" if event_id is None else f"id: {event_id}\n"
        return f"event: {self.name}\ndata: {self.data}\n{last_line}\n".encode()


class EventEncoder(Protocol):
    """Converts the items that a streaming service method yields to server-sent events."""

    def encode(self, item: Any) -> Iterator[SseEvent]:
        """Yield the server-sent events for one item from a streaming service method."""
        ...

    def finish(self) -> Iterator[SseEvent]:
        """Yield the server-sent events to send after the last item of a streaming service method."""
        ...


class ItemEncoder:
    """Converts text chunks or list items from a service method's iterator to server-sent events."""

    def __init__(self, method: Method) -> None:
        self._codec = method.value_codec
        self._is_text = method.returns.shape is ReturnShape.TEXT_STREAM

    def encode(self, item: Any) -> Iterator[SseEvent]:
        if self._is_text:
            yield SseEvent(EventName.TEXT, _json(item))
            return
        from output_parsers.streaming import ItemError  # late: most services do not stream items

        if isinstance(item, ItemError):
            yield SseEvent(EventName.UNFIT, _json(item))
        else:
            yield SseEvent(EventName.ITEM, self._codec.write(item))

    def finish(self) -> Iterator[SseEvent]:
        yield SseEvent(EventName.END, "{}")


class StreamEncoder:
    """Converts the events of a service method's stream to server-sent events, with partial values."""

    def __init__(self, method: Method, stream: Any, mode: StreamMode) -> None:
        self._codec = method.value_codec
        self._stream = stream
        self._mode = mode
        self._answer_text: Callable[[ReplyDelta], str] = str
        self._last_snapshot = _EMPTY_SNAPSHOT

    def encode(self, item: Any) -> Iterator[SseEvent]:
        if isinstance(item, AttemptStarted):
            self._answer_text, self._last_snapshot = item.output_format.text_extractor(), _EMPTY_SNAPSHOT
            yield SseEvent(EventName.ATTEMPT, _json(self._attempt_data(item)))
        elif isinstance(item, Completed):
            yield SseEvent(EventName.RESULT, write_result(item.result, self._codec))
        elif isinstance(item, FieldCompleted):
            if self._mode is StreamMode.SNAPSHOTS:
                yield SseEvent(EventName.FIELD, _json({"name": item.name}))
        elif isinstance(item, ReplyDelta):
            text = self._answer_text(item)
            if text and self._mode is StreamMode.DELTAS:
                yield SseEvent(EventName.DELTA, _json({"text": text}))
            elif text:
                yield from self._changed_snapshot()

    def _attempt_data(self, event: AttemptStarted) -> dict[str, object]:
        data: dict[str, object] = {"number": event.number, "model": event.model, "strategy": event.strategy}
        if self._mode is StreamMode.SNAPSHOTS:
            return data
        # With deltas the client parses the text itself, so it must know whether the value is inside an
        # envelope.
        parser = event.output_format.parser
        node = None if parser is None else parser.node
        field = node.field if isinstance(node, EnvelopeNode) else None
        return {**data, "field": field, "shown": event.output_format.is_streamed and parser is not None}

    def _changed_snapshot(self) -> Iterator[SseEvent]:
        snapshot = self._stream.snapshot
        data = _json({"value": snapshot.to_python(), "done": snapshot.done})
        # Many deltas change nothing that can be shown yet, such as the first half of a key.
        if data != self._last_snapshot:
            self._last_snapshot = data
            yield SseEvent(EventName.SNAPSHOT, data)

    def finish(self) -> Iterator[SseEvent]:
        yield from ()  # the result was the last event


def error_event(problem: Problem) -> SseEvent:
    """Return the server-sent event that reports an error and ends the stream."""
    return SseEvent(EventName.ERROR, problem.json_bytes().decode())


def event_schema(method: Method) -> dict[str, Any]:
    """Return the JSON Schema of a method's server-sent events, with one alternative for each event name."""
    shape = method.returns.shape
    data_schemas: dict[str, JsonSchema]
    if shape is ReturnShape.STREAM:
        integer, string = {"type": "integer"}, {"type": "string"}
        data_schemas = {
            EventName.ATTEMPT: _object_schema(
                "a request to a model starts: discard the snapshots and deltas before it",
                {"number": integer, "model": string, "strategy": string},
            ),
            EventName.SNAPSHOT: _object_schema(
                "the value as far as it is known", {"value": {}, "done": {"type": "boolean"}}
            ),
            EventName.FIELD: _object_schema(
                "a field or item is complete", {"name": {"type": ["string", "integer"]}}
            ),
            EventName.DELTA: _object_schema("the next text of the model", {"text": string}),
            EventName.RESULT: method.result_codec.schema,
        }
    elif shape is ReturnShape.ITEMS:
        data_schemas = {EventName.ITEM: method.value_codec.schema}
        if method.returns.keeps_errors:
            data_schemas[EventName.UNFIT] = _object_schema(
                "an item that cannot be read, and why",
                {"index": {"type": "integer"}, "text": {"type": "string"}, "problems": {"type": "array"}},
            )
    else:
        data_schemas = {EventName.TEXT: {"type": "string"}}
    if shape is not ReturnShape.STREAM:
        data_schemas[EventName.END] = _object_schema("the stream is complete", {})
    data_schemas[EventName.ERROR] = _object_schema(
        "a problem, as in the responses with an error status", {"type": {"type": "string"}}
    )
    # References in the schemas of the data are relative to the root, so their definitions move there.
    definitions = {
        name: definition
        for schema in data_schemas.values()
        for name, definition in schema.get("$defs", {}).items()
    }
    alternatives = [
        _event_schema(name, {key: value for key, value in schema.items() if key != "$defs"})
        for name, schema in data_schemas.items()
    ]
    return {"oneOf": alternatives, "$defs": definitions}


def _object_schema(description: str, properties: dict[str, object]) -> JsonSchema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }


def _event_schema(name: str, data_schema: JsonSchema) -> JsonSchema:
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": data_schema}
    properties = {"event": {"const": str(name)}, "data": data}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


def _json(value: object) -> str:
    # NaN and Infinity are written as such. A client could not tell null from a missing value.
    return to_json(value, inf_nan_mode="constants").decode()


T = TypeVar("T")

EVENT_STREAM = "text/event-stream"
# X-Accel-Buffering keeps nginx from holding events back.
_EVENT_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_PING = b": ping\n\n"
_PING_SECONDS = 15.0  # proxies close silent connections, nginx after 60 seconds


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


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
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

    ``sources`` are further generators to close: closing a generator that has not started does not close the
    generator from which it reads.
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None], *sources: AsyncGenerator[Any, None]) -> None:
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


async def stream_method(
    request: Request,
    method: Method,
    call: MethodCall,
    mode: StreamMode,
    threads: Threads,
    approvals: ApprovalStates | None = None,
    *,
    is_large: bool,
) -> Response:
    """Call a streaming service method, and return an HTTP response that sends its server-sent events.

    A request with a ``Last-Event-ID`` asks to continue an earlier stream, which is not possible. It gets the
    status 204, which tells a browser's ``EventSource`` not to reconnect.

    An error before the first visible event is raised, so that it can still become an error status. Later
    errors become the last event.
    """
    # An EventSource reconnects also after the last event. Without this, each time would call the model again.
    if "last-event-id" in request.headers:
        return Response(status_code=204, headers=NO_STORE)
    # Until the first event is sent, the status of the response is still open.
    events = _events(method, call, mode, threads, is_large=is_large)
    try:
        first = await cancel_on_disconnect(request.receive, _first_events(events))
    # Also after a cancellation: otherwise the request to the model would continue.
    except BaseException:
        with anyio.CancelScope(shield=True):
            await events.aclose()
        raise
    return EventStreamResponse(_chunks(method, first, events, approvals), events)


async def _events(
    method: Method, call: MethodCall, mode: StreamMode, threads: Threads, *, is_large: bool
) -> AsyncGenerator[SseEvent, None]:
    if method.returns.is_async:
        if is_large:
            await run_sync(call.prepare)
        stream = call.start()
    else:
        stream = await call.run(method.qualname, threads)
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
    method: Method,
    first: list[SseEvent],
    events: AsyncGenerator[SseEvent, None],
    approvals: ApprovalStates | None,
) -> AsyncGenerator[bytes, None]:
    """Yield server-sent events as bytes, with a ping after every 15 seconds without an event."""
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
        yield error_event(log_problem(error, method.qualname, approvals)).to_bytes(next(ids))
    finally:
        with anyio.CancelScope(shield=True):
            if pending is not None and not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
            await events.aclose()
