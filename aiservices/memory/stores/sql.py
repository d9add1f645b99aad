"""Stores for conversations in an SQLite file, or in any database that SQLAlchemy supports.

The SQLite store writes one row per message.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...models.arguments import check_settings, checks_arguments, is_positive
from ...models.errors import (
    MemoryConflictError,
    import_extra,
)
from ...models.messages import Message, message_to_json
from ...models.sql_engine import create_engine
from ...models.sqlite_file import SqliteFile, is_locked
from . import (
    RESUMED_PREFIX,
    StoredConversation,
    check_version,
    new_version,
    newest_messages,
    read_messages,
    store_errors,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Delete, Engine, MetaData, Select, Table, Update


# --- SQLAlchemy ---


@checks_arguments
class SqlAlchemyChatMemoryStore:
    """A store for conversations in a database that SQLAlchemy supports.

    Needs the extra ``sqlalchemy`` and a driver for the database.

    The two tables are created if they do not exist. Ids may have at most 255 characters.

    Args:
        url: The database URL, such as "postgresql+psycopg://…", or an SQLAlchemy ``Engine``.
        prefix: The names of both tables start with this prefix.
    """

    def __init__(self, url: str | Engine, *, prefix: str = "chat_memory") -> None:
        self._sql: Any = import_extra("sqlalchemy", "sqlalchemy", "SqlAlchemyChatMemoryStore")
        self._engine: Engine = create_engine(self._sql, url, "SqlAlchemyChatMemoryStore")
        tables: MetaData = self._sql.MetaData()
        self._conversations, self._messages = _tables(self._sql, tables, prefix)
        with self._errors("open", ""):
            tables.create_all(self._engine)

    def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
        # The version is read before the messages. If another process writes in between, the version is too
        # old, and the next write reports a conflict instead of losing messages.
        with self._errors("read", conversation), self._engine.begin() as connection:
            version = self._version(connection, conversation)
            messages = self._messages.c
            query = _in_conversation(self._sql.select(messages.message), self._messages, conversation)
            if last is None:
                rows = connection.execute(query.order_by(messages.position)).scalars().all()
                return StoredConversation(read_messages(self, conversation, rows), version)
            newest = query.order_by(messages.position.desc())
            # one row more shows whether there are older ones
            rows = connection.execute(newest.limit(last + 1)).scalars().all()[::-1]
            loaded = read_messages(self, conversation, rows)
            if len(loaded) <= last:
                return StoredConversation(loaded, version)
            # the database reads the rows of the conversation for this, but returns one at most
            system_rows = newest.where(messages.message.startswith('{"type": "system"')).limit(1)
            older = read_messages(self, conversation, connection.execute(system_rows).scalars().all())
            return newest_messages(older, loaded[-last:], version, is_complete=False)

    def append(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._errors("write", conversation), self._engine.begin() as connection:
            version = self._claim(connection, conversation, expected)
            self._insert(connection, conversation, messages)
        return version

    def replace(self, conversation: str, messages: Sequence[Message], /, *, expected: int) -> int:
        check_version(expected)
        with self._errors("write", conversation), self._erasing() as connection:
            version = self._claim(connection, conversation, expected)
            connection.execute(_in_conversation(self._messages.delete(), self._messages, conversation))
            self._insert(connection, conversation, messages)
        return version

    def delete(self, conversation: str, /) -> None:
        with self._errors("delete", conversation), self._erasing() as connection:
            for table in (self._conversations, self._messages):
                connection.execute(_in_conversation(table.delete(), table, conversation))

    def close(self) -> None:
        """Close the database connections; the next read or write opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _erasing(self) -> Iterator[Connection]:
        """Begin a transaction in which SQLite overwrites what is deleted, as other databases do in time."""
        is_sqlite = self._engine.dialect.name == "sqlite"
        with self._engine.begin() as connection:
            if is_sqlite:
                connection.exec_driver_sql("PRAGMA secure_delete = ON")
            yield connection
        if is_sqlite:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _errors(self, action: str, conversation: str) -> AbstractContextManager[None]:
        return store_errors(self, action, conversation, self._sql.exc.SQLAlchemyError, self._is_temporary)

    def _is_temporary(self, error: Exception) -> bool:
        """Return True if a retry may help after a database error, such as a lost connection."""
        errors = self._sql.exc
        if isinstance(error, errors.TimeoutError) or getattr(error, "connection_invalidated", False):
            return True
        if not isinstance(error, errors.OperationalError):
            return False
        # SQLite also reports a missing table as an OperationalError; its codes 5 and 6 are locks
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
        return code is None or code & 0xFF in (5, 6)

    def _version(self, connection: Connection, conversation: str) -> int:
        table = self._conversations
        query = _in_conversation(self._sql.select(table.c.version), table, conversation)
        return int(connection.execute(query).scalar() or 0)

    def _claim(self, connection: Connection, conversation: str, expected: int) -> int:
        """Lock the database row of a conversation by writing a new version number to it.

        Raises MemoryConflictError if its version is not ``expected``.
        """
        table, version = self._conversations, new_version()
        claim = _in_conversation(table.update(), table, conversation).where(table.c.version == expected)
        if connection.execute(claim.values(version=version)).rowcount:
            return version
        if expected:
            raise MemoryConflictError(conversation)
        # version 0 means that there is no row yet; two writers that both insert it violate the primary key
        try:
            connection.execute(table.insert().values(conversation=conversation, version=version))
        except self._sql.exc.IntegrityError as error:
            raise MemoryConflictError(conversation) from error
        return version

    def _insert(self, connection: Connection, conversation: str, messages: Sequence[Message]) -> None:
        table = self._messages
        last = _in_conversation(self._sql.select(self._sql.func.max(table.c.position)), table, conversation)
        first = (connection.execute(last).scalar() or 0) + 1
        rows = [
            {
                "conversation": conversation,
                "position": position,
                "message": message_to_json(message),
            }
            for position, message in enumerate(messages, first)
        ]
        if rows:
            connection.execute(table.insert(), rows)


_Statement = TypeVar("_Statement", "Select[Any]", "Update", "Delete")


def _in_conversation(statement: _Statement, table: Table, conversation: str) -> _Statement:
    """Add a condition to an SQL statement that selects the rows of one conversation."""
    return statement.where(table.c.conversation == conversation)


def _tables(sql: Any, tables: MetaData, prefix: str) -> tuple[Table, Table]:
    conversations = sql.Table(
        f"{prefix}_conversations",
        tables,
        sql.Column("conversation", sql.String(255), primary_key=True),
        sql.Column("version", sql.BigInteger, nullable=False),
    )
    messages = sql.Table(
        f"{prefix}_messages",
        tables,
        sql.Column("conversation", sql.String(255), primary_key=True),
        sql.Column("position", sql.Integer, primary_key=True, autoincrement=False),
        sql.Column("message", sql.Text, nullable=False),
    )
    return conversations, messages


# --- SQLite ---


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


@checks_arguments
class SqliteChatMemoryStore:
    """A store for conversations in an SQLite file, which is created if it does not exist.

    Threads and processes can share the file. If a process dies during a write, nothing of that write is
    stored. The file is created with permissions for its owner only. Call ``close`` when the store is no
    longer needed, or use the store as a context manager.

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
        with self._errors("write", conversation), self._file.writing(erases=True) as connection:
            _check(connection, conversation, expected)
            connection.execute(_DELETE, (conversation,))
            return _insert(connection, conversation, messages)

    def delete(self, conversation: str, /) -> None:
        with self._errors("delete", conversation), self._file.writing(erases=True) as connection:
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
        row = message_to_json(message)
        connection.execute(_INSERT, (conversation, row))
    (version,) = connection.execute(_VERSION, (conversation,)).fetchone()
    return int(version)
