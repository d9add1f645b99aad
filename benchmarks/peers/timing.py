"""Measures another library after one warm-up run, and prints its wall and CPU seconds.

``python -m benchmarks.peers.PROGRAM call URL MODEL SECONDS``, or ``… stream URL MODEL WARM_UP_MODEL``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ..measure import Work, measure, measure_block
from ..records import Customers, Person
from ..values import PERSON, record, records_data

KEY = "none-is-needed"
QUESTION = "Which customers are named? Grace Hopper, 45 years old and married, is 1.68 m tall."
RECORD_TYPES: dict[str, type[BaseModel]] = {"person": Person, "customers": Customers}


def print_times(call: Callable[[str, str], Work], stream: Callable[[str, str], Any] | None = None) -> None:
    """Run the benchmark that the command-line arguments name, and print its times.

    ``call`` takes a base URL and a model name, creates the client of the library, and returns a function that
    requests an object of ``RECORD_TYPES``. ``stream`` returns the last object of a stream.
    """
    kind, base_url, model, more = sys.argv[1:]
    if kind == "call":
        work = call(base_url, model)
        _check_equal(work(), PERSON if model == "person" else {"records": list(map(record, range(50)))})
        sample = measure_block(work, float(more))
    else:
        assert stream is not None
        stream(base_url, more)
        objects: list[Any] = []
        sample = measure(lambda: objects.append(stream(base_url, model)))
        _check_equal(objects[0], {"records": records_data(int(model.split("-")[1]))})
    print(*sample)


def _check_equal(actual: Any, expected: dict[str, Any]) -> None:
    """Exit with an error unless the library returned the object that the server sent."""
    data = actual.model_dump() if isinstance(actual, BaseModel) else actual
    if data != expected:
        raise SystemExit(f"unexpected object: {data!r}")
