"""The server-sent events of streaming methods: their names, JSON data and schemas.

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

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_json

from output_parsers.types.node import JsonSchema
from output_parsers.types.records import EnvelopeNode

from ...engine.events import AttemptStarted
from ...engine.streams import Completed, FieldCompleted
from ...models.messages import ReplyDelta
from ...service.compile import ReturnShape
from .codec import write_result
from .contract import Method
from .problems import Problem

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
