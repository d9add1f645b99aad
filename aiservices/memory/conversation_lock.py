"""Who is in a conversation, and who waits for it: one call after the other, in threads and event loops."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from ..models.errors import AiServiceError


class MemoryBusyError(AiServiceError):
    """Another call is in the conversation, and this one may not wait for it. ``conversation`` is the id."""

    def __init__(self, conversation: str, said: str) -> None:
        super().__init__(f"the conversation {conversation!r} is busy: {said}")
        self.conversation = conversation


class Line:
    """The calls that are in each conversation of a store, first come, first served. Nothing here blocks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.places: dict[str, deque[Place]] = {}

    def join(self, conversation: str) -> Place:
        """A place at the end of the line. Raises MemoryBusyError when the one to wait for waits for this."""
        if any(place.first and place.is_at(self, conversation) for place in _INSIDE.get()):
            said = "this call is made within one of the same conversation, and would wait for itself"
            raise MemoryBusyError(conversation, said)
        place = Place(self, conversation)
        with self.lock:
            self.places.setdefault(conversation, deque()).append(place)
        return place


class Place:
    """A place in the line for a conversation, until it is left."""

    def __init__(self, line: Line, conversation: str) -> None:
        self._line = line
        self.conversation = conversation
        self._left = False
        self._finishing = False

    @property
    def first(self) -> bool:
        """Whether the conversation belongs to this call now."""
        with self._line.lock:
            places = self._line.places.get(self.conversation)
            return places is not None and places[0] is self

    def is_at(self, line: Line, conversation: str) -> bool:
        """Whether this is a place of that line."""
        return self._line is line and self.conversation == conversation

    def enter(self) -> None:
        """Note that what runs from here on is within the conversation."""
        _INSIDE.set((*(place for place in _INSIDE.get() if place.first), self))

    def finishing(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """Work that is the last at this place, as a function to run, perhaps in a thread.

        A call that is cancelled does not stop a thread: the work is not begun when the place was left
        before, and once it has begun, the place is left at its end and no sooner.
        """

        def finish() -> Any:
            with self._line.lock:
                if self._left:
                    return None
                self._finishing = True
            try:
                return work()
            finally:
                self._finishing = False
                self.leave()

        return finish

    def leave(self) -> None:
        """Leave the line; nothing when it was left, or a last work is under way that will leave it."""
        with self._line.lock:
            if self._left or self._finishing:
                return
            self._left = True
            places = self._line.places[self.conversation]
            places.remove(self)
            if not places:
                del self._line.places[self.conversation]
        inside = _INSIDE.get()
        if self in inside:
            _INSIDE.set(tuple(place for place in inside if place is not self))


# The places of the calls that this code runs within. A generator may be closed in another context than the
# one where it began, and leave its place here: so a place counts only as long as it is first in its line.
_INSIDE: ContextVar[tuple[Place, ...]] = ContextVar("aiservices_memory_inside", default=())
_LINES: WeakKeyDictionary[Any, Line] = WeakKeyDictionary()
_GUARD = threading.Lock()


def line_of(store: object) -> Line:
    """The line of a store: the same for all that use it in this process."""
    try:
        with _GUARD:
            return _LINES.setdefault(store, Line())
    except TypeError:  # it has slots or no hash, hence nothing can be kept beside it
        return Line()
