"""A service and a model for tests of engines; as a program, it maps tables, and the tests kill it.

The argument is the engine. Each line of the input is a table: its number of rows, "limited" or "free" for the
limits of requests, and a folder, which has the file "done" at the end. The model writes down when a request
for a row starts and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from aiservices import Limits, create, user_message
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.models.requests import ChatRequest
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import map_rows
from aiservices.rows.engines.workers import PartFolder
from aiservices.rows.run_journal import decode_line


class Desk(Protocol):
    @user_message("Which team? {{text}}")
    def team(self, text: str) -> int: ...


class Clock(Protocol):
    @user_message("When? {{text}}")
    def at(self, text: str) -> datetime: ...

    @user_message("When? {{text}}")
    def all(self, text: str) -> list[datetime | None]: ...


MOST_IN_FLIGHT = 6  # with limits


class LogLine(NamedTuple):
    """The start or the end of a request: when, in which process, and for which row."""

    at: float
    pid: int
    what: str
    row: str


class LoggingModel(ScriptedChatModel):
    """Answers with the number of the row, and writes to a file when it starts and ends."""

    def __init__(self, log: str, seconds: float = 0.0) -> None:
        super().__init__([])
        self._log = log
        self._seconds = seconds

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        number = request.messages[-1].text.split()[-1]
        self._write("start", number)
        await asyncio.sleep(random.uniform(0, 2 * self._seconds))
        self._write("end", number)
        if number.endswith("9"):
            raise ValueError("no answer for this row")
        return ChatReply(AiMessage(json.dumps({"value": int(number)})), model="scripted", usage=Usage(5, 2))

    def _write(self, what: str, row: str) -> None:
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"{time.monotonic()} {os.getpid()} {what} {row}\n".encode())
        os.close(log)


def table(rows: int) -> list[dict[str, Any]]:
    return [{"id": number, "text": f"text {number}"} for number in range(rows)]


def logged(log: Path) -> list[LogLine]:
    """Return the starts and ends of requests."""
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [LogLine(float(at), int(pid), what, row) for at, pid, what, row in lines]


def asked(log: Path) -> list[tuple[float, str]]:
    """Return the times of the requests for each row."""
    return [(line.at, line.row) for line in logged(log) if line.what == "start"]


def stored(journal: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the journal and of its parts."""
    if journal.exists():
        for line in journal.read_bytes().splitlines(keepends=True):
            entry = decode_line(line)
            if entry is not None:
                yield entry
    yield from PartFolder(f"{journal}.parts").read()


def engine_named(name: str) -> Any:
    """Return an engine with two workers, or None for this process."""
    match name:
        case "processes":
            from process_engine import ProcessEngine

            return ProcessEngine()
        case "ray":
            from aiservices.rows import RayEngine

            return RayEngine(workers=2, cpus=0.5, chunk_rows=8)
        case "spark":
            from aiservices.rows import SparkEngine

            return SparkEngine(spark_session(), workers=2, chunk_rows=8)
    return None


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # For a faster start: less compilation, and workers that are forks of a process with all imports.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.daemon.module": "engine_desk",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    engine = engine_named(sys.argv[1])
    for line in sys.stdin:
        rows, limits, name = line.split(None, 2)
        folder = Path(name.strip())
        desk = create(Desk, LoggingModel(str(folder / "asked"), 0.05))
        map_rows(
            desk.team,
            table(int(rows)),
            key="id",
            engine=engine,
            to=folder / "out.jsonl",
            max_failures=1.0,
            max_concurrency=4,
            limits=Limits(max_concurrency=MOST_IN_FLIGHT) if limits == "limited" else None,
        )
        (folder / "done").write_text("")


if __name__ == "__main__" and sys.argv[1:] == ["pyspark.worker"]:
    from pyspark.daemon import manager

    manager()
elif __name__ == "__main__":
    # Another module of this file, so that workers can import it.
    import engine_desk

    engine_desk.main()
