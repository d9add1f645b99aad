"""An engine for ``map_rows`` whose workers are plain processes, for tests of what all engines share."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from aiservices.engine.budget import SharedBudget
from aiservices.rows import Progress, Row
from aiservices.rows.engines.workers import PartFolder, answer_chunk, run_on_workers
from aiservices.rows.run_journal import RunJournal
from aiservices.rows.runner import Job, RunTrace

_LENGTH = struct.Struct(">Q")


class LostWorkerError(Exception):
    """A worker process has ended."""


@dataclass(frozen=True)
class ProcessEngine:
    """Processes rows in several processes."""

    workers: int = 2
    chunk_rows: int = 8
    parts: str | None = None
    folder: str | None = None  # the current folder of the workers

    @property
    def discount(self) -> float:
        return 1.0

    @property
    def is_delayed(self) -> bool:
        """True if requests may wait for hours; never with this engine."""
        return False

    def problems(self, job: Job) -> Iterator[str]:
        return iter(())

    def run(
        self, job: Job, journal: RunJournal, spent: SharedBudget, progress: Progress, trace: RunTrace | None
    ) -> AsyncGenerator[Row[Any], None]:
        async def start(spec: bytes) -> _Pool:
            return _Pool(spec, self.workers, self.folder)

        return run_on_workers(
            job,
            journal,
            spent,
            progress,
            trace,
            start=start,
            parts=PartFolder.at(self.parts or f"{journal.path}.parts"),
            host="127.0.0.1",
            chunk_rows=self.chunk_rows,
        )


class _Pool:
    def __init__(self, spec: bytes, workers: int, folder: str | None) -> None:
        self.slots = workers
        self._folder = folder
        self.lost = (LostWorkerError,)
        self._spec = spec
        self._free: list[asyncio.subprocess.Process | None] = [None] * workers
        self._started: list[asyncio.subprocess.Process] = []

    async def answer(self, chunk: bytes) -> bytes:
        worker = self._free.pop()
        try:
            if worker is None:
                worker = await self._start()
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(_LENGTH.pack(len(chunk)) + chunk)
            (length,) = _LENGTH.unpack(await worker.stdout.readexactly(_LENGTH.size))
            return await worker.stdout.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            worker = None
            raise LostWorkerError("a worker process has ended") from error
        finally:
            self._free.append(worker)

    async def _start(self) -> asyncio.subprocess.Process:
        tests = str(Path(__file__).parent)
        path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "process_engine",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            cwd=self._folder,
            limit=2**20,
        )
        assert worker.stdin is not None
        worker.stdin.write(_LENGTH.pack(len(self._spec)) + self._spec)
        self._started.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self._started:
            if worker.returncode is None:
                try:
                    worker.kill()
                except ProcessLookupError:
                    pass
            await worker.wait()
            transport: Any = worker._transport  # type: ignore[attr-defined]  # else its pipes stay open
            transport.close()


def _read(pipe: BinaryIO) -> bytes | None:
    head = pipe.read(_LENGTH.size)
    return None if len(head) < _LENGTH.size else pipe.read(_LENGTH.unpack(head)[0])


def main() -> None:
    """Answer chunks until the standard input is closed, as it is when the other process is killed."""
    spec = _read(sys.stdin.buffer)
    while spec is not None and (chunk := _read(sys.stdin.buffer)) is not None:
        done = answer_chunk(spec, chunk)
        sys.stdout.buffer.write(_LENGTH.pack(len(done)) + done)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
