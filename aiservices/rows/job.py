"""A run of a method over a table: what it reads, how it processes rows, and where it writes answers."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ..engine.budget import Budget, SharedBudget
from ..models.errors import counted
from ..models.limits import Limits
from .binding import MappedMethod, work_of
from .journal import Journal, temporary_folder
from .outputs import Fields, open_output
from .review import Review, ReviewedAnswers
from .row import Progress, Row, RowError, RowsError, Summary
from .runner import Runner, RunSettings, RunTrace, start_trace
from .tables import Table, open_table


class Engine(Protocol):
    """The interface of engines, which send a run's requests in a different way, such as in batches.

    Attributes:
        discount: A request's price relative to the normal price.
    """

    @property
    def discount(self) -> float: ...

    def problems(self, job: Job) -> Iterator[str]:
        """Yield a message for each reason why a method cannot be used with this engine."""
        ...

    def run(
        self, job: Job, journal: Journal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        """Process all rows of a table, and yield each row when it is finished."""
        ...


@dataclass(eq=False)
class Job:
    """The method, table and settings of a run; a job can be run several times.

    Attributes:
        method: The method.
        table: The table.
        settings: How rows are processed.
        fields: The columns of the output.
        budget: The limits of the run.
        to: The output file; None if there is none.
        journal: The file of the journal; None for one that is deleted with this object.
        restart: True to discard the answers of earlier runs.
        review: Writes the rows that a person should look at; None if there is no file for them.
        reviewed: The answers that people gave.
        engine: Sends the requests in another way; None to send each at once.
        limits: The limits of requests to the models; None for none.
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
    reviewed: ReviewedAnswers | None
    engine: Engine | None = None
    limits: Limits | None = None
    summary: Summary = field(default_factory=Summary)
    _spool: Path | None = None
    _temporary_journal: Path | None = None

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield all rows of the table; rows of a one-time iterator are first saved to a temporary file."""
        if not self.table.is_one_shot:
            return self.table.rows()
        if self._spool is None:
            self._spool = temporary_folder(self) / "rows"
            with self._spool.open("wb") as file:
                for row in self.table.rows():
                    pickle.dump(row, file, pickle.HIGHEST_PROTOCOL)
        return _unpickled(self._spool)

    def open_journal(self) -> Journal:
        """Open the journal, which lets the next run reuse this run's answers."""
        path = self.journal
        if path is None:
            if self._temporary_journal is None:
                self._temporary_journal = temporary_folder(self) / "journal"
            path = self._temporary_journal
        restart, self.restart = self.restart, False
        return Journal(path, work_of(self.method), restart=restart)

    async def run(self) -> AsyncGenerator[Row[Any], None]:
        """Process all rows, yield each row when it is finished, and write the output at the end."""
        summary = self.summary = Summary(output=_text(self.to), journal=_text(self.journal))
        progress = Progress(self._total())
        limits = self.budget
        spent = SharedBudget(
            seconds=limits.seconds,
            tokens=limits.tokens,
            money=limits.money,
            requests=limits.requests,
            prices=limits.prices,
        )
        journal = self.open_journal()
        try:
            summary.damaged_lines = journal.damaged_lines
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
                summary.limits_left = _limits_left(limits, spent)
            if self.to is not None or self.review is not None:
                await asyncio.to_thread(self._write, journal)
        finally:
            journal.close()

    def _run(
        self, journal: Journal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        if self.engine is not None:
            return self.engine.run(self, journal, spent, progress, trace)
        return Runner(
            self.method, self.rows(), journal, spent, progress, self.settings, self.reviewed, trace
        ).run()

    def _total(self) -> int | None:
        count, limit = self.table.count, self.settings.limit
        return count if limit is None or count is None else min(count, limit)

    def _check_keys(self, journal: Journal) -> None:
        """Raise RowsError if a row has no key, or if two rows have the same key."""
        key = self.settings.key
        if key is None:
            return
        for number, row in enumerate(self.rows()):
            if self.settings.limit is not None and number >= self.settings.limit:
                break
            value = row.get(key)
            if value is None:
                raise RowsError(f"row {number} has no value in the key column {key}")
            first = journal.first_with_key(value, number)
            if first != number:
                same = f"rows {first} and {number} have the same key {value!r} in column {key}"
                raise RowsError(f"{same}; each row needs its own")

    def _stopped(self, error: Exception, rows: int) -> Exception:
        """Return the error for a run that ended early, with advice on how to continue the run."""
        self.summary.stopped = str(error)
        if isinstance(error, RowsError):
            return error
        stored = f"; their answers are in {self.journal}" if self.journal is not None else ""
        reason = str(error) if isinstance(error, RowError) else f"{type(error).__name__}: {error}"
        return RowsError(
            f"{self.method.qualname}: the run stopped after {counted(rows, 'row')}{stored}. "
            f"The reason: {reason}. When it is removed, the same call asks only for the other rows"
        )

    def _write(self, journal: Journal) -> None:
        """Write the output and the review file, in table order."""
        runner = Runner(
            self.method, iter(()), journal, SharedBudget(), Progress(), self.settings, self.reviewed
        )
        with ExitStack() as stack:
            output = None
            if self.to is not None:
                output = stack.enter_context(open_output(self.to, self.fields))
            review = (
                None if self.review is None else stack.enter_context(self.review.open(self.table.columns))
            )
            for row in runner.known_rows(self.rows()):
                if output is not None:
                    error = output.write(self.fields.row(row.inputs, answer=answer_of(row), error=row.error))
                    if error is not None and row.error is None:  # the format cannot represent the answer
                        self.summary.errors += 1
                if review is not None and row.error is None:
                    review.write(row)
        if self.review is not None:
            self.summary.unsure = self.review.unsure
            self.summary.error_bound = self.review.error_bound

    def of_sample(self, rows: Sequence[Mapping[str, Any]]) -> Job:
        """Return a job that processes only the given rows of the table and uses the same journal."""
        return replace(
            self, table=open_table(list(rows)), to=None, review=None, engine=None, summary=Summary()
        )


def answer_of(row: Row[Any]) -> Any:
    """Return a row's answer, or None if the row has an error."""
    return None if row.error is not None else row.value


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
