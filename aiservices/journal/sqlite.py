"""A journal in an SQLite file, which processes on one machine share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..models.errors import DefinitionError, DefinitionProblem, JournalError
from ..models.sqlite_file import SqliteFile
from .owner import BOOT, is_of_other_boot
from .store import (
    ANSWER,
    START,
    Entry,
    Loaded,
    Status,
    StoredCall,
    TakesLease,
    latest,
    with_lease,
)

# The first and the last entry are in the row of the call, so that a short call writes few pages.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS durable_call (
    id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, method TEXT NOT NULL, user TEXT NOT NULL,
    created_at REAL NOT NULL, updated_at REAL NOT NULL, owner TEXT NOT NULL, leased_until REAL NOT NULL,
    fence INTEGER NOT NULL, format INTEGER NOT NULL, start TEXT NOT NULL, answer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS durable_entry (
    call TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (call, number)
) WITHOUT ROWID;
"""
_CALL = "SELECT * FROM durable_call WHERE id = ?"
_ENTRIES = "SELECT key, data, at FROM durable_entry WHERE call = ? ORDER BY number"
_ADD = """
INSERT INTO durable_entry
SELECT :call, coalesce(max(number), 0) + 1, :key, :data, :at FROM durable_entry WHERE call = :call
"""
_CREATE = """
INSERT INTO durable_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '') ON CONFLICT (id) DO NOTHING
"""
_TAKE = """
UPDATE durable_call SET owner = ?, leased_until = ?, fence = fence + 1, status = 'running', updated_at = ?
WHERE id = ?
"""
# a status, lease or answer of NULL leaves the old one
_UPDATE = """
UPDATE durable_call SET status = coalesce(:status, status), leased_until = coalesce(:until, leased_until),
    owner = CASE WHEN :until = 0 THEN '' ELSE owner END, updated_at = :now,
    answer = coalesce(:answer, answer), fence = fence + (:fence IS NULL)
WHERE id = :call AND (:fence IS NULL OR fence = :fence)
"""
# All processes are on one machine. Its monotonic clock cannot be set, but it starts over with the machine, so
# it is used only if a restart of the machine can be detected.
_now = time.monotonic if BOOT else time.time


class SqliteJournalStore:
    """A store for journals in an SQLite file with a write-ahead log, for the processes of one machine.

    Args:
        path: The path of the file.
        synchronous: "NORMAL", or "FULL" to wait for the disk at each write.
        timeout: Seconds to wait for another thread or process that is writing.
    """

    blocks = False

    def __init__(self, path: str | Path, *, synchronous: str = "NORMAL", timeout: float = 30.0) -> None:
        self._path = path
        try:
            self._file = SqliteFile(path, _SCHEMA, timeout, synchronous=synchronous)
        except (sqlite3.Error, OSError) as error:
            message = f"{str(path)!r} cannot be used as an SQLite file: {error}"
            raise DefinitionError([DefinitionProblem("Journal", message)]) from error

    def load(self, call: str, /) -> Loaded | None:
        with self._errors("read"), self._file.reading() as connection:
            connection.execute("BEGIN")  # so that both are consistent
            try:
                return self._load(connection, call)
            finally:
                connection.execute("COMMIT")

    def lease(self, new: StoredCall, start: str, statuses: Collection[str], takes: TakesLease, /) -> Loaded:
        until = _now() + new.leased_for
        row = (*new[:7], until, new.fence, new.format, start)
        with self._errors("written"):
            while not self._file.execute(_CREATE, row).rowcount:
                with self._file.writing() as connection:
                    loaded = self._load(connection, new.id)
                    if loaded is None:  # it was deleted
                        continue
                    if loaded.call.status not in statuses or not takes(loaded.call):
                        return loaded
                    leased = with_lease(new, loaded.call)
                    connection.execute(_TAKE, (leased.owner, until, leased.updated_at, leased.id))
                    return Loaded(leased, loaded.entries)
        return Loaded(new, [Entry(START, start, new.created_at)])

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
        answer = next((one.data for one in entries if one.key == ANSWER), None)
        until = _now() + leased_for if leased_for else leased_for
        values = {
            "status": status,
            "until": until,
            "now": time.time(),
            "answer": answer,
            "call": call,
            "fence": fence,
        }
        with self._errors("written"):
            if len(entries) == (answer is not None):
                return self._file.execute(_UPDATE, values).rowcount > 0
            self._check_file()  # before a tool may run; it takes as long as half a transaction
            with self._file.writing() as connection:
                if connection.execute(_UPDATE, values).rowcount == 0:
                    return False
                for entry in entries:
                    if entry.key != ANSWER:
                        connection.execute(_ADD, {"call": call, **entry._asdict()})
                return True

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        marks = ", ".join("?" * len(statuses))
        query = f"SELECT * FROM durable_call WHERE status IN ({marks}) ORDER BY created_at, id"
        with self._errors("read"), self._file.reading() as connection:
            return [_stored(row) for row in connection.execute(query, tuple(statuses))]

    def delete(self, call: str, /) -> None:
        with self._errors("written"), self._file.writing(erases=True) as connection:
            connection.execute("DELETE FROM durable_entry WHERE call = ?", (call,))
            connection.execute("DELETE FROM durable_call WHERE id = ?", (call,))

    def close(self) -> None:
        self._file.close()

    def _check_file(self) -> None:
        """Raise JournalError if other processes do not find what would be written."""
        if self._file.is_replaced():
            raise JournalError(
                f"the journal {self._path} was deleted or replaced while it was open; open it again"
            )

    def _load(self, connection: sqlite3.Connection, call: str) -> Loaded | None:
        row = connection.execute(_CALL, (call,)).fetchone()
        if row is None:
            return None
        stored, (start, answer) = _stored(row), row[10:]
        entries = [(START, start, stored.created_at), *connection.execute(_ENTRIES, (call,))]
        return Loaded(stored, latest([*entries, (ANSWER, answer, stored.updated_at)]))

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"the journal {self._path} cannot be {done}: {error}") from error


def _stored(row: Sequence[Any]) -> StoredCall:
    """Return the call of a row. Owners from before the start of the machine no longer exist."""
    left = -1.0 if BOOT and is_of_other_boot(row[6]) else row[7] - _now()
    return StoredCall._make((*row[:7], left, *row[8:10]))
