"""The benchmark program for LangChain: ``with_structured_output``, whose partial objects are dicts."""

from __future__ import annotations

from functools import partial
from typing import Any

from langchain_openai import ChatOpenAI  # type: ignore[import-not-found, unused-ignore]

from ..measure import Work
from ..records import Customers
from .timing import KEY, QUESTION, RECORD_TYPES, print_times


def _chain(base_url: str, model: str, tp: Any) -> Any:
    chat = ChatOpenAI(model=model, base_url=base_url, api_key=KEY)
    return chat.with_structured_output(tp, method="json_schema")


def call(base_url: str, model: str) -> Work:
    return partial(_chain(base_url, model, RECORD_TYPES[model]).invoke, QUESTION)


def stream(base_url: str, model: str) -> Any:
    schema = {**Customers.model_json_schema(), "description": "The customers that are named."}
    last: Any = None
    for part in _chain(base_url, model, schema).stream(QUESTION):
        last = part
    return last


if __name__ == "__main__":
    print_times(call, stream)
