"""A store for conversations in an SQLite file, with one row per message."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ...models.errors import MemoryConflictError, check_settings, is_positive
from ...models.messages import Message, message_to_dict
from ...models.sqlite_file import SqliteFile, is_locked
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
    """A store for conversations in an SQLite file, which is created if it does not exist.

    Threads and processes can share the file. If a process dies during a write, nothing of that write is
    stored. The file is created with permissions for its owner only. Call ``close`` when the store is not
    needed any more, or use the store as a context manager.

    Args:
        path: The path of the file.
        timeout: Seconds to wait for another thread or process that is writing.
    """

    def __init__(self, path: str | Path, *, timeout: float = 30.0) -> None:
        check_settings(
            "SqliteChatMemoryStore",
            ("path", path, isinstance(path, (str, Path)), "pass the path of a file"),
            ("timeout", timeout, is_positive(timeout), "it must be greater than 0"),
        )
        with self._errors("open", ""):
            self._file = SqliteFile(path, _SCHEMA, timeout)

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        with self._errors("read", conversation), self._file.reading() as connection:
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
        with self._errors("write", conversation), self._file.writing() as connection:
            _check(connection, conversation, expected)
            return _insert(connection, conversation, messages)

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._errors("write", conversation), self._file.writing() as connection:
            _check(connection, conversation, expected)
            connection.execute(_DELETE, (conversation,))
            return _insert(connection, conversation, messages)

    def delete(self, conversation: str, /) -> None:
        with self._errors("delete", conversation), self._file.writing() as connection:
            connection.execute(_DELETE, (conversation,))

    def conversations(self) -> tuple[str, ...]:
        """Return the ids of all stored conversations, in the order of their creation."""
        query = "SELECT conversation FROM chat_memory GROUP BY conversation ORDER BY min(number)"
        with self._errors("list", ""), self._file.reading() as connection:
            ids = [row[0] for row in connection.execute(query)]
        return tuple(one for one in ids if not one.startswith(RESUMED_PREFIX))

    def close(self) -> None:
        """Close the SQLite file; the next read or write opens it again."""
        self._file.close()

    def __enter__(self) -> SqliteChatMemoryStore:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _errors(self, action: str, conversation: str) -> AbstractContextManager[None]:
        return store_errors(self, action, conversation, sqlite3.Error, is_locked)


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
