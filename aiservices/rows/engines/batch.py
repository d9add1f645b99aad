"""Run ``map_rows`` with providers' batch services, which take files of requests and reply later.

Each row's call is a generator, which is advanced to its next request. The next requests of all rows are a
wave: they are written to files and submitted as batches. When the responses arrive, they are written to the
journal, and the calls run again with these responses, to their end or to their next request. Therefore a run
can stop at any time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TextIO
from uuid import uuid4

from ...engine.budget import SharedBudget, active_accounts
from ...engine.effects import CallModel
from ...models.arguments import checks_arguments, count_problems, is_at_least, is_positive
from ...models.errors import (
    BudgetExceededError,
    DefinitionError,
    DefinitionProblem,
    ModelError,
    ModelNotFoundError,
)
from ...models.http.model import HttpChatModel
from ...models.messages import CHARACTERS_PER_TOKEN, Usage
from ...models.requests import ChatRequest
from ..row import Progress, Row, RowsError
from ..run_journal import RunJournal
from ..runner import Job, RowFailure, Runner, RunTrace
from .batch_services import (
    BATCH_PROVIDERS,
    BatchRequest,
    BatchResponse,
    BatchService,
    BatchStatus,
    batch_model,
    batch_service,
    is_queue_full,
    may_send_again,
)

_LOGGER = logging.getLogger(__name__)
State = Literal["written", "submitting", "submitted"]
_OUTPUT_TOKENS = 500  # the assumed length of a reply before the first one arrives
_MAX_FAILURES = 10  # the maximum number of failed attempts to submit a batch
_LISTED_SECONDS = 600.0  # after which a batch must be in the provider's list
_MAX_FIND_WAIT = 10.0


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class BatchEngine:
    """Sends the requests of ``map_rows`` in batches, which cost half as much and may take a day::

        map_rows(desk.ticket, "tickets.csv", to="answers.parquet", engine=BatchEngine())

    It works with models whose provider has a batch service, such as ``openai:`` and ``anthropic:``. The run
    can be stopped at any time: the same call continues later, also in another process, and pays for nothing
    twice. Further requests for a row, such as a retry after an invalid answer, are in the next batch.

    Attributes:
        poll: Seconds between two checks of whether the batches are finished.
        direct_after: Seconds after which the remaining rows are sent directly, at the normal price.
        max_waves: The maximum number of submissions; the remaining rows are sent directly.
        max_requests: The largest number of requests in a batch; by default what the provider allows.
        discount: The price of a batch, relative to the price of direct requests.
        tools: Allow methods with tools. The tools run again whenever a call continues, so they must only
            read.
    """

    poll: float = 30.0
    direct_after: float | None = None
    max_waves: int = 10
    max_requests: int | None = None
    discount: float = 0.5
    tools: bool = False

    def __post_init__(self) -> None:
        problems = []
        for name in ("poll", "direct_after"):
            value = getattr(self, name)
            if (value is not None or name == "poll") and not is_positive(value):
                problems.append(f"{name} is {value!r}; it must be greater than 0")
        problems += count_problems(max_waves=self.max_waves, max_requests=self.max_requests)
        if not (is_at_least(self.discount, 0) and is_at_least(1, self.discount)):
            problems.append(f"discount is {self.discount!r}; it must be between 0 and 1")
        if problems:
            raise DefinitionError([DefinitionProblem("BatchEngine", problem) for problem in problems])

    @property
    def is_delayed(self) -> bool:
        """True if requests may wait for hours; always with this engine."""
        return True

    def problems(self, job: Job) -> Iterator[str]:
        """Yield a message for each reason why a method cannot be used with batches."""
        call = job.method.call
        for route in call.routes:
            if batch_model(route.model) is None:
                yield (
                    f"{route.model.name} has no batch service; BatchEngine works with the models of "
                    f"{', '.join(BATCH_PROVIDERS)}, without a client of an SDK"
                )
        if job.method.service_method.plan.call.toolbox is not None and not self.tools:
            yield (
                "it has tools, which run again after each batch; if they change nothing, pass "
                "BatchEngine(tools=True)"
            )
        if job.settings.ordered:
            yield "batches return rows in the order in which they finish; leave out ordered=True, or use to="
        if job.journal is None:
            yield "BatchEngine needs a journal to continue after an interruption; pass to= or journal="

    async def run(
        self, job: Job, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        """Process all rows of a table in batches, and yield each row when it is finished."""
        batches = BatchRun(BatchFolder(batch_folder(journal.path)), self, job, journal, spent, progress)
        give_up = time.monotonic() + (self.direct_after or float("inf"))
        finished = _Numbers()
        for _ in range(self.max_waves):
            await batches.finish_all(give_up)
            wave = _Wave(batches)
            settings = replace(job.settings, collect=wave.add, discount=self.discount, skip=finished.has)
            runner = Runner(job, journal, spent, progress, settings, trace)
            try:
                async with aclosing(runner.run()) as rows:
                    async for row in rows:
                        finished.add(row.number)
                        yield row
            finally:
                wave.close()
            if batches.stopped is not None:
                raise batches.stopped
            if not batches.files.records or time.monotonic() >= give_up:
                break
        else:
            await batches.finish_all(give_up)
        batches.files.forget_unsubmitted()
        settings = replace(job.settings, discount=self.discount, skip=finished.has)
        runner = Runner(job, journal, spent, progress, settings, trace)
        async with aclosing(runner.run()) as rows:
            async for row in rows:
                yield row


class _Numbers:
    """A set of row numbers, stored as one bit per number."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        index, bit = divmod(number, 8)
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1 - len(self._bits) + len(self._bits) // 2))
        self._bits[index] |= 1 << bit

    def has(self, number: int) -> bool:
        index, bit = divmod(number, 8)
        return index < len(self._bits) and bool(self._bits[index] & 1 << bit)


class _Wave:
    """Writes the next request of each row to batch files, which are submitted together."""

    def __init__(self, batches: BatchRun) -> None:
        self._batches = batches
        self._submitted_ids: set[str] = batches.files.waiting_ids()
        self._open: dict[tuple[str, ...], _OpenFile] = {}

    def add(self, row: str, number: int, digest: str, effect: CallModel) -> None:
        """Add a request to a batch file, unless a batch already contains the request."""
        custom_id = f"{row}-{number}"
        if custom_id in self._submitted_ids:
            return
        self._submitted_ids.add(custom_id)
        model = batch_model(effect.model)
        if model is None:
            raise DefinitionError(
                [DefinitionProblem("BatchEngine", f"{effect.model.name} has no batch service")]
            )
        request = model.http_request(effect.request)
        line = BatchRequest(custom_id, digest, request.body.decode())
        kind = (model.name, model.endpoint, request.path, json.dumps(dict(request.headers), sort_keys=True))
        file = self._open.get(kind)
        if file is not None and file.is_full(line):
            file.close()
            file = None
        if file is None:
            record = BatchRecord(uuid4().hex, model.name, model.endpoint, request.path, dict(request.headers))
            self._batches.models[model.name, model.endpoint] = model
            file = self._open[kind] = _OpenFile(self._batches, record)
        file.write(line)

    def close(self) -> None:
        """Close all batch files, so that the batches can be submitted."""
        for file in self._open.values():
            file.close()


class _OpenFile:
    """An open file to which a batch's requests are written."""

    def __init__(self, batches: BatchRun, record: BatchRecord) -> None:
        self._batches = batches
        self._record = record
        service = batches.service(record)
        self._max_requests = min(service.max_requests, batches.engine.max_requests or service.max_requests)
        self._max_bytes = service.max_bytes
        self._bytes = 0
        self._file: TextIO = batches.files.path(record, "requests").open("w", encoding="utf-8")

    def is_full(self, request: BatchRequest) -> bool:
        return (
            self._record.count >= self._max_requests
            or self._bytes + len(request.body.encode()) + 200 > self._max_bytes
        )

    def write(self, request: BatchRequest) -> None:
        self._file.write(json.dumps(request, ensure_ascii=False) + "\n")
        self._bytes += len(request.body.encode()) + 200
        self._record.count += 1
        self._record.bytes = self._bytes

    def close(self) -> None:
        """Flush the file to disk, and mark its batch as ready to submit."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._batches.files.save(self._record, "written")


@dataclass
class BatchRecord:
    """The state of a batch, stored as a JSON file.

    Attributes:
        name: The batch's name, by which the provider can find it.
        model: The name of the model.
        endpoint: The URL of the model's server.
        path: The path of the requests.
        headers: Headers of the requests.
        count: The number of requests.
        bytes: Their size.
        state: "written" to disk, "submitting" until the id is known, or "submitted".
        submitted_at: When it was submitted, in seconds since 1970.
        id: The id that the provider gave; "" before.
    """

    name: str
    model: str
    endpoint: str
    path: str
    headers: dict[str, str]
    count: int = 0
    bytes: int = 0
    state: State = "written"
    submitted_at: float = 0.0
    id: str = ""
    # only in this process, not written to disk
    refused: bool = field(default=False, compare=False)
    failures: int = field(default=0, compare=False)


@contextmanager
def _complete_file(path: Path) -> Iterator[TextIO]:
    """Context manager for writing a file that appears under its name only when it is complete."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def batch_folder(journal: Path) -> Path:
    """Return the path of a run's folder for batch files, which is next to the run's journal."""
    return journal.with_name(f"{journal.name}.batches")


def read_records(folder: Path) -> list[BatchRecord]:
    """Read the stored states of all unfinished batches, oldest first."""
    records = [BatchRecord(**json.loads(path.read_text("utf-8"))) for path in folder.glob("*.json")]
    return sorted(records, key=lambda record: (record.submitted_at or float("inf"), record.name))


class BatchFolder:
    """The files of a run's unfinished batches.

    Attributes:
        folder: Their folder.
        records: The batches.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.records = read_records(folder)
        names = {record.name for record in self.records}
        for path in folder.iterdir():  # left by a process that was killed while writing it
            if path.stem not in names or path.suffix == ".tmp":
                path.unlink()

    def path(self, record: BatchRecord, suffix: Literal["json", "requests", "responses"]) -> Path:
        """Return the path of a batch's file: the one with its state, its requests or its responses."""
        return self.folder / f"{record.name}.{suffix}"

    def save(self, record: BatchRecord, state: State) -> None:
        """Set a batch's state, and save it to disk."""
        record.state = state
        if record not in self.records:
            self.records.append(record)
        path = self.path(record, "json")
        data = {name: value for name, value in vars(record).items() if name not in ("refused", "failures")}
        with _complete_file(path) as file:
            json.dump(data, file)

    def remove(self, record: BatchRecord) -> None:
        """Delete the files of a batch whose responses have been written to the journal."""
        self.path(record, "json").unlink()
        for suffix in ("requests", "responses"):
            self.folder.joinpath(f"{record.name}.{suffix}").unlink(missing_ok=True)
        self.records.remove(record)

    def requests(self, record: BatchRecord) -> list[BatchRequest]:
        """Read the requests of a batch from its file."""
        with self.path(record, "requests").open(encoding="utf-8") as lines:
            return [BatchRequest(*json.loads(line)) for line in lines]

    def waiting_ids(self) -> set[str]:
        """Return the ids of all requests in unfinished batches."""
        return {request.custom_id for record in self.records for request in self.requests(record)}

    def forget_unsubmitted(self) -> None:
        """Delete the batches that were not submitted; their requests will be sent individually."""
        for record in [record for record in self.records if record.state == "written"]:
            self.remove(record)

    def split(self, record: BatchRecord, count: int) -> None:
        """Keep the first ``count`` requests in a batch, and move the others to a new batch."""
        requests = self.requests(record)
        other = replace(record, name=uuid4().hex, refused=False)
        for one, part in ((other, requests[count:]), (record, requests[:count])):
            with _complete_file(self.path(one, "requests")) as file:
                file.writelines(json.dumps(request, ensure_ascii=False) + "\n" for request in part)
            one.count, one.bytes = len(part), sum(len(request.body.encode()) + 200 for request in part)
            self.save(one, "written")


class BatchRun:
    """Submits the batches of a run, waits for them, and writes their responses to the journal.

    Attributes:
        files: The files of the batches.
        engine: The settings.
        models: The models by name and URL.
        stopped: Why no more batches are submitted, for example because the budget is used up.
    """

    def __init__(
        self,
        files: BatchFolder,
        engine: BatchEngine,
        job: Job,
        journal: RunJournal,
        spent: SharedBudget,
        progress: Progress,
    ) -> None:
        self.engine = engine
        self._progress = progress
        self._budgets = (spent, *active_accounts.get())
        seconds = spent.limits.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self.stopped: Exception | None = None
        self.files = files
        self._job = job
        self._journal = journal
        self._spent = spent
        self.models: dict[tuple[str, str], HttpChatModel] = {}
        for route in job.method.call.routes:
            model = batch_model(route.model)
            if model is not None:
                self.models[model.name, model.endpoint] = model

    def service(self, record: BatchRecord) -> BatchService:
        """Return a client for the batch service that processes the given batch."""
        model = self.models.get((record.model, record.endpoint))
        if model is None:
            raise RowsError(
                f"a batch of an earlier run belongs to {record.model} at {record.endpoint}, which the method "
                "no longer uses; use that model, or delete the folder "
                f"{self.files.folder} to forget the batch"
            )
        return batch_service(model, record.path, record.headers, self.engine.poll)

    async def finish_all(self, give_up: float) -> None:
        """Submit all batches, wait for them, and write their responses to the journal.

        After the time ``give_up`` it cancels the unfinished batches, and stores the responses that they
        already have.
        """
        for record in list(self.files.records):
            if record.state == "submitting":
                await self._find(record)
        cancelled: set[str] = set()
        earlier, started_at = self._progress.seconds, time.monotonic()
        while self.files.records:
            self._progress.seconds = earlier + time.monotonic() - started_at
            await self._submit_all()
            if self._is_time_over():
                return
            is_late = time.monotonic() >= give_up
            for record in [record for record in self.files.records if record.state == "submitted"]:
                await self._check_submitted(record)
            if isinstance(self.stopped, ModelError):
                raise self.stopped
            if is_late:
                await self._cancel_all(cancelled)
            self._report()
            if self.stopped is not None and all(one.state == "written" for one in self.files.records):
                return
            if self.files.records:
                left = give_up - time.monotonic()
                await asyncio.sleep(self.engine.poll if left <= 0 else min(self.engine.poll, left))

    def _report(self) -> None:
        self._progress.in_batches = sum(one.count for one in self.files.records if one.state == "submitted")
        self._progress.requests = self._spent.requests
        if self._job.settings.progress is not None:
            self._job.settings.progress(self._progress)

    async def _submit_all(self) -> None:
        for record in [record for record in self.files.records if record.state == "written"]:
            if self.stopped is not None:
                return
            if record.refused and any(one.state == "submitted" for one in self.files.records):
                continue  # wait until another batch is finished
            if self._exceeds(record):
                return
            try:
                await self._submit(record)
            except ModelError as error:
                if is_queue_full(error):
                    self._refuse(record, str(error))
                    continue
                if not error.retryable:
                    self.files.save(record, "written")
                    raise
                record.failures += 1
                if record.failures == _MAX_FAILURES:
                    raise
                await self._find(record)  # the provider may have it although its response was lost

    def _is_time_over(self) -> bool:
        """Return True after the time limit of the run, and stop the run then."""
        if self._deadline is None or time.monotonic() < self._deadline:
            return False
        self.stopped = BudgetExceededError(
            f"{self._spent.limits.seconds:g} seconds passed; the batches that were submitted are not "
            "lost; make the same call again to continue with them",
            limit="seconds",
        )
        return True

    async def _check_submitted(self, record: BatchRecord) -> None:
        """Check the state of a batch; some errors may occur a few times."""
        try:
            await self._check(record)
        except ModelNotFoundError as error:
            raise RowsError(
                f"{record.model} no longer knows the batch {record.id} ({error}); delete "
                f"{self.files.path(record, 'json')} to send its requests again"
            ) from error
        except ModelError as error:  # such as a connection that ends while the responses are read
            record.failures += 1
            if not error.retryable or record.failures == _MAX_FAILURES:
                raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RowsError(f"the response about the batch {record.id} cannot be read: {error!r}") from error

    def _exceeds(self, record: BatchRecord) -> bool:
        """Return True if a batch must not be submitted now because it could exceed the budget.

        If no other batch is running, a batch that is too large is split.
        """
        error, limits = self._spent.exceeded(), self._spent.limits
        if error is not None:
            self.stopped = error
            return True
        if (limits.tokens, limits.money, limits.requests) == (None, None, None):
            return False
        in_work = [one for one in self.files.records if one.state == "submitted"]
        expected = [self._expected(one) for one in (*in_work, record)]
        tokens = sum(usage.total_tokens for usage, _ in expected)
        spent = self._spent
        totals = (
            (spent.usage.total_tokens + tokens, limits.tokens),
            (spent.cost + sum(cost for _, cost in expected), limits.money),
            (spent.requests + record.count, limits.requests),
        )
        if not any(limit is not None and total > limit for total, limit in totals):
            return False
        if in_work:
            return True
        if record.count > 1:
            self.files.split(record, record.count // 2)
            return self._exceeds(record)
        self.stopped = BudgetExceededError(
            f"the remaining budget is too small for another request of about {tokens:,} tokens; "
            "raise budget=Budget(…)",
            limit="money" if limits.money is not None else "tokens",
        )
        return True

    def _expected(self, record: BatchRecord) -> tuple[Usage, float]:
        """Estimate a batch's tokens and cost from its size and the replies so far."""
        spent = self._spent
        answered = max(1, spent.requests)
        output = spent.usage.output_tokens / answered if spent.usage.output_tokens else _OUTPUT_TOKENS
        usage = Usage(record.bytes // CHARACTERS_PER_TOKEN, round(output * record.count))
        price = spent.limits.price_of(record.model) if spent.limits.prices else None
        return usage, 0.0 if price is None else price.of(usage) * self.engine.discount

    def _refuse(self, record: BatchRecord, message: str) -> None:
        """Postpone a batch that the provider refused; split it if no other batch is running."""
        record.refused, record.id = True, ""
        self.files.save(record, "written")
        if any(one.state == "submitted" for one in self.files.records):
            return
        if record.count == 1:
            raise RowsError(f"{record.model} does not accept a batch with one request: {message}")
        self.files.split(record, record.count // 2)

    async def _submit(self, record: BatchRecord) -> None:
        record.submitted_at = time.time()
        self.files.save(record, "submitting")
        record.id = await self.service(record).submit(record.name, self.files.requests(record))
        self.files.save(record, "submitted")
        self._count_requests(record)

    def _count_requests(self, record: BatchRecord) -> None:
        for budget in self._budgets:
            budget.add_request(record.count)

    async def _find(self, record: BatchRecord) -> None:
        """Look for a batch at the provider after an interrupted submission, and store the batch's id.

        If there is no such batch, it will be submitted again.
        """
        service = self.service(record)
        used_ids = {one.id for one in self.files.records}
        for is_last in (False, False, True):
            for batch_id in await service.find(record.name, record.submitted_at, record.count):
                if batch_id not in used_ids and await self._is_own(service, record, batch_id):
                    record.id = batch_id
                    self.files.save(record, "submitted")
                    self._count_requests(record)
                    return
            if time.time() - record.submitted_at > _LISTED_SECONDS:
                break
            if not is_last:  # a new batch may be missing in the list for a moment
                await asyncio.sleep(min(self.engine.poll, _MAX_FIND_WAIT))
        self.files.save(record, "written")

    async def _is_own(self, service: BatchService, record: BatchRecord, batch_id: str) -> bool:
        """Return True if a provider's batch contains the requests of the given record.

        May wait until the batch has ended.
        """
        if service.finds_by_name:
            return True
        while (await service.status(batch_id)).state == "running":
            await asyncio.sleep(self.engine.poll)
        own = {request.custom_id for request in self.files.requests(record)}
        async with aclosing(service.responses(batch_id)) as responses:
            async for response in responses:
                return response.custom_id in own
        return False

    async def _check(self, record: BatchRecord) -> None:
        """Write a batch's responses to the journal if the batch has ended."""
        service = self.service(record)
        is_stored = self.files.path(record, "responses").exists()
        status = BatchStatus("ended") if is_stored else await service.status(record.id)
        if status.state == "running":
            return
        if status.state == "failed":
            await _delete(service, record.id)
            if not status.is_queue_full:
                batch_id, record.id = record.id, ""
                self.files.save(record, "written")
                raise RowsError(f"{record.model} refused the batch {batch_id}: {status.message}")
            self._refuse(record, status.message)
            return
        await fetch_responses(self.files.folder, record, service)
        digests = {request.custom_id: request.digest for request in self.files.requests(record)}
        with self.files.path(record, "responses").open(encoding="utf-8") as lines:
            for line in lines:
                response = BatchResponse(*json.loads(line))
                digest = digests.pop(response.custom_id, None)
                if digest is None or may_send_again(response):
                    continue
                error = _fatal_error(service.model, response)
                if error is None:
                    self._store(response, digest, record, service.model)
                else:  # not stored, so that the next run sends the request again
                    self.stopped = error
        await _delete(service, record.id)
        self.files.remove(record)
        for one in self.files.records:
            one.refused = False

    def _store(self, response: BatchResponse, digest: str, record: BatchRecord, model: HttpChatModel) -> None:
        row, _, number = response.custom_id.rpartition("-")
        assert response.status is not None
        self._journal.add_response(row, int(number), digest, response.status, response.body)
        usage = model.usage_from(response.body.encode()) if response.status < 300 else None
        if usage is None:
            return
        budget_of_call = self._job.method.service_method.budget
        for budget in self._budgets:
            budget.add(usage, budget_of_call, record.model, share=self.engine.discount)

    async def _cancel_all(self, cancelled: set[str]) -> None:
        for record in list(self.files.records):
            if record.state == "written":
                self.files.remove(record)
            elif record.id not in cancelled:
                cancelled.add(record.id)
                await self.service(record).cancel(record.id)


async def _delete(service: BatchService, batch_id: str) -> None:
    """Delete what the provider keeps of a batch; if that fails, it is deleted after the usual time."""
    try:
        await service.delete(batch_id)
    except ModelNotFoundError:
        pass
    except (ModelError, LookupError, TypeError, ValueError, AttributeError) as error:
        _LOGGER.warning("the batch %s could not be deleted at the provider: %s", batch_id, error)


def _fatal_error(model: HttpChatModel, response: BatchResponse) -> ModelError | None:
    """Return a response's error if all other requests would fail too; otherwise return None."""
    if response.status is None or response.status < 400:
        return None
    try:
        model.reply_from(ChatRequest.of("any"), response.status, response.body.encode())
    except ModelError as error:
        return error if RowFailure.of(error).kind == "fatal" else None
    return None


async def fetch_responses(folder: Path, record: BatchRecord, service: BatchService) -> int:
    """Download a finished batch's responses to a file, and return the number of responses."""
    path = folder / f"{record.name}.responses"
    if not path.exists():
        with _complete_file(path) as file:
            async with aclosing(service.responses(record.id)) as responses:
                async for response in responses:
                    file.write(json.dumps(response, ensure_ascii=False) + "\n")
    with path.open(encoding="utf-8") as lines:
        return sum(1 for _ in lines)
