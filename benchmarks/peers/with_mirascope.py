"""The benchmark program for mirascope: llm.call with a strict format, and structured_stream."""

from __future__ import annotations

from typing import Any

from mirascope import llm  # type: ignore[import-not-found, unused-ignore]

from ..measure import Work
from ..records import Customers
from .timing import KEY, QUESTION, RECORD_TYPES, print_times


def _asking(base_url: str, model: str, tp: Any) -> Any:
    llm.register_provider("openai", api_key=KEY, base_url=base_url)

    asking = llm.call(f"openai/{model}:completions", format=llm.format(tp, mode="strict"))
    return asking(lambda: QUESTION)


def call(base_url: str, model: str) -> Work:
    ask = _asking(base_url, model, RECORD_TYPES[model])
    return lambda: ask().parse()


def stream(base_url: str, model: str) -> Any:
    reply = _asking(base_url, model, Customers).stream()
    for part in reply.structured_stream():
        _ = part
    return reply.parse()


if __name__ == "__main__":
    print_times(call, stream)
