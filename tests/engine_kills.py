"""Kill workers and the driver of engines at random; as a program, do it often.

Arguments: the engine and the number of runs.
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
from pathlib import Path

import engine_desk
from engine_desk import asked, stored

_ROWS = 60
# In the command of worker processes.
_WORKERS = {"processes": "process_engine", "ray": "ray::_Worker", "spark": "pyspark.daemon"}


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


def check_kills(engine: str, folder: Path, seed: int, *, rows: int = _ROWS) -> tuple[int, int]:
    """Run a program that is killed at random until it ends; return how many workers and drivers died.

    The output must be that of an undisturbed run, and nothing that was stored may be asked again.
    """
    chance, limited = random.Random(seed), "limited" if seed % 2 else "free"
    journal, log = folder / "out.jsonl.journal", folder / "asked"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    known: dict[str, float] = {}  # the rows that were stored, and when that was seen
    killed_workers = killed_drivers = 0
    for attempt in range(20):
        (folder / "started").unlink(missing_ok=True)
        with (folder / "errors").open("w") as errors:
            program = subprocess.Popen(
                [sys.executable, engine_desk.__file__, engine, folder, str(rows), limited],
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        try:
            while program.poll() is None and not (folder / "started").exists():
                time.sleep(0.01)
            kills = chance.randrange(4) if attempt < 3 else 0
            first = len(asked(log))
            while kills and program.poll() is None:
                if len(asked(log)) <= first:  # the workers are starting
                    time.sleep(0.02)
                    continue
                time.sleep(chance.uniform(0, 0.5))
                workers = workers_of(engine, program.pid)
                kills -= 1
                if workers and chance.random() < 0.7:
                    _kill(chance.choice(workers))
                    killed_workers += 1
                elif attempt < 3 and program.poll() is None:
                    children = descendants(program.pid)
                    _kill(program.pid)
                    program.wait()
                    for child in children:
                        _kill(child)
                    killed_drivers += 1
                seen_at = time.monotonic()
                for row in _answered(journal):
                    known.setdefault(row, seen_at)
            status = program.wait(120)
        finally:
            for child in descendants(program.pid):
                _kill(child)
            program.kill()
            program.wait()
        if status == 0:
            break
        assert status == -signal.SIGKILL, (folder / "errors").read_text()[-3000:]
    else:
        raise AssertionError("the program did not end")
    again = [row for at, row in asked(log) if row in known and at > known[row] + 0.05]
    assert not again, f"asked again although the answer was stored: {again}"
    lines = (folder / "out.jsonl").read_text().splitlines()
    assert lines == expected(rows)
    assert not Path(f"{journal}.parts").exists()
    return killed_workers, killed_drivers


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
    workers = drivers = 0
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            one, other = check_kills(engine, Path(folder), seed)
        workers, drivers = workers + one, drivers + other
        print(f"{engine}, run {seed + 1}: {workers} workers and {drivers} drivers were killed", flush=True)


if __name__ == "__main__":
    main()
