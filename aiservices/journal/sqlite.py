"""A journal in an SQLite file, which processes on one machine share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.sqlite_file import SqliteFile
from .store import Entry, JournalError, Loaded, Status, StoredCall, TakesLease, latest

_SCHEMA = """
CREATE TABLE IF NOT EXISTS durable_call (
    id TEXT PRIMARY KEY, status TEXT NOT NULL, method TEXT NOT NULL, user TEXT NOT NULL,
    created_at REAL NOT NULL, updated_at REAL NOT NULL, owner TEXT NOT NULL, leased_until REAL NOT NULL,
    fence INTEGER NOT NULL, format INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS durable_entry (
    call TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (call, number)
) WITHOUT ROWID;
"""
_CALL = "SELECT * FROM durable_call WHERE id = ?"
_ENTRIES = "SELECT key, data, at FROM durable_entry WHERE call = ? ORDER BY number"
_ADD = """
INSERT INTO durable_entry
SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4 FROM durable_entry WHERE call = ?1
"""
_CREATE = "INSERT INTO durable_call VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TAKE = """
UPDATE durable_call SET owner = ?, leased_until = ?, fence = fence + 1, status = 'running', updated_at = ?
WHERE id = ?
"""
# a status or lease that is NULL stays as it is
_UPDATE = """
UPDATE durable_call SET status = coalesce(?1, status), leased_until = coalesce(?2, leased_until),
    owner = CASE WHEN ?2 = 0 THEN '' ELSE owner END, updated_at = ?3, fence = fence + (?5 IS NULL)
WHERE id = ?4 AND (?5 IS NULL OR fence = ?5)
"""


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
            connection.execute("BEGIN")  # so that both are of the same moment
            try:
                return self._load(connection, call)
            finally:
                connection.execute("COMMIT")

    def lease(
        self, new: StoredCall, start: Sequence[Entry], statuses: Collection[str], takes: TakesLease, /
    ) -> Loaded:
        with self._errors("write"), self._file.writing() as connection:
            loaded = self._load(connection, new.id)
            if loaded is None:
                connection.execute(_CREATE, new)
                self._add(connection, new.id, start)
                return Loaded(new, list(start))
            if loaded.call.status not in statuses or not takes(loaded.call):
                return loaded
            connection.execute(_TAKE, (new.owner, new.leased_until, time.time(), new.id))
            return Loaded(StoredCall(*connection.execute(_CALL, (new.id,)).fetchone()), loaded.entries)

    def append(
        self,
        call: str,
        fence: int | None,
        entries: Sequence[Entry],
        /,
        *,
        status: Status | None = None,
        leased_until: float | None = None,
    ) -> bool:
        with self._errors("write"), self._file.writing() as connection:
            values = (status, leased_until, time.time(), call, fence)
            if connection.execute(_UPDATE, values).rowcount == 0:
                return False
            self._add(connection, call, entries)
        return True

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        marks = ", ".join("?" * len(statuses))
        query = f"SELECT * FROM durable_call WHERE status IN ({marks}) ORDER BY created_at, id"
        with self._errors("read"), self._file.reading() as connection:
            return [StoredCall(*row) for row in connection.execute(query, tuple(statuses))]

    def delete(self, call: str, /) -> None:
        with self._errors("write"), self._file.writing(erases=True) as connection:
            connection.execute("DELETE FROM durable_entry WHERE call = ?", (call,))
            connection.execute("DELETE FROM durable_call WHERE id = ?", (call,))

    def close(self) -> None:
        self._file.close()

    def _load(self, connection: sqlite3.Connection, call: str) -> Loaded | None:
        row = connection.execute(_CALL, (call,)).fetchone()
        if row is None:
            return None
        return Loaded(StoredCall(*row), latest(connection.execute(_ENTRIES, (call,))))

    def _add(self, connection: sqlite3.Connection, call: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            connection.execute(_ADD, (call, *entry))

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"the journal {self._path} cannot be {_DONE[action]}: {error}") from error


_DONE = {"read": "read", "write": "written"}
