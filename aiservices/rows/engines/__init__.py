"""Engines for ``map_rows``, which send requests in batches or from Ray or Spark worker processes.

``as_udf`` makes a service method a UDF (user-defined function) for Ray Data or Spark.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from hashlib import blake2b
from os import PathLike
from typing import Any, Literal, TypedDict, Unpack

from ...engine.budget import Budget
from ...engine.response_cache import ResponseCache
from ...models.arguments import count_problems
from ...models.errors import DefinitionError, DefinitionProblem, import_extra
from ...models.limits import Limits
from ...service.settings import check_keywords, shows_settings
from ..fields import ANY_TIMES, AnswerColumn, Fields, answer_columns, fit, output_fields
from ..mapping import row_problems
from ..row import EntryReader, MappedMethod, NullCellError, RowsError, content_id, map_method, with_columns
from ..runner import shared_budget
from ..tables import batch_rows, open_table, pyarrow
from .batch import BatchEngine
from .clusters import RayEngine, SparkEngine, use_this_python
from .permissions import PermissionAddress, PermissionServer
from .workers import (
    Chunk,
    PartFolder,
    WorkDone,
    Worker,
    WorkRow,
    WorkSpec,
    bound_service,
    pickled_spec,
    worker_for,
)

__all__ = ["BatchEngine", "RayEngine", "SparkEngine", "Udf", "UdfSettings", "as_udf"]


class UdfSettings(TypedDict, total=False):
    """The keyword arguments of ``as_udf``, which makes a service method a UDF for Ray Data or Spark.

    Attributes:
        columns: The column for each parameter whose column has another name, as in ``{"text": "body"}``.
        journal: A folder that keeps what is answered, so that a batch that is processed again sends only
            what is missing: a path that all machines share, or a URL for fsspec, such as
            "s3://bucket/folder". Spark and Ray repeat batches when a worker is lost.
        limits: The limits of requests to the model, of all workers together.
        budget: The limits of money, tokens, requests and seconds, of all workers together.
        max_concurrency: The number of rows that a worker processes at the same time; 64 by default, or
            as many as the limits or the model allow.
        row_timeout: The seconds after which a row has an error; 600 by default. The time in which a request
            waits for its turn does not count.
        nulls: What a null cell of a parameter that is not optional gives, without a request: "error" is an
            error of the row, the default, and "null" is null as its answer.
        cache: Answers requests with the replies that it has stored.
    """

    columns: Mapping[str, str]
    journal: str | PathLike[str] | None
    limits: Limits | None
    budget: Budget | None
    max_concurrency: int
    row_timeout: float
    nulls: Literal["error", "null"]
    cache: ResponseCache | None


class Udf:
    """A service method as a user-defined function (UDF) over Arrow data, created by ``as_udf``."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec

    def __reduce__(self) -> tuple[object, ...]:
        return Udf, (self._spec,)

    @property
    def __name__(self) -> str:
        return self._worker.method.qualname

    @property
    def _worker(self) -> Worker:
        return worker_for(self._spec)

    def schema(self, schema: Any) -> Any:
        """Return the Arrow schema of the result for a given input schema."""
        fields = self._fields(schema)
        pa = pyarrow()
        for column in fields.answers.columns:
            schema = schema.append(pa.field(column.name, _column_type(column)))
        return schema.append(pa.field(fields.error, pa.string()))

    def spark_schema(self, frame: Any) -> Any:
        """Return the Spark schema of the result for a given dataframe, for use with ``mapInArrow``.

        If Spark runs on this machine, its workers are configured to use this Python interpreter.
        """
        use_this_python(frame.sparkSession)
        types = import_extra("pyspark.sql.pandas.types", "spark", "as_udf")
        arguments = {}
        if "timezone" in inspect.signature(types.to_arrow_schema).parameters:  # since Spark 4.1
            arguments["timezone"] = frame.sparkSession.conf.get("spark.sql.session.timeZone")
        return types.from_arrow_schema(self.schema(types.to_arrow_schema(frame.schema, **arguments)))

    def __call__(self, data: Any) -> Any:
        """Call the service method for each row, and return the data with the answers in new columns.

        The result is a table for a table, and an iterator of batches for an iterator of batches.
        """
        if hasattr(data, "to_batches"):
            return pyarrow().Table.from_batches(self._batches(data.to_batches()), self.schema(data.schema))
        return self._batches(data)

    def _batches(self, batches: Iterable[Any]) -> Iterator[object]:
        fields: Fields | None = None
        for batch in batches:
            fields = fields or self._fields(batch.schema)
            yield self._answer(batch, fields)

    def _fields(self, schema: Any) -> Fields:
        method = with_columns(self._worker.method, schema.names)
        columns = answer_columns(method.service_method.plan.returns.output_type)
        return output_fields(open_table(schema.empty_table()), columns)

    def _answer(self, batch: Any, fields: Fields) -> object:
        pa, worker = pyarrow(), self._worker
        method = with_columns(worker.method, batch.schema.names)
        errors: list[str | None] = []
        rows: list[WorkRow | None] = []
        for inputs in batch_rows([batch], method.qualname):
            try:
                arguments = method.arguments(inputs)
            except ValueError as error:
                is_null = worker.null_answers and isinstance(error, NullCellError)
                errors.append(None if is_null else f"ValueError: {error}")
                rows.append(None)
            else:
                errors.append(None)
                rows.append(WorkRow(content_id(arguments), arguments, {}))
        unique = {row.row_id: row for row in rows if row is not None}
        name = blake2b("\0".join([worker.work, *unique]).encode(), digest_size=16).hexdigest()
        answered = dict(zip(unique, worker.answer(Chunk(name, list(unique.values()))), strict=True))
        answers: list[list[object]] = [[] for _ in fields.answers.columns]
        reader = EntryReader(method)
        for number, row in enumerate(rows):
            values: list[object] = [None] * len(answers)
            if row is not None:
                values, errors[number] = _values(answered[row.row_id], reader, fields, method)
            for column, value in zip(answers, values, strict=True):
                column.append(value)
        arrays = [
            pa.array([fit(value, _column_type(column)) for value in values], _column_type(column))
            for column, values in zip(fields.answers.columns, answers, strict=True)
        ]
        schema = self.schema(batch.schema)
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *arrays, pa.array(errors, pa.string())], schema=schema
        )

    def __repr__(self) -> str:
        return f"<as_udf of {self.__name__}>"


def _column_type(column: AnswerColumn) -> object:
    """Return the Arrow type of a column, which must hold every value: other workers have further rows."""
    return column.shape.arrow({*ANY_TIMES})


def _values(
    done: WorkDone, reader: EntryReader, fields: Fields, method: MappedMethod
) -> tuple[list[object], str | None]:
    """Return the values of a row's answer columns, and the row's error message or None."""
    nothing: list[object] = [None] * len(fields.answers.columns)
    if done.entry is None:
        return nothing, None  # another row of the batch has the fatal error
    row = reader.new(0, None, {}, done.entry, done.seconds)
    if row.error is not None:
        if done.failure in ("fatal", "budget"):
            raise RowsError(f"{method.qualname}: no other row can succeed: {row.error}")
        return nothing, str(row.error)
    answer, values = fields.answers.split(row.value), []
    for column in fields.answers.columns:
        facts: set[str] = set()
        try:
            value = column.shape.value(column.to_json(answer[column.name]), facts)
            if column.shape.arrow({*facts, *ANY_TIMES}) != _column_type(column):
                raise ValueError(f"{answer[column.name]!r} does not fit {_column_type(column)}")
        except ValueError as problem:
            return nothing, f"column {column.name}: {problem}"
        values.append(value)
    return values, None


@shows_settings(UdfSettings)
def as_udf(method: Callable[..., object], /, **settings: Unpack[UdfSettings]) -> Udf:
    """Convert a service method to a user-defined function (UDF) for Ray Data and Spark dataframes.

    The result has the input columns, the answer's columns with Arrow types for the return type, and a column
    ``error``::

        ticket = as_udf(desk.ticket, journal="/shared/tickets")
        answers = dataset.map_batches(ticket, batch_format="pyarrow", batch_size=1000)  # Ray Data
        answers = frame.mapInArrow(ticket, ticket.spark_schema(frame))  # Spark

    A row that cannot be answered has an error, and the others go on. An error that would occur in all rows,
    such as a wrong key, ends the job. With ``limits`` or ``budget``, this process permits the requests of all
    workers: it must live as long as the job.

    Args:
        method: A method of a service that returns a value or a Result; it may be async.
        **settings: See ``UdfSettings``.

    Raises:
        DefinitionError: The method cannot be mapped, cannot be sent to other processes, or a setting is
            wrong.
    """
    check_keywords("as_udf", settings, UdfSettings.__annotations__)
    columns = settings.get("columns") or {}
    mapped = map_method(method, columns, text_only=False)
    problems = list(_problems(settings))
    if problems:
        raise DefinitionError([DefinitionProblem(mapped.qualname, problem) for problem in problems])
    journal, parts = settings.get("journal"), None
    if journal is not None:
        parts = PartFolder.at(journal)
        parts.check()
    limits, budget, permissions = settings.get("limits"), settings.get("budget"), None
    if limits is not None or budget is not None:
        permissions = _start_server(limits or Limits(), budget or Budget(), mapped.service_method.budget)
    service, name = bound_service(mapped)
    spec = WorkSpec(
        service,
        name,
        columns,
        False,
        mapped.concurrency(settings.get("max_concurrency"), limits),
        settings.get("row_timeout", 600.0),
        Budget(prices=(budget or Budget()).prices),
        settings.get("cache"),
        parts,
        permissions,
        settings.get("nulls") == "null",
    )
    return Udf(pickled_spec(mapped, spec))


def _problems(settings: UdfSettings) -> Iterator[str]:
    for name, kind in (("limits", Limits), ("budget", Budget), ("cache", ResponseCache)):
        value = settings.get(name)
        if value is not None and not isinstance(value, kind):
            yield f"{name} is {type(value).__name__}; pass a {kind.__name__}"
    yield from count_problems(max_concurrency=settings.get("max_concurrency"))
    yield from row_problems(settings)


def _start_server(limits: Limits, budget: Budget, prices: Budget) -> PermissionAddress:
    """Start a PermissionServer in a new thread, and return its address."""
    started: Future[PermissionAddress] = Future()

    async def serve() -> None:
        with shared_budget(budget) as spent:
            try:
                started.set_result(await PermissionServer(limits, spent, prices).start(_own_host()))
            except OSError as error:
                started.set_exception(error)
                return
            await asyncio.Event().wait()

    threading.Thread(target=asyncio.run, args=(serve(),), daemon=True, name="aiservices permissions").start()
    return started.result()


def _own_host() -> str:
    """Return the address at which Ray or Spark workers can reach this machine."""
    ray, sql = sys.modules.get("ray"), sys.modules.get("pyspark.sql")
    if ray is not None and ray.is_initialized():
        return str(ray.util.get_node_ip_address())
    session = None if sql is None else sql.SparkSession.getActiveSession()
    return "127.0.0.1" if session is None else str(session.conf.get("spark.driver.host"))
