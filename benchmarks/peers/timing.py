"""Times a peer after one run that warms it up, and prints its seconds: wall, CPU.

``python -m benchmarks.peers.PROGRAM call URL MODEL SECONDS``, or ``… stream URL MODEL MODEL_THAT_WARMS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ..measure import Work, measure_block, measure
from ..records import Customers, Person
from ..values import PERSON, record, records_data

KEY = "none-is-needed"
QUESTION = "Which customers are named? Grace Hopper, 45 years old and married, is 1.68 m tall."
RECORD_TYPES: dict[str, type[BaseModel]] = {"person": Person, "customers": Customers}


def print_times(call: Callable[[str, str], Work], stream: Callable[[str, str], Any] | None = None) -> None:
    """Does what the arguments of the program ask for, with a base URL and a model's name.

    ``call`` gives what asks for an object of ``RECORD_TYPES``, once the clients of the library are made; ``stream``
    gives the last object of a stream.
    """
    kind, base_url, model, more = sys.argv[1:]
    if kind == "call":
        work = call(base_url, model)
        _check_equal(work(), PERSON if model == "person" else {"records": list(map(record, range(50)))})
        sample = measure_block(work, float(more))
    else:
        assert stream is not None
        stream(base_url, more)
        seen: list[Any] = []
        sample = measure(lambda: seen.append(stream(base_url, model)))
        _check_equal(seen[0], {"records": records_data(int(model.split("-")[1]))})
    print(*sample)


def _check_equal(got: Any, right: dict[str, Any]) -> None:
    """What comes must be what was sent, or there is nothing to compare."""
    told = got.model_dump() if isinstance(got, BaseModel) else got
    if told != right:
        raise SystemExit(f"another object was to come than {told!r}")
