"""Asynchronous calls, a hundred at a time, beside the SDK's own asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import openai

from .clerk import KEY, async_clerk
from .hand import acreate_person
from .measure import Effort, Sample, in_pairs, timed
from .results import Comparison

__all__ = ["concurrent_calls"]

_AT_A_TIME = 100


def concurrent_calls(effort: Effort, base_url: str, text: str) -> Comparison:
    """The time of many calls; both sides in one event loop that lives on."""
    calls = effort.concurrent_calls
    service, model = async_clerk("person", base_url)
    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY)
    with asyncio.Runner() as runner:

        def ours() -> Sample:
            return timed(lambda: runner.run(_many(lambda: service.person(text), calls)))

        def floor() -> Sample:
            return timed(lambda: runner.run(_many(lambda: acreate_person(client, text), calls)))

        ours(), floor()  # the connections are made
        pairs = in_pairs(ours, floor, effort.rounds)
        runner.run(model.aclose())
        runner.run(client.close())
    mine, other = (calls / median(sample.wall for sample in side) for side in zip(*pairs, strict=True))
    return Comparison.of(
        f"Person, async, {_AT_A_TIME} at a time",
        "SDK create + validate_json",
        pairs,
        note=f"{mine:.0f} and {other:.0f} calls/s",
    )


async def _many(call: Callable[[], Awaitable[Any]], calls: int) -> None:
    left = iter(range(calls))

    async def one_after_another() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(one_after_another() for _ in range(_AT_A_TIME)))
