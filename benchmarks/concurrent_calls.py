"""Rows of the stage ``call``: a hundred and a thousand concurrent calls, compared to the async SDK client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median

import openai

from .clerk import KEY, async_clerk
from .measure import Effort, Sample, measure, measure_pairs
from .records import Person
from .results import Comparison
from .sdk_calls import create_person_async
from .values import PERSON

_TARGET, _CPU_TARGET = 0.25, 0.30
_CALLS_EACH = 5


def concurrent_calls(effort: Effort, base_url: str, text: str) -> Iterator[Comparison]:
    """Measure many concurrent calls in one event loop. Each call must succeed.

    The high concurrency is compared to our own lower one: calls of the SDK may fail there, because its
    connect timeout is five seconds.
    """
    service, model = async_clerk("person", base_url)
    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY)
    low, high = effort.concurrency, effort.high_concurrency
    with asyncio.Runner() as runner:
        sampler: Callable[..., Callable[[], Sample]] = partial(partial, _measure_calls, runner)
        person, sdk_call = partial(service.person, text), partial(create_person_async, client, text)
        calls = low * _CALLS_EACH
        ours, baseline_run = sampler(person, low, calls), sampler(sdk_call, low, calls)
        ours(), baseline_run()  # opens the connections
        pairs = measure_pairs(ours, baseline_run, effort.rounds)
        our_rate, sdk_rate = (
            calls / median(sample.wall for sample in side) for side in zip(*pairs, strict=True)
        )
        yield Comparison.of(
            f"Person, async, {low:,} at a time",
            "SDK create + validate_json",
            pairs,
            _TARGET,
            cpu_target=_CPU_TARGET,
            note=f"{our_rate:.0f} and {sdk_rate:.0f} calls/s",
        )
        calls = high * _CALLS_EACH
        high_concurrency, lower = sampler(person, high, calls), sampler(person, low, calls)
        high_concurrency()
        pairs = measure_pairs(high_concurrency, lower, effort.rounds)
        note = f"{calls * effort.rounds:,} calls, none failed"
        case, baseline = f"Person, async, {high:,} at a time", f"our own, {low:,} at a time"
        yield Comparison.of(case, baseline, pairs, note=note)
        runner.run(model.aclose())
        runner.run(client.close())


def _measure_calls(
    runner: asyncio.Runner, call: Callable[[], Awaitable[Person]], concurrency: int, calls: int
) -> Sample:
    return measure(lambda: runner.run(_call_many(call, concurrency, calls)))


async def _call_many(call: Callable[[], Awaitable[Person]], concurrency: int, calls: int) -> None:
    remaining = iter(range(calls))

    async def call_repeatedly() -> None:
        for _ in remaining:
            answer = await call()
            if answer.name != PERSON["name"]:
                raise AssertionError(f"unexpected person: {answer!r}")

    await asyncio.gather(*(call_repeatedly() for _ in range(concurrency)))
