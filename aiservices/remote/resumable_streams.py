"""Streams that continue after their caller has lost the connection, so that it can read the rest later.

The id of each event says which stream it belongs to and what the caller has received. While the stream is
kept, the caller continues after that event. Afterwards, or in another process, the method of a durable call
runs again: it takes from the journal what was recorded, and ``after`` leaves out what the caller has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from hashlib import blake2b
from uuid import uuid4

from ..journal import JournalError
from .calls import MethodCall
from .contract import EventId, EventName, SseEvent

DEFAULT_KEEP_SECONDS = 60.0  # for durable calls
_MAX_BYTES = 1024 * 1024  # of the events of one stream
_MAX_TOTAL = 64 * _MAX_BYTES  # of the events of all streams without a reader
_MAX_STREAMS = 10_000  # without a reader
LAST_EVENTS = (EventName.END, EventName.RESULT, EventName.ERROR)
_COUNTED_EVENTS = (EventName.TEXT, EventName.ITEM, EventName.UNFIT)


class Received:
    """The characters, or the items, that the caller of a stream has received."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = blake2b(digest_size=8)

    @property
    def digest(self) -> str:
        """A hash of all characters or items."""
        return self._hash.hexdigest()

    def add(self, event: SseEvent) -> None:
        """Add what an event contains."""
        if event.name is EventName.TEXT:
            text = json.loads(event.data)
            self.count += len(text)
            self._hash.update(text.encode("utf-8", "surrogatepass"))
        elif event.name in _COUNTED_EVENTS:
            self.count += 1
            self._hash.update(f"{event.name}:{event.data}\n".encode())


def _received_until(last: EventId | None) -> tuple[int, str]:
    """Return the number and the hash of the characters or items up to an event; None means the beginning."""
    return (0, Received().digest) if last is None else (last.received, last.digest)


async def after(
    last: EventId, events: AsyncGenerator[SseEvent, None], received: Received
) -> AsyncGenerator[SseEvent, None]:
    """Yield the events of a stream that runs again, without what the caller has received.

    A ``Stream`` begins again, with the event that tells the caller to discard what was shown. Text and items
    cannot be discarded. JournalError is raised if they begin differently, because the reply was not recorded
    before the process was killed.
    """
    async with aclosing(events):
        async for event in events:
            left = last.received - received.count
            if left <= 0 or event.name not in (*_COUNTED_EVENTS, EventName.END):
                yield event
                continue
            rest = None
            if event.name is EventName.TEXT:
                text = json.loads(event.data)
                event = event._replace(data=json.dumps(text[:left]))
                rest = event._replace(data=json.dumps(text[left:])) if len(text) > left else None
            received.add(event)
            is_changed = received.count == last.received and received.digest != last.digest
            if is_changed or event.name is EventName.END:
                raise JournalError(
                    "the reply was not recorded before its process was killed, and the new one begins "
                    "differently; call the method again to get the whole answer"
                )
            if rest is not None:
                yield rest


class StreamReader:
    """A reader of a kept stream, until it is closed."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close: Callable[[], None] | None = on_close

    async def aclose(self) -> None:
        """Close the reader; further calls do nothing."""
        if self._on_close is not None:
            self._on_close()
        self._on_close = None


class ResumableStream:
    """Runs a stream of events in a separate task, and keeps the events for readers.

    Args:
        events: The events.
        report: Makes the last event from an error. An error before the first visible event is raised in the
            reader instead.
        received: Gets what the events contain, after what ``after`` has left out.
        seconds: How long the stream runs, and is kept, without a reader.
        last_events: The names of events that end a stream.
        last: The event of an earlier stream after which this one begins; None if it has the whole answer.
    """

    def __init__(
        self,
        events: AsyncGenerator[SseEvent, None],
        report: Callable[[Exception], SseEvent],
        received: Received,
        seconds: float,
        last_events: Collection[EventName] = LAST_EVENTS,
        last: EventId | None = None,
    ) -> None:
        self.name = uuid4().hex
        self.is_done = False
        self.size = 0
        self.on_end: Callable[[], None] = lambda: None  # called when the stream is no longer kept
        self._events = events
        self._report = report
        self._received = received
        self._seconds = seconds
        self._last_events = last_events
        self._left_out = _received_until(last)
        self._kept: dict[int, bytes] = {}  # by their numbers
        self._number = 0  # of the last event
        self._read = 0  # the number of the last event that a reader has received
        self._lost = 0  # the number of the last event that was dropped because there were too many
        self._snapshot = 0  # the number of the last snapshot
        self._is_visible = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._readers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task = asyncio.ensure_future(self._run())

    @property
    def is_read(self) -> bool:
        """True if a caller reads the stream at the moment."""
        return self._readers > 0

    def has_all_after(self, number: int) -> bool:
        """Return True if all events after the given one are kept."""
        return self._lost <= number <= self._number

    def number_after(self, last: EventId | None) -> int | None:
        """Return the number of the event after which a caller continues; None if it cannot continue here.

        ``last`` is the last event that the caller has received, of this stream or an earlier one.
        """
        number = 0
        if last is not None and last.stream == self.name:
            number = last.number
        elif _received_until(last) != self._left_out:
            return None
        return number if self.has_all_after(number) else None

    async def wait_until_visible(self) -> None:
        """Wait for the first event that has a part of the answer; raise the error of a stream without one."""
        while not (self._is_visible or self.is_done):
            await self._changed.wait()
        if self._error is not None:
            self.end()
            raise self._error

    async def read(self, number: int, ping: bytes, ping_seconds: float) -> AsyncGenerator[bytes, None]:
        """Yield the events after the given one, and ``ping`` if there was no event for some time."""
        while number >= self._lost:  # otherwise this reader was too slow, and must reconnect
            if number < self._number:
                number += 1
                data = self._kept.get(number)
                self._read = max(self._read, number)
                if data is not None:
                    yield data
                continue
            if self.is_done:
                return
            if self.size > _MAX_BYTES:
                self._notify()  # the stream waits for its readers
            try:
                await asyncio.wait_for(self._changed.wait(), ping_seconds)
            except TimeoutError:
                yield ping

    def begin_reading(self) -> StreamReader:
        """Count a reader until it is closed."""
        self._readers += 1
        if self._timer is not None:
            self._timer.cancel()
        return StreamReader(self._end_reading)

    def _end_reading(self) -> None:
        """End the stream after some time if the last reader has left."""
        self._readers -= 1
        if not self._readers:
            self._notify()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.end)

    def end(self) -> None:
        """Cancel the stream if it is running, and forget it."""
        self._task.cancel()
        self.on_end()

    async def _run(self) -> None:
        try:
            async with aclosing(self._events):
                async for event in self._events:
                    self._add(event)
                    while self.size > _MAX_BYTES and self._readers and self._read < self._number:
                        await self._changed.wait()
        except Exception as error:
            if self._is_visible:
                self._add(self._report(error))
            else:
                self._error = error
        finally:
            self.is_done = True
            self._notify()

    def _add(self, event: SseEvent) -> None:
        self._received.add(event)
        self._number += 1
        if event.name is EventName.SNAPSHOT:
            if not self._readers or self._snapshot <= self._read:
                self._drop(self._snapshot)  # the new one replaces it
            self._snapshot = self._number
        self._is_visible = self._is_visible or event.name is not EventName.ATTEMPT
        event_id = EventId(
            self.name,
            self._number,
            self._received.count,
            self._received.digest,
            event.name in self._last_events,
        )
        data = event.to_bytes(event_id)
        self._kept[self._number] = data
        self.size += len(data)
        while self.size > _MAX_BYTES and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            if self._readers and oldest > self._read:
                break
            self._drop(oldest)
            self._lost = oldest
        self._notify()

    def _drop(self, number: int) -> None:
        dropped = self._kept.pop(number, None)
        if dropped is not None:
            self.size -= len(dropped)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class ResumableStreams:
    """The streams of a server that its callers can continue to read.

    Args:
        seconds: How long a stream continues, and is kept, after its caller has lost the connection. By
            default 60 for durable calls and 0 for others.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._streams: dict[str, tuple[object, ResumableStream]] = {}

    def seconds_for(self, call: MethodCall) -> float:
        """Return how long the stream of a call is kept."""
        if self._seconds is not None:
            return self._seconds
        return 0.0 if call.durable_id is None else DEFAULT_KEEP_SECONDS

    def find(self, call: MethodCall, last: EventId | None, arguments: object) -> ResumableStream | None:
        """Return the stream of a durable call, or of an event, if the arguments match its call."""
        name = call.durable_id or (last.stream if last else "")
        of_stream, stream = self._streams.get(name, (None, None))
        try:
            return stream if of_stream == arguments else None
        except (ValueError, TypeError):  # arrays are compared item by item
            return None

    def add(self, call: MethodCall, arguments: object, stream: ResumableStream) -> None:
        """Keep a stream; the oldest ones without a reader end if there are too many events."""
        name = call.durable_id or stream.name
        entry = arguments, stream
        self._streams[name] = entry

        def forget() -> None:
            if self._streams.get(name) is entry:
                del self._streams[name]

        stream.on_end = forget
        unread = [one for _, one in self._streams.values() if not one.is_read and one is not stream]
        size = sum(one.size for one in unread)
        for one in unread:
            if size <= _MAX_TOTAL and len(unread) <= _MAX_STREAMS:
                break
            size -= one.size
            one.end()
