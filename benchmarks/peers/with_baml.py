"""The benchmark program for BAML: functions generated from ``baml_src``."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from ..measure import Work
from .timing import QUESTION, print_times


def _functions(base_url: str, model: str) -> Any:
    """Return the functions that BAML generated. They read their settings from environment variables."""
    os.environ.update(BENCH_URL=base_url, BENCH_MODEL=model, BAML_LOG="off")
    sys.path.append(sys.prefix)
    from baml_client import b  # type: ignore[import-not-found, unused-ignore]

    return b


def call(base_url: str, model: str) -> Work:
    functions = _functions(base_url, model)
    return partial(functions.Person if model == "person" else functions.Customers, QUESTION)


if __name__ == "__main__":
    print_times(call)
