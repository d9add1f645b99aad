"""Keep passages and their vectors in Postgres with the extension pgvector."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

from ..models.arguments import checks_arguments
from ..models.errors import import_extra
from .content import Content
from .retrievers import check_removal, check_vectors, replaced_sources, stored_content

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@checks_arguments
class PgVectorStore:
    """A vector store that keeps passages in a table of Postgres with pgvector (needs psycopg).

        store = PgVectorStore("postgresql://user@host/shop", table="guide")
        retriever = EmbeddingRetriever(model, store)

    The extension and the table are created if they are missing; the columns of the table are ``id``,
    ``key``, ``text``, ``metadata`` and ``embedding``. Searches compare all vectors. For millions of passages
    create an index, which finds nearly all of the nearest:
    ``CREATE INDEX ON guide USING hnsw (embedding vector_cosine_ops)``. A store may be used by several threads
    and processes; ``close``, or a ``with`` block, closes its connection.

    Args:
        url: The address of the database, such as "postgresql://user@host/shop".
        table: The name of the table.

    Raises MissingExtraError without psycopg. The methods raise the errors of psycopg, and ValueError for
    vectors that do not fit. Postgres cannot store the character NUL.
    """

    def __init__(self, url: str, table: str = "contents") -> None:
        psycopg = import_extra("psycopg", "pgvector", "PgVectorStore")
        self._psycopg, self._url = psycopg, url
        self._table = psycopg.sql.Identifier(table)
        self._sql = psycopg.sql.SQL
        self._lock = threading.Lock()
        self._connection: Any = None

    def __len__(self) -> int:
        with self._cursor() as cursor:
            return int(cursor.execute(self._query("SELECT count(*) FROM {}")).fetchone()[0])

    def add(self, contents: Sequence[Content], vectors: NDArray[np.float32], /) -> None:
        """Add passages with their embedding vectors to the table, replacing passages with the same ids.

        Raises ValueError, and stores nothing, if there is not exactly one row of finite numbers per content,
        or if the length of the vectors differs from the stored vectors.
        """
        if not contents:
            return
        last = {content.key: index for index, content in enumerate(contents)}
        statement = self._query(
            "INSERT INTO {} VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET text = EXCLUDED.text,"
            " metadata = EXCLUDED.metadata, embedding = EXCLUDED.embedding"
        )
        with self._cursor() as cursor, cursor.connection.transaction():
            matrix = check_vectors(vectors, len(contents), "PgVectorStore.add", self._length(cursor))
            rows = [
                (
                    sha256(key.encode()).hexdigest(),
                    key,
                    contents[index].text,
                    json.dumps(dict(contents[index].metadata)),
                    _vector(matrix[index]),
                )
                for key, index in last.items()
            ]
            chosen = self._query("SELECT key, text, metadata FROM {} WHERE id = ANY(%s) FOR UPDATE")
            stored = {
                entry[0]: stored_content(*entry)
                for entry in cursor.execute(chosen, ([row[0] for row in rows],))
            }
            for source in replaced_sources(stored, contents):
                condition, values = _condition({"source": source})
                cursor.execute(self._query("DELETE FROM {}" + condition), values)
            cursor.executemany(statement, rows)

    def remove(self, ids: Sequence[str] = (), *, metadata: Mapping[str, object] | None = None) -> None:
        """Remove stored passages by their ids or by their metadata, such as ``{"source": "guide"}``.

        Unknown ids are ignored. Raises DefinitionError for empty metadata.
        """
        check_removal(ids, metadata, "PgVectorStore.remove")
        with self._cursor() as cursor:
            if ids:
                keys = [sha256(key.encode()).hexdigest() for key in ids]
                cursor.execute(self._query("DELETE FROM {} WHERE id = ANY(%s)"), (keys,))
            if metadata is not None:
                condition, values = _condition(metadata)
                cursor.execute(self._query("DELETE FROM {}" + condition), values)

    def search(
        self,
        vector: NDArray[np.float32],
        max_results: int = 4,
        /,
        *,
        filter: Mapping[str, object] | None = None,
    ) -> list[Content]:
        """Return the stored passages with the nearest vectors, best first, scored by cosine similarity.

        The cosine of a vector of zeros is 0, as in the other stores.
        """
        condition, values = _condition(filter or {})
        query = f"SELECT key, text, metadata, 1 - (embedding <=> %s) AS score FROM {{}}{condition}"
        ordered = self._query(query + " ORDER BY embedding <=> %s, key LIMIT %s")
        with self._cursor() as cursor:
            [row] = check_vectors([vector], 1, "PgVectorStore.search", self._length(cursor))
            nearest = _vector(row)
            results = cursor.execute(ordered, (nearest, *values, nearest, max_results)).fetchall()
            if results and not results[-1][-1] >= 0:
                # For Postgres, vectors of zeros have no angle and come last. They have a query of their own,
                # because an index of the table has the order of Postgres.
                zeros = f"{query}{' AND' if condition else ' WHERE'} vector_norm(embedding) = 0"
                limited = self._query(zeros + " ORDER BY key LIMIT %s")
                without_angle = cursor.execute(limited, (nearest, *values, max_results)).fetchall()
                results = list({one[0]: one for one in (*results, *without_angle)}.values())
        contents = [
            stored_content(key, text, metadata, 0.0 if math.isnan(score) else score)
            for key, text, metadata, score in results
        ]
        return sorted(contents, key=lambda content: -(content.score or 0.0))[:max_results]

    def _length(self, cursor: Any) -> int | None:
        """Return the length of the stored vectors; None if the table is empty."""
        stored = cursor.execute(self._query("SELECT vector_dims(embedding) FROM {} LIMIT 1")).fetchone()
        return None if stored is None else int(stored[0])

    def close(self) -> None:
        """Close the connection. A later call opens another one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _query(self, text: str) -> object:
        return self._sql(text).format(self._table)

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with self._lock:
            if self._connection is None or self._connection.closed:
                self._connection = self._psycopg.connect(self._url, autocommit=True)
                self._create_table()
            with self._connection.cursor() as cursor:
                yield cursor

    def _create_table(self) -> None:
        with self._connection.transaction():
            # two processes that create the same extension or table at once would fail
            self._connection.execute("SELECT pg_advisory_xact_lock(7283945)")
            self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            self._connection.execute(
                self._query(
                    "CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, key text NOT NULL,"
                    " text text NOT NULL, metadata jsonb NOT NULL, embedding vector NOT NULL)"
                )
            )


def _vector(numbers: Any) -> str:
    return "[" + ",".join(repr(float(number)) for number in numbers) + "]"


def _condition(metadata: Mapping[str, object]) -> tuple[str, list[str]]:
    """Return the WHERE clause for metadata, with its values: each is compared as a whole."""
    if not metadata:
        return "", []
    values = [part for name, value in metadata.items() for part in (name, json.dumps(value))]
    return " WHERE " + " AND ".join(["metadata -> %s = %s::jsonb"] * len(metadata)), values
