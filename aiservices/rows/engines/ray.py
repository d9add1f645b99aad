"""Run ``map_rows`` in Ray worker processes, on one machine or on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from ...engine.budget import SharedBudget
from ...models.errors import DefinitionError, DefinitionProblem, import_extra, is_positive
from ..job import Job
from ..journal import Journal
from ..row import Progress, Row
from ..runner import RunTrace
from .parts import PartFolder
from .workers import answer_chunk, count_problems, run_on_workers

_QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
_CHUNKS_PER_WORKER = 2  # so that a worker does not wait for the next one


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
        """The factor by which this engine changes the price of a request: 1, which means no discount."""
        return 1.0

    def problems(self, job: Job) -> Iterator[str]:
        """Return no problems, as Ray can run all methods; raise MissingExtraError without Ray."""
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
        """Process a chunk of rows in the actor that has been idle the longest."""
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
