"""The benchmark program for magentic: a function with ``@prompt``."""

from __future__ import annotations

from typing import Any

from magentic import OpenaiChatModel, prompt  # type: ignore[import-not-found, unused-ignore]

from ..measure import Work
from .timing import KEY, QUESTION, RECORD_TYPES, print_times


def call(base_url: str, model: str) -> Work:
    def ask() -> Any: ...

    ask.__annotations__["return"] = RECORD_TYPES[model]
    work: Work = prompt(QUESTION, model=OpenaiChatModel(model, api_key=KEY, base_url=base_url))(ask)
    return work


if __name__ == "__main__":
    print_times(call)
