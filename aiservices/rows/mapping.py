"""Call a service method for each row of a table, or estimate from a sample what that would cost.

The functions are ``map_rows``, ``amap_rows`` and ``estimate``. An estimate has the tokens, the cost and the
time for the whole table.
"""

from __future__ import annotations

import asyncio
import html
import math
import operator
import random
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean, stdev
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Unpack, overload

from output_parsers.result.reading import dump_json

from ..engine.budget import Budget
from ..engine.response_cache import ResponseCache
from ..engine.results import Result
from ..models.arguments import checks_arguments, count_problems, is_at_least, is_positive
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, counted
from ..models.limits import LimitedChatModel, Limits
from ..service.settings import check_keywords, shows_settings
from .fields import Fields, answer_columns, json_value, output_fields
from .outputs import check_output, to_dataframe
from .progress import ProgressSetting, progress_callback
from .review import Review, read_reviewed
from .row import (
    MappedMethod,
    Row,
    Summary,
    content_id,
    duration_text,
    map_method,
    only_parameter,
    with_columns,
)
from .runner import Engine, Job, RunSettings
from .tables import Table, is_series, open_table

T = TypeVar("T")
_MAX_WAITING = 256  # rows that wait for a slow consumer
_END = object()
_PAGE_ROWS = 1000  # the number of rows that are read for an index
_PREVIEW_ROWS = 10  # in a notebook
_PREVIEW_CHARACTERS = 200  # of a cell


class Rows(Generic[T]):
    """The rows of a table with their answers, as ``map_rows`` and ``amap_rows`` return them.

    Iterating calls the service method for each row, and yields the rows as they finish; ``run()`` and
    ``await`` process all of them. After that, the rows are read again as often as needed, in the order of the
    table, and nothing is requested. ``rows[0]``, slices and ``dataframe()`` process all rows first.

    Attributes:
        summary: What the run did; complete when all rows are processed.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._page: tuple[int, list[Row[T]]] = 0, []  # the rows that were read last, by their number

    @property
    def summary(self) -> Summary:
        return self._job.summary

    def run(self) -> Summary:
        """Process all rows, and return the summary."""
        if not self._job.is_finished:
            for _ in self:
                pass
        return self.summary

    def dataframe(self) -> Any:
        """Process all rows, and return the table as a dataframe with the answers in new columns.

        A pandas or polars dataframe as input gives a dataframe of the same package; any other input gives a
        pyarrow table.
        """
        job = self._job
        self.run()
        return to_dataframe(job.table, self, job.fields, job.settings.limit)

    def __iter__(self) -> Generator[Row[T], None, None]:
        if self._job.is_finished:
            yield from self._job.finished_rows()
            return
        # An event loop of its own, because the caller may be in one already, as in a notebook.
        results: SimpleQueue[Any] = SimpleQueue()
        thread = _LoopThread(self._job, results)
        thread.start()
        try:
            while (result := results.get()) is not _END:
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            thread.stop()

    def __aiter__(self) -> AsyncIterator[Row[T]]:
        return self._job.run()

    def __await__(self) -> Generator[object, None, Rows[T]]:
        return self._processed().__await__()

    async def _processed(self) -> Rows[T]:
        if not self._job.is_finished:
            async with aclosing(self._job.run()) as rows:
                async for _ in rows:
                    pass
        return self

    def __len__(self) -> int:
        """Return the number of rows; raise TypeError if it is not known before they are processed."""
        count = self._job.results.count if self._job.is_finished else self._job.total()
        if count is None:
            raise TypeError("the number of rows is not known before they are processed; call run() first")
        return count

    @overload
    def __getitem__(self, index: int) -> Row[T]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row[T]]: ...
    def __getitem__(self, index: int | slice) -> Row[T] | list[Row[T]]:
        self.run()
        if isinstance(index, slice):
            return [self._at(number) for number in range(*index.indices(len(self)))]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no row {number}; there are {counted(len(self), 'row')}")
        return self._at(number % len(self))

    def _at(self, number: int) -> Row[T]:
        start, rows = self._page
        if not start <= number < start + len(rows):
            start = number - number % _PAGE_ROWS
            rows = list(self._job.finished_rows(start, start + _PAGE_ROWS))
            self._page = start, rows
        return rows[number - start]

    def __repr__(self) -> str:
        name, summary = self._job.method.qualname, self.summary
        if self._job.is_finished or summary.rows:
            return f"<Rows of {name}: {counted(summary.rows, 'row')}, {counted(summary.errors, 'error')}>"
        return f"<Rows of {name}, not processed yet>"

    def _repr_html_(self) -> str:
        """Show the summary and the first rows in a notebook; nothing is processed."""
        if not self._job.is_finished:
            return f"<p>{html.escape(repr(self))}</p>"
        fields = self._job.fields
        first = islice(self._job.finished_rows(), _PREVIEW_ROWS)
        cells = list(chain.from_iterable(map(fields.rows, first)))
        names = dict.fromkeys(chain.from_iterable(one.inputs for one in cells))
        columns = (*names, *(column.name for column in fields.new_columns), fields.error)
        lines = [(*(one.inputs.get(name) for name in names), *one.answers, one.error) for one in cells]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell_text(value))}</td>" for value in line) + "</tr>"
            for line in lines
        )
        summary = html.escape(str(self.summary))
        return f"<pre>{summary}</pre><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell_text(value: object) -> str:
    """Return the text of a cell for people, shortened to a line."""
    text = "" if value is None else value if isinstance(value, str) else dump_json(json_value(value))
    return text if len(text) <= _PREVIEW_CHARACTERS else f"{text[: _PREVIEW_CHARACTERS - 1]}…"


class _LoopThread(threading.Thread):
    """A thread that runs a job in an event loop, and puts the finished rows into a queue."""

    def __init__(self, job: Job, results: SimpleQueue[Any]) -> None:
        super().__init__(target=copy_context().run, args=(self._run,), daemon=True)
        self._job = job
        self._results = results
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()

    def _run(self) -> None:
        try:
            asyncio.run(self._feed())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._results.put(error)
        finally:
            self._started.set()
            self._results.put(_END)

    async def _feed(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._started.set()
        async with aclosing(self._job.run()) as rows:
            async for row in rows:
                self._results.put(row)
                while self._results.qsize() > _MAX_WAITING:
                    await asyncio.sleep(0.002)

    def stop(self) -> None:
        """Cancel the rows in progress, and wait until the background thread has ended."""
        self._started.wait()
        if self._loop is not None and self._task is not None and self.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:  # the loop has just ended
                pass
        self.join()


class RowSettings(TypedDict, total=False):
    """The keyword arguments of ``map_rows``, which calls a service method for each row of a table.

    Attributes:
        key: The column that identifies a row. Two rows with the same key are an error.
        columns: The column for each parameter whose column has another name, as in ``{"text": "body"}``.
        names: The names of the columns, for rows that are tuples.
        delimiter: The character between the fields of CSV files; recognized by default.
        encoding: The encoding of CSV files, such as "cp1251"; recognized by default.
        to: The file for the table with the answers: .jsonl, .csv, .parquet, .arrow or .feather. The rows are
            processed at once.
        prefix: The beginning of the names of all new columns, such as "team_".
        error_column: The name of the column with the error; by default "error", after the prefix.
        usage: True for the columns ``tokens``, ``cost``, ``attempts`` and ``seconds``: what each row
            needed in this run.
        explode: The name of a list in the answer: the output has a row for each of its items, and a column
            for each field of an item. A row whose list is empty is kept, with nulls. If a method returns a
            list, its name is "value".
        journal: The file that stores finished rows, so that the same call continues after an interruption; by
            default the name of ``to`` with ``.journal``. Without both, nothing is kept.
        restart: Start from the beginning. The journal of an earlier run is renamed to end in ``.bak``, and
            people's answers to the same question are kept.
        retry_failed: Whether rows with an error of an earlier run are processed again: None, the default, for
            those whose error may not occur again, such as a lost connection or a reply that could not be
            read; True for all, also those whose content the model refused; False for none.
        limits: The limits of requests to the model.
        budget: The limits of the whole run: money, tokens, requests and seconds.
        max_concurrency: The number of rows that are processed at the same time; 64 by default, or
            as many as the limits or the model allow.
        row_timeout: The seconds after which a row has an error; 600 by default. The time in which a request
            waits for its turn does not count.
        max_failures: The share of failed rows that ends the run; 0.5 by default. With 1.0, errors of rows
            never end it.
        dedupe: False to send requests for each of several equal rows.
        ordered: True to yield the rows in the order of the table.
        limit: Process only the first rows.
        nulls: What a null cell of a parameter that is not optional gives, without a request: "error" is an
            error of the row, the default, and "null" is null as its answer.
        progress: True for a progress bar, or a line each 30 seconds if there is no terminal; or a function
            that receives the progress.
        review: A CSV file for the rows with uncertain answers, with a column for a person's answer.
        unsure_below: The probability below which an answer is uncertain; by default the threshold of its
            calibration.
        reviewed: A completed review file, whose answers by people replace the model's answers. They are
            stored in the journal, for later runs.
        cache: Answers requests with stored replies, also those of other runs and calls.
        engine: ``BatchEngine(…)`` to use the batch service of the provider, ``RayEngine(…)`` or
            ``SparkEngine(…)`` to use worker processes.
    """

    key: str | None
    columns: Mapping[str, str]
    names: Sequence[str] | None
    delimiter: str | None
    encoding: str | None
    to: str | PathLike[str] | None
    prefix: str | None
    error_column: str | None
    usage: bool
    explode: str | None
    journal: str | PathLike[str] | None
    restart: bool
    retry_failed: bool | None
    limits: Limits | None
    budget: Budget | None
    max_concurrency: int | None
    row_timeout: float
    max_failures: float
    dedupe: bool
    ordered: bool
    limit: int | None
    nulls: Literal["error", "null"]
    progress: ProgressSetting
    review: str | PathLike[str] | None
    unsure_below: float | None
    reviewed: str | PathLike[str] | None
    cache: ResponseCache | None
    engine: Engine | None


# The value of a Result, or of an awaitable, is the value of the rows.
@overload
def map_rows(
    method: Callable[..., Awaitable[Result[T]]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def map_rows(
    method: Callable[..., Result[T]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def map_rows(
    method: Callable[..., Awaitable[T]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def map_rows(method: Callable[..., T], table: object, /, **settings: Unpack[RowSettings]) -> Rows[T]: ...
@checks_arguments
@shows_settings(RowSettings)
def map_rows(method: Callable[..., object], table: object, /, **settings: Unpack[RowSettings]) -> Rows[Any]:
    """Call a service method for each row of a table.

    The columns are the method's arguments, by name::

        rows = map_rows(desk.ticket, "tickets.csv", key="id", to="answers.parquet")
        print(rows.summary)

    With ``to``, all rows are processed at once, and the answers are written to that file. Without it, they
    are processed while the caller iterates::

        for row in map_rows(desk.ticket, tickets):
            print(row.key, row.error or row.value)

    An error of one row is in ``row.error``, and the run goes on. It ends early if the key is wrong, the
    budget is used up, or most rows fail. The same call then processes only the missing rows.

    Args:
        method: A method of a service that returns a value or a Result; it may be async.
        table: The path or the URL of a CSV, JSONL, JSON, Parquet or Arrow file, or of a folder of them; a
            dataframe of pandas or polars; a table of pyarrow; a relation of DuckDB; a result of SQLAlchemy;
            the rows of another ``map_rows``; an iterable of dicts, dataclasses or tuples; or, for a method
            with one parameter, a list of values or a Series.
        **settings: See ``RowSettings``.

    Raises:
        DefinitionError: The method cannot be mapped, a column is missing, or a setting is wrong.
        RowsError: The table, the output or the journal cannot be used, or the run ended early.
    """
    rows: Rows[object] = Rows(job_for(method, table, settings))
    if settings.get("to") is not None:
        rows.run()
    return rows


@overload
def amap_rows(
    method: Callable[..., Awaitable[Result[T]]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def amap_rows(
    method: Callable[..., Result[T]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def amap_rows(
    method: Callable[..., Awaitable[T]], table: object, /, **settings: Unpack[RowSettings]
) -> Rows[T]: ...
@overload
def amap_rows(method: Callable[..., T], table: object, /, **settings: Unpack[RowSettings]) -> Rows[T]: ...
@checks_arguments
@shows_settings(RowSettings)
def amap_rows(method: Callable[..., object], table: object, /, **settings: Unpack[RowSettings]) -> Rows[Any]:
    """Call a service method asynchronously for each row of a table.

    Like ``map_rows``, but the rows are processed by ``async for``, or all of them by ``await``::

        rows = await amap_rows(desk.ticket, "tickets.csv", key="id", to="answers.parquet")
        print(rows.summary)
    """
    return Rows(job_for(method, table, settings))


def job_for(method: object, source: object, settings: RowSettings) -> Job:
    """Validate the arguments of ``map_rows``, and return the job that processes the table."""
    check_keywords("map_rows", settings, RowSettings.__annotations__)
    table, columns = _opened(method, source, settings)
    mapped = map_method(method, columns, text_only=table.text_only, semicolons=table.semicolons)
    _refuse(mapped, _setting_problems(settings))
    mapped, table = _with_column_names(mapped, table)
    _refuse(mapped, _key_problems(settings.get("key"), table))
    budget = settings.get("budget") or Budget()
    _check_prices(mapped, budget)
    to, journal = _output_and_journal(settings)
    _refuse(mapped, _file_problems(to, journal, settings, table))
    review, reviewed = settings.get("review"), settings.get("reviewed")
    job = Job(
        mapped,
        table,
        _run_settings(mapped, settings),
        _fields(mapped, table, settings),
        budget,
        to,
        journal,
        settings.get("restart", False),
        None if review is None else Review(Path(review), mapped, settings.get("unsure_below")),
        {} if reviewed is None else read_reviewed(Path(reviewed), mapped),
        settings.get("engine"),
        settings.get("limits"),
    )
    if job.engine is not None:
        _refuse(mapped, job.engine.problems(job))
    return job


def _refuse(method: MappedMethod, problems: Iterable[str]) -> None:
    """Raise DefinitionError with all problems, if there are any."""
    definition_problems = [DefinitionProblem(method.qualname, problem) for problem in problems]
    if definition_problems:
        raise DefinitionError(definition_problems)


def refuse_iterator(job: Job, function: str) -> None:
    """Raise DefinitionError for a table that can be read only once, which a function reads several times."""
    if job.table.is_one_shot:
        message = "the table is an iterator, which can be read only once; pass a list, a file or a dataframe"
        raise DefinitionError([DefinitionProblem(function, message)])


def _opened(method: object, source: Any, settings: RowSettings) -> tuple[Table, dict[str, str]]:
    """Return the table, and the columns of the parameters whose columns have other names."""
    json_columns = frozenset[str]()
    if isinstance(source, Rows):  # the table of an earlier step
        json_columns = source._job.table.json_columns | source._job.fields.json_names
        source = source.dataframe()
    columns = dict(settings.get("columns") or {})
    parameter = only_parameter(method)
    table = open_table(
        source,
        settings.get("names"),
        column=None if parameter is None else columns.get(parameter, parameter),
        delimiter=settings.get("delimiter"),
        encoding=settings.get("encoding"),
    )
    table = replace(table, json_columns=json_columns) if json_columns else table
    if parameter is not None and is_series(source) and source.name in table.columns:
        columns.setdefault(parameter, table.columns[0])
    return table, columns


def _with_column_names(method: MappedMethod, table: Table) -> tuple[MappedMethod, Table]:
    """Return the method and the table with the names of its columns, unless it has no rows."""
    if not table.columns:
        table = _with_columns_of_first_row(table)
    if table.columns:
        method = with_columns(method, table.columns, are_all=not table.may_have_more)
    return method, table


def _key_problems(key: str | None, table: Table) -> Iterator[str]:
    if key is not None and table.columns and key not in table.columns:
        yield f"the table has no column {key}, which is the key; its columns are: {', '.join(table.columns)}"


def _check_prices(method: MappedMethod, budget: Budget) -> None:
    """Raise DefinitionError if a budget of money does not know the price of a model."""
    if budget.money is None:
        return
    unknown = budget.problems(
        method.qualname, dict.fromkeys(route.model.name for route in method.call.routes)
    )
    if unknown:
        raise DefinitionError(unknown)


def _output_and_journal(settings: RowSettings) -> tuple[Path | None, Path | None]:
    """Return the paths of the output and of the journal, which is next to the output by default."""
    to, journal = _path(settings.get("to")), _path(settings.get("journal"))
    if to is not None:
        check_output(to)
        journal = journal or to.with_name(f"{to.name}.journal")
    return to, journal


def _run_settings(method: MappedMethod, settings: RowSettings) -> RunSettings:
    limits = settings.get("limits")
    return RunSettings(
        key=settings.get("key"),
        max_concurrency=method.concurrency(settings.get("max_concurrency"), limits),
        dedupe=settings.get("dedupe", True),
        retry_failed=settings.get("retry_failed"),
        ordered=settings.get("ordered", False),
        seconds_per_row=settings.get("row_timeout", 600.0),
        max_failures=settings.get("max_failures", 0.5),
        limit=settings.get("limit"),
        null_answers=settings.get("nulls", "error") == "null",
        progress=progress_callback(settings.get("progress", False)),
        model_for=None if limits is None else _with_limits(limits),
        cache=settings.get("cache"),
    )


def _fields(method: MappedMethod, table: Table, settings: RowSettings) -> Fields:
    """Return the columns of the output."""
    answers, explode = answer_columns(method.service_method.plan.returns.output_type), settings.get("explode")
    if explode is not None:
        try:
            answers = answers.explode(explode)
        except ValueError as error:
            raise DefinitionError([DefinitionProblem(method.qualname, str(error))]) from None
    return output_fields(
        table,
        answers,
        prefix=settings.get("prefix") or "",
        error_column=settings.get("error_column"),
        usage=settings.get("usage", False),
    )


def _with_columns_of_first_row(table: Table) -> Table:
    """Return a copy of the table that has the column names of its first row; other rows may have more.

    If there are no rows, there are no column names.
    """
    rows = table.rows()
    first = next(rows, None)
    if first is None:
        return replace(table, _read=lambda: iter(()), is_one_shot=False)
    table = replace(table, columns=tuple(first), may_have_more=True)
    return replace(table, _read=lambda: chain([first], rows)) if table.is_one_shot else table


def _setting_problems(settings: RowSettings) -> Iterator[str]:
    yield from _object_problems(settings)
    yield from _path_problems(settings)
    for name in ("prefix", "error_column", "explode"):
        text: object = settings.get(name)
        if text is not None and not (isinstance(text, str) and text.strip()):
            yield f"{name} is {text!r}; pass a text"
    yield from count_problems(max_concurrency=settings.get("max_concurrency"), limit=settings.get("limit"))
    yield from row_problems(settings)
    for name in ("max_failures", "unsure_below"):
        share: Any = settings.get(name)
        if share is not None and not (is_at_least(share, 0) and is_at_least(1, share)):
            yield f"{name} is {share!r}; it must be between 0 and 1"


def _object_problems(settings: RowSettings) -> Iterator[str]:
    """Yield a message for each object that has another type than its setting."""
    budget, cache = settings.get("budget"), settings.get("cache")
    limits, engine = settings.get("limits"), settings.get("engine")
    if budget is not None and not isinstance(budget, Budget):
        yield f"budget is {type(budget).__name__}; pass a Budget"
    elif budget is not None and budget.max_attempts != Budget().max_attempts:
        yield (
            "the budget of a run limits money, tokens, requests and seconds; max_attempts is set by "
            "create(…, budget=…)"
        )
    if cache is not None and not isinstance(cache, ResponseCache):
        yield f"cache is {type(cache).__name__}; pass a ResponseCache"
    if limits is not None and not isinstance(limits, Limits):
        yield f"limits is {type(limits).__name__}; pass Limits(…)"
    if engine is not None and (isinstance(engine, type) or not hasattr(engine, "problems")):
        yield f"engine is {engine!r}; pass BatchEngine(), RayEngine() or SparkEngine()"


def _path_problems(settings: RowSettings) -> Iterator[str]:
    """Yield a message for each file that is not a path of this machine."""
    for name in ("to", "journal", "review", "reviewed"):
        path: object = settings.get(name)
        if path is not None and not isinstance(path, (str, PathLike)):
            yield f"{name} is {path!r}; pass the path of a file"
        elif isinstance(path, str) and "://" in path:
            yield f"{name} is {path}; only tables can be at a URL: name a file of this machine"


def row_problems(settings: Mapping[str, object]) -> Iterator[str]:
    """Yield a message for each wrong setting of how a row is processed: ``nulls`` and ``row_timeout``."""
    if settings.get("nulls", "error") not in ("error", "null"):
        yield f'nulls is {settings.get("nulls")!r}; it must be "error" or "null"'
    if not is_positive(settings.get("row_timeout", 600.0)):
        yield f"row_timeout is {settings.get('row_timeout')!r}; it must be greater than 0"


def _file_problems(
    to: Path | None, journal: Path | None, settings: RowSettings, table: Table
) -> Iterator[str]:
    """Yield a message for each file whose content would be lost by writing it."""
    review, reviewed = _path(settings.get("review")), _path(settings.get("reviewed"))
    dataset = table.source if table.kind == "pyarrow" else None
    inputs = (*table.files, *(Path(file) for file in getattr(dataset, "files", ())))
    outputs = {"to": to, "journal": journal, "review": review}
    written = {name: path for name, path in outputs.items() if path is not None}
    for index, (name, path) in enumerate(written.items()):
        problem = _input_problem(path, inputs, table.source)
        if problem:
            yield f"{name} is {path}, {problem}"
        for other in list(written)[:index]:
            if _is_same_file(path, written[other]):
                yield f"{name} and {other} are the same file {path}; choose another file for one of them"
    if journal is None and review is not None and reviewed is not None and _is_same_file(review, reviewed):
        yield (
            "review and reviewed are the same file, so that the answers of people would be lost; pass to= or "
            "journal=, which stores them"
        )


def _input_problem(path: Path, inputs: Iterable[Path], source: object) -> str | None:
    """Return why a file cannot be written because of the files of the table."""
    if any(_is_same_file(path, file) for file in inputs):
        return "a file of the table, which would be lost; choose another file"
    if not isinstance(source, (str, PathLike)):
        return None
    folder = Path(source)
    if folder.is_dir():
        is_input = path.name[:1] not in ("", ".", "_") and _is_same_file(path.parent, folder)
    else:
        is_input = fnmatchcase(str(path.absolute()), str(folder.absolute()))
    return (
        "which the next call would read as a part of the table; choose another folder" if is_input else None
    )


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)  # also through links, and with other spellings
    except OSError:  # one of them does not exist yet
        return one.resolve() == other.resolve()


def _with_limits(limits: Limits) -> Callable[[ChatModel], ChatModel]:
    """Return a function that wraps a model with rate limits, and caches the wrapper of each model."""
    limited: dict[int, tuple[ChatModel, ChatModel]] = {}

    def with_limits(model: ChatModel) -> ChatModel:
        pair = limited.get(id(model))
        if pair is None:
            pair = model, LimitedChatModel(model, limits)
            limited[id(model)] = pair
        return pair[1]

    return with_limits


def _path(path: str | PathLike[str] | None) -> Path | None:
    return None if path is None else Path(path)


# --- Estimates ---


_Z = 1.96  # 95 % of a normal distribution


class Range(NamedTuple):
    """An estimated number with its 95 % confidence interval.

    Attributes:
        low: The lower end of the range.
        expected: The estimate.
        high: The upper end of the range.
    """

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated tokens, cost and time of a run over a table.

    Attributes:
        rows: The number of rows in the table.
        to_ask: The number of rows that need a request: without equal rows, and without those that an earlier
            run has finished.
        sample: The number of rows that were processed for the estimate.
        errors: The number of rows of the sample with an error.
        requests: The requests of the whole run.
        input_tokens: Its input tokens.
        output_tokens: Its output tokens.
        cost: The cost of the run; None if a price is unknown.
        seconds: How long it takes, with as many rows at the same time as in the sample; None for batches,
            which may take a day.
    """

    rows: int
    to_ask: int
    sample: int
    errors: int
    requests: Range
    input_tokens: Range
    output_tokens: Range
    cost: Range | None
    seconds: Range | None

    def __str__(self) -> str:
        lines = [
            f"{counted(self.rows, 'row')}, {self.to_ask:,} to process; used for this estimate: "
            f"{self.sample:,}" + (f", {self.errors:,} with an error" if self.errors else ""),
            f"requests: {_text(self.requests)}",
            f"input tokens: {_text(self.input_tokens)}",
            f"output tokens: {_text(self.output_tokens)}",
        ]
        if self.cost is not None:
            lines.append(f"cost: {self.cost.expected:.4g} ({self.cost.low:.4g} to {self.cost.high:.4g})")
        if self.seconds is None:
            lines.append("time: up to a day, often within an hour")
        else:
            low, expected, high = (duration_text(one) for one in self.seconds)
            lines.append(f"time: {expected} ({low} to {high})")
        return "\n".join(lines)


@checks_arguments
@shows_settings(RowSettings)
def estimate(
    method: Callable[..., object],
    table: object,
    /,
    *,
    sample: int = 200,
    seed: int = 0,
    **settings: Unpack[RowSettings],
) -> Estimate:
    """Estimate the tokens, cost and time of a ``map_rows`` call from a sample of the table's rows.

    The sample's rows are sent to the model. A later run with the same ``to`` or ``journal`` uses their
    answers; the output is not written yet.

    Args:
        method: The method, as for ``map_rows``.
        table: The table, as for ``map_rows``, but not an iterator, because it is read several times.
        sample: The number of different rows to process, chosen at random.
        seed: The seed of the random choice.
        **settings: As for ``map_rows``.
    """
    if not is_at_least(sample, 1):
        raise DefinitionError([DefinitionProblem("estimate", f"sample is {sample!r}; it must be at least 1")])
    job = job_for(method, table, settings)
    refuse_iterator(job, "estimate")
    count, to_ask, chosen = _choose(job, sample, random.Random(seed))
    run: Rows[object] = Rows(job.of_sample(chosen))
    answered = list(run)
    seconds, busy = run.summary.seconds, [row.seconds for row in answered]
    parallel = max(1.0, sum(busy) / seconds) if seconds else 1.0
    share, is_delayed = (1.0, False) if job.engine is None else (job.engine.discount, job.engine.is_delayed)
    costs = [row.cost * share for row in answered if row.cost is not None]
    return Estimate(
        count,
        to_ask,
        len(answered),
        sum(row.error is not None for row in answered),
        _range([row.attempts for row in answered], to_ask),
        _range([row.usage.input_tokens for row in answered], to_ask),
        _range([row.usage.output_tokens for row in answered], to_ask),
        _range(costs, to_ask) if len(costs) == len(answered) else None,
        None if is_delayed else Range(*[total / parallel for total in _range(busy, to_ask)]),
    )


def _choose(job: Job, size: int, chance: random.Random) -> tuple[int, int, list[Mapping[str, object]]]:
    """Count all rows and the rows that need a model request, and choose a random sample of such rows.

    Returns both counts and the sample, which contains only rows that need a request.
    """
    count = to_ask = 0
    chosen: list[Mapping[str, object]] = []
    journal = job.open_journal()
    try:
        for row in islice(job.rows(), job.settings.limit):
            count += 1
            try:
                content = content_id(job.method.arguments(row))
            except ValueError:  # the row has an error without a request
                continue
            is_reviewed = content in job.reviewed or content in journal.people
            is_stored = is_reviewed or journal.find(content) is not None
            if job.settings.dedupe and (is_stored or journal.seen.count_content(content)):
                continue
            to_ask += 1
            if len(chosen) < size:
                chosen.append(row)
            elif (place := chance.randrange(to_ask)) < size:
                chosen[place] = row
    finally:
        journal.close()
    return count, to_ask, chosen


def _range(values: Sequence[float], count: int) -> Range:
    """Estimate the total of a value, such as tokens, over ``count`` rows from a random sample of rows."""
    if not values:
        return Range(0.0, 0.0, 0.0)
    mean = fmean(values)
    if len(values) >= count:
        return Range(mean * count, mean * count, mean * count)
    # without those of the sample, which are known
    rest = math.sqrt(1 - len(values) / count)
    error = _Z * stdev(values) / math.sqrt(len(values)) * rest if len(values) > 1 else mean
    return Range(max(0.0, mean - error) * count, mean * count, (mean + error) * count)


def _text(estimate: Range) -> str:
    return f"{estimate.expected:,.0f} ({estimate.low:,.0f} to {estimate.high:,.0f})"
