"""Run a method over a table, with many concurrent calls in one event loop.

``Job`` describes a run: what it reads, how it processes rows, and where it writes answers. ``Runner`` calls
the method for the rows.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Protocol

from output_parsers.result.reading import Json, JsonObject

from ..engine.budget import Budget, SharedBudget, active_accounts, using_accounts
from ..engine.drivers import arun
from ..engine.effects import CallModel, Effect, Emit, Flow, Gather, Outcome, Sleep
from ..engine.flows import map_effects
from ..engine.interceptor import attributes_of
from ..engine.pipeline import GLOBAL_INTERCEPTORS
from ..engine.plan import Invocation
from ..engine.recorder import RequestRecorder
from ..engine.response_cache import ResponseCache
from ..engine.results import Answer, Result
from ..engine.time_limit import TimeLimit
from ..models.base import ChatModel, unwrap_model
from ..models.errors import (
    Attempt,
    AuthenticationError,
    BudgetExceededError,
    DefinitionError,
    InvalidReplyError,
    MissingExtraError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    ProbabilitiesUnavailableError,
    RateLimitError,
    counted,
    usage_of,
)
from ..models.limits import Limits
from ..models.messages import ChatReply, Usage, reply_from_json, reply_to_json
from ..models.requests import WaitingTime, request_hash
from ..service.methods import result_of
from .fields import Fields
from .outputs import open_output
from .review import Review, compare
from .row import (
    Agreement,
    EntryReader,
    MappedMethod,
    NullCellError,
    Progress,
    Row,
    RowError,
    RowsError,
    Summary,
    content_id,
    done_entry,
    error_entry,
    is_permanent,
    work_of,
)
from .run_journal import (
    Origin,
    RowResult,
    RowResults,
    RunJournal,
    StoredEntry,
    open_entries,
    temporary_file,
    temporary_folder,
)
from .tables import Table, open_table

# Errors after which no other row can succeed.
_FATAL = (AuthenticationError, ModelNotFoundError, DefinitionError, MissingExtraError, RowsError)
_SAME_ERRORS = 5  # stop after this many identical errors at the start
# Errors that do not depend on what a row contains.
_GENERAL_NAMES = frozenset(
    one.__name__
    for one in (
        InvalidReplyError,
        ModelConnectionError,
        ModelServerError,
        ModelTimeoutError,
        ProbabilitiesUnavailableError,
    )
)
_MIN_ROWS_FOR_SHARE = 50
_MAX_AHEAD = 1000  # rows that are finished before an earlier one, if the order is kept
_PROGRESS_SECONDS = 0.1  # the minimum number of seconds between two reports
_REPORT_SECONDS = 5.0  # and the seconds until a report if no row is finished


class RunTrace(Protocol):
    """The interface of a trace of one ``map_rows`` run, such as an OpenTelemetry span.

    Attributes:
        context: A context manager that makes the traces of calls part of the run's trace.
    """

    context: AbstractContextManager[None]

    def count(self, outcome: str) -> None:
        """Count a finished row by its outcome: "answered", "cached" or "error"."""

    def end(
        self, *, rows: int, errors: int, cached: int, cost: float, error: BaseException | None = None
    ) -> None:
        """End the trace, and record the run's totals and the error if the run ended early."""


def start_trace(method: MappedMethod) -> RunTrace | None:
    """Start and return a trace of a run, or return None if no interceptor supports such traces."""
    for interceptor in (*reversed(GLOBAL_INTERCEPTORS), *method.service_method.pipeline.interceptors):
        trace: RunTrace | None = attributes_of(interceptor).trace_rows(method.qualname)
        if trace is not None:
            return trace
    return None


@dataclass(frozen=True)
class RunSettings:
    """The settings for processing a table, such as the concurrency and the allowed share of failures.

    Attributes:
        key: The column that identifies a row; None to tell rows apart by their content.
        max_concurrency: The number of rows that are processed at the same time.
        dedupe: True to send only one request for equal rows.
        retry_failed: True to process all rows again that had an error in an earlier run, None only those
            whose error may not occur again, and False none.
        ordered: True to yield the rows in the order of the table.
        seconds_per_row: The seconds after which a row fails with an error, without those in which its
            requests waited for their turn.
        max_failures: The run ends if a larger share of its rows has an error.
        limit: The maximum number of rows to process; None for all.
        progress: Periodically receives the progress.
        model_for: Returns the model to ask instead of one of the method, for example one with limits.
        collect: Takes the requests whose replies are not in the journal, instead of sending them: the id of
            the row, the number and the hash of the request, and the request. The row is left for later.
        discount: The price of a reply from a batch, relative to the normal price.
        null_answers: True if a null cell of a parameter that is not optional gives null as the answer.
        skip: Returns True for the number of a row that has nothing left to do.
        cache: Answers requests with the replies that it has stored.
        ask: Asks for a row in another process: receives its id, its arguments and the replies that the
            journal has of it.
    """

    key: str | None = None
    max_concurrency: int = 64
    dedupe: bool = True
    retry_failed: bool | None = None
    ordered: bool = False
    seconds_per_row: float = 600.0
    max_failures: float = 0.5
    limit: int | None = None
    progress: Callable[[Progress], object] | None = None
    model_for: Callable[[ChatModel], ChatModel] | None = None
    collect: Callable[[str, int, str, CallModel], None] | None = None
    discount: float = 1.0
    null_answers: bool = False
    skip: Callable[[int], bool] | None = None
    cache: ResponseCache | None = None
    ask: Callable[[str, Mapping[str, object], Mapping[int, Json]], Awaitable[RowOutcome]] | None = None


class RowFailure(NamedTuple):
    """The reason why a row has no answer, and whether other rows will fail for the same reason.

    Attributes:
        error: The error.
        kind: "fatal" if no other row can succeed, "budget" if a budget is used up, "permanent" for an error
            of the model that would occur again; else "".
    """

    error: Exception
    kind: str

    @classmethod
    def of(cls, error: Exception) -> RowFailure:
        """Classify an error by whether it will probably affect other rows."""
        # a limit of requests that cannot be retried is a quota that is used up
        if isinstance(error, _FATAL) or (isinstance(error, RateLimitError) and not error.retryable):
            return cls(error, "fatal")
        if isinstance(error, BudgetExceededError):
            return cls(error, "budget")
        return cls(error, "permanent" if isinstance(error, ModelError) and is_permanent(error) else "")

    @property
    def is_general(self) -> bool:
        """True for an error of the provider that does not depend on what the row contains."""
        if isinstance(self.error, RowError):  # of a worker
            return self.error.type in _GENERAL_NAMES
        return type(self.error).__name__ in _GENERAL_NAMES


class RowOutcome(NamedTuple):
    """The outcome of processing one row: the answer, or the reason why there is no answer.

    Attributes:
        entry: The journal entry for the row.
        failure: Why there is no answer; None if there is an answer.
        result: The answer; None if another process sent the request, so that only the entry has the answer.
        seconds: The duration of the call.
    """

    entry: dict[str, object]
    failure: RowFailure | None = None
    result: Result[object] | None = None
    seconds: float = 0.0


class _RuleError(Exception):
    """Ends a run because of a rule about the errors of its rows."""

    def __init__(self, rule: str, error: Exception) -> None:
        super().__init__(rule)
        self.error = error


class ReplyStore(Protocol):
    """The interface of objects that store model replies while rows are processed."""

    def add_reply(self, row: str, call: int, request: str, reply: JsonObject) -> None: ...


class _Suspended(GeneratorExit):
    """Interrupts a row's service call until a batch provides the next model reply."""


class RowInput(NamedTuple):
    """A row of the table: its number, the value of its key column, and all columns."""

    number: int
    key: object
    inputs: Mapping[str, object]


class _Window:
    """Limits the rows in work, like a semaphore whose ``release`` is linear in the number of waiters."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        if self._places > 0:
            self._places -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it already has a place
                self.release()
            raise

    def release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._places += 1


class Runner:
    """Calls a service method for the rows of a table, for several rows at the same time.

    Attributes:
        progress: How far the run has come.
        stopped: The error that ended the run before the last row; None if there was no such error.
    """

    def __init__(
        self,
        job: Job,
        journal: RunJournal,
        spent: SharedBudget,
        progress: Progress,
        settings: RunSettings,
        trace: RunTrace | None = None,
    ) -> None:
        self.progress = progress
        self.stopped: BaseException | None = None
        self._method = job.method
        self._rows = enumerate(islice(job.rows(), settings.limit))
        self._journal = journal
        self._spent = spent
        self._settings = settings
        self._reviewed = job.reviewed
        self._summary = job.summary
        self._compared: set[str] = set()  # rows whose answers by a person and by the model were compared
        self._trace = trace
        self._reader = EntryReader(job.method)
        self._done = job.results
        self._in_flight: dict[str, asyncio.Future[StoredEntry | None]] = {}
        self._results: asyncio.Queue[Row[object] | None] = asyncio.Queue()
        # the number of rows that may be in work or wait for the caller
        self._window = _Window(_MAX_AHEAD if settings.ordered else 2 * settings.max_concurrency)
        self._failed_now: set[str] = set()  # rows with an error of this run, which equal rows share
        self._errors: Counter[str] = Counter()
        self._rows_sent = 0
        self._started_at = time.monotonic()
        self._reported_at = 0.0
        self._earlier_seconds = progress.seconds

    async def run(self) -> AsyncGenerator[Row[object], None]:
        """Process the rows and yield each when it is finished; raise an error if the run ends early."""
        self._journal.seen.forget_counts()
        context = nullcontext() if self._trace is None else self._trace.context
        # A call that is suspended runs again later, and must not count twice.
        shared = self._spent if self._settings.collect is None else using_accounts(())
        with shared, context:  # the tasks copy the context, so that all calls share the budget
            workers = [asyncio.create_task(self._work()) for _ in range(self._settings.max_concurrency)]
        ticking = asyncio.create_task(self._report_regularly())
        early: dict[int, Row[object]] = {}
        expected, running = 0, len(workers)
        try:
            while running:
                row = await self._results.get()
                if row is None:
                    running -= 1
                    continue
                self._count(row)
                if not self._settings.ordered:
                    yield row
                    self._window.release()
                    continue
                early[row.number] = row
                while expected in early:
                    yield early.pop(expected)
                    expected += 1
                    self._window.release()
            for number in sorted(early):  # a stopped run leaves gaps
                yield early[number]
        finally:
            for task in (ticking, *workers):
                task.cancel()
            await asyncio.gather(ticking, *workers, return_exceptions=True)
            self._report(at_end=True)
            close = getattr(self._settings.progress, "close", None)
            if close is not None:
                close()
        if self.stopped is not None:
            raise self.stopped

    async def _work(self) -> None:
        """Process rows until no rows are left or the run must stop."""
        try:
            while self.stopped is None:
                await self._window.acquire()
                item = self._next()
                if item is None:
                    self._window.release()  # the other tasks, which may be more than the window, end too
                    break
                row = await self._process(item)
                if row is None:  # a batch has its request; no caller takes the row and gives its place back
                    self._window.release()
                else:
                    self._results.put_nowait(row)
        except Exception as error:
            self._stop(error)
        finally:
            self._results.put_nowait(None)

    def _next(self) -> RowInput | None:
        settings = self._settings
        number, inputs = next(self._rows, (-1, None))
        while inputs is not None and settings.skip is not None and settings.skip(number):
            if settings.key is None and not settings.dedupe:  # the ids of equal rows depend on those before
                with suppress(ValueError):
                    self._journal.seen.count_content(content_id(self._method.arguments(inputs)))
            number, inputs = next(self._rows, (-1, None))
        if inputs is None or self.stopped is not None:
            return None
        return RowInput(number, None if settings.key is None else inputs[settings.key], inputs)

    def _stop(self, error: BaseException) -> None:
        if self.stopped is None:
            self.stopped = error
            for _ in range(self._settings.max_concurrency):
                self._window.release()  # the workers that wait for a place end

    async def _process(self, item: RowInput) -> Row[object] | None:
        """Process a row and return it with its answer or error; return None if the run must stop first."""
        _, key, inputs = item
        try:
            arguments = self._method.arguments(inputs)
        except ValueError as error:
            return self._without_entry(invalid_row(self._settings, item, error))
        content = content_id(arguments)
        row_id = self._id_of(item, content)
        reviewed = reviewed_row(self._reviewed, item, content)
        if reviewed is not None:
            self._compare(row_id, reviewed)
            return self._without_entry(reviewed)
        if key is not None and self._journal.has_changed(key, row_id):
            self.progress.changed += 1
        stored = self._journal.find(row_id)
        if stored is not None and not self._asks_again(row_id, stored.entry):
            return self._reused_row(item, row_id, stored)
        waiting = self._in_flight.get(row_id)
        if waiting is None:
            return await self._ask_once(item, row_id, arguments)
        await asyncio.wait((waiting,))
        stored = waiting.result()
        return None if stored is None else self._reused_row(item, row_id, stored)

    def _without_entry(self, row: Row[object]) -> Row[object]:
        self._done.add(row.number, RowResult(Origin.NO_ENTRY))
        return row

    def _reused_row(self, item: RowInput, row_id: str, stored: StoredEntry) -> Row[object]:
        if item.key is not None and stored.entry.get("key") != item.key:
            self._journal.add_key(item.key, row_id)
        self._done.add(item.number, RowResult(Origin.REUSED, stored.offset))
        return self._reader.row(*item, stored.entry)

    def _asks_again(self, row_id: str, entry: Mapping[str, object]) -> bool:
        """Return True for an error of an earlier run that another request may avoid."""
        if "error" not in entry or row_id in self._failed_now:
            return False
        if self._settings.retry_failed is None:
            return not entry.get("permanent", False)
        return self._settings.retry_failed

    def _compare(self, row_id: str, row: Row[object]) -> None:
        """Compare the answer of a person with the answer that the model has given in an earlier run."""
        self._summary.reviewed += 1
        stored = None if row_id in self._compared else self._journal.find(row_id)
        if stored is not None and "value" in stored.entry:
            self._compared.add(row_id)
            self._summary.agreement = self._summary.agreement or Agreement()
            compare(self._summary.agreement, self._method, row.value, stored.entry["value"])

    def _id_of(self, item: RowInput, content: str) -> str:
        """Return a row's id in the journal; rows with equal contents share it if ``dedupe`` is True."""
        if self._settings.dedupe:
            return content
        own = repr(item.key) if item.key is not None else str(self._journal.seen.count_content(content))
        return blake2b(f"{content} {own}".encode(), digest_size=16).hexdigest()

    async def _ask_once(
        self, item: RowInput, row_id: str, arguments: Mapping[str, object]
    ) -> Row[object] | None:
        """Ask the model about a row, and reuse the answer for equal rows that are waiting for it."""
        waiting = self._in_flight[row_id] = asyncio.get_running_loop().create_future()
        row, stored = None, None
        try:
            row, stored = await self._ask(item, row_id, arguments)
        finally:
            del self._in_flight[row_id]
            waiting.set_result(stored)
        return row

    async def _ask(
        self, item: RowInput, row_id: str, arguments: Mapping[str, object]
    ) -> tuple[Row[object], StoredEntry] | tuple[None, None]:
        replies = self._journal.replies_of(row_id)
        outcome: RowOutcome | None
        if self._settings.ask is not None:
            outcome = await self._settings.ask(row_id, arguments, replies)
        else:
            prices = self._spent.limits
            outcome = await answer_row(
                self._method, row_id, arguments, replies, self._journal, self._settings, prices
            )
        if outcome is None:  # its request was collected for a batch
            return None, None
        self._rows_sent += 1
        entry, failure = outcome.entry, outcome.failure
        if failure is not None and failure.kind not in ("fatal", "budget"):
            self._failed_now.add(row_id)
        end = None if failure is None else self._end_after(failure)
        if end is not None:
            if isinstance(end, _RuleError):
                self._journal.add_done(row_id, item.key, entry)
            self._stop(end)
            return None, None
        stored = self._journal.add_done(row_id, item.key, entry)  # its replies are not used again
        if outcome.result is None:
            row = self._reader.new(*item, entry, outcome.seconds)
        else:
            row = self._reader.answered(*item, entry, outcome.result)
        origin = Origin.CACHE if row.cached else Origin.REQUEST
        self._done.add(item.number, RowResult(origin, stored.offset, row.seconds))
        return row, stored

    def _end_after(self, failure: RowFailure) -> Exception | None:
        """Return the error that ends the run if one row's error will probably affect all rows, or None."""
        if failure.kind == "fatal":
            return failure.error
        if failure.kind == "budget":
            budgets = (self._spent, *active_accounts.get())
            return None if all(one.exceeded() is None for one in budgets) else failure.error
        self._errors["all"] += 1
        limit = self._settings.max_failures
        if limit >= 1:
            return None
        if failure.is_general:
            self._errors[str(failure.error)] += 1
            if self._errors[str(failure.error)] == self._rows_sent >= _SAME_ERRORS:
                advice = "to continue, pass max_failures=1.0"
                rule = f"the first {self._rows_sent} rows have the same error; {advice}"
                return _RuleError(rule, failure.error)
        share = self._errors["all"] / self._rows_sent
        if self._rows_sent < _MIN_ROWS_FOR_SHARE or share <= limit:
            return None
        percent = f"{share:.1%}".replace(".0%", "%")
        rule = (
            f"{percent} of {self._rows_sent} rows have an error, more than max_failures={limit:g}; "
            "to continue, pass max_failures=1.0"
        )
        return _RuleError(rule, failure.error)

    def _count(self, row: Row[object]) -> None:
        progress = self.progress
        progress.rows += 1
        progress.errors += row.error is not None
        progress.cached += row.cached
        if self._trace is not None:
            self._trace.count("error" if row.error else "cached" if row.cached else "answered")
        self._report()

    async def _report_regularly(self) -> None:
        """Report the progress also while no row is finished."""
        while self._settings.progress is not None:
            await asyncio.sleep(_REPORT_SECONDS)
            self._report()

    def _report(self, *, at_end: bool = False) -> None:
        now = time.monotonic()
        if not at_end and now - self._reported_at < _PROGRESS_SECONDS:
            return
        self._reported_at, progress = now, self.progress
        progress.seconds = self._earlier_seconds + now - self._started_at
        progress.usage, progress.cost = self._spent.usage, self._spent.cost
        progress.requests = self._spent.requests
        if self._settings.progress is not None:
            self._settings.progress(progress)


def invalid_row(settings: RunSettings, item: RowInput, error: ValueError) -> Row[object]:
    """Return the row for cells that cannot be arguments; nothing is requested for it."""
    if settings.null_answers and isinstance(error, NullCellError):
        return Row(*item, cost=0.0)
    return Row(*item, RowError("ValueError", str(error)))


def reviewed_row(reviewed: Mapping[str, object], item: RowInput, content: str) -> Row[object] | None:
    """Return the row with the answer that a person gave for its content; None if there is no such answer."""
    if content not in reviewed:
        return None
    return Row(*item, cost=0.0, cached=True, reviewed=True, _value=reviewed[content])


async def answer_row(
    method: MappedMethod,
    row_id: str,
    arguments: Mapping[str, object],
    replies: Mapping[int, Json],
    store: ReplyStore,
    settings: RunSettings,
    prices: Budget,
) -> RowOutcome | None:
    """Process a row and return the outcome, or None if the row must wait for a batch.

    Args:
        method: The method.
        row_id: The id of the row in the journal.
        arguments: The arguments of the call.
        replies: The replies that are already known, by request number.
        store: Stores new replies.
        settings: The settings of the run.
        prices: The prices of the models; by default those of the method's budget.
    """
    calls = _RecordedCalls(replies, row_id, store, settings)
    outcome = await _answer_row(method, arguments, calls, settings, prices)
    if outcome is None or outcome.failure is None:
        return outcome
    if outcome.failure.kind in ("fatal", "budget"):  # the row is not finished
        calls.store_replies()
    if outcome.failure.kind or not calls.only_recorded:
        return outcome
    # the recorded replies cannot be read; the call starts over
    calls = _RecordedCalls({}, row_id, store, settings)
    return await _answer_row(method, arguments, calls, settings, prices)


async def _answer_row(
    method: MappedMethod,
    arguments: Mapping[str, object],
    calls: _RecordedCalls,
    settings: RunSettings,
    prices: Budget,
) -> RowOutcome | None:
    service_method = method.service_method
    invocation: Invocation | None = None
    result, failure = None, None
    try:
        invocation = service_method.plan.invocation((), arguments, service_method.budget)
        waiting = invocation.state.waiting = WaitingTime()
        call, cache = service_method.pipeline.flow, settings.cache
        inner = call(invocation) if cache is None else cache(invocation, call)
        flow: Flow[Answer] = map_effects(inner, calls.perform)
        async with TimeLimit(time.monotonic() + settings.seconds_per_row, waiting):
            answer = await arun(flow)
        result = result_of(answer, invocation)
    except _Suspended:
        return None
    except TimeoutError:
        message = f"the row has no answer after {settings.seconds_per_row:g} seconds"
        failure = RowFailure(RowError("TimeoutError", message), "")
    except Exception as error:
        failure = RowFailure.of(error)
    attempts = [] if invocation is None else invocation.state.attempts
    usage = usage_of(attempts)
    cost = _cost_of(attempts, prices if prices.prices else service_method.budget, settings, calls)
    if result is not None:
        try:
            entry = done_entry(method, result, usage, cost, len(attempts))
            return RowOutcome(entry, None, result, result.seconds)
        except ValueError as error:  # the value cannot be written
            failure = RowFailure.of(error)
    assert failure is not None
    seconds = 0.0 if invocation is None else invocation.state.seconds
    return RowOutcome(error_entry(failure.error, usage, cost, len(attempts)), failure, None, seconds)


def _cost_of(
    attempts: list[Attempt], prices: Budget, settings: RunSettings, calls: _RecordedCalls
) -> float | None:
    if not prices.prices:
        return None
    batched = [attempt for attempt in attempts if id(attempt.reply) in calls.batch_replies]
    direct = [attempt for attempt in attempts if id(attempt.reply) not in calls.batch_replies]
    costs = prices.cost_of(direct), prices.cost_of(batched)
    return None if costs[0] is None or costs[1] is None else costs[0] + costs[1] * settings.discount


class _RecordedCalls(RequestRecorder[tuple[int, str]]):
    """Executes the steps of a row's call, using replies from the journal and storing new replies there.

    A request is recorded under its number in the row and its hash, which is only made if it is compared.

    Attributes:
        batch_replies: The ``id()`` of each reply that came from a batch.
    """

    def __init__(
        self, replies: Mapping[int, Json], row_id: str, store: ReplyStore, settings: RunSettings
    ) -> None:
        self._replies = replies
        self._row_id = row_id
        self._reply_store = store
        self._model_for = settings.model_for
        self._collect = settings.collect
        self.batch_replies: set[int] = set()
        # The replies since the last step. The answer of a row that is finished replaces them.
        self._unstored: list[tuple[int, CallModel, ChatReply]] = []
        self._count = 0
        self._sent = 0

    @property
    def only_recorded(self) -> bool:
        """True if all replies of the call were recorded by an earlier run, and not by a batch of this one."""
        return self._count > 0 and self._sent == 0 and not self.batch_replies

    def perform(self, effect: Effect) -> Flow[Outcome]:
        """Perform one step of a service call, taking a model reply from the journal if possible."""
        if self._unstored and type(effect) is not Emit:
            self.store_replies()
        if isinstance(effect, CallModel):
            return (yield from self.request(effect))
        if isinstance(effect, Gather) and any(isinstance(one, CallModel) for one in effect.effects):
            return (yield from self.gather(effect))
        if self._collect is not None and isinstance(effect, Sleep):
            return None
        return (yield effect)

    def identify(self, effect: CallModel) -> tuple[int, str]:
        number, self._count = self._count, self._count + 1
        return number, _digest(effect) if self._replies or self._collect is not None else ""

    def before_sending(self, requests: Mapping[tuple[int, str], CallModel]) -> None:
        if self._collect is not None:
            for (number, digest), effect in requests.items():
                self._collect(self._row_id, number, digest, effect)
            raise _Suspended
        self._sent += len(requests)

    def to_send(self, effect: CallModel) -> CallModel:
        return effect if self._model_for is None else effect._replace(model=self._model_for(effect.model))

    def record(self, key: tuple[int, str], effect: CallModel, reply: ChatReply) -> None:
        self._unstored.append((key[0], effect, reply))

    def recall(self, key: tuple[int, str], effect: CallModel) -> ChatReply | None:
        number, digest = key
        entry = self._replies.get(number)
        if entry is None or entry["request"] != digest:
            return None
        for account in active_accounts.get():
            account.add_request(-1)  # the request was counted, but is not sent
        response = entry.get("http")
        if response is not None:
            model: Any = unwrap_model(effect.model)
            reply: ChatReply = model.reply_from(effect.request, response["status"], response["body"].encode())
            self._replies[number]["reply_object"] = reply  # kept, so that its id() is not reused
            self.batch_replies.add(id(reply))
            return reply
        try:
            return replace(reply_from_json(entry["body"]), usage=Usage())  # an earlier run paid for it
        except (KeyError, TypeError, ValueError):  # another version wrote it
            return None

    def store_replies(self) -> None:
        """Store the replies since the last step in the journal."""
        for number, effect, reply in self._unstored:
            self._reply_store.add_reply(self._row_id, number, _digest(effect), reply_to_json(reply))
        self._unstored = []


def _digest(effect: CallModel) -> str:
    return request_hash(effect.model.name, str(getattr(effect.model, "endpoint", "")), effect.request)


# --- A whole run ---


class Engine(Protocol):
    """The interface of engines, which process the rows of ``map_rows``, for example in batches or on Ray.

    Attributes:
        discount: A request's price relative to the normal price.
        is_delayed: True if requests may wait for hours, so that their time cannot be estimated.
    """

    @property
    def discount(self) -> float: ...
    @property
    def is_delayed(self) -> bool: ...

    def problems(self, job: Job) -> Iterator[str]:
        """Yield a message for each reason why a method cannot be used with this engine."""
        ...

    def run(
        self, job: Job, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        """Process all rows of a table, and yield each row when it is finished."""
        ...


@dataclass(eq=False)
class Job:
    """The service method, table and settings of a ``map_rows`` run, which can be repeated.

    Attributes:
        method: The method.
        table: The table.
        settings: How rows are processed.
        fields: The columns of the output.
        budget: The limits of the run.
        to: The output file; None if there is none.
        journal: The file of the journal; None for one that is deleted with this object.
        restart: True to discard the answers of earlier runs.
        review: Writes the rows that a person should look at; None without such a file.
        reviewed: The answers that people gave, by the ids of rows.
        engine: Sends the requests in another way; None to send each at once.
        limits: The limits of requests to the models; None for none.
        summary: What the run did.
        is_finished: True if all rows were processed.
        results: How each row was finished.
    """

    method: MappedMethod
    table: Table
    settings: RunSettings
    fields: Fields
    budget: Budget
    to: Path | None
    journal: Path | None
    restart: bool
    review: Review | None
    reviewed: Mapping[str, object]
    engine: Engine | None = None
    limits: Limits | None = None
    summary: Summary = field(default_factory=Summary)
    is_finished: bool = False
    results: RowResults = field(default_factory=RowResults)
    _spool: Path | None = None
    _temporary_journal: Path | None = None

    def rows(self) -> Iterator[Mapping[str, object]]:
        """Yield all rows of the table; works repeatedly, even if the table is a one-time iterator.

        The rows of a one-time iterator are first saved to a temporary file.
        """
        if not self.table.is_one_shot:
            return self.table.rows()
        if self._spool is None:
            self._spool = temporary_file(self)
            with self._spool.open("wb") as file:
                for row in islice(self.table.rows(), self.settings.limit):  # it may have no end
                    pickle.dump(row, file, pickle.HIGHEST_PROTOCOL)
        return _unpickled(self._spool)

    def open_journal(self) -> RunJournal:
        """Open and return the journal, from which later runs can reuse this run's answers."""
        restart, self.restart = self.restart, False
        return RunJournal(self._journal_path(), work_of(self.method), restart=restart)

    def _journal_path(self) -> Path:
        if self.journal is not None:
            return self.journal
        if self._temporary_journal is None:
            # engines write other files next to the journal
            has_folder = self.engine is not None
            self._temporary_journal = (
                temporary_folder(self) / "journal" if has_folder else temporary_file(self)
            )
        return self._temporary_journal

    async def run(self) -> AsyncGenerator[Row[Any], None]:
        """Process all rows, yield each row when it is finished, and write the output at the end.

        The rows of a finished run are only read.
        """
        if self.is_finished:
            for row in self.finished_rows():
                yield row
            return
        self.results = RowResults()
        summary = self.summary = Summary(
            read_as=self.table.read_as, output=_text(self.to), journal=_text(self.journal)
        )
        progress = Progress(self.total())
        spent = shared_budget(self.budget)
        journal = self.open_journal()
        try:
            summary.damaged_lines = journal.damaged_lines
            self._take_over_reviews(journal)
            self._check_keys(journal)
            trace, failure = start_trace(self.method), None
            try:
                async with aclosing(self._run(journal, spent, progress, trace)) as rows:
                    async for row in rows:
                        yield row
            except Exception as error:
                failure = error
                raise self._stopped(error, progress.rows) from error
            finally:
                if trace is not None:
                    trace.end(
                        rows=progress.rows,
                        errors=progress.errors,
                        cached=progress.cached,
                        cost=progress.cost,
                        error=failure,
                    )
                for name in Progress.__dataclass_fields__:
                    setattr(summary, name, getattr(progress, name))
                summary.limits_left = _limits_left(self.budget, spent)
            if self.to is not None or self.review is not None:
                await self._write_in_thread()
            self.is_finished = True
        finally:
            journal.close()

    def _take_over_reviews(self, journal: RunJournal) -> None:
        """Store the answers of people in the journal, and use those that earlier runs have stored."""
        codec = self.method.codec
        for row, answer in self.reviewed.items():
            journal.add_person(row, codec.write(answer))
        self.reviewed = {row: codec.restore(text) for row, text in journal.people.items()}
        if self.review is not None:
            self.review.check_unread(journal.people)

    def _run(
        self, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[object], None]:
        if self.engine is not None:
            return self.engine.run(self, journal, spent, progress, trace)
        return Runner(self, journal, spent, progress, self.settings, trace).run()

    def total(self) -> int | None:
        """Return the number of rows that will be processed; None if it is unknown."""
        count, limit = self.table.count, self.settings.limit
        return count if limit is None or count is None else min(count, limit)

    def _check_keys(self, journal: RunJournal) -> None:
        """Raise RowsError if a row has no key, or if two rows have the same key."""
        key = self.settings.key
        if key is None:
            return
        for number, row in enumerate(islice(self.rows(), self.settings.limit)):
            value = row.get(key)
            if value is None:
                raise RowsError(f"row {number} has no value in the key column {key}")
            first = journal.seen.first_with_key(value, number)
            if first != number:
                same = f"rows {first} and {number} have the same key {value!r} in column {key}"
                raise RowsError(f"{same}; each row needs its own")

    def _stopped(self, error: Exception, rows: int) -> Exception:
        """Return the error for a run that ended early, with the rule that ended it and how to continue."""
        if isinstance(error, RowsError):
            self.summary.stopped = str(error)
            return error
        rule, cause = (f"{error}. ", error.error) if isinstance(error, _RuleError) else ("", error)
        reason = str(cause) if isinstance(cause, RowError) else f"{type(cause).__name__}: {cause}"
        again = "the same call processes only the other rows"
        if self.journal is None:
            again = (
                "another call starts from the beginning, because nothing is stored without to= or journal=; "
                "iterate over the same object again to process only the other rows"
            )
        if isinstance(error, _RuleError):
            again = (
                f"When it is removed, {again} and those whose error may not occur again; "
                "retry_failed=True processes all that failed"
            )
        elif "BudgetExceededError" in reason:
            again = f"With a new budget, {again}"
        else:
            rule, again = "no other row can succeed. ", f"When it is removed, {again}"
        self.summary.stopped = f"{rule}{reason}"
        stored = f"; their answers are in {self.journal}" if self.journal is not None else ""
        return RowsError(
            f"{self.method.qualname}: the run stopped after {counted(rows, 'row')}{stored}. "
            f"The reason: {rule}{reason}. {again}"
        )

    def finished_rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row[Any]]:
        """Yield the rows of a finished run in table order, as they were in the run.

        ``start`` and ``stop`` are row numbers. Answers are read from the journal, and nothing is requested.
        """
        count = self.results.count
        stop = count if stop is None else min(count, stop)
        key, reader = self.settings.key, EntryReader(self.method)
        with open_entries(self._journal_path()) as entry_at:
            for number, inputs in enumerate(islice(self.rows(), start, stop), start):
                item = RowInput(number, None if key is None else inputs[key], inputs)
                origin, offset, seconds = self.results.at(number)
                if origin is Origin.NO_ENTRY:
                    yield self._row_without_entry(item)
                elif origin is Origin.REUSED:
                    yield reader.row(*item, entry_at(offset))
                elif origin is Origin.MISSING:
                    raise RowsError(f"row {number} was not in the table before; it changed during the run")
                else:
                    row = reader.new(*item, entry_at(offset), seconds)
                    yield replace(row, cached=True) if origin is Origin.CACHE else row

    def _row_without_entry(self, item: RowInput) -> Row[object]:
        try:
            arguments = self.method.arguments(item.inputs)
        except ValueError as error:
            return invalid_row(self.settings, item, error)
        row = reviewed_row(self.reviewed, item, content_id(arguments))
        if row is None:
            raise RowsError(f"row {item.number} changed during the run")
        return row

    async def _write_in_thread(self) -> None:
        """Write the files in a thread, which has ended when this method returns or is cancelled."""
        is_abandoned = Event()
        writing = asyncio.create_task(asyncio.to_thread(self._write, is_abandoned))
        try:
            await asyncio.wait((writing,))
            writing.result()
        except asyncio.CancelledError:
            is_abandoned.set()
            while not writing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([writing])
            if not writing.cancelled():
                writing.exception()  # it is expected, so that asyncio does not log it
            raise

    def _write(self, is_abandoned: Event) -> None:
        """Write all rows to the output file, and rows with uncertain answers to the review file.

        Both files have the order of the table. Neither is changed if the run is abandoned before they are
        complete.
        """
        with ExitStack() as stack:
            output = None
            if self.to is not None:
                output = stack.enter_context(open_output(self.to, self.fields))
            review = (
                None if self.review is None else stack.enter_context(self.review.open(self.table.columns))
            )
            for row in self.finished_rows():
                if is_abandoned.is_set():
                    raise RowsError("the run was ended before its rows were written")
                if output is not None:
                    errors = [output.write(cells) for cells in self.fields.rows(row)]
                    if row.error is None and any(errors):  # the format cannot represent the answer
                        self.summary.errors += 1
                if review is not None and row.error is None:
                    review.write(row)
        if output is not None:
            self.summary.formulas = output.formulas
        if self.review is not None:
            self.summary.unsure = self.review.unsure
            self.summary.error_bound = self.review.error_bound

    def of_sample(self, rows: Sequence[Mapping[str, object]]) -> Job:
        """Return a job that processes only the given rows of the table and uses the same journal."""
        return replace(
            self,
            table=open_table(list(rows)),
            to=None,
            review=None,
            engine=None,
            summary=Summary(),
            is_finished=False,
            results=RowResults(),
        )


class _RunBudget(SharedBudget):
    """A budget for all calls of a run together. Its user has passed a Budget, which its errors name."""

    def _limit_error(self, limit: str, message: str) -> BudgetExceededError:
        return BudgetExceededError(
            f"the budget of the run is used up: {message}; raise budget=Budget({limit}=…)", limit=limit
        )


def shared_budget(limits: Budget) -> SharedBudget:
    """Return a budget for all calls of a run together, with the limits of a Budget."""
    return _RunBudget(
        seconds=limits.seconds,
        tokens=limits.tokens,
        money=limits.money,
        requests=limits.requests,
        prices=limits.prices,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _unpickled(path: Path) -> Iterator[Mapping[str, object]]:
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except EOFError:
                return


def _limits_left(limits: Budget, spent: SharedBudget) -> dict[str, float]:
    used = {"money": spent.cost, "tokens": spent.usage.total_tokens, "requests": spent.requests}
    named = ((name, getattr(limits, name), count) for name, count in used.items())
    return {name: max(0.0, limit - count) for name, limit, count in named if limit is not None}
