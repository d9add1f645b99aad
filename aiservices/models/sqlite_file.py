"""A wrapper for an SQLite file that several threads and processes can use at the same time."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


class SqliteFile:
    """An SQLite database file; all threads of a process share one connection to the file.

    The file is created with permissions for its owner only. After a fork, the child gets its own connection.
    Deleted text is overwritten, on every build of SQLite. Raises sqlite3.Error if the file cannot be used.

    Args:
        path: The path of the file.
        schema: SQL statements that create the tables if they do not exist.
        timeout: Seconds to wait for another thread or process that is writing.
        synchronous: "NORMAL" if a power failure may lose the last writes, "FULL" if not.
    """

    def __init__(
        self, path: str | Path, schema: str, timeout: float = 30.0, *, synchronous: str = "NORMAL"
    ) -> None:
        self._path = str(path)
        self._synchronous = synchronous
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._must_erase = False
        self._identity: tuple[int, int] | None = None  # of the open file
        with self._lock:
            self._connected().executescript(schema)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Context manager that lends the SQLite connection to one thread at a time for reading."""
        with self._own_lock():
            yield self._connected()

    def is_replaced(self) -> bool:
        """Return True if the file was deleted, or replaced by another one, while it was open."""
        if not self._identity:
            return False
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def execute(self, statement: str, values: Sequence[object] | Mapping[str, object]) -> sqlite3.Cursor:
        """Run one SQL statement, which is a transaction of its own."""
        if self._must_erase:
            with self.writing() as connection:
                return connection.execute(statement, values)
        with self._own_lock():
            return self._connected().execute(statement, values)

    @contextmanager
    def writing(self, *, erases: bool = False) -> Iterator[sqlite3.Connection]:
        """Context manager for an SQLite transaction that locks the database for writing from its start.

        SQLite may refuse to turn a reading transaction into a writing one. With ``erases`` the write-ahead
        log is emptied afterwards, because it contains the text that was deleted.
        """
        with self._own_lock():
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
                self._must_erase |= erases
                self._erase(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _erase(self, connection: sqlite3.Connection) -> None:
        """Empty the write-ahead log; while another connection reads from it, leave that to the next write."""
        if self._must_erase:
            connection.execute("PRAGMA busy_timeout = 200")
            try:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._must_erase = bool(busy)
                if busy:
                    message = "%s: deleted text stays in the write-ahead log until other readers are done"
                    logging.getLogger("aiservices").warning(message, self._path)
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")

    def _own_lock(self) -> threading.Lock:
        """Return the lock that lets only one thread at a time use the SQLite connection.

        After a fork, the child gets its own lock and connection. It must neither use nor close the connection
        of its parent, to which the finalizer of this object keeps a reference.
        """
        if self._process != os.getpid():
            self._connection, self._lock, self._process = None, threading.Lock(), os.getpid()
        return self._lock

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path not in ("", ":memory:"):
                # SQLite gives its other files, which have "-wal" and "-shm" in their names, the same mode
                with suppress(OSError):  # the file exists, or SQLite reports what is wrong
                    path = os.path.realpath(self._path)  # a link may lead to a file that does not exist
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(
                self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._use_write_ahead_log(connection)
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute("PRAGMA secure_delete = ON")
            except BaseException:
                connection.close()
                raise
            if self._path not in ("", ":memory:"):
                opened = os.stat(self._path)
                self._identity = opened.st_dev, opened.st_ino
            self._connection = connection
            # in a reference cycle, Python may finalize the connection before it calls a __del__
            self._finalizer = weakref.finalize(self, _close_in_process, connection, self._process)
            self._finalizer.atexit = False
        return self._connection

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Switch an SQLite file to write-ahead logging, trying again while the file is locked.

        SQLite refuses this change at once when the file is locked: the timeout of the connection does not
        apply to it.
        """
        end = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not is_locked(error) or time.monotonic() > end:
                    raise
            time.sleep(0.005)

    def close(self) -> None:
        """Close the SQLite file; the next read or write opens it again."""
        with self._own_lock():
            if self._connection is not None:
                self._finalizer()
                self._connection = self._identity = None


def _close_in_process(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def is_locked(error: Exception) -> bool:
    """Return True if an SQLite error means that another connection has locked the database."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # the other bits are details
