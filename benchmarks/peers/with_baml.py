"""BAML: functions that its generator makes of ``baml_src``, in the folder of the environment."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from ..measure import Work
from .timing import QUESTION, print_times


def _made(base_url: str, model: str) -> Any:
    """What was generated, which reads its settings from the environment."""
    os.environ.update(BENCH_URL=base_url, BENCH_MODEL=model, BAML_LOG="off")
    sys.path.append(sys.prefix)
    from baml_client import b  # type: ignore[import-not-found, unused-ignore]

    return b


def call(base_url: str, model: str) -> Work:
    made = _made(base_url, model)
    return partial(made.Person if model == "person" else made.Customers, QUESTION)


if __name__ == "__main__":
    print_times(call)
