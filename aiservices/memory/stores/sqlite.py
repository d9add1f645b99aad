"""Keeps conversations in an SQLite file: one row a message, one transaction a turn."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...models.messages import Message, message_to_dict
from . import MemoryConflictError, Stored, message_of

# AUTOINCREMENT gives no number twice, even after rows were deleted, so the last number of a conversation is
# its version.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS chat_memory (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    message TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chat_memory_by_conversation ON chat_memory (conversation, number);
"""
_LOAD = "SELECT number, message FROM chat_memory WHERE conversation = ? ORDER BY number"
_VERSION = "SELECT coalesce(max(number), 0) FROM chat_memory WHERE conversation = ?"
_INSERT = "INSERT INTO chat_memory (conversation, message) VALUES (?, ?)"
_DELETE = "DELETE FROM chat_memory WHERE conversation = ?"


class SqliteChatMemoryStore:
    """Keeps conversations in the SQLite file ``path``, which is made when there is none.

    Threads and processes may share the file; ``timeout`` is how many seconds one waits for another that
    writes. A process that dies in the midst of a write leaves nothing of it. ``close`` it when it is not
    wanted any more; it is a context manager too.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        self._path = str(path)
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._of_parent: list[Any] = []
        with self._lock:
            self._connected().executescript(_SCHEMA)

    def load(self, conversation: str, /) -> Stored:
        with self._reading() as connection:
            rows = connection.execute(_LOAD, (conversation,)).fetchall()
        messages = tuple(message_of(json.loads(message), conversation) for _, message in rows)
        return Stored(messages, rows[-1][0] if rows else 0)

    def append(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        with self._writing() as connection:
            _check(connection, conversation, expected)
            return _insert(connection, conversation, messages)

    def replace(self, conversation: str, expected: int, messages: Sequence[Message], /) -> int:
        with self._writing() as connection:
            _check(connection, conversation, expected)
            connection.execute(_DELETE, (conversation,))
            return _insert(connection, conversation, messages)

    def delete(self, conversation: str, /) -> None:
        with self._writing() as connection:
            connection.execute(_DELETE, (conversation,))

    def conversations(self) -> tuple[str, ...]:
        """The ids of all conversations, in the order in which they began."""
        said = "SELECT conversation FROM chat_memory GROUP BY conversation ORDER BY min(number)"
        with self._reading() as connection:
            return tuple(row[0] for row in connection.execute(said))

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        with self._own_lock():
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> SqliteChatMemoryStore:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._process == os.getpid():
            connection.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._own_lock():
            yield self._connected()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that begins as a writer: a reader that turns into one may be refused halfway."""
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
        """The lock of this process: a fork must neither use its parent's connection nor close it."""
        if self._process != os.getpid():
            self._of_parent.append(self._connection)
            self._connection, self._lock, self._process = None, threading.Lock(), os.getpid()
        return self._lock

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            made = sqlite3.connect(
                self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = NORMAL")
            self._connection = made
        return self._connection


def _check(connection: sqlite3.Connection, conversation: str, expected: int) -> None:
    (version,) = connection.execute(_VERSION, (conversation,)).fetchone()
    if version != expected:
        raise MemoryConflictError(conversation)


def _insert(connection: sqlite3.Connection, conversation: str, messages: Sequence[Message]) -> int:
    for message in messages:
        said = json.dumps(message_to_dict(message), ensure_ascii=False)
        connection.execute(_INSERT, (conversation, said))
    (version,) = connection.execute(_VERSION, (conversation,)).fetchone()
    return int(version)
