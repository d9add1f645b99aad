"""The time of importing the packages in fresh processes, beside pydantic alone and the SDK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .fresh import run_fresh, timed_fresh
from .measure import Effort, Sample, in_pairs
from .peer import PEERS, beside
from .results import Comparison, Skipped, Stage

__all__ = ["biggest", "run"]

_PYDANTIC = "from pydantic import BaseModel, Field, TypeAdapter"
_SDK = "import openai"
_DECLARE = "from aiservices import create, user_message"
_CASES = (
    ("import aiservices", _PYDANTIC, 1.3),
    (_DECLARE, _PYDANTIC, 1.3),
    ("import output_parsers", _PYDANTIC, 1.5),
    ("from output_parsers import parser_for", _PYDANTIC, 1.5),
    ("import aiservices", _SDK, 0.4),
    (_DECLARE, _SDK, 0.4),
    ("import output_parsers", _SDK, 0.4),
)
_TIMED = """
import time
cpu, wall = time.process_time(), time.perf_counter()
{statement}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def run(effort: Effort, *, why: bool = False, peers: Path | None = None) -> Stage:
    """The stage ``import``; with ``why``, the modules that cost most; ``peers`` as in ``stream``."""
    rows: list[Comparison | Skipped] = []
    for statement, against, target in _CASES:
        ours, floor = partial(_sample, statement), partial(_sample, against)
        ours(), floor()  # compiled and in the page cache
        rows.append(Comparison.of(statement, against, in_pairs(ours, floor, effort.rounds), target))
    ours = partial(_sample, _DECLARE)
    for peer in PEERS:
        python = peer.python(peers)
        theirs = partial(_sample, peer.imports, python=python or "")
        rows.append(beside(peer, python, _DECLARE, f"import of {peer.title}", ours, theirs, effort))
    remarks = list(biggest(_DECLARE)) if why else []
    return Stage("import", rows, remarks)


def _sample(statement: str, *, python: str = sys.executable) -> Sample:
    """What a statement takes in a fresh process, without the start of the interpreter."""
    return timed_fresh("-c", _TIMED.format(statement=statement), python=python)


def biggest(statement: str, count: int = 20) -> Iterator[str]:
    """The modules whose own code takes longest, by -X importtime, and those that take longest in all."""
    found = []
    for line in run_fresh("-X", "importtime", "-c", statement)[1].splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        whole, _, name = rest.partition("|")
        if own.strip().isdecimal():
            found.append((int(own), int(whole), name.strip()))
    yield f"{statement}: the modules whose own code takes longest (µs)"
    for own_time, _, module in sorted(found, reverse=True)[:count]:
        yield f"{own_time:10}  {module}"
    yield f"{statement}: the modules that take longest with what they import (µs)"
    for _, whole_time, module in sorted(found, key=lambda row: row[1], reverse=True)[:count]:
        yield f"{whole_time:10}  {module}"
