"""The command ``call``, which calls a service method, and ``map``, which calls it for each row of a table.

The commands that list, fetch and cancel the batches of ``map`` are here, too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from rich.live import Live
from rich.text import Text

from output_parsers import ItemError
from output_parsers.parser.type_parser import DEFAULT_REGISTRY
from output_parsers.result.reading import JsonObject

from ..engine.budget import Budget
from ..engine.response_cache import ResponseCache
from ..engine.results import Result
from ..engine.streams import CallCompleted
from ..models.errors import AiServiceError, counted
from ..models.limits import Limits
from ..models.presets import PROVIDERS
from ..models.registry import find_model
from ..prices import Prices, PublishedPrices
from ..remote.codec import codec_for, write_result
from ..remote.contract import Method, contract_of
from ..rows import BatchEngine, RayEngine, Rows, SparkEngine, estimate, map_rows
from ..rows.engines.batch import BatchRecord, batch_folder, fetch_responses, read_records
from ..rows.engines.batch_services import BatchService, batch_model, batch_service
from ..rows.mapping import RowSettings, job_for
from ..rows.progress import ProgressLine
from ..rows.runner import Engine
from ..service.methods import plan_of, preview, result_of
from ..service.signatures import ReturnShape
from .console import print_text, stdout_console
from .errors import UsageError
from .map_options import EngineName, MapOptions
from .services import find_target, make_service, only_method
from .values import display_text, read_arguments

_ENGINES: Mapping[EngineName, Callable[[], Engine | None]] = {
    "direct": lambda: None,
    "batch": BatchEngine,
    "ray": RayEngine,
    "spark": SparkEngine,
}


def map_table(
    target_name: str,
    model: str | None,
    source: str,
    output: str,
    options: MapOptions,
    *,
    sample: int | None,
    dry_run: bool,
) -> None:
    """Call a method for each row of a table, and write the answers to a file.

    With ``sample``, only that number of rows is processed, to estimate the run's tokens, cost and time. With
    ``dry_run``, everything is checked and nothing is sent.
    """
    target = find_target(target_name)
    service = make_service(target, model)
    method = getattr(service, only_method(target_name, target, service))
    settings = _row_settings(method, output, options)
    if dry_run:
        _show_plan(method, source, settings)
        return
    if sample is not None:
        print(estimate(method, source, sample=sample, **settings))
        return
    line = ProgressLine()
    if options.progress:
        settings["progress"] = line
    try:
        rows: Rows[object] = map_rows(method, source, **settings)
    except KeyboardInterrupt:
        line.close()
        message = "finished rows are stored: the same command continues with the others"
        print_text(message, file=sys.stderr)
        raise
    finally:
        line.close()
    print(rows.summary)


def _row_settings(method: object, output: str, options: MapOptions) -> RowSettings:
    columns = {}
    for text in options.column:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise UsageError(f"--column {text} must be PARAMETER=COLUMN, such as text=body")
        columns[name] = column
    prices = _prices(method, required=options.max_money is not None)
    settings = RowSettings(
        key=options.key,
        columns=columns,
        delimiter=options.delimiter,
        encoding=options.encoding,
        to=output,
        prefix=options.prefix,
        error_column=options.error_column,
        usage=options.usage,
        explode=options.explode,
        journal=options.journal,
        limit=options.limit,
        nulls=options.nulls,
        budget=Budget(
            money=options.max_money,
            requests=options.max_requests,
            tokens=options.max_tokens,
            seconds=options.max_seconds,
            prices={} if prices is None else prices,
        ),
        limits=Limits(options.rpm, options.tpm, options.max_concurrency),
        restart=options.restart,
        retry_failed=options.retry_failed,
        dedupe=options.dedupe,
        review=options.review,
        unsure_below=options.unsure_below,
        reviewed=options.reviewed,
        cache=None if options.cache is None else ResponseCache(options.cache),
        engine=_ENGINES[options.engine](),
    )
    if options.row_timeout is not None:
        settings["row_timeout"] = options.row_timeout
    if options.max_failures is not None:
        settings["max_failures"] = options.max_failures
    return settings


def _prices(method: object, *, required: bool) -> Prices | None:
    """Return the published prices of the provider's models; None if they are unknown and not needed."""
    provider = plan_of(method).call.model.name.partition(":")[0]
    try:
        lists = (one.price_list for one in PROVIDERS if one.name == provider)
        return PublishedPrices(next(lists, "") or provider)
    except AiServiceError:
        if required:
            raise
        return None


def _show_plan(method: Any, source: str, options: RowSettings) -> None:
    """Print the number of rows, and the request for the first row."""
    job = job_for(method, source, options)
    count = sum(1 for _ in islice(job.rows(), options.get("limit")))
    print(f"{counted(count, 'row')}; the request of the first one:\n")
    first = next(iter(job.rows()), None)
    if first is not None:
        print_text(str(preview(method, **job.method.arguments(first))))


# --- The commands for batches ---

_MAX_WAIT = 30.0  # seconds before a request that failed is repeated


def list_batches(output: str) -> None:
    """Print a run's unfinished batches."""
    for record in _records(output):
        number = record.id or "not submitted"
        print(f"{number}  {record.model}  {record.count:,} requests  {record.state}")


def show_status(output: str) -> None:
    """Ask the provider for the state of each batch, and print the states."""

    async def show(record: BatchRecord, service: BatchService) -> None:
        status = await service.status(record.id)
        counts = f", {status.done:,} of {status.total:,} requests finished" if status.total else ""
        message = f": {status.message}" if status.message else ""
        print(f"{record.id}  {record.model}  {status.state}{counts}{message}")

    _for_each(output, show)


def fetch(output: str) -> None:
    """Download the responses of finished batches, and store them in files next to the journal."""

    async def download(record: BatchRecord, service: BatchService) -> None:
        if (await service.status(record.id)).state == "running":
            print(f"{record.id}  still running")
            return
        count = await fetch_responses(_folder(output), record, service)
        print(f"{record.id}  {count:,} responses stored; the command map with --engine batch reads them")

    _for_each(output, download)


def cancel(output: str) -> None:
    """Cancel all batches of a run; responses to finished requests are kept."""

    async def stop(record: BatchRecord, service: BatchService) -> None:
        await service.cancel(record.id)
        print(f"{record.id}  cancelled")

    _for_each(output, stop)


def _for_each(output: str, work: Callable[[BatchRecord, BatchService], Awaitable[None]]) -> None:
    async def run() -> None:
        for record in _records(output):
            if record.id:
                await work(record, _service(record))

    asyncio.run(run())


def _folder(output: str) -> Path:
    path = Path(output)
    journal = path if path.suffix == ".journal" else path.with_name(f"{path.name}.journal")
    return batch_folder(journal)


def _records(output: str) -> list[BatchRecord]:
    folder = _folder(output)
    if not folder.is_dir():
        raise UsageError(f"no batches were found for {output}: {folder} does not exist")
    return read_records(folder)


def _service(record: BatchRecord) -> BatchService:
    """Return a batch service client for a stored batch, with the API key from the environment."""
    model = batch_model(find_model(record.model))
    if model is None or model.endpoint != record.endpoint:
        address = "it has no batch service" if model is None else f"the environment gives {model.endpoint}"
        raise UsageError(
            f"the batch {record.id} belongs to {record.model} at {record.endpoint}, and {address}; set the "
            "environment variables of that server"
        )
    return batch_service(model, record.path, record.headers, _MAX_WAIT)


# --- Calling a method once ---


T = TypeVar("T")
_NO_DETAILS = (
    "the details of the call are unknown: the program created the service, and the method does not return a "
    "Result"
)


def call(
    target_name: str, model: str | None, argument_texts: Sequence[str], *, verbose: bool, as_json: bool
) -> None:
    """Call a service method with arguments from the command line, and print the answer.

    With ``verbose`` it also prints the call's details. Raises UsageError, DefinitionError, and the errors of
    the call.
    """
    target = find_target(target_name)
    details = _CallDetails()
    service = make_service(target, model, [details])
    name = only_method(target_name, target, service)
    method = contract_of(target.interface_of(service)).methods[name]
    args, kwargs = method.bind_arguments(read_arguments(argument_texts, method))
    # One event loop for the call and its stream: connections belong to the loop that opened them.
    with asyncio.Runner() as runner:
        printer = _AnswerPrinter(method, details, runner, verbose, as_json)
        printer.print_answer(getattr(service, name)(*args, **kwargs))
    if verbose and not as_json:
        printer.print_details()


class _CallDetails:
    """A listener that stores the result of a service call, so that the call's details can be printed later.

    It receives no events from a service that the user's program created. Details of such a service's methods
    are available only if they return a Result or a Stream.
    """

    def __init__(self) -> None:
        self.result: Result[object] | None = None

    def __call__(self, event: object) -> None:
        if isinstance(event, CallCompleted):
            self.result = result_of(event.answer, event.invocation)

    def as_json(self) -> dict[str, object] | None:
        return None if self.result is None else _details_json(self.result)


class _AnswerPrinter(NamedTuple):
    """Prints the answer of a service method call.

    Attributes:
        method: The method, with the codec of its values.
        details: The details of the call.
        runner: Runs the coroutines of an async method.
        verbose: True to print the details.
        as_json: True to print JSON.
    """

    method: Method
    details: _CallDetails
    runner: asyncio.Runner
    verbose: bool
    as_json: bool

    def print_answer(self, returned: Any) -> None:
        """Print the return value of a service method, which may be a value, a stream or an iterator."""
        shape, is_async = self.method.returns.shape, self.method.returns.is_async
        # print_text flushes, so that the reader of a pipe gets each item as soon as it arrives.
        if shape is ReturnShape.ITEMS:
            for item in self._iterate(returned):
                self._print_item(item)
            if self.as_json and self.verbose:
                print(json.dumps({"account": self.details.as_json()}))
        elif shape is ReturnShape.TEXT_STREAM:
            if self.as_json:
                self._print_value("".join(self._iterate(returned)))
            else:
                for piece in self._iterate(returned):
                    print_text(piece, end="")
                print()
        elif shape is ReturnShape.STREAM:
            show_live(self._iterate(returned))
            result = self.runner.run(returned.result()) if is_async else returned.result()
            self.details.result = result
            self._print_value(result.value)
        else:
            value = self.runner.run(returned) if is_async else returned
            text: str | None = None
            if shape is ReturnShape.RESULT:
                self.details.result, text, value = value, value.text, value.value
            if self.as_json or self.method.returns.output_type not in (None, NoneType):
                self._print_value(value)
            elif text is not None:
                print_text(text)

    def print_details(self) -> None:
        """Print the details of a service call, such as model requests and tokens, to standard error."""
        details = self.details.as_json()
        print_text(_NO_DETAILS if details is None else _details_text(details), file=sys.stderr)

    def _iterate(self, returned: Any) -> Iterator[Any]:
        return iterate(self.runner, returned) if self.method.returns.is_async else iter(returned)

    def _print_value(self, value: object) -> None:
        codec = self.method.value_codec
        if not self.as_json:
            print_text(display_text(value, codec))
        elif self.verbose:
            print(f'{{"value": {codec.write(value)}, "account": {json.dumps(self.details.as_json())}}}')
        else:
            print(codec.write(value))

    def _print_item(self, item: object) -> None:
        codec = self.method.value_codec
        if not isinstance(item, ItemError):
            print_text(codec.write(item) if self.as_json else display_text(item, codec, indent=None))
            return
        message = f"item {item.index} does not fit: {'; '.join(map(str, item.problems))}: {item.text}"
        # An invalid item does not end the iterator. It is reported like an error, and the next item follows.
        if self.as_json:
            print(json.dumps({"error": {"type": "ItemError", "message": message}}), flush=True)
        print_text(message, file=sys.stderr)


def iterate(runner: asyncio.Runner, items: AsyncIterable[T]) -> Iterator[T]:
    """Yield the items of an async iterable to synchronous code."""
    iterator = aiter(items)
    while True:
        try:
            item = runner.run(_next(iterator))
        except StopAsyncIteration:
            return
        yield item


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)  # Runner.run accepts only coroutines, which anext() need not return


def show_live(snapshots: Iterable[Any]) -> None:
    """Show a stream's growing value on the terminal, and erase it when the stream ends."""
    console = stdout_console()
    # Without a terminal only the final value is printed, but the stream must be read to its end.
    if not console.is_terminal:
        for _ in snapshots:
            pass
        return
    with Live(console=console, transient=True) as live:
        for snapshot in snapshots:
            text = json.dumps(snapshot.to_python(), indent=2, ensure_ascii=False, default=str)
            # Live can erase only what is on the screen: show the last lines that fit.
            live.update(Text("\n".join(text.splitlines()[1 - console.height :])))


# --- The details of a call ---


def _details_json(result: Result[object]) -> dict[str, object]:
    """Return a service call's details as JSON data, in the same format as the HTTP API.

    The details are attempts, tokens, coercions and tool runs.
    """
    # The text replaces the value, which has already been printed and may have any type.
    text_result = Result(
        result.reply.text,
        result.reply,
        result.strategy,
        result.coercions,
        result.attempts,
        result.seconds,
        result.reasons,
        result.tool_runs,
        result.sources,
    )
    written = write_result(text_result, codec_for(str, DEFAULT_REGISTRY))
    details: dict[str, object] = json.loads(written)["account"]
    return details


def _details_text(details: JsonObject) -> str:
    """Describe a service call as text, with one line for each model request, reply repair and tool call."""
    lines = [f"strategy: {details['strategy']} ({'; '.join(details['reasons'])})"]
    for number, attempt in enumerate(details["attempts"], 1):
        error = f", {attempt['error']}" if attempt["error"] else ""
        lines.append(
            f"attempt {number}: {attempt['model']}, {attempt['seconds']:.2f} s, "
            f"{_tokens(attempt['usage'])}{error}"
        )
    for step in details["coercions"]:
        change = f": {step['before']} → {step['after']}" if step["before"] or step["after"] else ""
        lines.append(f"coercion: {step['path']}: {step['rule']}{change}")
    lines += [
        f"tool: {run['name']}({run['arguments']}) → {run['text']}, {run['seconds']:.2f} s"
        for run in details["tool_runs"]
    ]
    lines.append(f"total: {details['seconds']:.2f} s, {_tokens(details['usage'])}")
    return "\n".join(lines)


def _tokens(usage: dict[str, int] | None) -> str:
    return "tokens unknown" if usage is None else f"{usage['input_tokens']} + {usage['output_tokens']} tokens"
