"""Times one stream of a peer, after one that warms it up, and prints its seconds: wall, CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ..measure import timed
from ..values import records_of

__all__ = ["KEY", "QUESTION", "tell"]

KEY = "none-is-needed"
QUESTION = "Which customers are named? Grace Hopper, 45 years old and married, is 1.68 m tall."


def tell(stream: Callable[[str, str], Any]) -> None:
    """``stream`` gives the last object, for a base URL and a model's name: the arguments of the program."""
    base_url, model, warming = sys.argv[1:]
    stream(base_url, warming)
    seen: list[Any] = []
    wall, cpu = timed(lambda: seen.append(stream(base_url, model)))
    last = seen[0].model_dump() if isinstance(seen[0], BaseModel) else seen[0]
    if last != {"records": records_of(int(model.split("-")[1]))}:
        raise SystemExit(f"another object was to come than {last!r}")
    print(wall, cpu)
