"""The commands ``batch list``, ``status``, ``fetch`` and ``cancel``, for the batches of a run of ``map``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ..models.base import find_model
from ..rows.engines.batch import BatchRecord, batch_folder, fetch_responses, read_records
from ..rows.engines.batch_services import BatchService, batch_model, batch_service
from .errors import UsageError

_MAX_WAIT = 30.0  # seconds before a request that failed is repeated


def list_batches(output: str) -> None:
    """Print the batches of a run that are not finished."""
    for record in _records(output):
        number = record.id or "not submitted"
        print(f"{number}  {record.model}  {record.count:,} requests  {record.state}")


def show_status(output: str) -> None:
    """Ask the provider for the state of each batch, and print it."""

    async def show(record: BatchRecord, service: BatchService) -> None:
        status = await service.status(record.id)
        counts = f", {status.done:,} of {status.total:,} requests finished" if status.total else ""
        message = f": {status.message}" if status.message else ""
        print(f"{record.id}  {record.model}  {status.state}{counts}{message}")

    _for_each(output, show)


def fetch(output: str) -> None:
    """Download the responses of the batches that have ended, and keep them beside the journal."""

    async def download(record: BatchRecord, service: BatchService) -> None:
        if (await service.status(record.id)).state == "running":
            print(f"{record.id}  still running")
            return
        count = await fetch_responses(_folder(output), record, service)
        print(f"{record.id}  {count:,} responses stored; the command map with --engine batch reads them")

    _for_each(output, download)


def cancel(output: str) -> None:
    """Stop all batches; requests that are finished keep their responses."""

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
    """Return the batch service of a record, with the key of the environment."""
    model = batch_model(find_model(record.model))
    if model is None or model.endpoint != record.endpoint:
        address = "it has no batch service" if model is None else f"the environment gives {model.endpoint}"
        raise UsageError(
            f"the batch {record.id} belongs to {record.model} at {record.endpoint}, and {address}; set the "
            "environment variables of that server"
        )
    return batch_service(model, record.path, record.headers, _MAX_WAIT)
