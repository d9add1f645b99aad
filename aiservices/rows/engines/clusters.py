"""Run ``map_rows`` in worker processes of Ray or Spark, on one machine or on a cluster."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from threading import Event, Thread
from typing import Any

from ...engine.budget import SharedBudget
from ...models.arguments import checks_arguments, count_problems, is_positive
from ...models.errors import DefinitionError, DefinitionProblem, MissingExtraError, import_extra
from ..row import (
    Progress,
    Row,
)
from ..run_journal import RunJournal
from ..runner import Job, RunTrace
from ..tables import pyarrow
from .workers import (
    PartFolder,
    answer_chunk,
    run_on_workers,
)

_CHUNKS_PER_WORKER = 2  # so that a worker does not wait for the next one


# --- Spark ---


_JAVA = 17
_SESSION = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@checks_arguments
@dataclass(frozen=True)
class SparkEngine:
    """Processes the rows of ``map_rows`` in Spark's Python workers::

        map_rows(desk.ticket, "tickets.csv", to="answers.parquet", engine=SparkEngine(spark))

    ``max_concurrency`` of ``map_rows`` applies to each worker; ``limits`` and ``budget`` apply to all
    together. For a Spark dataframe, see ``as_udf``.

    Attributes:
        spark: The SparkSession; by default the active one, else a new one on this machine, which needs
            Java 17 or newer.
        workers: The number of workers; by default one for each core of Spark.
        parts: The folder for what workers have answered: a path that all machines share, or a URL for fsspec,
            such as "s3://bucket/folder". On one machine, it is next to the journal by default.
        chunk_rows: The number of rows that a worker gets at once. Each chunk is a job of Spark.
    """

    spark: Any = None
    workers: int | None = None
    parts: str | None = None
    chunk_rows: int = 256

    def __post_init__(self) -> None:
        problems = list(count_problems(workers=self.workers, chunk_rows=self.chunk_rows))
        if self.spark is not None and not hasattr(self.spark, "createDataFrame"):
            problems.append(f"spark is {type(self.spark).__name__}; pass a SparkSession")
        if problems:
            raise DefinitionError([DefinitionProblem("SparkEngine", problem) for problem in problems])

    @property
    def discount(self) -> float:
        """The price of a request relative to the normal price; always 1 with this engine."""
        return 1.0

    @property
    def is_delayed(self) -> bool:
        """True if requests may wait for hours; never with this engine."""
        return False

    def problems(self, job: Job) -> Iterator[str]:
        """Raise MissingExtraError if Spark is not installed; otherwise return an empty iterator."""
        import_extra("pyspark", "spark", "SparkEngine")
        return iter(())

    async def run(
        self, job: Job, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
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

    def __call__(self, batches: Iterable[Any]) -> Iterator[object]:
        pa = pyarrow()
        for batch in batches:
            for chunk in batch.column(0):
                done = answer_chunk(self._spec, chunk.as_py())
                yield pa.RecordBatch.from_arrays([pa.array([done], pa.binary())], ["done"])


# --- Ray ---


_QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Processes the rows of ``map_rows`` in Ray worker processes::

        map_rows(desk.ticket, "tickets.csv", to="answers.parquet", engine=RayEngine(workers=4))

    Workers are useful if the processor is what limits a run: one process handles thousands of requests per
    second if replies are small. ``max_concurrency`` of ``map_rows`` applies to each worker; ``limits`` and
    ``budget`` apply to all together. Ray is started on this machine if it is not running.

    Attributes:
        workers: The number of worker processes; by default one for each processor of the cluster.
        address: The address of a cluster, such as "auto"; by default the one in the environment variable
            RAY_ADDRESS, else Ray runs on this machine. For a cluster, start the program on one of its
            machines, as ``ray job submit`` does.
        cpus: The processors that Ray reserves for each worker.
        parts: The folder for what workers have answered: a path that all machines share, or a URL for fsspec,
            such as "s3://bucket/folder". On one machine, it is next to the journal by default.
        chunk_rows: The number of rows that a worker gets at once.
    """

    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    parts: str | None = None
    chunk_rows: int = 64

    def __post_init__(self) -> None:
        problems = list(count_problems(workers=self.workers, chunk_rows=self.chunk_rows))
        if not is_positive(self.cpus):
            problems.append(f"cpus is {self.cpus!r}; it must be greater than 0")
        if self.address is not None and self.address.startswith("ray://"):
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

    @property
    def is_delayed(self) -> bool:
        """True if requests may wait for hours; never with this engine."""
        return False

    def problems(self, job: Job) -> Iterator[str]:
        """Raise MissingExtraError if Ray is not installed; otherwise return an empty iterator."""
        import_extra("ray", "ray", "RayEngine")
        return iter(())

    async def run(
        self, job: Job, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
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
