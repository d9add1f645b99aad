"""A table of records with ``map_rows`` and with other libraries: ``python -m benchmarks.row_peers``.

Each library that is installed answers the same rows on the same local server, with the same number of
requests in flight. The table shows rows per second and processor time per row, and both relative to
``map_rows``. Libraries are measured in turns, several rounds; the numbers are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

from aiservices import create
from aiservices.models.openai import OpenAiChatModel
from aiservices.rows import map_rows

from .records import Person
from .rows import Desk
from .sdk_calls import create_person_async

_KEY = "key"
_CONCURRENCY = 64
_PROMPT = "Extract the person.\n\n"
_TEXT = "Who is meant? Grace Hopper, who is 45, 1.68 m tall and married."


def texts(rows: int) -> list[str]:
    return [f"{_TEXT} {number}" for number in range(rows)]


def with_map_rows(url: str, rows: int) -> int:
    desk = create(Desk, OpenAiChatModel("person", base_url=url, api_key=_KEY))
    table = [{"text": text} for text in texts(rows)]
    return sum(row.value.age == 45 for row in map_rows(desk.person, table, max_concurrency=_CONCURRENCY))


def gather(one: Callable[[str], Awaitable[Any]], rows: int) -> Awaitable[list[Any]]:
    """Run one coroutine for each row, with as many at a time as ``map_rows``."""
    free = asyncio.Semaphore(_CONCURRENCY)

    async def limited(text: str) -> Any:
        async with free:
            return await one(_PROMPT + text)

    return asyncio.gather(*map(limited, texts(rows)))


def with_openai(url: str, rows: int) -> int:
    import openai

    async def run() -> int:
        async with openai.AsyncOpenAI(base_url=url, api_key=_KEY) as client:

            async def one(text: str) -> Any:
                return await create_person_async(client, text)

            return sum(person.age == 45 for person in await gather(one, rows))

    return asyncio.run(run())


def with_instructor(url: str, rows: int) -> int:
    import instructor
    import openai

    async def run() -> int:
        async with openai.AsyncOpenAI(base_url=url, api_key=_KEY) as sdk:
            client = instructor.from_openai(sdk, mode=instructor.Mode.JSON_SCHEMA)

            async def one(text: str) -> Any:
                return await client.chat.completions.create(
                    model="person", messages=[{"role": "user", "content": text}], response_model=Person
                )

            return sum(person.age == 45 for person in await gather(one, rows))

    return asyncio.run(run())


def with_pydantic_ai(url: str, rows: int) -> int:
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def run() -> int:
        model = OpenAIChatModel("person", provider=OpenAIProvider(base_url=url, api_key=_KEY))
        agent = Agent(model, output_type=NativeOutput(Person))

        async def one(text: str) -> Any:
            return (await agent.run(text)).output

        return sum(person.age == 45 for person in await gather(one, rows))

    return asyncio.run(run())


def with_daft(url: str, rows: int) -> int:
    import daft
    from daft.ai.openai.provider import OpenAIProvider
    from daft.functions import prompt

    provider = OpenAIProvider(base_url=url, api_key=_KEY)
    table = daft.from_pydict({"text": [_PROMPT + text for text in texts(rows)]})
    answer = prompt(
        daft.col("text"), return_format=Person, provider=provider, model="person", use_chat_completions=True
    )
    found = table.select(answer.alias("person")).to_pydict()["person"]
    return sum(person["age"] == 45 for person in found)


LIBRARIES: dict[str, tuple[str, Callable[[str, int], int]]] = {
    "map_rows": ("aiservices", with_map_rows),
    "openai SDK": ("openai", with_openai),
    "instructor": ("instructor", with_instructor),
    "pydantic-ai": ("pydantic_ai", with_pydantic_ai),
    "daft": ("daft", with_daft),
}


def measure(work: Callable[[str, int], int], url: str, rows: int) -> tuple[float, float]:
    """Return the seconds and the processor seconds, with those of child processes, per row."""
    start, used = time.monotonic(), _processor_seconds()
    right = work(url, rows)
    seconds, used = time.monotonic() - start, _processor_seconds() - used
    if right != rows:
        raise SystemExit(f"{work.__name__}: {right} of {rows} rows are right")
    return seconds / rows, used / rows


def _processor_seconds() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="the libraries to measure beside map_rows")
    arguments = parser.parse_args()
    os.environ["DO_NOT_TRACK"] = "1"
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    wanted = ["map_rows", *arguments.only] if arguments.only is not None else list(LIBRARIES)
    works = {name: LIBRARIES[name][1] for name in wanted if find_spec(LIBRARIES[name][0])}
    for work in works.values():
        work(url, 50)  # imports, connections and caches
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(arguments.rounds):
        for name, work in works.items():
            found[name].append(measure(work, url, arguments.rows))
    server.terminate()
    server.wait()
    own = [median(column) for column in zip(*found["map_rows"], strict=True)]
    print("| library | rows per second | processor time per row (µs) | of map_rows: time | processor time |")
    print("|---|---|---|---|---|")
    for name, rounds in found.items():
        seconds, used = (median(column) for column in zip(*rounds, strict=True))
        relative = f"{seconds / own[0]:.1f} | {used / own[1]:.1f}"
        print(f"| {name} | {1 / seconds:.0f} | {used * 1e6:.0f} | {relative} |")


if __name__ == "__main__":
    main()
