"""``python -m benchmarks instructions``: the instructions of a call, by callgrind, beside kept ones.

They hardly depend on the machine and on what else it does. A call is told as a ratio to reading the same
answer with a reader of JSON in Python and pydantic, so that another build of Python tells about the same.
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

MAX_RATIO = 1.10  # of the reference
REFERENCE = Path(__file__).with_name("instructions.json")
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_HEAD = ("case", "of a call", "of reading", "ratio", "reference", "change")


class CallgrindMissingError(Exception):
    """There is nothing to count with."""


@dataclass(frozen=True, slots=True)
class Count:
    """The instructions of a call, and those of the fixed work beside it."""

    case: str
    call: float
    reading: float

    @property
    def ratio(self) -> float:
        return self.call / self.reading


def counts(cases: Sequence[str] = tuple(CASES)) -> list[Count]:
    """Counts them in a process of its own. Raises NoCallgrindError where valgrind is not installed."""
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
    """A dump for each mark: before a work begins, after its small block, and after its large one."""
    dumps = iter([_total(folder / f"counted.{number}") for number in range(1, 6 * len(cases) + 1)])
    for case in cases:
        few, many = CASES[case].blocks
        works = []
        for _before, small, large in (islice(dumps, 3), islice(dumps, 3)):
            works.append((large - small) / (many - few))
        yield Count(case, *works)


def _total(dump: Path) -> int:
    found = _TOTAL.search(dump.read_text(encoding="utf-8"))
    if found is None:
        raise RuntimeError(f"callgrind wrote no total into {dump.name}")
    return int(found[1])


def main(arguments: list[str]) -> None:
    """Exits with 1 when a ratio is more than a tenth above its reference."""
    parser = argparse.ArgumentParser(prog="benchmarks instructions", description="Instructions of a call.")
    parser.add_argument("--accept", action="store_true", help=f"write the ratios into {REFERENCE.name}")
    accept = parser.parse_args(arguments).accept
    try:
        found = counts()
    except CallgrindMissingError as error:
        raise SystemExit(str(error)) from None
    kept = json.loads(REFERENCE.read_text(encoding="utf-8"))["ratios"] if REFERENCE.exists() else {}
    print("\n".join(_lines(found, kept)))
    if accept:
        REFERENCE.write_text(json.dumps(_as_data(found), indent=1) + "\n", encoding="utf-8")
    elif slower := [count.case for count in found if count.ratio > MAX_RATIO * kept.get(count.case, 0.0)]:
        raise SystemExit(f"more than {MAX_RATIO - 1:.0%} above the reference: {', '.join(slower)}")


def _as_data(found: Sequence[Count]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "ratios": {count.case: round(count.ratio, 3) for count in found},
    }


def _lines(found: Sequence[Count], kept: dict[str, float]) -> Iterator[str]:
    table = [_HEAD, *(_cells(count, kept.get(count.case)) for count in found)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEAD))]
    for case, *cells in table:
        figures = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield f"  {case.ljust(widths[0])}  {'  '.join(figures)}"


def _cells(count: Count, kept: float | None) -> tuple[str, ...]:
    told = ("none", "") if kept is None else (f"{kept:.3f}", f"{count.ratio / kept - 1:+.1%}")
    return count.case, f"{count.call:,.0f}", f"{count.reading:,.0f}", f"{count.ratio:.3f}", *told
