"""A value that is shown while it is written: growing snapshots, events, and the result at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from output_parsers.result.reading import strict_equal

from ..models.messages import ReplyDelta
from ..models.strategy import Strategy
from .events import ToolFinished, ToolStarted

if TYPE_CHECKING:
    from output_parsers.streaming import PartialReader, Snapshot

    from .output_format import OutputFormat
    from .results import Result

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_NOTHING = object()


class AttemptStarted(NamedTuple):
    """A request goes to a model. From the second one on, the answer begins anew: forget what was shown."""

    number: int
    model: str
    wire: OutputFormat[Any]

    @property
    def strategy(self) -> Strategy:
        return self.wire.strategy


class FieldCompleted(NamedTuple):
    """A field of the value, or an item of it where it is a list, is complete."""

    name: str | int
    value: Any


class Accepted(NamedTuple):
    """An answer that nobody refuses any more, as the pipeline hands it to a stream."""

    answer: Any


class Completed(NamedTuple, Generic[T]):
    """The answer is whole and was accepted: the last event of a stream."""

    result: Result[T]


# Those of tools are known by name alone, since they are made on a floor above this one.
StreamEvent: TypeAlias = (
    AttemptStarted | ReplyDelta | ToolStarted | ToolFinished | FieldCompleted | Completed[T]
)


class StreamState(Generic[T]):
    """What has come of a value so far: takes the events of a call, one after the other."""

    def __init__(self, finish: Callable[[Any], Result[T]]) -> None:
        self._finish = finish
        self._reader: PartialReader[T] | None = None
        self._piece: Callable[[ReplyDelta], str] = str
        self._told: set[str] = set()
        self._items_told = 0
        self._last: Any = _NOTHING
        self.error: BaseException | None = None
        self.result: Result[T] | None = None

    def take(self, event: Any) -> bool:
        """Take an event in. Whether there is more to be shown than before."""
        if type(event) is ReplyDelta:
            piece = self._piece(event)
            if not piece or self._reader is None:
                return False
            self._reader.feed(piece)
            return True
        if type(event) is AttemptStarted:
            self._start(event.wire)
            return False
        if type(event) is not Accepted:
            return False
        self.result = self._finish(event.answer)
        return not strict_equal(self._last, self.result.value)

    def _start(self, wire: OutputFormat[T]) -> None:
        from output_parsers.streaming import PartialReader  # most calls are not streamed

        self._piece = wire.pieces()
        self._reader = PartialReader(wire.parser) if wire.shown and wire.parser is not None else None
        self._told, self._items_told, self._last = set(), 0, _NOTHING

    def snapshot(self) -> Snapshot[T]:
        """What can be told of the value now."""
        from output_parsers.streaming import Snapshot

        if self.result is not None:
            value = self.result.value
            return Snapshot(lambda: value, done=True)
        if self._reader is None:
            return Snapshot(lambda: None, done=False)
        snapshot = self._reader.snapshot()
        self._last = snapshot.value if snapshot.done else _NOTHING
        return snapshot

    def told(self, event: Any) -> Iterator[StreamEvent[T]]:
        """An event as the user is told of it, with what it completes."""
        grown = self.take(event)
        if self.result is None or type(event) is not Accepted:
            yield event
        if grown or type(event) is Accepted:
            yield from self._completed()
        if type(event) is Accepted and self.result is not None:
            yield Completed(self.result)

    def _completed(self) -> Iterator[FieldCompleted]:
        """The fields or items that have become complete since the last time."""
        shown: Any = self.snapshot().value
        if _is_list(shown):
            while self._items_told < len(shown) and _is_done(shown, self._items_told):
                yield FieldCompleted(self._items_told, shown[self._items_told])
                self._items_told += 1
        else:
            for name in _names(shown):
                if name not in self._told and _is_done(shown, name):
                    self._told.add(name)
                    yield FieldCompleted(name, _part(shown, name))

    def check(self) -> None:
        """Raise the error that ended the stream, if one did: it is no stream that is at its end."""
        if self.error is not None:
            raise self.error

    def whole(self) -> Result[T]:
        """The result, when no more events come."""
        self.check()
        if self.result is None:
            raise RuntimeError("the stream was closed before the answer was whole: there is no result")
        return self.result


def _is_list(shown: Any) -> bool:
    from output_parsers.streaming import PartialList

    return isinstance(shown, (PartialList, list, tuple)) and not hasattr(shown, "_fields")


def _is_done(shown: Any, part: str | int) -> bool:
    done = getattr(shown, "done", None)
    return not _is_growing(shown) or bool(done is not None and done(part))


def _is_growing(shown: Any) -> bool:
    from output_parsers.streaming import PartialList, PartialObject

    return isinstance(shown, (PartialList, PartialObject))


def _names(shown: Any) -> list[str]:
    """The fields of a record or an object; nothing for what is none."""
    if isinstance(shown, dict) or _is_growing(shown):
        return list(shown)
    if is_dataclass(shown):
        return [field.name for field in fields(shown)]
    for attribute in ("model_fields", "__struct_fields__", "_fields"):
        names = getattr(type(shown), attribute, None)
        if names is not None:
            return list(names)
    return [field.name for field in getattr(type(shown), "__attrs_attrs__", ())]


def _part(shown: Any, name: str) -> Any:
    return shown[name] if isinstance(shown, dict) or _is_growing(shown) else getattr(shown, name)


class Stream(Generic[T_co]):
    """A value that is being written. ``for snapshot in stream`` shows it grow, ``result()`` waits for it.

    Nothing is sent before the first of them is asked for. A snapshot never shows half a number; the last one
    is the whole value, ``done``. When the answer has to be asked for again, snapshots begin anew:
    ``events()`` tells of that. Leaving the ``with`` block, or ``close()``, ends the request.
    Errors are those of a call that blocks, raised where the next snapshot, event or the result is asked for.
    """

    def __init__(self, events: Generator[Any, None, None], finish: Callable[[Any], Result[T_co]]) -> None:
        self._events = events
        self._growth = StreamState(finish)

    def __iter__(self) -> Iterator[Snapshot[T_co]]:
        for event in self._taken():
            if self._growth.take(event):
                yield self._growth.snapshot()

    def events(self) -> Iterator[StreamEvent[T_co]]:
        """What happens: each attempt, each piece of text, thought or tool call, each field that is complete.

        Each tool that runs is told of, before and after. What interceptors emit comes as it is. The last
        event is Completed, with the result.
        """
        for event in self._taken():
            yield from self._growth.told(event)

    def result(self) -> Result[T_co]:
        """The whole value with everything about how it was got, as ``Result[T]`` has it; waits for it."""
        for event in self._taken():
            self._growth.take(event)
        return self._growth.whole()

    @property
    def snapshot(self) -> Snapshot[T_co]:
        """What is known of the value now, without waiting for more."""
        return self._growth.snapshot()

    def close(self) -> None:
        """End the request, if it is still running."""
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _taken(self) -> Iterator[Any]:
        """The events that are left. Whoever stops early leaves the rest to the next one who asks."""
        self._growth.check()
        try:
            for event in self._events:  # noqa: UP028  # yield from would close them with this generator
                yield event
        except Exception as error:
            self._growth.error = error
            raise


class AsyncStream(Generic[T_co]):
    """As Stream, for an event loop: ``async for snapshot in stream``, ``await stream.result()``."""

    def __init__(self, events: AsyncGenerator[Any, None], finish: Callable[[Any], Result[T_co]]) -> None:
        self._events = events
        self._growth = StreamState(finish)

    async def __aiter__(self) -> AsyncIterator[Snapshot[T_co]]:
        async for event in self._taken():
            if self._growth.take(event):
                yield self._growth.snapshot()

    async def events(self) -> AsyncIterator[StreamEvent[T_co]]:
        """As ``Stream.events``."""
        async for event in self._taken():
            for told in self._growth.told(event):
                yield told

    async def result(self) -> Result[T_co]:
        """As ``Stream.result``."""
        async for event in self._taken():
            self._growth.take(event)
        return self._growth.whole()

    @property
    def snapshot(self) -> Snapshot[T_co]:
        """What is known of the value now, without waiting for more."""
        return self._growth.snapshot()

    async def aclose(self) -> None:
        """End the request, if it is still running."""
        await self._events.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _taken(self) -> AsyncIterator[Any]:
        self._growth.check()
        try:
            async for event in self._events:
                yield event
        except Exception as error:
            self._growth.error = error
            raise
