"""The benchmark program for instructor: ``create`` and ``create_partial`` with a JSON Schema."""

from __future__ import annotations

from typing import Any

import instructor  # type: ignore[import-not-found, unused-ignore]
import openai

from ..measure import Work
from ..records import Customers
from .timing import KEY, QUESTION, RECORD_TYPES, print_times

_MESSAGES = [{"role": "user", "content": QUESTION}]


def _client(base_url: str) -> Any:
    return instructor.from_openai(
        openai.OpenAI(base_url=base_url, api_key=KEY), mode=instructor.Mode.JSON_SCHEMA
    )


def call(base_url: str, model: str) -> Work:
    client, tp = _client(base_url), RECORD_TYPES[model]
    return lambda: client.chat.completions.create(response_model=tp, model=model, messages=_MESSAGES)


def stream(base_url: str, model: str) -> Any:
    last: Any = None
    for part in _client(base_url).chat.completions.create_partial(
        response_model=Customers, model=model, messages=_MESSAGES
    ):
        last = part
    return last


if __name__ == "__main__":
    print_times(call, stream)
