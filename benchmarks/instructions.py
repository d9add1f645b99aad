"""``python -m benchmarks instructions``: counts the instructions of a call with callgrind.

The counts hardly depend on the machine and its load. Each is given as a ratio to a baseline that reads the
same reply with a pure Python JSON decoder and pydantic, so that other builds of Python give similar ratios.
The ratios are compared to the stored reference.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from .instruction_cases import CASES, MARK
from .new_process import environment

MAX_RATIO = 1.10  # the largest accepted ratio to the reference
REFERENCE = Path(__file__).with_name("instructions.json")
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_HEAD = ("case", "of a call", "of reading", "ratio", "reference", "change")


class CallgrindMissingError(Exception):
    """The program valgrind, which counts the instructions, is not installed."""


@dataclass(frozen=True, slots=True)
class Count:
    """The number of instructions that a call of one case takes.

    Attributes:
        case: The name of the case.
        call: The instructions of a call.
        reading: The instructions of the baseline.
    """

    case: str
    call: float
    reading: float

    @property
    def ratio(self) -> float:
        return self.call / self.reading


def counts(cases: Sequence[str] = tuple(CASES)) -> list[Count]:
    """Count the instructions of each case in a new process.

    Raises CallgrindMissingError if valgrind is not installed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise CallgrindMissingError("valgrind is not installed: it counts the instructions")
    with TemporaryDirectory() as folder:
        command = [
            *(valgrind, "--tool=callgrind", f"--dump-before={MARK}", "--combine-dumps=no"),
            f"--callgrind-out-file={folder}/counted",
            *(sys.executable, "-m", "benchmarks.instruction_cases", *cases),
        ]
        done = subprocess.run(
            command, env={**environment(), "PYTHONHASHSEED": "0"}, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"callgrind failed:\n{done.stderr}")
        return list(_read(Path(folder), cases))


def _read(folder: Path, cases: Sequence[str]) -> Iterator[Count]:
    """Read the counts that callgrind wrote: three files for each call and baseline."""
    dumps = iter([_total(folder / f"counted.{number}") for number in range(1, 6 * len(cases) + 1)])
    for case in cases:
        small_calls, large_calls = CASES[case].blocks
        instructions_per_call = []
        for _before, small, large in (islice(dumps, 3), islice(dumps, 3)):
            instructions_per_call.append((large - small) / (large_calls - small_calls))
        yield Count(case, *instructions_per_call)


def _total(dump: Path) -> int:
    match = _TOTAL.search(dump.read_text(encoding="utf-8"))
    if match is None:
        raise RuntimeError(f"callgrind wrote no total into {dump.name}")
    return int(match[1])


def main(arguments: list[str]) -> None:
    """Print the instruction counts. Exit with code 1 if a ratio is more than 10% above its reference."""
    parser = argparse.ArgumentParser(
        prog="benchmarks instructions", description="Count the instructions of a call."
    )
    parser.add_argument("--accept", action="store_true", help=f"store the ratios in {REFERENCE.name}")
    accept = parser.parse_args(arguments).accept
    try:
        counted = counts()
    except CallgrindMissingError as error:
        raise SystemExit(str(error)) from None
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))["ratios"] if REFERENCE.exists() else {}
    print("\n".join(_lines(counted, reference)))
    if accept:
        REFERENCE.write_text(json.dumps(_as_data(counted), indent=1) + "\n", encoding="utf-8")
    elif slower := [
        count.case for count in counted if count.ratio > MAX_RATIO * reference.get(count.case, 0.0)
    ]:
        raise SystemExit(f"more than {MAX_RATIO - 1:.0%} above the reference: {', '.join(slower)}")


def _as_data(counted: Sequence[Count]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "ratios": {count.case: round(count.ratio, 3) for count in counted},
    }


def _lines(counted: Sequence[Count], reference: dict[str, float]) -> Iterator[str]:
    table = [_HEAD, *(_cells(count, reference.get(count.case)) for count in counted)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    for case, *cells in table:
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield f"  {case.ljust(widths[0])}  {'  '.join(figures)}"


def _cells(count: Count, reference: float | None) -> tuple[str, ...]:
    compared = (
        ("none", "") if reference is None else (f"{reference:.3f}", f"{count.ratio / reference - 1:+.1%}")
    )
    return count.case, f"{count.call:,.0f}", f"{count.reading:,.0f}", f"{count.ratio:.3f}", *compared
