"""A store that keeps chat conversations in an SQLite file, with one row per message."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from ...models.errors import MemoryConflictError
from ...models.messages import Message, message_to_dict
from . import (
    RESUMED_PREFIX,
    StoredConversation,
    check_version,
    newest_messages,
    read_messages,
    store_errors,
)

# AUTOINCREMENT never reuses a number, not even after rows were deleted. So the last number of a conversation
# serves as its version.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS chat_memory (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chat_memory_by_conversation ON chat_memory (conversation, number);
CREATE INDEX IF NOT EXISTS chat_memory_system_messages ON chat_memory (conversation, number)
    WHERE substr(message, 1, 17) = '{"type": "system"';
"""
_LOAD = "SELECT number, message FROM chat_memory WHERE conversation = ? ORDER BY number"
_LOAD_LAST = """
SELECT * FROM (
    SELECT number, message FROM chat_memory WHERE conversation = :id ORDER BY number DESC LIMIT :rows
) UNION SELECT * FROM (
    SELECT number, message FROM chat_memory
    WHERE conversation = :id AND substr(message, 1, 17) = '{"type": "system"' ORDER BY number DESC LIMIT 1
) ORDER BY number
"""
_VERSION = "SELECT coalesce(max(number), 0) FROM chat_memory WHERE conversation = ?"
_INSERT = "INSERT INTO chat_memory (conversation, message) VALUES (?, ?)"
_DELETE = "DELETE FROM chat_memory WHERE conversation = ?"


class SqliteChatMemoryStore:
    """A store that keeps chat conversations in an SQLite file, which is created if it does not exist.

    Threads and processes can share the file. If a process dies during a write, nothing of that write is
    stored. The file is created with permissions for its owner only. Call ``close`` when the store is not
    needed any more, or use the store as a context manager.

    Args:
        path: The path of the file.
        timeout: Seconds to wait for another thread or process that is writing.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self._path = str(path)
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._inherited: list[sqlite3.Connection | None] = []  # connections of the parent process
        with self._lock, self._errors("open", ""):
            self._connected().executescript(_SCHEMA)

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        with self._errors("read", conversation), self._reading() as connection:
            if last is None:
                rows = connection.execute(_LOAD, (conversation,)).fetchall()
            else:  # one row more shows whether there are older ones
                names = {"id": conversation, "rows": last + 1}
                rows = connection.execute(_LOAD_LAST, names).fetchall()
        version = rows[-1][0] if rows else 0
        messages = read_messages(self, conversation, (message for _, message in rows))
        if last is None or len(rows) <= last:
            return StoredConversation(messages, version)
        return newest_messages(messages[:-last], messages[-last:], version, is_complete=False)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._errors("write", conversation), self._writing() as connection:
            _check(connection, conversation, expected)
            return _insert(connection, conversation, messages)

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._errors("write", conversation), self._writing() as connection:
            _check(connection, conversation, expected)
            connection.execute(_DELETE, (conversation,))
            return _insert(connection, conversation, messages)

    def delete(self, conversation: str, /) -> None:
        with self._errors("delete", conversation), self._writing() as connection:
            connection.execute(_DELETE, (conversation,))

    def conversations(self) -> tuple[str, ...]:
        """Return the ids of all stored conversations, in the order of their creation."""
        query = "SELECT conversation FROM chat_memory GROUP BY conversation ORDER BY min(number)"
        with self._errors("list", ""), self._reading() as connection:
            ids = [row[0] for row in connection.execute(query)]
        return tuple(one for one in ids if not one.startswith(RESUMED_PREFIX))

    def close(self) -> None:
        """Close the SQLite file; the next read or write opens it again."""
        with self._own_lock():
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> SqliteChatMemoryStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._process == os.getpid():
            connection.close()

    def _errors(self, action: str, conversation: str) -> AbstractContextManager[None]:
        return store_errors(self, action, conversation, sqlite3.Error, _is_locked)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._own_lock():
            yield self._connected()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Context manager for an SQLite transaction that takes the write lock at its start.

        SQLite may refuse to turn a reading transaction into a writing one.
        """
        with self._own_lock():
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _own_lock(self) -> threading.Lock:
        """Return the lock that protects the SQLite connection from concurrent use by several threads.

        After a fork, the child gets a lock and a connection of its own. It must neither use nor close the
        connection of its parent, so that connection stays referenced and is never finalized.
        """
        if self._process != os.getpid():
            self._inherited.append(self._connection)
            self._connection, self._lock, self._process = None, threading.Lock(), os.getpid()
        return self._lock

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path not in ("", ":memory:"):
                # SQLite gives its other files, which have "-wal" and "-shm" in their names, the same mode
                with suppress(OSError):  # the file exists, or SQLite reports what is wrong
                    os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            connection = sqlite3.connect(
                self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            self._use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            self._connection = connection
        return self._connection

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """Switch an SQLite file to write-ahead logging, and wait while other processes open the new file.

        SQLite refuses this change at once when the file is locked: the timeout of the connection does not
        apply to it.
        """
        end = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > end:
                    connection.close()
                    raise
            time.sleep(0.005)


def _is_locked(error: Exception) -> bool:
    """Return True if an SQLite error means that another writer kept the database locked for too long."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # the other bits are details


def _check(connection: sqlite3.Connection, conversation: str, expected: int) -> None:
    (version,) = connection.execute(_VERSION, (conversation,)).fetchone()
    if version != expected:
        raise MemoryConflictError(conversation)


def _insert(connection: sqlite3.Connection, conversation: str, messages: Sequence[Message]) -> int:
    for message in messages:
        row = json.dumps(message_to_dict(message), ensure_ascii=False)
        connection.execute(_INSERT, (conversation, row))
    (version,) = connection.execute(_VERSION, (conversation,)).fetchone()
    return int(version)
