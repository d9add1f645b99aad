"""Processes that are killed with SIGKILL do nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conversation_stores import redis_url

ROOT = Path(__file__).parents[3]
__all__ = ["redis_url"]


def kill(journal: str, folder: Path, kills: int) -> None:
    command = [sys.executable, "-m", "tests.durable_kills", journal, str(folder), str(kills), "1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["problems"], found["kills"] >= kills) == ([], True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs fork")
def test_a_few_kills_with_sqlite(tmp_path: Path) -> None:
    kill(str(tmp_path / "calls.db"), tmp_path, 3)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs fork")
def test_many_kills_with_sqlite(tmp_path: Path) -> None:
    kill(str(tmp_path / "calls.db"), tmp_path, 200)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs fork")
def test_many_kills_with_redis(tmp_path: Path, redis_url: str) -> None:
    kill(redis_url, tmp_path, 100)
