"""The interface of stores for journals of durable calls, their data, and the errors of such calls."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from ..models.errors import DefinitionError, JournalError

FORMAT = 1  # of the stored data
Status: TypeAlias = Literal["running", "suspended", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = ("running", "suspended", "completed", "failed", "cancelled")
# A call with one of these statuses can be continued without a decision.
CONTINUABLE: tuple[Status, ...] = ("running", "failed")
START, ANSWER = "start", "answer"  # the keys of the entries that each completed call has


class CallInProgressError(JournalError):
    """Raised if another process or thread works on a durable call at the moment."""


class CallIdError(DefinitionError):
    """Raised if the id of a durable call is empty, too long or not a text."""


class CallChangedError(JournalError):
    """Raised if a call id is used again with another call, or if the program has changed since.

    Attributes:
        changes: What differs, such as "the user message" or "the tool pay".
    """

    def __init__(self, message: str, changes: Sequence[str]) -> None:
        super().__init__(message)
        self.changes = tuple(changes)


class CallCancelledError(JournalError):
    """Raised if a durable call was cancelled, or if it is too old to be continued."""


class StoredCall(NamedTuple):
    """A durable call in a journal.

    Attributes:
        id: The id of the call.
        status: "running" if it was begun (a process works on it, or was killed), "suspended" if it waits for
            an approval or another answer, "completed", "failed" (it can be tried again), or "cancelled".
        method: The method, as ``Service.method``.
        user: The name of the user; "" if the method has no ``UserName``.
        created_at: When it was begun, in seconds since 1970.
        updated_at: When something was last recorded.
        owner: The process that works on it; "" for none.
        leased_for: The seconds until other processes may continue it, by the clock of the store; negative
            once they have passed.
        fence: A number that each new owner increments. An owner with an old number cannot write.
        format: The version of the format of its entries.
    """

    id: str
    status: Status
    method: str
    user: str
    created_at: float
    updated_at: float
    owner: str = ""
    leased_for: float = 0.0
    fence: int = 0
    format: int = FORMAT


class Entry(NamedTuple):
    """Something that a durable call has recorded.

    Attributes:
        key: What it is, such as "start" or "tool:1:call_7". A later entry with the same key replaces it.
        data: JSON text; "" removes the entry.
        at: When it was recorded, in seconds since 1970.
    """

    key: str
    data: str
    at: float = 0.0


class Loaded(NamedTuple):
    """A durable call with its entries, in the order in which they were recorded."""

    call: StoredCall
    entries: list[Entry]


def latest(rows: Iterable[Sequence[Any]]) -> list[Entry]:
    """Return the valid entries of all that were ever added, in the order of their addition."""
    entries: dict[str, Entry] = {}
    for row in rows:
        entry = Entry(*row)
        entries.pop(entry.key, None)  # a later entry with the same key is the last one
        if entry.data:
            entries[entry.key] = entry
    return list(entries.values())


def with_lease(new: StoredCall, call: StoredCall) -> StoredCall:
    """Return a stored call with the lease of its new owner."""
    return call._replace(
        owner=new.owner,
        leased_for=new.leased_for,
        fence=call.fence + 1,
        status="running",
        updated_at=time.time(),
    )


class JournalStore(Protocol):
    """The interface of stores for journals. The methods must be safe to call from several threads.

    Leases are measured by the clock of the store, because the clocks of machines differ and may be changed.

    Attributes:
        blocks: True if an access may take long, so that an event loop must not wait for it.
    """

    blocks: bool

    def load(self, call: str, /) -> Loaded | None:
        """Return a call with its entries; None for an unknown id."""
        ...

    def lease(self, new: StoredCall, start: str, statuses: Collection[str], takes: TakesLease, /) -> Loaded:
        """Make an owner the only one that may work on a call, and return the call, in one transaction.

        A call with a new id is created from ``new``, with a first entry that has the key "start" and the data
        ``start``. An existing call whose status is in ``statuses`` and for which ``takes(call)`` is True gets
        the owner and ``leased_for`` of ``new``, and its fence is incremented. Any other call is returned
        unchanged.
        """
        ...

    def append(
        self,
        call: str,
        fence: int | None,
        entries: Sequence[Entry],
        /,
        *,
        status: Status | None = None,
        leased_for: float | None = None,
    ) -> bool:
        """Store entries and the status of a call in one transaction; return False if the fence has changed.

        With None, the fence is incremented instead of checked, so that the present owner loses the call.
        ``leased_for`` 0.0 also removes the owner. None leaves the status and the lease as they are.
        """
        ...

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        """Return the calls with one of these statuses, oldest first."""
        ...

    def delete(self, call: str, /) -> None:
        """Delete a call with its entries."""
        ...

    def close(self) -> None:
        """Close the connections of the store; the next access opens new ones."""
        ...


class TakesLease(Protocol):
    """Decides whether a call may get a new owner. Called in the transaction of the store."""

    def __call__(self, call: StoredCall, /) -> bool: ...
