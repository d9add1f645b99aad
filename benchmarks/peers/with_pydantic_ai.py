"""The benchmark program for pydantic-ai: Agent.run_sync, and Agent.run_stream with stream_output."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, NativeOutput  # type: ignore[import-not-found, unused-ignore]
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found, unused-ignore]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found, unused-ignore]

from ..measure import Work
from ..records import Customers
from .timing import KEY, QUESTION, RECORD_TYPES, print_times


def _agent(base_url: str, model: str, tp: Any) -> Any:
    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key=KEY))
    return Agent(chat, output_type=NativeOutput(tp))


def call(base_url: str, model: str) -> Work:
    agent = _agent(base_url, model, RECORD_TYPES[model])
    return lambda: agent.run_sync(QUESTION).output


async def _stream(base_url: str, model: str) -> Any:
    last: Any = None
    async with _agent(base_url, model, Customers).run_stream(QUESTION) as run:
        async for part in run.stream_output(debounce_by=None):
            last = part
    return last


def stream(base_url: str, model: str) -> Any:
    with asyncio.Runner() as runner:
        return runner.run(_stream(base_url, model))


if __name__ == "__main__":
    print_times(call, stream)
