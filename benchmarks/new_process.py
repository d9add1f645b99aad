"""Runs Python programs in new processes, with the measured packages on their path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiservices

from .measure import Sample

_BENCHMARKS = Path(__file__).resolve().parent.parent
_PACKAGES = Path(aiservices.__file__).resolve().parent.parent


def environment(python: str = sys.executable) -> dict[str, str]:
    """Return the environment variables for a new Python process."""
    paths = [str(_PACKAGES), str(_BENCHMARKS)] if python == sys.executable else [str(_BENCHMARKS)]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }


def run_in_new_process(*arguments: str, python: str = sys.executable) -> tuple[str, str]:
    """Run the Python interpreter in a new process and return its standard output and standard error."""
    done = subprocess.run(
        [python, *arguments], env=environment(python), capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def time_in_new_process(*arguments: str, python: str = sys.executable) -> Sample:
    """Run a Python program that prints its wall and CPU seconds, and return them as a sample."""
    wall, cpu = run_in_new_process(*arguments, python=python)[0].split()
    return Sample(float(wall), float(cpu))


@contextmanager
def running_server(core: int | None = None, *, module: str = "benchmarks.server") -> Iterator[str]:
    """Run the benchmark server in its own process until the block ends, and yield its base URL."""
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
