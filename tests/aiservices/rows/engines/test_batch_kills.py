"""A run with batches that is killed at any time continues, and pays for nothing twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import batch_desk
from batch_desk import MODELS, answer
from batch_server import BatchServer, Faults

PROGRAM = Path(batch_desk.__file__)


def check_kills(kind: str, folder: Path, seed: int, most: int = 4) -> int:
    """Kill the program at random times until it ends by itself; return how often it was killed."""
    chance = random.Random(seed)
    faults = Faults(
        polls=chance.randrange(4),
        expired=chance.choice([0, 0.2]),
        errors=chance.choice([0, 0.2]),
        late_files=chance.randrange(2),
        max_waiting=chance.choice([None, 9]),
        lost_answers=chance.randrange(3),
        busy=chance.randrange(3),
    )
    journal, kills = folder / f"journal-{kind}-{seed}", 0
    with BatchServer(answer, faults, seed) as server:
        while not Path(f"{journal}.done").exists():
            program = subprocess.Popen(
                [sys.executable, PROGRAM, kind, server.url, journal],
                stderr=subprocess.PIPE,
                text=True,
            )
            last = server.requests + chance.randrange(1, 12)
            while kills < most and program.poll() is None:
                if server.requests >= last:
                    time.sleep(chance.random() * 0.01)
                    program.send_signal(signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.001)
            _, errors = program.communicate()
            assert program.returncode in (0, -signal.SIGKILL), errors
            time.sleep(0.01)
        assert set(server.paid.values()) == {1}
        assert server.direct == []
    found = json.loads(Path(f"{journal}.done").read_text("utf-8"))
    assert found == {str(number): number for number in range(20)}
    return kills


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    assert check_kills("openai", tmp_path, 1, most=2) == 2


def test_runs_that_are_killed_at_random(tmp_path: Path, campaign: Iterable[int]) -> None:
    runs = zip(campaign, cycle(MODELS), strict=False)
    assert sum(check_kills(kind, tmp_path, 100 + seed) for seed, kind in runs) > 0
