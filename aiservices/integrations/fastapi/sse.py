"""What is sent of a value while it is written: Server-Sent Events, each with its name and its JSON.

| Shape | Events |
|---|---|
| text | ``text`` (a piece, a JSON string) … ``end`` |
| items | ``item`` (a value) or ``unfit`` (one that is none) … ``end`` |
| growing value | ``attempt`` (forget what was shown), ``snapshot``, ``field`` (it is complete) … ``result`` |

Any of them may end with ``error``, a problem. A stream that ends with neither was cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from pydantic_core import to_json

from output_parsers.types.records import EnvelopeNode

from ...engine.results import Shape
from ...engine.streams import AttemptStarted, Completed, FieldCompleted
from ...models.messages import ReplyDelta
from .contract import Method, write_result
from .problems import Problem

_ATTEMPT = {"number": {"type": "integer"}, "model": {"type": "string"}, "strategy": {"type": "string"}}
_UNFIT = {"index": {"type": "integer"}, "text": {"type": "string"}, "problems": {"type": "array"}}
_NOTHING_YET = '{"value":null,"done":false}'  # a snapshot that is not worth an event


class EventName(StrEnum):
    """The names of the events."""

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


class Telling(StrEnum):
    """How a growing value is told: as JSON of what is there, or as the pieces of text that a model writes."""

    SNAPSHOTS = "snapshots"
    DELTAS = "deltas"


class Frame(NamedTuple):
    """One event: its name and its JSON text, which is one line."""

    name: EventName
    data: str

    @property
    def wire(self) -> bytes:
        return f"event: {self.name}\ndata: {self.data}\n\n".encode()


class Encoder(Protocol):
    """Turns what a stream gives into events; ``end`` are those after the last."""

    def take(self, event: Any) -> Iterator[Frame]: ...
    def end(self) -> Iterator[Frame]: ...


class WireChunks:
    """The pieces of a text, or the items of a list."""

    def __init__(self, method: Method) -> None:
        self._value = method.value
        self._text = method.returns.shape is Shape.TEXT_STREAM

    def take(self, event: Any) -> Iterator[Frame]:
        if self._text:
            yield Frame(EventName.TEXT, _json(event))
            return
        from output_parsers.streaming import ItemError  # few methods hand over items

        if isinstance(event, ItemError):
            yield Frame(EventName.UNFIT, _json(event))
        else:
            yield Frame(EventName.ITEM, self._value.write(event))

    def end(self) -> Iterator[Frame]:
        yield Frame(EventName.END, "{}")


class Growing:
    """A value that grows; ``stream`` is asked for its snapshots."""

    def __init__(self, method: Method, stream: Any, telling: Telling) -> None:
        self._value = method.value
        self._stream = stream
        self._telling = telling
        self._piece: Callable[[ReplyDelta], str] = str
        self._last = _NOTHING_YET

    def take(self, event: Any) -> Iterator[Frame]:
        if isinstance(event, AttemptStarted):
            self._piece, self._last = event.wire.pieces(), _NOTHING_YET
            yield Frame(EventName.ATTEMPT, _json(self._attempt(event)))
        elif isinstance(event, Completed):
            yield Frame(EventName.RESULT, write_result(event.result, self._value))
        elif isinstance(event, FieldCompleted):
            if self._telling is Telling.SNAPSHOTS:
                yield Frame(EventName.FIELD, _json({"name": event.name}))
        elif isinstance(event, ReplyDelta):
            piece = self._piece(event)
            if piece and self._telling is Telling.DELTAS:
                yield Frame(EventName.DELTA, _json({"text": piece}))
            elif piece:
                yield from self._snapshot()

    def _attempt(self, event: AttemptStarted) -> dict[str, Any]:
        said = {"number": event.number, "model": event.model, "strategy": event.strategy}
        if self._telling is Telling.SNAPSHOTS:
            return said
        parser = event.wire.parser
        node = None if parser is None else parser.node
        field = node.field if isinstance(node, EnvelopeNode) else None
        return {**said, "field": field, "shown": event.wire.shown and parser is not None}

    def _snapshot(self) -> Iterator[Frame]:
        snapshot = self._stream.snapshot
        data = _json({"value": snapshot.to_python(), "done": snapshot.done})
        if data != self._last:
            self._last = data
            yield Frame(EventName.SNAPSHOT, data)

    def end(self) -> Iterator[Frame]:
        yield from ()


def error_frame(problem: Problem) -> Frame:
    """The event of an error."""
    return Frame(EventName.ERROR, problem.json_bytes().decode())


def event_schema(method: Method) -> dict[str, Any]:
    """The JSON Schema of an event: its name, and the JSON that is in its data."""
    shape = method.returns.shape
    told: dict[str, dict[str, Any]]
    if shape is Shape.STREAM:
        told = {
            EventName.ATTEMPT: _record("a request to a model: forget what was shown", _ATTEMPT),
            EventName.SNAPSHOT: _record(
                "what there is of the value", {"value": {}, "done": {"type": "boolean"}}
            ),
            EventName.FIELD: _record("it is complete", {"name": {"type": ["string", "integer"]}}),
            EventName.DELTA: _record("what the model has written", {"text": {"type": "string"}}),
            EventName.RESULT: method.result.schema,
        }
    elif shape is Shape.ITEMS:
        told = {EventName.ITEM: method.value.schema}
        if method.returns.keeps_errors:
            told[EventName.UNFIT] = _record("an item that does not fit, and why", _UNFIT)
    else:
        told = {EventName.TEXT: {"type": "string"}}
    if shape is not Shape.STREAM:
        told[EventName.END] = _record("nothing more comes", {})
    told[EventName.ERROR] = _record("a problem, as of other responses", {"type": {"type": "string"}})
    definitions = {name: part for schema in told.values() for name, part in schema.get("$defs", {}).items()}
    forms = [_event(name, {k: v for k, v in schema.items() if k != "$defs"}) for name, schema in told.items()]
    return {"oneOf": forms, "$defs": definitions}


def _record(description: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }


def _event(name: str, data: dict[str, Any]) -> dict[str, Any]:
    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    properties = {"event": {"const": str(name)}, "data": content}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


def _json(value: Any) -> str:
    return to_json(value, inf_nan_mode="constants").decode()
