"""What a row of ``map_rows`` costs: ``python -m benchmarks.rows overhead``, ``sdk`` or ``memory``.

``overhead`` compares the processor time of a row with that of a plain call, with a model in this process.
``sdk`` compares it with the openai SDK in ``asyncio.gather``, both with a local server in another process.
``memory ROWS`` samples the memory of the process while it maps a table, and draws ``rows-memory.svg``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
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


def sdk(rows: int, rounds: int) -> None:
    """Print the processor time of a row, as a share of that with the openai SDK."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
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
    server.terminate()
    server.wait()


def memory(rows: int, url: str | None, picture: Path) -> None:
    """Print the time and the memory of the process for each twentieth of a table."""
    model = Constant() if url is None else OpenAiChatModel("person", base_url=url, api_key=_KEY)
    desk = create(Desk, model)
    map_rows(desk.person, table(2000), key="id").run()  # imports, connections and caches
    start, first = time.monotonic(), current_memory()
    points = []
    step = max(1, rows // 20)
    with tempfile.TemporaryDirectory() as folder:
        found = map_rows(desk.person, table(rows), key="id", journal=Path(folder, "journal"))
        for count, _ in enumerate(found, 1):
            if count % step == 0:
                points.append((count, time.monotonic() - start, current_memory() - first))
                print(f"{count:,} rows: {points[-1][1]:.0f} s, {points[-1][2]:+.1f} MB", flush=True)
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
    parser.add_argument("stage", choices=("overhead", "sdk", "memory"))
    parser.add_argument("rows", type=int, nargs="?", default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="of a server; by default a model in this process")
    parser.add_argument("--to", type=Path, default=Path("rows-memory.svg"))
    arguments = parser.parse_args()
    if arguments.stage == "overhead":
        overhead(arguments.rows, arguments.rounds)
    elif arguments.stage == "sdk":
        sdk(arguments.rows, arguments.rounds)
    else:
        memory(arguments.rows, arguments.url, arguments.to)


if __name__ == "__main__":
    main()
