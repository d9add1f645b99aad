"""Run ``map_rows`` in Spark's Python workers, on one machine or on a cluster."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ...engine.budget import SharedBudget
from ...models.errors import DefinitionError, DefinitionProblem, MissingExtraError, import_extra
from ..fields import pyarrow
from ..job import Job
from ..journal import Journal
from ..row import Progress, Row
from ..runner import RunTrace
from .parts import PartFolder
from .workers import answer_chunk, count_problems, run_on_workers

_JOBS_PER_WORKER = 2  # so that a worker does not wait for the next one
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
        """The factor by which this engine changes the price of a request: 1, which means no discount."""
        return 1.0

    def problems(self, job: Job) -> Iterator[str]:
        """Return no problems, as Spark can run all methods; raise MissingExtraError without Spark."""
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
    """Make local Spark workers use this Python interpreter and its modules; return False on a cluster."""
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None or not context.master.startswith("local"):
        return False
    context.pythonExec = sys.executable  # by default the python3 of the PATH, which may lack the packages
    context.environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return True


class _SparkPool:
    """Sends each chunk of rows to Spark as a separate job."""

    def __init__(self, spark: Any, spec: bytes, workers: int) -> None:
        self.slots = workers * _JOBS_PER_WORKER
        self.lost = _failures()
        self._spark = spark
        self._function = _ChunkFunction(spec)
        self._threads = ThreadPoolExecutor(self.slots, "aiservices spark")

    async def answer(self, chunk: bytes) -> bytes:
        """Process a chunk of rows in a Spark worker."""
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
    """A function for Spark that processes chunks of rows in a worker."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        pa = pyarrow()
        for batch in batches:
            for chunk in batch.column(0):
                done = answer_chunk(self._spec, chunk.as_py())
                yield pa.RecordBatch.from_arrays([pa.array([done], pa.binary())], ["done"])
