"""Asynchronous calls, a hundred and a thousand at a time, beside the SDK's own asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from statistics import median

import openai

from .clerk import KEY, async_clerk
from .sdk_calls import create_person_async
from .measure import Effort, Sample, measure_pairs, measure
from .records import Person
from .results import Comparison
from .values import PERSON

_TARGET, _CPU_TARGET = 0.25, 0.30
_CALLS_EACH = 5


def concurrent_calls(effort: Effort, base_url: str, text: str) -> Iterator[Comparison]:
    """The time of many calls, so many at a time, none of which may fail; all in one event loop.

    A crowd is beside fewer of our own: the SDK's calls may fail there, as it waits five seconds to connect.
    """
    service, model = async_clerk("person", base_url)
    client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY)
    few, many = effort.concurrency, effort.high_concurrency
    with asyncio.Runner() as runner:
        take: Callable[..., Callable[[], Sample]] = partial(partial, _timed, runner)
        person, by_hand = partial(service.person, text), partial(create_person_async, client, text)
        calls = few * _CALLS_EACH
        ours, baseline_run = take(person, few, calls), take(by_hand, few, calls)
        ours(), baseline_run()  # the connections are made
        pairs = measure_pairs(ours, baseline_run, effort.rounds)
        ours_value, other = (calls / median(sample.wall for sample in side) for side in zip(*pairs, strict=True))
        yield Comparison.of(
            f"Person, async, {few:,} at a time",
            "SDK create + validate_json",
            pairs,
            _TARGET,
            cpu_target=_CPU_TARGET,
            note=f"{ours_value:.0f} and {other:.0f} calls/s",
        )
        calls = many * _CALLS_EACH
        high_concurrency, fewer = take(person, many, calls), take(person, few, calls)
        high_concurrency()
        pairs = measure_pairs(high_concurrency, fewer, effort.rounds)
        note = f"{calls * effort.rounds:,} calls, none failed"
        case, baseline = f"Person, async, {many:,} at a time", f"our own, {few:,} at a time"
        yield Comparison.of(case, baseline, pairs, note=note)
        runner.run(model.aclose())
        runner.run(client.close())


def _timed(
    runner: asyncio.Runner, call: Callable[[], Awaitable[Person]], concurrency: int, calls: int
) -> Sample:
    return measure(lambda: runner.run(_many(call, concurrency, calls)))


async def _many(call: Callable[[], Awaitable[Person]], concurrency: int, calls: int) -> None:
    left = iter(range(calls))

    async def one_after_another() -> None:
        for _ in left:
            answer = await call()
            if answer.name != PERSON["name"]:
                raise AssertionError(f"another person was to come than {answer!r}")

    await asyncio.gather(*(one_after_another() for _ in range(concurrency)))
