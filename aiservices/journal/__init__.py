"""The journal of durable calls: their recorded steps, with which any process can continue them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Sequence
from itertools import count
from pathlib import Path
from typing import Literal
from weakref import ref

from ..models.arguments import check_settings, checks_arguments, is_positive
from ..models.base import PickledByArguments
from ..models.errors import DefinitionError, DefinitionProblem, JournalError
from .owner import is_dead, process_name
from .store import (
    CONTINUABLE,
    FORMAT,
    STATUSES,
    CallCancelledError,
    CallChangedError,
    CallIdError,
    CallInProgressError,
    Entry,
    JournalStore,
    Loaded,
    Status,
    StoredCall,
)

__all__ = [
    "CONTINUABLE",
    "FORMAT",
    "CallCancelledError",
    "CallChangedError",
    "CallIdError",
    "CallInProgressError",
    "Entry",
    "Journal",
    "JournalError",
    "JournalStore",
    "Loaded",
    "Status",
    "StoredCall",
]


@checks_arguments
class Journal(PickledByArguments):
    """Records the steps of durable calls, so that any process can continue them. Used by ``Durable``.

    A call belongs to one process at a time: that process has a lease, which it renews while it works. If the
    process is killed, another one on the same machine can take the call at once, and those on other machines
    when the lease has ended.

    Prompts, replies and the results of tools are stored as they are, in a file that only its owner can read.

    Args:
        store: The path of an SQLite file, which is created if it does not exist; the URL of a database for
            SQLAlchemy, such as "postgresql+psycopg://user@host/database", or of Redis; or a JournalStore.
        synchronous: For SQLite: "NORMAL" survives a killed process; "FULL" also survives a power failure, and
            waits for the disk at each step of a call.
        lease: The seconds after which other machines may continue the calls of a process that was killed.
    """

    def __init__(
        self,
        store: str | Path | JournalStore,
        *,
        synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
        lease: float = 60.0,
    ) -> None:
        check_settings(
            "Journal",
            ("store", store, store not in ("", "sqlite:///"), "pass the path of a file"),
            ("synchronous", synchronous, synchronous in ("NORMAL", "FULL"), "it must be NORMAL or FULL"),
            ("lease", lease, is_positive(lease), "it must be greater than 0"),
        )
        self.store: JournalStore = _store(store, synchronous)
        self.lease_seconds = lease
        self._leases: dict[tuple[str, int], float] = {}
        self._lock = threading.Lock()
        self._renewer: threading.Thread | None = None
        self._process = os.getpid()

    def load(self, call: str) -> Loaded | None:
        """Return a call with its entries; None for an unknown id."""
        return self.store.load(call)

    def list(self, *statuses: Status) -> Sequence[StoredCall]:
        """Return the calls with one of these statuses, or all calls, oldest first.

        Raises ValueError for an unknown status.
        """
        for status in statuses:
            if status not in STATUSES:
                raise ValueError(f"{status!r} is not a status of a call; use {', '.join(STATUSES)}")
        return self.store.list(statuses or STATUSES)

    def delete(self, call: str) -> None:
        """Delete a call with all its records. Its id can then be used for a new call."""
        self.store.delete(call)

    def cancel(self, call: str) -> None:
        """End a call, which then cannot record anything or be continued.

        A tool that is running is not stopped. Raises JournalError for an unknown or a completed call.
        """
        loaded = self.store.load(call)
        if loaded is None or loaded.call.status == "completed":
            problem = "is completed" if loaded else "does not exist"
            raise JournalError(f"the call {call!r} {problem}, so it cannot be cancelled")
        self.store.append(call, None, (), status="cancelled", leased_for=0.0)

    def is_interrupted(self, call: StoredCall) -> bool:
        """Return True if a call is not finished, does not wait for an answer, and no process works on it."""
        return call.status == "running" and _is_free(call)

    def lease(self, new: StoredCall, start: str, statuses: Collection[str] = CONTINUABLE) -> Loaded:
        """Become the owner of a call, which is created if it does not exist; see ``JournalStore.lease``.

        Raises CallInProgressError if another process or thread owns it.
        """
        owner = f"{process_name()}#{next(_numbers)}"
        # its first fence, so that an owner of a deleted call cannot write to a new one with its id
        fence = time.time_ns() & _MASK
        new = StoredCall(*new[:6], owner, self.lease_seconds, fence)
        loaded = self.store.lease(new, start, statuses, _is_free)
        call = loaded.call
        if call.owner == owner:
            self._keep(call.id, call.fence)
        elif call.status in statuses:
            raise CallInProgressError(
                f"the call {call.id!r} of {call.method} is in progress in {call.owner.partition('#')[0]}"
            )
        return loaded

    def append(self, call: StoredCall, entries: Sequence[Entry], *, status: Status | None = None) -> None:
        """Record entries of a call that this process owns; a status other than "running" ends the lease.

        Raises JournalError if another process has taken the call, and CallCancelledError if it was cancelled.
        """
        lease = None if status in (None, "running") else 0.0
        if lease is not None:
            self._forget(call)
        if not self.store.append(call.id, call.fence, entries, status=status, leased_for=lease):
            self._forget(call)
            loaded = self.store.load(call.id)
            if loaded is not None and loaded.call.status == "cancelled":
                raise CallCancelledError(f"the call {call.id!r} of {call.method} was cancelled")
            happened = "was taken over by another process, which continues it"
            raise JournalError(
                f"the call {call.id!r} of {call.method} {happened if loaded else 'was deleted'}"
            )

    def release(self, call: StoredCall) -> None:
        """Give up a call that is not finished, so that another process or thread can continue it."""
        self._forget(call)
        self.store.append(call.id, call.fence, (), leased_for=0.0)

    def close(self) -> None:
        """Close the connections; the next access opens new ones."""
        self.store.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Leases ---

    def _keep(self, call: str, fence: int) -> None:
        """Renew a lease until it is given up."""
        with self._own_lock():
            self._leases[call, fence] = time.monotonic()
            if self._renewer is None:
                # with a weak reference, so that the thread ends with the journal
                self._renewer = threading.Thread(
                    target=_renew_leases, args=(ref(self), self.lease_seconds / 3), daemon=True
                )
                self._renewer.start()

    def _own_lock(self) -> threading.Lock:
        """Return the lock for the leases. After a fork, the child begins with its own lock and no leases."""
        if self._process != os.getpid():
            self._leases, self._renewer, self._process = {}, None, os.getpid()
            self._lock = threading.Lock()  # a thread of the parent may hold the other one
        return self._lock

    def _forget(self, call: StoredCall) -> None:
        with self._own_lock():
            self._leases.pop((call.id, call.fence), None)

    def _renew(self) -> bool:
        """Renew the older leases; return False if this process has no leases."""
        now = time.monotonic()
        with self._own_lock():
            if not self._leases:
                self._renewer = None
                return False
            old = [one for one, at in self._leases.items() if now - at > self.lease_seconds / 4]
        for call, fence in old:
            is_renewed = self.store.append(call, fence, (), leased_for=self.lease_seconds)
            with self._own_lock():
                if not is_renewed:
                    self._leases.pop((call, fence), None)
                elif (call, fence) in self._leases:
                    self._leases[call, fence] = now
        return True


def _renew_leases(journal: ref[Journal], interval: float) -> None:
    import logging

    while True:
        time.sleep(interval)
        present = journal()
        try:
            if present is None or not present._renew():
                return
        except Exception as error:  # the store may raise anything; the next round tries again
            logging.getLogger("aiservices").warning("the leases of durable calls were not renewed: %s", error)
        del present


_numbers = count(1)
_MASK = (1 << 30) - 1


def _is_free(call: StoredCall) -> bool:
    """Return True if a call has no owner, or its owner no longer works on it."""
    return not call.owner or call.leased_for < 0 or is_dead(call.owner)


def _store(store: str | Path | JournalStore, synchronous: str) -> JournalStore:
    if isinstance(store, (str, Path)):
        if isinstance(store, str):
            store = store.removeprefix("sqlite:///")
            if store.startswith(("redis://", "rediss://", "unix://")):
                from .redis import RedisJournalStore

                return RedisJournalStore(store)
            if "://" in store:
                from .sql import SqlAlchemyJournalStore

                return SqlAlchemyJournalStore(store)
        from .sqlite import SqliteJournalStore

        return SqliteJournalStore(store, synchronous=synchronous)
    if not callable(getattr(store, "lease", None)):
        message = f"store is {type(store).__name__}; pass the path of a file, or a JournalStore"
        raise DefinitionError([DefinitionProblem("Journal", message)])
    return store
