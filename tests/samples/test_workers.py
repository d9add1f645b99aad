"""The sample that sorts letters in worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samples import workers

ROOT = Path(workers.__file__).parents[1]


@pytest.mark.engines
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_the_letters_are_sorted(engine: str) -> None:
    package = {"ray": "ray", "spark": "pyspark"}[engine]
    pytest.importorskip(package, reason=f"{package} is not installed: make test-engines installs it")
    program = [sys.executable, "-W", "ignore", "-m", "samples.workers", engine]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        program, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if line[:1].isdigit()]
    assert lines == ["200 rows, 0 errors, 200 teams", "200 rows with the columns id, text, value, error"]


def test_without_an_engine_the_usage_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["workers"])
    with pytest.raises(SystemExit, match=r"usage: python -m samples.workers ray\|spark"):
        workers.main()
