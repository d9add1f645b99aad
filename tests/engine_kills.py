"""Kill workers and the first process of engines at random; as a program, do it often.

The first process starts the run, and holds the limits of all workers. Arguments: the engine, the number of
runs, and the number of the first one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import accumulate, count
from pathlib import Path
from typing import NamedTuple

import engine_desk
from engine_desk import MOST_IN_FLIGHT, asked, logged, stored

_ROWS = 60
# In the command of worker processes.
_WORKERS = {"processes": "process_engine", "ray": "ray::_Worker", "spark": "pyspark.worker"}


def descendants(pid: int) -> dict[int, str]:
    """Return the commands of the processes that a process has started, directly or not."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    commands = {int(one): command for one, _, command in lines}
    parents = {int(one): int(parent) for one, parent, _ in lines}
    found = {pid}
    for _ in range(8):  # levels
        found |= {one for one, parent in parents.items() if parent in found}
    return {one: commands[one] for one in found - {pid}}


def workers_of(engine: str, pid: int) -> list[int]:
    below = descendants(pid)
    found = [one for one, command in below.items() if _WORKERS[engine] in command]
    if engine == "spark" and len(found) > 1:  # the daemon, which starts the others
        found.remove(min(found))
    return found


class Kills(NamedTuple):
    """How many processes were killed.

    Attributes:
        workers: Workers.
        drivers: First processes.
        holders: Those of them that held the limits of all workers.
    """

    workers: int = 0
    drivers: int = 0
    holders: int = 0

    def plus(self, other: Kills) -> Kills:
        return Kills(*(one + two for one, two in zip(self, other, strict=True)))


class Program:
    """A process that maps tables with an engine, and is started again after it was killed.

    Args:
        engine: The name of the engine.
        errors: The file for what it writes to its standard error.
    """

    def __init__(self, engine: str, errors: Path) -> None:
        self.engine = engine
        self._errors = errors
        self._process: subprocess.Popen[str] | None = None

    def start(self, folder: Path, rows: int, *, limited: bool) -> None:
        """Start to map a table."""
        if self._process is None:
            path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
            with self._errors.open("w") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, engine_desk.__file__, self.engine],
                    stdin=subprocess.PIPE,
                    stderr=errors,
                    env=os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
                    text=True,
                    start_new_session=True,
                )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{rows} {'limited' if limited else 'free'} {folder}\n")
        self._process.stdin.flush()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """Raise AssertionError if the program has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(self._errors.read_text()[-3000:])

    def kill(self) -> dict[int, str]:
        """Kill the program, and return the processes that it had started, which may still run."""
        if self._process is None:
            return {}
        children = descendants(self.pid)
        self._process.kill()
        self._process.wait()
        self._process = None
        return children

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.kill():
            _kill(child)


def check_kills(program: Program, folder: Path, seed: int, *, rows: int = _ROWS) -> Kills:
    """Map a table with a program that is killed at random; return what was killed.

    The output must be that of an undisturbed run, and nothing that was stored may be requested again. With
    limits, never more requests than allowed may be in flight, and none may start without the first process.
    """
    chance, is_limited = random.Random(seed), seed % 2 == 1
    journal, log, done = folder / "out.jsonl.journal", folder / "asked", folder / "done"
    known: dict[str, float] = {}  # the rows that were stored, and when that was seen
    killed_at: dict[int, float] = {}
    killed, ends_at = Kills(), time.monotonic() + 900
    for attempt in count():
        program.start(folder, rows, limited=is_limited)
        kills, first, is_killed = chance.randrange(4) if attempt < 3 else 0, len(asked(log)), False
        while not done.exists() and not is_killed:
            program.check()
            assert time.monotonic() < ends_at, "the table is not finished"
            if not kills or len(asked(log)) <= first:  # the workers are starting
                time.sleep(0.02)
                continue
            time.sleep(chance.uniform(0, 0.5))
            if done.exists():
                break
            kills -= 1
            workers = workers_of(program.engine, program.pid)
            if workers and chance.random() < 0.7:
                worker = chance.choice(workers)
                killed_at[worker] = time.monotonic()
                _kill(worker)
                killed = killed.plus(Kills(workers=1))
            else:
                children, is_killed = program.kill(), True
                if is_limited:
                    _check_no_new_requests(log)
                for child in children:
                    killed_at.setdefault(child, time.monotonic())
                    _kill(child)
                killed = killed.plus(Kills(drivers=1, holders=int(is_limited)))
            seen_at = time.monotonic()
            for row in _answered(journal):
                known.setdefault(row, seen_at)
        for line in logged(log):
            killed_at.setdefault(line.pid, time.monotonic())
        if not is_killed:
            break
    again = [row for at, row in asked(log) if row in known and at > known[row] + 0.05]
    assert not again, f"asked again although the answer was stored: {again}"
    if is_limited:
        assert most_in_flight(log, killed_at) <= MOST_IN_FLIGHT
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert lines == expected(rows)
    assert not Path(f"{journal}.parts").exists()
    return killed


def _check_no_new_requests(log: Path) -> None:
    """Check that workers send only the requests that a process which has just been killed had permitted."""
    before = len(asked(log))
    time.sleep(0.5)
    assert len(asked(log)) - before <= MOST_IN_FLIGHT, "requests were sent without permission"


def most_in_flight(log: Path, killed_at: Mapping[int, float]) -> int:
    """Return how many requests were in flight at the same time; those of killed processes have ended."""
    started: dict[tuple[int, str], float] = {}
    changes: list[tuple[float, int]] = []
    for at, pid, what, row in logged(log):
        if what == "start":
            started[pid, row] = at
        else:
            changes += [(started.pop((pid, row)), 1), (at, -1)]
    for (pid, _), at in started.items():
        changes += [(at, 1), (max(at, killed_at[pid]), -1)]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


def expected(rows: int) -> list[str]:
    return [
        json.dumps(
            {
                **row,
                "value": None if row["id"] % 10 == 9 else row["id"],
                "error": "ValueError: no answer for this row" if row["id"] % 10 == 9 else None,
            }
        )
        for row in engine_desk.table(rows)
    ]


def _answered(journal: Path) -> set[str]:
    """Return the numbers of the rows whose reply is stored."""
    numbers = set()
    for entry in stored(journal):
        if "reply" in entry:
            numbers.add(str(json.loads(entry["body"]["message"]["text"])["value"]))
        elif "value" in entry:
            numbers.add(entry["value"])
    return numbers


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main() -> None:
    engine, runs = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if sys.argv[3:] else 0
    killed = Kills()
    with tempfile.TemporaryDirectory() as root, Program(engine, Path(root, "errors")) as program:
        for seed in range(first, first + runs):
            folder = Path(root, str(seed))
            folder.mkdir()
            killed = killed.plus(check_kills(program, folder, seed))
            print(f"{engine}, run {seed + 1}, killed: {killed}", flush=True)


if __name__ == "__main__":
    main()
