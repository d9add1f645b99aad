"""Measure ``map_rows`` on worker processes: throughput, common limits, memory.

``throughput`` compares engines on rows that need processor time: replies are records of 20 KB. ``limits``
counts what 1, 2 and 4 workers send together. ``memory`` samples the memory of all processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, Protocol

from aiservices import Limits, OpenAiChatModel, create, user_message
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.models.requests import ChatRequest
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RayEngine, SparkEngine, map_rows

from .limits import Kind, measure

_LINES = 150


@dataclass
class Line:
    article: str
    description: str
    amount: float
    delivered: bool


@dataclass
class Invoice:
    number: int
    lines: list[Line]


class Desk(Protocol):
    @user_message("Read this invoice: {{text}}")
    def invoice(self, text: str) -> Invoice: ...

    @user_message("Is this letter angry? {{text}}")
    def is_angry(self, text: str) -> bool: ...


class Letters(Protocol):
    @user_message("{{text}}")
    def reply(self, text: str) -> str: ...


def _line(number: int) -> dict[str, Any]:
    text = f"Number {number} of this invoice, as it was delivered with a note of the driver"
    return {"article": f"A-{number}", "description": text, "amount": number / 4, "delivered": True}


_LINES_JSON = [_line(number) for number in range(_LINES)]


def _reply(request: ChatRequest) -> ChatReply:
    text = request.messages[-1].text
    if text.startswith("Is"):
        data: Any = {"value": True}
    else:
        data = {"number": int(text.rpartition(" ")[2]), "lines": _LINES_JSON}
    return ChatReply(AiMessage(json.dumps(data)), "fake", usage=Usage(10, 10))


class InvoiceModel(ScriptedChatModel):
    """A model whose replies are records of 20 KB."""

    def __init__(self) -> None:
        super().__init__(_reply)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        return _reply(request)  # it must not keep the requests


def engine_named(name: str, workers: int) -> Any:
    """Return an engine with this number of workers; None for this process."""
    if name == "ray":
        return RayEngine(workers=workers, cpus=0.25)
    if name == "spark":
        return SparkEngine(_spark(workers), workers=workers)
    return None


def _spark(cores: int) -> Any:
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return SparkSession.builder.master(f"local[{cores}]").config(map=quiet).getOrCreate()


def run(engine: Any, rows: int, *, method: str = "invoice", **settings: Any) -> float:
    """Return the seconds of one run."""
    desk: Any = create(Desk, InvoiceModel())
    table: Iterator[dict[str, str]] = ({"text": f"number {number}"} for number in range(rows))
    with tempfile.TemporaryDirectory() as folder:
        began_at = time.perf_counter()
        outcome = map_rows(
            getattr(desk, method), table, journal=f"{folder}/journal", engine=engine, **settings
        )
        summary = outcome.run()
        seconds = time.perf_counter() - began_at
    assert summary.rows == rows, summary
    assert not summary.errors, summary
    return seconds


def throughput(name: str, rows: int, repeats: int) -> None:
    """Print the rows per second of one process and of two workers, in turn."""
    engine = engine_named(name, 2)
    run(engine, 500)  # the workers start, and compile the service
    run(None, 500)
    for _ in range(repeats):
        alone, workers = run(None, rows), run(engine, rows)
        print(
            f"this process {rows / alone:,.0f}/s, two workers {rows / workers:,.0f}/s: {alone / workers:.2f}"
        )


def _map_letters(url: str, seconds: float, name: str, workers: int, rpm: float | None) -> None:
    """Map a table without an end over a server."""
    model = OpenAiChatModel("m", base_url=url, api_key="k")
    desk: Any = create(Letters, model)
    end = time.monotonic() + seconds
    table = takewhile(lambda _: time.monotonic() < end, ({"text": str(number)} for number in count()))
    with tempfile.TemporaryDirectory() as folder:
        engine, limits = engine_named(name, workers), Limits(requests_per_minute=rpm)
        map_rows(desk.reply, table, journal=f"{folder}/journal", engine=engine, limits=limits).run()


def limits(name: str, seconds: float, rate: float) -> None:
    """Print how much of a limit the workers use together, and how much the server refuses."""
    kinds = [
        (Kind(f"hidden: {rate:g} requests a second", rate), None),
        (Kind("hidden: 20 requests of half a second at the same time", in_flight=20, delay=0.5), None),
        (Kind(f"stated: {rate * 60:,.0f} requests a minute", rate, burst=20), rate * 60),
    ]
    for kind, rpm in kinds:
        for workers in (1, 2, 4):
            used, refused = measure(kind, seconds, _map_letters, name, workers, rpm)
            print(
                f"{name}, {workers} workers, {kind.title}: used {used:.1%}, refused {refused:.2%}", flush=True
            )


def _processes() -> dict[int, tuple[int, str]]:
    """Return the memory in KB and the command of this process and its descendants."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss,args"], capture_output=True, text=True, check=True)
    found: dict[int, tuple[int, int, str]] = {}
    for line in listed.stdout.splitlines()[1:]:
        pid, parent, rss, command = line.split(None, 3)
        found[int(pid)] = int(parent), int(rss), command
    return {pid: (rss, command) for pid, (_, rss, command) in found.items()}


def memory(name: str, rows: int) -> None:
    """Print the time of a run with small replies, and the largest memory of each kind of process."""
    engine = engine_named(name, 2)
    run(engine, 500, method="is_angry")
    peaks: dict[str, int] = {}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(1.0):
            for rss, command in _processes().values():
                kind = _kind(command)
                if kind:
                    peaks[kind] = max(peaks.get(kind, 0), rss)

    sampling = threading.Thread(target=sample)
    sampling.start()
    seconds = run(engine, rows, method="is_angry")
    ended.set()
    sampling.join()
    print(f"{name}: {rows:,} rows in {seconds:.1f} s, {seconds / rows * 1e6:.0f} µs a row")
    for kind, rss in sorted(peaks.items()):
        print(f"  {kind}: {rss / 1024:,.0f} MB at most")


def _kind(command: str) -> str:
    for text, kind in (
        ("benchmarks.engines", "the process that started the run"),
        ("ray::_Worker", "a worker of Ray"),
        ("gcs_server", "Ray's server"),
        ("raylet", "Ray's raylet"),
        ("pyspark.daemon", "a worker of Spark"),
        ("java", "the Java process of Spark"),
    ):
        if text in command:
            return kind
    return ""


def main(arguments: list[str] | None = None) -> None:
    """Run the measurement that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["throughput", "limits", "memory"])
    parser.add_argument("engine", choices=["none", "ray", "spark"])
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second of the server")
    options = parser.parse_args(arguments)
    if options.what == "throughput":
        throughput(options.engine, options.rows, options.repeats)
    elif options.what == "limits":
        limits(options.engine, options.seconds, options.rate)
    else:
        memory(options.engine, options.rows)


if __name__ == "__main__":
    from benchmarks import engines  # under this name, other processes can import what is sent to them

    engines.main()
