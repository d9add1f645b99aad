"""The code that the Ray and Spark engines share to run ``map_rows`` in worker processes.

The process that started the run reads the table and keeps the journal, as in a run without workers. It sends
the rows to workers in chunks.

Each worker writes its replies to a file, called a part, which has the format of a journal. A part is written
by only one process and never changed afterwards, so that it can be stored on any file system or an object
store such as S3. If a worker is lost, another worker gets its chunk. It first reads the chunk's existing
parts, and sends only the requests whose replies are missing.
"""

from __future__ import annotations

import asyncio
import copyreg
import dataclasses
import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import aclosing
from dataclasses import replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self
from uuid import uuid4

from output_parsers.result.reading import JsonObject

from ...engine.budget import Budget, SharedBudget
from ...engine.response_cache import ResponseCache
from ...models.base import ChatModel
from ...models.errors import DefinitionError, DefinitionProblem, import_extra
from ...models.limits import Limits
from ...models.messages import Usage
from ..row import MappedMethod, Progress, Row, RowError, RowsError, map_method, work_of
from ..run_journal import RunJournal, decode_line, done_line, encode_line, reply_line
from ..runner import Job, RowFailure, RowOutcome, Runner, RunSettings, RunTrace, answer_row
from .permissions import PermissionAddress, PermissionClient, PermissionServer, PermittedChatModel

_FLUSH_SECONDS = 0.02  # after which a chunk is sent even if it is not full
_MAX_ATTEMPTS = 4  # the maximum number of attempts at a chunk whose workers are lost
_MAX_WORKERS = 8  # the maximum number of cached workers in a process
_NO_USAGE = Usage()

# Pickled by value, a dataclass would have another MISSING in its fields, and so a default for each of them.
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


class WorkSpec(NamedTuple):
    """The data that a worker needs to call a service method for rows.

    Attributes:
        service: The service.
        method: The name of the method.
        columns: The column for each parameter whose column has another name.
        text_only: True if the values of the table are strings, as in a CSV file.
        max_concurrency: The number of rows that a worker processes at the same time.
        seconds_per_row: The seconds after which a row fails with an error.
        prices: The prices of the models.
        cache: Answers requests with the replies that it has stored.
        parts: The folder for parts of the journal; None for none.
        permissions: Where to ask for permission; None to send each request at once.
        null_answers: True if a null cell of a parameter that is not optional gives null as the answer.
    """

    service: Any
    method: str
    columns: Mapping[str, str]
    text_only: bool
    max_concurrency: int
    seconds_per_row: float
    prices: Budget
    cache: ResponseCache | None
    parts: PartFolder | None
    permissions: PermissionAddress | None
    null_answers: bool = False


class WorkRow(NamedTuple):
    """A table row for a worker: the row's id, its arguments, and the replies already stored for it."""

    row_id: str
    arguments: Mapping[str, object]
    replies: Mapping[int, object]


class Chunk(NamedTuple):
    """A group of rows that one worker processes together.

    Attributes:
        name: The name of the chunk's journal parts.
        rows: The rows.
    """

    name: str
    rows: Sequence[WorkRow]


class WorkDone(NamedTuple):
    """A worker's result for one row: the journal entry, and the kind of failure if there is no answer.

    Attributes:
        entry: The journal entry; None if the row was not processed because of a fatal error.
        seconds: The duration of the call.
        failure: The kind of failure, as in RowFailure; None if there is an answer.
        requests: The number of requests.
        usage: The tokens that they used.
        cost: The requests' cost, including only known prices.
    """

    entry: JsonObject | None
    seconds: float = 0.0
    failure: str | None = None
    requests: int = 0
    usage: Usage = _NO_USAGE
    cost: float = 0.0


class Worker:
    """Calls a service method for chunks of rows, with an event loop in a background thread."""

    def __init__(self, spec: WorkSpec) -> None:
        self.method: MappedMethod = map_method(
            getattr(spec.service, spec.method), spec.columns, text_only=spec.text_only
        )
        self.work = work_hash(self.method)
        self.null_answers = spec.null_answers
        self._spec = spec
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, daemon=True, name="aiservices rows")
        self._thread.start()
        self._answers: set[Future[list[WorkDone]]] = set()  # the chunks that are being processed
        self._slots = asyncio.Semaphore(spec.max_concurrency)
        self._client = None if spec.permissions is None else PermissionClient(spec.permissions)
        self._permitted: dict[int, tuple[ChatModel, PermittedChatModel]] = {}
        self._settings = RunSettings(
            key=None,
            seconds_per_row=spec.seconds_per_row,
            cache=spec.cache,
            model_for=None if self._client is None else self._with_permission,
        )

    def close(self) -> None:
        """Wait until the current chunks are finished, then stop the worker's event loop and thread."""
        wait(self._answers)
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run_loop(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def answer(self, chunk: Chunk) -> list[WorkDone]:
        """Process a chunk of rows, and return a list with the outcome of each row."""
        future = asyncio.run_coroutine_threadsafe(self._answer(chunk), self._loop)
        self._answers.add(future)
        try:
            return future.result()
        finally:
            self._answers.discard(future)

    def _with_permission(self, model: ChatModel) -> ChatModel:
        pair = self._permitted.get(id(model))
        if pair is None:
            assert self._client is not None
            pair = model, PermittedChatModel(model, self._client, self._loop)
            self._permitted[id(model)] = pair
        return pair[1]

    async def _answer(self, chunk: Chunk) -> list[WorkDone]:
        with await asyncio.to_thread(Part, self._spec.parts, chunk.name) as part:
            tasks = [asyncio.create_task(self._answer_row(row, part)) for row in chunk.rows]
            flushing = asyncio.create_task(_flush_regularly(part))
            try:
                for task in asyncio.as_completed(tasks):
                    if (await task).failure == "fatal":  # no other row can succeed
                        for other in tasks:
                            other.cancel()
                        break
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                for running in (flushing, *tasks):
                    running.cancel()
                await asyncio.gather(flushing, *tasks, return_exceptions=True)
            await asyncio.to_thread(part.flush)
        errors = [one for one in ended if isinstance(one, Exception)]
        if errors:
            raise errors[0]
        return [one if isinstance(one, WorkDone) else WorkDone(None) for one in ended]

    async def _answer_row(self, row: WorkRow, part: Part) -> WorkDone:
        entry = part.find(row.row_id)
        if entry is not None:
            return WorkDone(entry, 0.0, "" if "error" in entry else None)
        async with self._slots:
            replies = {**row.replies, **part.replies_of(row.row_id)}
            prices = self._spec.prices
            with SharedBudget(prices=prices.prices) as spent:
                outcome = await answer_row(
                    self.method, row.row_id, row.arguments, replies, part, self._settings, prices
                )
        assert outcome is not None  # nothing is collected here
        failure = None if outcome.failure is None else outcome.failure.kind
        if failure in (None, "", "permanent"):
            part.add_done(row.row_id, outcome.entry)
        return WorkDone(outcome.entry, outcome.seconds, failure, spent.requests, spent.usage, spent.cost)


async def _flush_regularly(part: Part) -> None:
    while True:
        await asyncio.sleep(1.0)
        if part.is_due:
            await asyncio.to_thread(part.flush)


def work_hash(method: MappedMethod) -> str:
    """Return a hash of the settings that affect a method's answers, to detect changes between two runs."""
    return blake2b(repr(work_of(method)).encode(), digest_size=8).hexdigest()


# --- In a worker process ---

_workers: OrderedDict[bytes, Worker] = OrderedDict()
_workers_lock = threading.Lock()


def answer_chunk(spec: bytes, chunk: bytes) -> bytes:
    """Process a pickled chunk of rows, and return a pickled list of the rows' outcomes.

    Errors are returned instead of raised, because the engine would only repeat a failed chunk.
    """
    try:
        return pickle.dumps(worker_for(spec).answer(pickle.loads(chunk)))
    except Exception as error:
        return pickle.dumps(f"{type(error).__name__}: {error}")


def worker_for(spec: bytes) -> Worker:
    """Return this process's cached worker for a pickled WorkSpec, creating it if necessary."""
    name = blake2b(spec, digest_size=16).digest()
    oldest: Worker | None = None
    with _workers_lock:
        worker = _workers.get(name)
        if worker is None:
            worker = _workers[name] = Worker(pickle.loads(spec))
            if len(_workers) > _MAX_WORKERS:
                oldest = _workers.popitem(last=False)[1]
    if oldest is not None:
        oldest.close()
    return worker


# --- In the process that starts the run ---


class Pool(Protocol):
    """The interface of a group of worker processes.

    Attributes:
        slots: The maximum number of chunks that are in progress or wait for a worker.
        lost: The exceptions that ``answer`` raises if a worker was lost.
    """

    @property
    def slots(self) -> int: ...
    @property
    def lost(self) -> tuple[type[Exception], ...]: ...

    async def answer(self, chunk: bytes) -> bytes:
        """Run ``answer_chunk`` for a pickled chunk in a worker process, and return the pickled outcomes."""
        ...

    async def close(self) -> None:
        """Stop the workers."""
        ...


async def run_on_workers(
    job: Job,
    journal: RunJournal,
    spent: SharedBudget,
    progress: Progress,
    trace: RunTrace | None,
    *,
    start: Callable[[bytes], Awaitable[Pool]],
    parts: PartFolder,
    host: str,
    chunk_rows: int,
) -> AsyncGenerator[Row[object], None]:
    """Process all rows of a job in worker processes, and yield each row when it is finished.

    Args:
        job: What to do.
        journal: Where the answers go.
        spent: The budget of the run.
        progress: How far the run has come.
        trace: The trace of the run.
        start: Starts the workers; it receives the pickled WorkSpec.
        parts: The folder for parts of the journal.
        host: The address of this machine for workers.
        chunk_rows: The number of rows that a worker gets at once.
    """
    parts.check()
    parts.merge_into(journal)  # left by a run that was killed
    parts.check()
    server, address = None, None
    if job.limits is not None or _has_limits(job.budget):
        prices = job.method.service_method.budget
        server = PermissionServer(job.limits or Limits(), spent, prices)
        address = await server.start(host)
    pool, chunks = None, None
    try:
        spec = pickled_spec(job.method, spec_of(job, parts, address))
        pool = await start(spec)
        chunks = _Chunks(pool, parts, chunk_rows, None if server is not None else spent)
        settings = replace(
            job.settings, ask=chunks.ask, model_for=None, max_concurrency=pool.slots * chunk_rows
        )
        runner = Runner(job, journal, spent, progress, settings, trace)
        async with aclosing(runner.run()) as rows:
            async for row in rows:
                yield row
        await asyncio.to_thread(parts.delete)
    finally:
        if chunks is not None:
            await chunks.close()
        if pool is not None:
            await pool.close()
        if server is not None:
            await server.close()


def _has_limits(budget: Budget) -> bool:
    return any(getattr(budget, name) is not None for name in ("seconds", "tokens", "money", "requests"))


def spec_of(job: Job, parts: PartFolder | None, permissions: PermissionAddress | None) -> WorkSpec:
    """Return the data that workers need to call a job's service method."""
    service, name = bound_service(job.method)
    settings, method = job.settings, job.method
    return WorkSpec(
        service,
        name,
        {parameter: column for parameter, column in method.columns.items() if parameter != column},
        job.table.text_only,
        settings.max_concurrency,
        settings.seconds_per_row,
        Budget(prices=job.budget.prices),
        settings.cache,
        parts,
        permissions,
    )


def bound_service(method: MappedMethod) -> tuple[object, str]:
    """Return a bound method's service and name, or raise DefinitionError if the method is not bound."""
    bound = method.bound
    service = getattr(bound, "__self__", None)
    if service is None:
        message = "pass the method of a service object, such as desk.ticket"
        raise DefinitionError([DefinitionProblem(method.qualname, message)])
    return service, getattr(bound, "__name__", "")


def pickled_spec(method: MappedMethod, spec: WorkSpec) -> bytes:
    """Pickle the data for workers, or raise a DefinitionError that names what cannot be pickled."""
    dumps = import_extra("cloudpickle", "ray (or spark)", "sending a service to other processes").dumps
    try:
        data: bytes = dumps(spec)
        return data
    except Exception as error:
        _, (interface, model, settings, _), *_ = spec.service.__reduce__()
        values = {"the interface": interface, "the model": model, **settings, "cache": spec.cache}
        wrong = [(name, problem) for name, one in values.items() if (problem := _pickle_problem(dumps, one))]
        problems = [
            DefinitionProblem(method.qualname, f"{name} cannot be sent to other processes: {problem}")
            for name, problem in wrong or [("the service", str(error))]
        ]
        raise DefinitionError(problems) from error


def _pickle_problem(dumps: Callable[[object], bytes], value: object) -> str:
    try:
        dumps(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


class _Chunks:
    """Groups rows into chunks, sends them to workers, and returns the outcome of each row."""

    def __init__(self, pool: Pool, parts: PartFolder, chunk_rows: int, spent: SharedBudget | None) -> None:
        self._pool = pool
        self._parts = parts
        self._chunk_rows = chunk_rows
        self._spent = spent
        self._slots = asyncio.Semaphore(pool.slots)
        self._rows: list[tuple[WorkRow, asyncio.Future[RowOutcome]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def ask(
        self, row_id: str, arguments: Mapping[str, object], replies: Mapping[int, object]
    ) -> RowOutcome:
        """Add a row to the current chunk, and return the row's outcome when a worker has processed it."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[RowOutcome] = loop.create_future()
        self._rows.append((WorkRow(row_id, arguments, replies), outcome))
        if len(self._rows) >= self._chunk_rows:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(_FLUSH_SECONDS, self._send)
        return await outcome

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        if rows:
            sending = asyncio.create_task(self._process(rows))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _process(self, rows: Sequence[tuple[WorkRow, asyncio.Future[RowOutcome]]]) -> None:
        chunk = Chunk(uuid4().hex, [row for row, _ in rows])
        try:
            async with self._slots:
                done = await self._answer(pickle.dumps(chunk))
        except Exception as error:
            for _, outcome in rows:
                _set(outcome, RowOutcome({}, RowFailure(error, "fatal")))
            return
        for (_, outcome), one in zip(rows, done, strict=True):
            _set(outcome, self._outcome(one))
        await asyncio.sleep(0.1)  # the tasks that waited for the rows write them to the journal first
        await asyncio.to_thread(self._parts.delete, f"{chunk.name}-")

    async def _answer(self, chunk: bytes) -> list[WorkDone]:
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                answer = pickle.loads(await self._pool.answer(chunk))
            except self._pool.lost as error:
                if attempt == _MAX_ATTEMPTS:
                    message = f"{attempt} workers were lost while they processed the same rows"
                    raise RowsError(f"{message}: {type(error).__name__}: {error}") from error
                await asyncio.sleep(0.2 * 2**attempt)
                continue
            if isinstance(answer, str):
                raise RowsError(f"a worker could not process the rows: {answer}")
            done: list[WorkDone] = answer
            return done
        raise AssertionError("unreachable")

    def _outcome(self, done: WorkDone) -> RowOutcome:
        if done.entry is None:
            return RowOutcome({}, RowFailure(RowsError("the row was not processed"), "fatal"))
        entry = done.entry
        if self._spent is not None:
            self._spent.add_request(done.requests)
            self._spent.add_totals(done.usage, done.cost)
        failure = None
        if done.failure is not None:
            error = RowError(entry["error"]["type"], entry["error"]["message"])
            failure = RowFailure(error, done.failure)
        return RowOutcome(entry, failure, None, done.seconds)

    async def close(self) -> None:
        """Cancel the chunks that are being processed."""
        for sending in self._sending:
            sending.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)


def _set(outcome: asyncio.Future[RowOutcome], value: RowOutcome) -> None:
    if not outcome.done():
        outcome.set_result(value)


# --- Parts of the journal ---


_MAX_LINES = 100
_MAX_SECONDS = 5.0
_SUFFIX = ".jsonl"


class PartFolder(NamedTuple):
    """The folder in which worker processes store replies until they are moved to the journal.

    On a local or shared disk, each line is written to the file at once. On an object store, lines are
    collected: a process that is killed loses at most 100 replies, those of the last 5 seconds.

    Attributes:
        path: A path, or a URL for fsspec such as ``s3://bucket/folder``.
    """

    path: str

    @classmethod
    def at(cls, path: str | PathLike[str]) -> PartFolder:
        """Return a PartFolder for a path or URL; a relative path becomes absolute.

        A worker may have another current folder.
        """
        text = os.fspath(path)
        return cls(text if "://" in text else os.path.abspath(text))

    @property
    def is_local(self) -> bool:
        """True if the folder is a file system path, not a URL of an object store."""
        return "://" not in self.path

    def read(self, chunk: str = "") -> Iterator[JsonObject]:
        """Yield the journal lines that workers wrote for a chunk, or for all chunks by default.

        Damaged lines are skipped.
        """
        for name in self._names(chunk):
            try:
                data = Path(name).read_bytes() if self.is_local else self._fs.cat_file(name)
            except FileNotFoundError:  # its chunk has just been finished
                continue
            for line in data.splitlines(keepends=True):
                entry = decode_line(line)
                if entry is not None:
                    yield entry

    def write(self, name: str, data: bytes) -> None:
        """Write bytes to a file in the folder."""
        path = f"{self.path}/{name}"
        if self.is_local:
            Path(path).write_bytes(data)
        else:
            self._fs.pipe_file(path, data)

    def delete(self, chunk: str = "") -> None:
        """Delete the files of the given chunk; by default, delete the files of all chunks."""
        for name in self._names(chunk):
            if self.is_local:
                Path(name).unlink(missing_ok=True)
            else:
                self._fs.rm_file(name)
        if not chunk and self.is_local and Path(self.path).is_dir():
            try:
                Path(self.path).rmdir()
            except OSError:  # another program has put a file there
                pass

    def check(self) -> None:
        """Create the folder, and raise RowsError if it is not writable."""
        try:
            if self.is_local:
                Path(self.path).mkdir(parents=True, exist_ok=True)
            else:
                self._fs.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise RowsError(
                f"the folder {self.path} for parts of the journal cannot be made: {error}"
            ) from error

    def merge_into(self, journal: RunJournal) -> None:
        """Move the replies and finished rows from the folder's files to the journal."""
        replies: dict[tuple[str, int], dict[str, object]] = {}
        for entry in self.read():
            if "done" in entry:
                if journal.find(entry["done"]) is None:
                    journal.add(entry)
            elif "reply" in entry:
                replies[entry["reply"], entry["call"]] = entry
        for (row, _), entry in replies.items():
            if journal.find(row) is None:
                journal.add(entry)
        self.delete()

    def _names(self, chunk: str) -> list[str]:
        pattern = f"{chunk}*{_SUFFIX}"
        if self.is_local:
            return sorted(str(path) for path in Path(self.path).glob(pattern))
        return sorted(str(name) for name in self._fs.glob(f"{self.path}/{pattern}"))

    @property
    def _fs(self) -> Any:
        fsspec = import_extra("fsspec", "ray (or spark)", f"a journal at {self.path.partition('://')[0]}://")
        return fsspec.core.url_to_fs(self.path)[0]


class Part:
    """Stores the replies and finished rows of a chunk, and reads those of earlier attempts.

    Args:
        folder: The folder for the file; None to write nothing.
        chunk: The name of the chunk.
    """

    def __init__(self, folder: PartFolder | None, chunk: str) -> None:
        self._folder = folder
        self._name = f"{chunk}-{uuid4().hex[:12]}"
        self._file: int | None = None
        self._lines: list[bytes] = []
        self._written = 0
        self._written_at = time.monotonic()
        self._flushing = threading.Lock()
        self._done: dict[str, dict[str, object]] = {}
        self._replies: dict[str, dict[int, dict[str, object]]] = {}
        if folder is not None:
            for entry in folder.read(f"{chunk}-"):
                if "done" in entry:
                    self._done[entry.pop("done")] = entry
                elif "reply" in entry:
                    self._replies.setdefault(entry["reply"], {})[entry["call"]] = entry

    def find(self, row: str) -> JsonObject | None:
        """Return a row's journal entry if an earlier attempt finished the row; otherwise return None."""
        return self._done.get(row)

    def replies_of(self, row: str) -> Mapping[int, dict[str, object]]:
        """Return a dict from request numbers to the replies that earlier attempts received for a row."""
        return self._replies.get(row, {})

    def add_reply(self, row: str, call: int, request: str, reply: Mapping[str, object]) -> None:
        """Store a model's reply to one request for a row."""
        self._add(reply_line(row, call, request, reply))

    def add_done(self, row: str, entry: Mapping[str, object]) -> None:
        """Store the journal entry of a finished row."""
        self._add(done_line(row, None, entry))

    def _add(self, entry: Mapping[str, object]) -> None:
        if self._folder is None:
            return
        line = encode_line(entry)
        if self._folder.is_local:
            if self._file is None:
                path = f"{self._folder.path}/{self._name}{_SUFFIX}"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(self._file, line)
            return
        self._lines.append(line)

    @property
    def is_due(self) -> bool:
        """True if the collected journal lines should be written now, because of their number or age."""
        waited = time.monotonic() - self._written_at
        return len(self._lines) >= _MAX_LINES or (bool(self._lines) and waited >= _MAX_SECONDS)

    def flush(self) -> None:
        """Write the collected journal lines to a new file."""
        with self._flushing:
            self._written_at = time.monotonic()
            if self._lines and self._folder is not None:
                lines, self._lines = self._lines, []
                self._written += 1
                self._folder.write(f"{self._name}-{self._written:06d}{_SUFFIX}", b"".join(lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
        if self._file is not None:
            os.close(self._file)
