"""Starts Python anew, with the packages that are measured in its path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiservices

from .measure import Sample

__all__ = ["environment", "run_fresh", "serving", "timed_fresh"]

_HERE = Path(__file__).resolve().parent.parent
_PACKAGES = Path(aiservices.__file__).resolve().parent.parent


def environment(python: str = sys.executable) -> dict[str, str]:
    """The variables of a process of this interpreter, or of another one, which has packages of its own."""
    places = [str(_PACKAGES), str(_HERE)] if python == sys.executable else [str(_HERE)]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
    }


def run_fresh(*arguments: str, python: str = sys.executable) -> tuple[str, str]:
    """Standard output and standard error of a fresh interpreter."""
    done = subprocess.run(
        [python, *arguments], env=environment(python), capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def timed_fresh(*arguments: str, python: str = sys.executable) -> Sample:
    """The two times that a fresh interpreter prints."""
    wall, cpu = run_fresh(*arguments, python=python)[0].split()
    return Sample(float(wall), float(cpu))


@contextmanager
def serving(core: int | None = None, *, module: str = "benchmarks.server") -> Iterator[str]:
    """The base URL of a server in a process of its own, which ends with the block."""
    pinned = [] if core is None else ["--core", str(core)]
    command = [sys.executable, "-m", module, *pinned]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.stdin.close()
