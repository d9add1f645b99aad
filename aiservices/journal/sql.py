"""A journal in a database that SQLAlchemy supports, such as PostgreSQL, which several machines share."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..models.errors import JournalError, import_extra
from ..models.sql_engine import create_engine
from .store import START, Entry, Loaded, Status, StoredCall, TakesLease, with_lease

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table


_CLOCKS = {
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "mysql": "unix_timestamp(now(6))",
    "mariadb": "unix_timestamp(now(6))",
}


class SqlAlchemyJournalStore:
    """A store for journals in a database that SQLAlchemy supports.

    Needs the extra ``sqlalchemy`` and a driver for the database. The two tables are created if they do not
    exist.

    Args:
        url: The database URL, such as "postgresql+psycopg://…", or an SQLAlchemy ``Engine``.
    """

    blocks = True

    def __init__(self, url: str | Engine) -> None:
        self._sql: Any = import_extra("sqlalchemy", "sqlalchemy", "Journal")
        self._engine: Engine = create_engine(self._sql, url, "Journal")
        self._now = self._clock()
        tables = self._sql.MetaData()
        self._calls, self._entries = _tables(self._sql, tables)
        with self._errors("opened"):
            tables.create_all(self._engine)

    def _clock(self) -> Any:
        """Return an SQL expression for the database's clock in seconds, or the time of this machine."""
        text = _CLOCKS.get(self._engine.dialect.name)
        if text is None:
            return self._sql.bindparam(None, callable_=time.time, type_=self._sql.Float(53))
        return self._sql.literal_column(text, self._sql.Float(53))

    def load(self, call: str, /) -> Loaded | None:
        # with a lock, so that the call and its entries are consistent
        with self._errors("read"), self._engine.begin() as connection:
            return self._load(connection, call)

    def lease(self, new: StoredCall, start: str, statuses: Collection[str], takes: TakesLease, /) -> Loaded:
        calls = self._calls
        with self._errors("written"):
            try:
                with self._engine.begin() as connection:
                    loaded = self._load(connection, new.id)
                    if loaded is None:
                        first = Entry(START, start, new.created_at)
                        connection.execute(calls.insert().values(**self._row(new)))
                        self._add(connection, new.id, [first])
                        return Loaded(new, [first])
                    return self._take(connection, loaded, new, statuses, takes)
            except self._sql.exc.IntegrityError:  # another process has created it
                with self._engine.begin() as connection:
                    loaded = self._load(connection, new.id)
                    if loaded is None:
                        raise
                    return self._take(connection, loaded, new, statuses, takes)

    def _take(
        self,
        connection: Connection,
        loaded: Loaded,
        new: StoredCall,
        statuses: Collection[str],
        takes: TakesLease,
    ) -> Loaded:
        if loaded.call.status not in statuses or not takes(loaded.call):
            return loaded
        leased = with_lease(new, loaded.call)
        calls = self._calls
        connection.execute(calls.update().where(calls.c.id == new.id).values(**self._row(leased)))
        return Loaded(leased, loaded.entries)

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
        calls = self._calls
        values: dict[str, object] = {"updated_at": time.time()}
        if status is not None:
            values["status"] = status
        if leased_for is not None:
            values["leased_until"] = self._now + leased_for
        if leased_for == 0:
            values["owner"] = ""
        update = calls.update().where(calls.c.id == call)
        if fence is None:
            values["fence"] = calls.c.fence + 1
        else:
            update = update.where(calls.c.fence == fence)
        with self._errors("written"), self._engine.begin() as connection:
            if connection.execute(update.values(**values)).rowcount == 0:
                return False
            self._add(connection, call, entries)
        return True

    def list(self, statuses: Collection[str], /) -> Sequence[StoredCall]:
        calls = self._calls
        query = self._sql.select(calls, self._now).where(calls.c.status.in_(list(statuses)))
        with self._errors("read"), self._engine.begin() as connection:
            rows = connection.execute(query.order_by(calls.c.created_at, calls.c.id)).all()
        return [_stored(row) for row in rows]

    def delete(self, call: str, /) -> None:
        with self._errors("written"), self._engine.begin() as connection:
            connection.execute(self._calls.delete().where(self._calls.c.id == call))
            connection.execute(self._entries.delete().where(self._entries.c.call == call))

    def close(self) -> None:
        """Close the database connections; the next access opens new ones."""
        self._engine.dispose()

    def _load(self, connection: Connection, call: str) -> Loaded | None:
        """Return a call, which no other transaction can change until this one ends."""
        calls, entries = self._calls.c, self._entries.c
        query = self._sql.select(self._calls, self._now).where(calls.id == call).with_for_update()
        row = connection.execute(query).first()
        if row is None:
            return None
        rows = self._sql.select(entries.key, entries.data, entries.at).where(entries.call == call)
        stored_entries = connection.execute(rows.order_by(entries.number)).all()
        return Loaded(_stored(row), [Entry(*one) for one in stored_entries])

    def _row(self, call: StoredCall) -> dict[str, object]:
        row = call._asdict()
        row["leased_until"] = self._now + row.pop("leased_for")
        return row

    def _add(self, connection: Connection, call: str, entries: Sequence[Entry]) -> None:
        """Add entries, replacing those with the same keys. The row of the call is locked."""
        table = self._entries
        for entry in entries:
            same = (table.c.call == call) & (table.c.key == entry.key)
            connection.execute(table.delete().where(same))
            if entry.data:
                connection.execute(table.insert().values(call=call, **entry._asdict()))

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except self._sql.exc.SQLAlchemyError as error:
            raise JournalError(f"the journal cannot be {done}: {type(error).__name__}: {error}") from error


def _stored(row: Sequence[Any]) -> StoredCall:
    return StoredCall._make((*row[:7], row[7] - row[10], *row[8:10]))


def _tables(sql: Any, tables: object) -> tuple[Table, Table]:
    number, text = sql.Float(53), sql.Text
    calls = sql.Table(
        "durable_call",
        tables,
        sql.Column("id", sql.String(256), primary_key=True),
        sql.Column("status", sql.String(20), nullable=False, index=True),
        sql.Column("method", text, nullable=False),
        sql.Column("user", text, nullable=False),
        sql.Column("created_at", number, nullable=False),
        sql.Column("updated_at", number, nullable=False),
        sql.Column("owner", text, nullable=False),
        sql.Column("leased_until", number, nullable=False),
        sql.Column("fence", sql.Integer, nullable=False),
        sql.Column("format", sql.Integer, nullable=False),
    )
    entries = sql.Table(
        "durable_entry",
        tables,
        sql.Column("number", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True),
        sql.Column("call", sql.String(256), nullable=False, index=True),
        sql.Column("key", text, nullable=False),
        sql.Column("data", text, nullable=False),
        sql.Column("at", number, nullable=False),
    )
    return calls, entries
