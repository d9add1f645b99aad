"""Kill a program at each of its steps, run it again, and count what it did: with aiservices and pydantic-ai.

Both programs are workflows of DBOS with SQLite, in ``benchmarks/peers``. Run it with a Python that has
``dbos`` and ``pydantic-ai-slim``::

    python -m benchmarks.durable_kills
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

_PROGRAMS = ("aiservices", "pydantic_ai")
_STEPS = 10  # three requests and two payments, each with a step before and after it
_MAX_SECONDS = 120.0


def main() -> None:
    """Print a table with the requests and payments of each program after each kill."""
    titles = ("Program", "Lines", "Undisturbed", "More requests", "Payments made twice", "Questions", "Wrong")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for program in _PROGRAMS:
        print(_row(program))


def _row(program: str) -> str:
    undisturbed, _ = _run(program, -1)
    extra, twice, questions, wrong = 0, 0, 0, 0
    for kill_at in range(_STEPS):
        notes, output = _run(program, kill_at)
        extra += notes["request"] - undisturbed["request"]
        twice += sum(notes[name] - 1 for name in undisturbed if name.startswith("paid"))
        questions += notes["question"]
        wrong += output != "Done: paid 1, paid 2."
    figures = (f"{undisturbed['request']} requests", extra, twice, questions, wrong)
    return f"| {program} | {_lines(program)} | {' | '.join(map(str, figures))} |"


def _run(program: str, kill_at: int) -> tuple[Counter[str], str]:
    """Run a program that is killed at a step, and again until its end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.peers.durable_{program}", folder]
        for step, action in ((kill_at, "start"), (-1, "continue")):
            done = subprocess.run(
                [*command, str(step), action], capture_output=True, text=True, timeout=_MAX_SECONDS
            )
            if done.returncode == 0:
                return Counter((Path(folder) / "log").read_text().splitlines()), done.stdout.strip()
            if done.returncode != -signal.SIGKILL:
                raise RuntimeError(done.stderr)
    raise RuntimeError(f"{program} did not end")


def _lines(program: str) -> int:
    """Return the lines of code of a program, without the stand-in for the model and the operator."""
    source = Path(__file__).with_name("peers") / f"durable_{program}.py"
    text = source.read_text("utf-8").split("# --- The program ---")[1].split("# ---")[0]
    return sum(bool(line.strip()) for line in text.splitlines())


if __name__ == "__main__":
    main()
