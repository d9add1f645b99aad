"""Locks that make calls with the same conversation run one after the other, across threads and loops.

``ChatMemory`` takes a ticket, polls until it is the first in the queue, and releases it when the exchange
is written. Nothing in this module blocks, so the same code serves blocking and async calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar
from weakref import WeakKeyDictionary

from ..models.errors import MemoryBusyError

T = TypeVar("T")


class ConversationLocks:
    """The locks of all conversations in one store; each lock has a queue of waiting calls."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: dict[str, deque[Ticket]] = {}

    def enqueue(self, conversation: str) -> Ticket:
        """Add a call to the queue for a conversation, and return a ticket for the call's place in the queue.

        Raises:
            MemoryBusyError: if this call runs inside another call of the same conversation, which would
                wait for itself forever.
        """
        if any(ticket.is_first and ticket.is_for(self, conversation) for ticket in _HELD_TICKETS.get()):
            raise MemoryBusyError(
                conversation,
                "this call is made inside another call of the same conversation and would wait for itself",
            )
        ticket = Ticket(self, conversation)
        with self.lock:
            self.queues.setdefault(conversation, deque()).append(ticket)
        return ticket


class Ticket:
    """A service call's place in the queue of calls that wait to use the same conversation.

    The call at the front holds the lock.
    """

    def __init__(self, locks: ConversationLocks, conversation: str) -> None:
        self._locks = locks
        self.conversation = conversation
        self._released = False
        self._finishing = False

    @property
    def is_first(self) -> bool:
        """True if this call is at the front of the queue, so that it may use the conversation."""
        with self._locks.lock:
            queue = self._locks.queues.get(self.conversation)
            return queue is not None and queue[0] is self

    def is_for(self, locks: ConversationLocks, conversation: str) -> bool:
        """Return True if this place in a queue belongs to the given conversation and store."""
        return self._locks is locks and self.conversation == conversation

    def mark_held(self) -> None:
        """Remember that this call holds a conversation's lock, to detect deadlocks."""
        _HELD_TICKETS.set((*(ticket for ticket in _HELD_TICKETS.get() if ticket.is_first), self))

    def release_after(self, work: Callable[[], T]) -> Callable[[], T | None]:
        """Wrap a function so that the lock of the conversation is released when the function ends.

        The function may run in a thread, and cancelling a call does not stop its thread. So the work does
        not start if the ticket was released before, and once it runs, only its end releases the ticket.
        """

        def finish() -> T | None:
            with self._locks.lock:
                if self._released:
                    return None
                self._finishing = True
            try:
                return work()
            finally:
                self._finishing = False
                self.release()

        return finish

    def release(self) -> None:
        """Release the conversation's lock, so that the next waiting call can use the conversation.

        Does nothing if the ticket is released already, or while the function of ``release_after`` runs.
        """
        with self._locks.lock:
            if self._released or self._finishing:
                return
            self._released = True
            queue = self._locks.queues[self.conversation]
            queue.remove(self)
            if not queue:
                del self._locks.queues[self.conversation]
        held = _HELD_TICKETS.get()
        if self in held:
            _HELD_TICKETS.set(tuple(ticket for ticket in held if ticket is not self))


# The tickets of the calls that contain the current code. A generator may be closed in another context
# than the one where it started, and its ticket then stays in this variable. That is why a ticket counts only
# while it is the first of its queue.
_HELD_TICKETS: ContextVar[tuple[Ticket, ...]] = ContextVar("aiservices_memory_held_tickets", default=())
_LOCKS_OF_STORES: WeakKeyDictionary[object, ConversationLocks] = WeakKeyDictionary()
_REGISTRY_LOCK = threading.Lock()


def locks_of(store: object) -> ConversationLocks:
    """Return the conversation locks that all chat memories with the same store share."""
    try:
        with _REGISTRY_LOCK:
            return _LOCKS_OF_STORES.setdefault(store, ConversationLocks())
    except TypeError:  # the store is unhashable or has no weak references, so its locks cannot be shared
        return ConversationLocks()
