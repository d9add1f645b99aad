"""Run ``map_rows`` in worker processes of Ray or Spark, on one machine or on a cluster.

``as_udf`` makes a service method a UDF (user-defined function) for Ray Data or Spark.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from os import PathLike
from threading import Event, Thread
from typing import Any, TypedDict, Unpack

from ...engine.budget import Budget, SharedBudget
from ...engine.response_cache import ResponseCache
from ...models.errors import (
    DefinitionError,
    DefinitionProblem,
    MissingExtraError,
    import_extra,
    is_at_least,
    is_positive,
)
from ...models.limits import Limits
from ...service.settings import check_keywords
from ..fields import Fields, answer_columns, output_fields
from ..journal import Journal
from ..row import (
    EntryReader,
    MappedMethod,
    Progress,
    Row,
    RowsError,
    content_id,
    map_method,
    with_columns,
)
from ..runner import Job, RunTrace
from ..tables import batch_rows, open_table, pyarrow
from .permissions import PermissionAddress, PermissionServer
from .workers import (
    Chunk,
    PartFolder,
    WorkDone,
    Worker,
    WorkRow,
    WorkSpec,
    answer_chunk,
    bound_service,
    count_problems,
    pickled_spec,
    run_on_workers,
    worker_for,
)

_CHUNKS_PER_WORKER = 2  # so that a worker does not wait for the next one


# --- Spark ---


_JAVA = 17
_SESSION = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class SparkEngine:
    """Processes the rows of ``map_rows`` in Spark's Python workers::

        map_rows(desk.ticket, "tickets.csv", to="answers.parquet", engine=SparkEngine(spark))

    ``max_concurrency`` of ``map_rows`` applies to each worker; ``limits`` and ``budget`` apply to all
    together. For a Spark dataframe, see ``as_udf``.

    Attributes:
        spark: The SparkSession; by default the active one, else a new one on this machine, which needs
            Java 17 or newer.
        workers: How many workers process rows at the same time; by default one for each core of Spark.
        parts: The folder for what workers have answered: a path that all machines share, or a URL for fsspec,
            such as "s3://bucket/folder". On one machine, it is beside the journal by default.
        chunk_rows: How many rows a worker gets at once. Each chunk is a job of Spark.
    """

    spark: Any = None
    workers: int | None = None
    parts: str | None = None
    chunk_rows: int = 256

    def __post_init__(self) -> None:
        problems = list(count_problems(self, "workers", "chunk_rows"))
        if self.parts is not None and not isinstance(self.parts, str):
            problems.append(f"parts is {self.parts!r}; pass a text")
        if self.spark is not None and not hasattr(self.spark, "createDataFrame"):
            problems.append(f"spark is {type(self.spark).__name__}; pass a SparkSession")
        if problems:
            raise DefinitionError([DefinitionProblem("SparkEngine", problem) for problem in problems])

    @property
    def discount(self) -> float:
        """The price of a request relative to the normal price; always 1 with this engine."""
        return 1.0

    def problems(self, job: Job) -> Iterator[str]:
        """Raise MissingExtraError if Spark is not installed; otherwise return an empty iterator."""
        import_extra("pyspark", "spark", "SparkEngine")
        return iter(())

    async def run(
        self, job: Job, journal: Journal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        """Process all rows of a table in workers, and yield each row when it is finished."""
        spark = self.spark or await asyncio.to_thread(spark_session)
        is_local = use_this_python(spark)
        if self.parts is None and not is_local:
            message = "Spark runs on a cluster; pass SparkEngine(parts=…), a folder that all machines can use"
            raise DefinitionError([DefinitionProblem(job.method.qualname, message)])

        async def start(spec: bytes) -> _SparkPool:
            return _SparkPool(spark, spec, self.workers or spark.sparkContext.defaultParallelism)

        rows = run_on_workers(
            job,
            journal,
            spent,
            progress,
            trace,
            start=start,
            parts=PartFolder.at(self.parts or f"{journal.path}.parts"),
            host="127.0.0.1" if is_local else spark.conf.get("spark.driver.host"),
            chunk_rows=self.chunk_rows,
        )
        async for row in rows:
            yield row


def spark_session() -> Any:
    """Return the active SparkSession, or start a session on this machine."""
    sql = import_extra("pyspark.sql", "spark", "SparkEngine")
    active = sql.SparkSession.getActiveSession()
    if active is None:
        check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = sql.SparkSession.builder.master("local[*]").appName("aiservices")
        active = builder.config(map=_SESSION).getOrCreate()
    return active


def check_java() -> None:
    """Raise MissingExtraError if no Java version suitable for Spark is installed."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needed = f"Spark needs Java {_JAVA} or newer"
    if java is None or not os.path.exists(java):
        raise MissingExtraError(f"{needed}: install it, or set JAVA_HOME", name="java")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is not None and int(version[1]) < _JAVA:
        raise MissingExtraError(f"{needed}, and {java} is Java {version[1]}; set JAVA_HOME", name="java")


def use_this_python(spark: Any) -> bool:
    """Configure local Spark workers to use this Python interpreter; return False if Spark is not local."""
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None or not context.master.startswith("local"):
        return False
    context.pythonExec = sys.executable  # by default the python3 of the PATH, which may lack the packages
    context.environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return True


class _SparkPool:
    """Sends each chunk of rows to Spark as a separate job."""

    def __init__(self, spark: Any, spec: bytes, workers: int) -> None:
        self.slots = workers * _CHUNKS_PER_WORKER
        self.lost = _failures()
        self._spark = spark
        self._function = _ChunkFunction(spec)
        self._threads = ThreadPoolExecutor(self.slots, "aiservices spark")

    async def answer(self, chunk: bytes) -> bytes:
        """Process a pickled chunk of rows in a Spark worker, and return the pickled outcomes."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, chunk)

    def _answer(self, chunk: bytes) -> bytes:
        frame = self._spark.createDataFrame(pyarrow().table({"chunk": [chunk]}))
        (row,) = frame.mapInArrow(self._function, "done binary").collect()
        return bytes(row[0])

    async def close(self) -> None:
        """Wait for running jobs, and cancel jobs that have not started."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)


def _failures() -> tuple[type[Exception], ...]:
    """Return the types of exceptions that a failed Spark job raises."""
    errors = import_extra("pyspark.errors", "spark", "SparkEngine")
    try:
        return errors.PySparkException, import_module("py4j.protocol").Py4JError
    except ImportError:  # Spark Connect does not need it
        return (errors.PySparkException,)


class _ChunkFunction:
    """A callable for Spark's ``mapInArrow`` that processes chunks of rows in a worker."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        pa = pyarrow()
        for batch in batches:
            for chunk in batch.column(0):
                done = answer_chunk(self._spec, chunk.as_py())
                yield pa.RecordBatch.from_arrays([pa.array([done], pa.binary())], ["done"])


# --- Ray ---


_QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Processes the rows of ``map_rows`` in Ray worker processes::

        map_rows(desk.ticket, "tickets.csv", to="answers.parquet", engine=RayEngine(workers=4))

    Workers are useful if the processor is what limits a run: one process handles thousands of requests per
    second if replies are small. ``max_concurrency`` of ``map_rows`` applies to each worker; ``limits`` and
    ``budget`` are those of all together. Ray is started on this machine if it is not running.

    Attributes:
        workers: The number of worker processes; by default one for each processor of the cluster.
        address: The address of a cluster, such as "auto"; by default the one in the environment variable
            RAY_ADDRESS, else Ray runs on this machine. For a cluster, start the program on one of its
            machines, as ``ray job submit`` does.
        cpus: The processors that Ray reserves for each worker.
        parts: The folder for what workers have answered: a path that all machines share, or a URL for fsspec,
            such as "s3://bucket/folder". On one machine, it is beside the journal by default.
        chunk_rows: How many rows a worker gets at once.
    """

    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    parts: str | None = None
    chunk_rows: int = 64

    def __post_init__(self) -> None:
        problems = list(count_problems(self, "workers", "chunk_rows"))
        if not is_positive(self.cpus):
            problems.append(f"cpus is {self.cpus!r}; it must be greater than 0")
        for name, value in (("address", self.address), ("parts", self.parts)):
            if value is not None and not isinstance(value, str):
                problems.append(f"{name} is {value!r}; pass a text")
        if isinstance(self.address, str) and self.address.startswith("ray://"):
            problems.append(
                f"address is {self.address!r}, but workers cannot reach a client outside of the cluster; "
                'start the program in the cluster, as with ray job submit, and pass address="auto"'
            )
        if problems:
            raise DefinitionError([DefinitionProblem("RayEngine", problem) for problem in problems])

    @property
    def discount(self) -> float:
        """The price of a request relative to the normal price; always 1 with this engine."""
        return 1.0

    def problems(self, job: Job) -> Iterator[str]:
        """Raise MissingExtraError if Ray is not installed; otherwise return an empty iterator."""
        import_extra("ray", "ray", "RayEngine")
        return iter(())

    async def run(
        self, job: Job, journal: Journal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        """Process all rows of a table in workers, and yield each row when it is finished."""
        ray = import_extra("ray", "ray", "RayEngine")
        await asyncio.to_thread(self._start_ray, ray)
        parts = PartFolder.at(self.parts or f"{journal.path}.parts")
        machines = sum(node["Alive"] for node in ray.nodes())
        if self.parts is None and machines > 1:
            message = f"the cluster has {machines} machines; pass RayEngine(parts=…), a folder of all of them"
            raise DefinitionError([DefinitionProblem(job.method.qualname, message)])

        async def start(spec: bytes) -> _RayPool:
            workers = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1) / self.cpus))
            return _RayPool(ray, spec, workers, self.cpus)

        rows = run_on_workers(
            job,
            journal,
            spent,
            progress,
            trace,
            start=start,
            parts=parts,
            host=ray.util.get_node_ip_address(),
            chunk_rows=self.chunk_rows,
        )
        async for row in rows:
            yield row

    def _start_ray(self, ray: Any) -> None:
        """Connect to a running Ray cluster or start Ray, unless the program has already done so."""
        if ray.is_initialized():
            return
        started: Future[None] = Future()

        def start() -> None:
            try:
                ray.init(address=self.address, **_QUIET)
                started.set_result(None)
            except BaseException as error:
                started.set_exception(error)
            Event().wait()

        # The processes of Ray end together with the thread that has started them.
        Thread(target=start, daemon=True, name="aiservices ray").start()
        started.result()


class _Worker:
    """A Ray actor that processes chunks of rows in its own process."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec

    def answer(self, chunk: bytes) -> bytes:
        return answer_chunk(self._spec, chunk)


class _RayPool:
    """A pool of Ray actors, which Ray restarts if they are lost."""

    def __init__(self, ray: Any, spec: bytes, workers: int, cpus: float) -> None:
        self.slots = workers * _CHUNKS_PER_WORKER
        self.lost = (ray.exceptions.RayError,)
        self._ray = ray
        actor = ray.remote(_Worker).options(
            num_cpus=cpus, max_restarts=-1, max_task_retries=0, max_concurrency=_CHUNKS_PER_WORKER
        )
        self._actors = [actor.remote(spec) for _ in range(workers)]
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(_CHUNKS_PER_WORKER):
            for one in self._actors:
                self._free.put_nowait(one)

    async def answer(self, chunk: bytes) -> bytes:
        """Process a pickled chunk of rows in a Ray actor, and return the pickled outcomes."""
        actor = await self._free.get()
        try:
            answer: bytes = await asyncio.wrap_future(actor.answer.remote(chunk).future())
            return answer
        finally:
            self._free.put_nowait(actor)

    async def close(self) -> None:
        """Stop all actors."""
        for actor in self._actors:
            self._ray.kill(actor)


# --- User-defined functions ---


_DEFAULT_CONCURRENCY = 64


class UdfSettings(TypedDict, total=False):
    """The keyword arguments of ``as_udf``, which makes a service method a UDF for Ray Data or Spark.

    Attributes:
        columns: The column for each parameter whose column has another name, as in ``{"text": "body"}``.
        journal: A folder that keeps what is answered, so that a batch that is processed again asks only for
            what is missing: a path that all machines share, or a URL for fsspec, such as
            "s3://bucket/folder". Spark and Ray repeat batches when a worker is lost.
        limits: The limits of requests to the model, of all workers together.
        budget: The limits of money, tokens, requests and seconds, of all workers together.
        max_concurrency: How many rows a worker processes at the same time; 64 by default.
        row_timeout: The seconds after which a row has an error; 600 by default.
        cache: Answers requests with the replies that it has stored.
    """

    columns: Mapping[str, str]
    journal: str | PathLike[str] | None
    limits: Limits | None
    budget: Budget | None
    max_concurrency: int
    row_timeout: float
    cache: ResponseCache | None


class Udf:
    """A service method as a user-defined function (UDF) over Arrow data, created by ``as_udf``."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec

    def __reduce__(self) -> tuple[Any, ...]:
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
            schema = schema.append(pa.field(column.name, column.shape.arrow(set())))
        return schema.append(pa.field(fields.error, pa.string()))

    def spark_schema(self, frame: Any) -> Any:
        """Return the Spark schema of the result for a given dataframe, for use with ``mapInArrow``.

        If Spark runs on this machine, its workers are configured to use this Python interpreter.
        """
        use_this_python(frame.sparkSession)
        types = import_extra("pyspark.sql.pandas.types", "spark", "as_udf")
        return types.from_arrow_schema(self.schema(types.to_arrow_schema(frame.schema)))

    def __call__(self, data: Any) -> Any:
        """Call the service method for each row, and return the data with the answers in new columns.

        The result is a table for a table, and an iterator of batches for an iterator of batches.
        """
        if hasattr(data, "to_batches"):
            return pyarrow().Table.from_batches(self._batches(data.to_batches()), self.schema(data.schema))
        return self._batches(data)

    def _batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        fields: Fields | None = None
        for batch in batches:
            fields = fields or self._fields(batch.schema)
            yield self._answer(batch, fields)

    def _fields(self, schema: Any) -> Fields:
        method = with_columns(self._worker.method, schema.names)
        columns = answer_columns(method.service_method.plan.returns.output_type)
        return output_fields(open_table(schema.empty_table()), columns)

    def _answer(self, batch: Any, fields: Fields) -> Any:
        pa, worker = pyarrow(), self._worker
        method = with_columns(worker.method, batch.schema.names)
        errors: list[str | None] = []
        rows: list[WorkRow | None] = []
        for inputs in batch_rows([batch], method.qualname):
            try:
                arguments = method.arguments(inputs)
            except ValueError as error:
                errors.append(f"ValueError: {error}")
                rows.append(None)
            else:
                errors.append(None)
                rows.append(WorkRow(content_id(arguments), arguments, {}))
        unique = {row.row_id: row for row in rows if row is not None}
        name = blake2b("\0".join([worker.work, *unique]).encode(), digest_size=16).hexdigest()
        answered = dict(zip(unique, worker.answer(Chunk(name, list(unique.values()))), strict=True))
        answers: list[list[Any]] = [[] for _ in fields.answers.columns]
        reader = EntryReader(method)
        for number, row in enumerate(rows):
            values: list[Any] = [None] * len(answers)
            if row is not None:
                values, errors[number] = _values(answered[row.row_id], reader, fields, method)
            for column, value in zip(answers, values, strict=True):
                column.append(value)
        arrays = [
            pa.array(values, column.shape.arrow(set()))
            for column, values in zip(fields.answers.columns, answers, strict=True)
        ]
        schema = self.schema(batch.schema)
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *arrays, pa.array(errors, pa.string())], schema=schema
        )

    def __repr__(self) -> str:
        return f"<as_udf of {self.__name__}>"


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
            if column.shape.arrow(facts) != column.shape.arrow(set()):
                raise ValueError(f"{answer[column.name]!r} does not fit {column.shape.arrow(set())}")
        except ValueError as problem:
            return nothing, f"column {column.name}: {problem}"
        values.append(value)
    return values, None


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
        settings.get("max_concurrency") or (limits and limits.max_concurrency) or _DEFAULT_CONCURRENCY,
        settings.get("row_timeout", 600.0),
        Budget(prices=(budget or Budget()).prices),
        settings.get("cache"),
        parts,
        permissions,
    )
    return Udf(pickled_spec(mapped, spec))


def _problems(settings: UdfSettings) -> Iterator[str]:
    for name, kind in (("limits", Limits), ("budget", Budget), ("cache", ResponseCache)):
        value = settings.get(name)
        if value is not None and not isinstance(value, kind):
            yield f"{name} is {type(value).__name__}; pass a {kind.__name__}"
    max_concurrency = settings.get("max_concurrency")
    if max_concurrency is not None and not (
        isinstance(max_concurrency, int) and is_at_least(max_concurrency, 1)
    ):
        yield f"max_concurrency is {max_concurrency!r}; it must be a whole number of at least 1"
    if not is_positive(settings.get("row_timeout", 600.0)):
        yield f"row_timeout is {settings.get('row_timeout')!r}; it must be greater than 0"


def _start_server(limits: Limits, budget: Budget, prices: Budget) -> PermissionAddress:
    """Start a PermissionServer in a new thread, and return its address."""
    started: Future[PermissionAddress] = Future()

    async def serve() -> None:
        spent = SharedBudget(
            seconds=budget.seconds,
            tokens=budget.tokens,
            money=budget.money,
            requests=budget.requests,
            prices=budget.prices,
        )
        with spent:
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
