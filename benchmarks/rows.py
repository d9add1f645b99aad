"""What a row of ``map_rows`` costs: ``python -m benchmarks.rows overhead``, ``http``, ``sdk`` or ``memory``.

``overhead`` compares the processor time of a row with that of a plain call, with a model in this process.
``http --against FOLDER`` compares the processor time of a row with a local server, a key, a journal and an
output with that of another version, which is in a folder, in alternating processes.
``sdk`` compares it with the openai SDK in ``asyncio.gather``, both with a local server in another process.
``memory ROWS`` samples the memory of the process while it maps a table, compares the processor time of both
halves, and draws ``rows-memory.svg``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import openai

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    ChatRequest,
    ReplyDelta,
    Usage,
    create,
    user_message,
)
from aiservices.models.openai import OpenAiChatModel
from aiservices.rows import map_rows

from .records import Person
from .sdk_calls import create_person_async
from .values import PERSON

_CONCURRENCY = 64
_KEY = "key"
_ANSWER = json.dumps(PERSON)
_TEXT = "Who is meant? Grace Hopper, who is 45, 1.68 m tall and married."


class Constant:
    """A model that always gives the same answer, and keeps nothing."""

    name = "constant"
    capabilities = Capabilities(json_schema=True)

    def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply(AiMessage(_ANSWER), usage=Usage(61, 24), model="constant")

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        return self.complete(request)

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        yield ReplyDelta(_ANSWER, reply=self.complete(request))

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        yield ReplyDelta(_ANSWER, reply=self.complete(request))


class Desk(Protocol):
    @user_message("Extract the person.\n\n{{text}}")
    def person(self, text: str) -> Person: ...


def table(rows: int) -> Iterator[dict[str, Any]]:
    for number in range(rows):
        yield {"id": number, "text": f"{_TEXT} {number}"}


def processor_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def overhead(rows: int, rounds: int) -> None:
    """Print the processor time of a row, and of a plain call, in microseconds."""
    desk = create(Desk, Constant())

    def call() -> None:
        for row in table(rows):
            desk.person(row["text"])

    def map_without_file() -> None:
        map_rows(desk.person, table(rows)).run()

    def map_with_key_and_file() -> None:
        with tempfile.TemporaryDirectory() as folder:
            map_rows(desk.person, list(table(rows)), key="id", to=Path(folder, "out.jsonl"))

    kinds = (call, map_without_file, map_with_key_and_file)
    times = [[processor_seconds(kind) / rows * 1e6 for kind in kinds] for _ in range(rounds)]
    plain, mapped, stored = (median(column) for column in zip(*times, strict=True))
    print(f"plain call: {plain:.0f} µs")
    print(f"map_rows: {mapped:.0f} µs, {mapped - plain:.0f} µs more")
    print(f"map_rows with a key, a journal and an output: {stored:.0f} µs, {stored - plain:.0f} µs more")


@contextmanager
def server() -> Iterator[str]:
    """Start a server in another process, and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.terminate()
        process.wait()


def http(rows: int, rounds: int, url: str | None, against: Path | None) -> None:
    """Print the processor time of a row with a server, and its ratio to that of another version."""
    if url is not None:  # in a process of its own
        desk, data = create(Desk, OpenAiChatModel("person", base_url=url, api_key=_KEY)), list(table(rows))

        def mapped(count: int) -> None:
            with tempfile.TemporaryDirectory() as folder:
                map_rows(desk.person, data[:count], key="id", to=Path(folder, "out.jsonl"))

        mapped(300)  # imports, connections and caches
        print(processor_seconds(lambda: mapped(rows)) / rows * 1e6)
        return
    own = Path(__file__).parents[1]
    folders = [own] if against is None else [own, against]
    times: dict[Path, list[float]] = {folder: [] for folder in folders}
    program = "import sys; sys.argv[0] = 'rows'; sys.path.insert(0, sys.argv.pop(1)); "
    program += f"exec(open({str(Path(__file__))!r}).read().replace('from .', 'from benchmarks.'))"
    with server() as address:
        for _ in range(rounds):
            for folder in folders:
                command = [sys.executable, "-c", program, str(folder), "http", str(rows), "--url", address]
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": str(folder)},
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                times[folder].append(float(done.stdout))
    for folder in folders:
        ratio = median(one / other for one, other in zip(times[own], times[folder], strict=True))
        print(f"{folder}: {median(times[folder]):.0f} µs; this version needs {ratio:.2f} of it")


def sdk(rows: int, rounds: int) -> None:
    """Print the processor time of a row, as a share of that with the openai SDK."""
    with server() as url:
        _compare_with_sdk(url, rows, rounds)


def _compare_with_sdk(url: str, rows: int, rounds: int) -> None:
    desk = create(Desk, OpenAiChatModel("person", base_url=url, api_key=_KEY))
    texts = [row["text"] for row in table(rows)]

    async def gather() -> None:
        client, free = openai.AsyncOpenAI(base_url=url, api_key=_KEY), asyncio.Semaphore(_CONCURRENCY)

        async def one(text: str) -> Person:
            async with free:
                return await create_person_async(client, text)

        await asyncio.gather(*map(one, texts))
        await client.close()

    kinds = (
        lambda: map_rows(desk.person, table(rows), max_concurrency=_CONCURRENCY).run(),
        lambda: asyncio.run(gather()),
    )
    pairs = [[processor_seconds(kind) / rows * 1e6 for kind in kinds] for _ in range(rounds)]
    ours, theirs = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(one / other for one, other in pairs)
    print(f"map_rows: {ours:.0f} µs, SDK in asyncio.gather: {theirs:.0f} µs; {ratio:.2f} of it")


def memory(rows: int, url: str | None, picture: Path) -> None:
    """Print the time and the memory of the process for each twentieth of a table."""
    model = Constant() if url is None else OpenAiChatModel("person", base_url=url, api_key=_KEY)
    desk = create(Desk, model)
    map_rows(desk.person, table(2000), key="id").run()  # imports, connections and caches
    start, first, begun = time.monotonic(), current_memory(), time.process_time()
    points, middle = [], 0.0
    step = max(1, rows // 20)
    with tempfile.TemporaryDirectory() as folder:
        found = map_rows(desk.person, table(rows), key="id", journal=Path(folder, "journal"))
        for count, _ in enumerate(found, 1):
            if count % step == 0:
                points.append((count, time.monotonic() - start, current_memory() - first))
                print(f"{count:,} rows: {points[-1][1]:.0f} s, {points[-1][2]:+.1f} MB", flush=True)
            if count == rows // 2:
                middle = time.process_time()
    halves = (middle - begun) / (rows // 2) * 1e6, (time.process_time() - middle) / (rows - rows // 2) * 1e6
    print(
        f"processor time: {halves[0]:.0f} µs a row, then {halves[1]:.0f}; {halves[1] / halves[0]:.2f} of it"
    )
    draw(points, picture)


def current_memory() -> float:
    """Return the resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def draw(points: list[tuple[int, float, float]], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3))
    left.plot([count for count, _, _ in points], [used for _, _, used in points], color="#00796b")
    left.set(title="Memory beyond the start (MB)", xlabel="rows", ylim=(0, 60))
    left.axhline(50, color="#999", linestyle="--", linewidth=1)
    right.plot([count for count, _, _ in points], [seconds for _, seconds, _ in points], color="#00796b")
    right.set(title="Time (s)", xlabel="rows", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=("overhead", "http", "sdk", "memory"))
    parser.add_argument("rows", type=int, nargs="?", default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="of a server; by default a model in this process")
    parser.add_argument("--against", type=Path, help="a folder with another version, for http")
    parser.add_argument("--to", type=Path, default=Path("rows-memory.svg"))
    arguments = parser.parse_args()
    if arguments.stage == "overhead":
        overhead(arguments.rows, arguments.rounds)
    elif arguments.stage == "http":
        http(arguments.rows, arguments.rounds, arguments.url, arguments.against)
    elif arguments.stage == "sdk":
        sdk(arguments.rows, arguments.rounds)
    else:
        memory(arguments.rows, arguments.url, arguments.to)


if __name__ == "__main__":
    main()
