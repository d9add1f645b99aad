"""The stage ``import``: importing the packages in new processes, compared to pydantic and the SDK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .measure import Effort, Sample, measure_pairs
from .new_process import run_in_new_process, time_in_new_process
from .peer import PEERS, compare_with_peer
from .results import Comparison, Skipped, Stage

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


def run(effort: Effort, *, show_imports: bool = False, peers: Path | None = None) -> Stage:
    """Run the stage ``import``.

    ``show_imports`` adds the modules that take the most import time. ``peers`` is the directory with the
    environments of other libraries.
    """
    rows: list[Comparison | Skipped] = []
    for statement, baseline, target in _CASES:
        ours, baseline_run = partial(_sample, statement), partial(_sample, baseline)
        ours(), baseline_run()  # writes the .pyc files and fills the page cache
        rows.append(
            Comparison.of(statement, baseline, measure_pairs(ours, baseline_run, effort.rounds), target)
        )
    ours = partial(_sample, _DECLARE)
    for peer in PEERS:
        python = peer.python(peers)
        theirs = partial(_sample, peer.imports, python=python or "")
        rows.append(
            compare_with_peer(peer, python, _DECLARE, f"import of {peer.title}", ours, theirs, effort)
        )
    remarks = list(slowest_imports(_DECLARE)) if show_imports else []
    return Stage("import", rows, remarks)


def _sample(statement: str, *, python: str = sys.executable) -> Sample:
    """Return the time of a statement in a new process, without the start of the interpreter."""
    return time_in_new_process("-c", _TIMED.format(statement=statement), python=python)


def slowest_imports(statement: str, count: int = 20) -> Iterator[str]:
    """Yield the modules with the longest own and total import times, from ``-X importtime``."""
    times = []
    for line in run_in_new_process("-X", "importtime", "-c", statement)[1].splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        whole, _, name = rest.partition("|")
        if own.strip().isdecimal():
            times.append((int(own), int(whole), name.strip()))
    yield f"{statement}: the modules whose own code takes longest (µs)"
    for own_time, _, module in sorted(times, reverse=True)[:count]:
        yield f"{own_time:10}  {module}"
    yield f"{statement}: the modules that take longest with what they import (µs)"
    for _, whole_time, module in sorted(times, key=lambda row: row[1], reverse=True)[:count]:
        yield f"{whole_time:10}  {module}"
