"""instructor: create_partial."""

from __future__ import annotations

from typing import Any

import instructor  # type: ignore[import-not-found, unused-ignore]
import openai

from ..records import Customers
from .once import KEY, QUESTION, tell


def stream(base_url: str, model: str) -> Any:
    client = instructor.from_openai(
        openai.OpenAI(base_url=base_url, api_key=KEY), mode=instructor.Mode.JSON_SCHEMA
    )
    last: Any = None
    for part in client.chat.completions.create_partial(
        response_model=Customers, model=model, messages=[{"role": "user", "content": QUESTION}]
    ):
        last = part
    return last


if __name__ == "__main__":
    tell(stream)
