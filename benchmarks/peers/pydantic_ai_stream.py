"""pydantic-ai: Agent.run_stream and stream_output."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, NativeOutput  # type: ignore[import-not-found, unused-ignore]
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found, unused-ignore]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found, unused-ignore]

from ..records import Customers
from .once import KEY, QUESTION, tell


async def _stream(base_url: str, model: str) -> Any:
    chat = OpenAIChatModel(model, provider=OpenAIProvider(base_url=base_url, api_key=KEY))
    last: Any = None
    async with Agent(chat, output_type=NativeOutput(Customers)).run_stream(QUESTION) as run:
        async for part in run.stream_output(debounce_by=None):
            last = part
    return last


def stream(base_url: str, model: str) -> Any:
    with asyncio.Runner() as runner:
        return runner.run(_stream(base_url, model))


if __name__ == "__main__":
    tell(stream)
