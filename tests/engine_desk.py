"""A service and a model for tests of engines; as a program, it maps a table, and the tests kill it.

Arguments: the engine, a folder, the number of rows, and "limited" for limits of requests. The model writes
down each row that it is asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from aiservices import Limits, create, user_message
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.models.requests import ChatRequest
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import map_rows
from aiservices.rows.engines.parts import PartFolder
from aiservices.rows.journal import decode_line


class Desk(Protocol):
    @user_message("Which team? {{text}}")
    def team(self, text: str) -> int: ...


class LoggingModel(ScriptedChatModel):
    """Answers with the number of the row, and writes it to a file when it is asked."""

    def __init__(self, log: str, seconds: float = 0.0) -> None:
        super().__init__([])
        self._log = log
        self._seconds = seconds

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        number = request.messages[-1].text.split()[-1]
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"{time.monotonic()} {number}\n".encode())
        os.close(log)
        await asyncio.sleep(random.uniform(0, 2 * self._seconds))
        if number.endswith("9"):
            raise ValueError("no answer for this row")
        return ChatReply(AiMessage(json.dumps({"value": int(number)})), model="scripted", usage=Usage(5, 2))


def table(rows: int) -> list[dict[str, Any]]:
    return [{"id": number, "text": f"text {number}"} for number in range(rows)]


def asked(log: Path) -> list[tuple[float, str]]:
    """Return when the model was asked for which rows."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(float(at), number) for at, number in (line.split() for line in lines)]


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
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    name, folder, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    desk = create(Desk, LoggingModel(str(folder / "asked"), 0.05))
    engine = engine_named(name)
    (folder / "started").write_text("")
    settings: dict[str, Any] = {
        "to": folder / "out.jsonl",
        "max_failures": 1.0,
        "max_concurrency": 4,
    }
    if sys.argv[4:] == ["limited"]:
        settings["limits"] = Limits(max_concurrency=6)
    map_rows(desk.team, table(rows), key="id", engine=engine, **settings)


if __name__ == "__main__":
    # Another module of this file, so that workers can import it.
    import engine_desk

    engine_desk.main()
