"""The command ``map``, which calls a method for each row of a table, and the commands for its batches."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ..engine.budget import Budget
from ..engine.response_cache import ResponseCache
from ..models.base import find_model
from ..models.errors import AiServiceError
from ..models.limits import Limits
from ..prices import Prices, PublishedPrices
from ..rows import BatchEngine, Progress, RayEngine, Rows, SparkEngine, estimate, map_rows
from ..rows.engines.batch import BatchRecord, batch_folder, fetch_responses, read_records
from ..rows.engines.batch_services import BatchService, batch_model, batch_service
from ..rows.job import Engine
from ..rows.mapping import RowSettings, job_for
from ..service.methods import plan_of
from ..service.preview import preview
from .console import print_text
from .errors import UsageError
from .services import find_target, make_service, selected_methods

# The names of providers in genai-prices that differ from those here.
_PRICE_LISTS = {"gemini": "google", "google-vertex": "google", "openai-responses": "openai", "bedrock": "aws"}

EngineName: TypeAlias = Literal["direct", "batch", "ray", "spark"]
_ENGINES: Mapping[EngineName, Callable[[], Engine | None]] = {
    "direct": lambda: None,
    "batch": BatchEngine,
    "ray": RayEngine,
    "spark": SparkEngine,
}


class MapSettings(NamedTuple):
    """The options of the command ``map``.

    Attributes:
        key: The column that identifies a row.
        columns: ``PARAMETER=COLUMN`` for parameters whose column has another name.
        limit: The maximum number of rows to process.
        max_money: The highest cost of the run, in US dollars.
        max_requests: The highest number of requests.
        rpm: Requests per minute.
        tpm: Tokens per minute.
        max_concurrency: How many rows are processed at the same time.
        restart: Discard the results of an earlier run.
        retry_failed: Process the rows that failed again.
        review: A file for the rows with uncertain answers.
        unsure_below: The probability below which an answer is uncertain.
        reviewed: A review file that people have completed.
        cache: The file of a response cache.
        engine: "direct", "batch" for the batch service of the provider, or "ray" or "spark" for their workers
            on this machine.
    """

    key: str | None
    columns: Sequence[str]
    limit: int | None
    max_money: float | None
    max_requests: int | None
    rpm: float | None
    tpm: float | None
    max_concurrency: int | None
    restart: bool
    retry_failed: bool
    review: str | None
    unsure_below: float | None
    reviewed: str | None
    cache: str | None = None
    engine: EngineName = "direct"


def map_table(
    target_name: str,
    model: str | None,
    source: str,
    output: str,
    settings: MapSettings,
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
    names = selected_methods(target, service)
    if len(names) > 1:
        raise UsageError(f"{target_name} has several methods; name one of them: {', '.join(names)}")
    method = getattr(service, names[0])
    options = _row_settings(method, output, settings)
    if dry_run:
        _show_plan(method, source, options)
        return
    if sample is not None:
        print(estimate(method, source, sample=sample, **options))
        return
    line = _ProgressLine()
    options["progress"] = line
    try:
        rows: Rows[object] = map_rows(method, source, **options)
    except KeyboardInterrupt:
        line.close()
        message = "finished rows are stored: the same command continues with the others"
        print_text(message, file=sys.stderr)
        raise
    finally:
        line.close()
    print(rows.summary)


def _row_settings(method: object, output: str, settings: MapSettings) -> RowSettings:
    columns = {}
    for text in settings.columns:
        name, equals, column = text.partition("=")
        if not (name and equals and column):
            raise UsageError(f"--column {text} must be PARAMETER=COLUMN, such as text=body")
        columns[name] = column
    prices = _prices(method, required=settings.max_money is not None)
    return RowSettings(
        key=settings.key,
        columns=columns,
        to=output,
        limit=settings.limit,
        budget=Budget(
            money=settings.max_money, requests=settings.max_requests, prices={} if prices is None else prices
        ),
        limits=Limits(settings.rpm, settings.tpm, settings.max_concurrency),
        restart=settings.restart,
        retry_failed=settings.retry_failed,
        review=settings.review,
        unsure_below=settings.unsure_below,
        reviewed=settings.reviewed,
        cache=None if settings.cache is None else ResponseCache(settings.cache),
        engine=_ENGINES[settings.engine](),
    )


def _prices(method: object, *, required: bool) -> Prices | None:
    """Return the published prices of the method's provider, or None if they are unknown and not required."""
    provider = plan_of(method).call.model.name.partition(":")[0]
    try:
        return PublishedPrices(_PRICE_LISTS.get(provider, provider))
    except AiServiceError:
        if required:
            raise
        return None


def _show_plan(method: Any, source: str, options: RowSettings) -> None:
    """Print the number of rows, and the request for the first row."""
    job = job_for(method, source, options)
    print(
        f"{sum(1 for _ in islice(job.rows(), options.get('limit'))):,} rows; the request of the first one:\n"
    )
    first = next(iter(job.rows()), None)
    if first is not None:
        print_text(str(preview(method, **job.method.arguments(first))))


class _ProgressLine:
    """Shows a run's progress on one line of the terminal; prints nothing if there is no terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._is_open = False

    def __call__(self, progress: Progress) -> None:
        if self._is_terminal:
            self._is_open = True
            print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the progress line with a line break."""
        if self._is_open:
            self._is_open = False
            print(file=sys.stderr)


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
        raise UsageError(f"there are no batches for {output}: {folder} does not exist")
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
