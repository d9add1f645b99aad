"""LangChain: with_structured_output(...).stream, whose partial objects are dicts."""

from __future__ import annotations

from typing import Any

from langchain_openai import ChatOpenAI  # type: ignore[import-not-found, unused-ignore]

from ..records import Customers
from .once import KEY, QUESTION, tell


def stream(base_url: str, model: str) -> Any:
    schema = {**Customers.model_json_schema(), "description": "The customers that are named."}
    chat = ChatOpenAI(model=model, base_url=base_url, api_key=KEY)
    last: Any = None
    for part in chat.with_structured_output(schema, method="json_schema").stream(QUESTION):
        last = part
    return last


if __name__ == "__main__":
    tell(stream)
