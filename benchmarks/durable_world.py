"""The world of the programs that ``benchmarks.durable_kills`` compares: payments, replies, and kills.

A process is killed at a step: before and after each reply of the model and each payment.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

FOLDER, KILL_AT, ACTION = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
DATABASE = f"sqlite:///{FOLDER / 'app.db'}"
CONFIG = {
    "name": "refunds",
    "system_database_url": DATABASE,
    "application_version": "1",
    "notification_listener_polling_interval_sec": 0.01,
    "log_level": "ERROR",
}
ORDER = "Refund the order 17 with two payments."
_log = FOLDER / "log"
_steps = 0


def step() -> None:
    """Kill the process if it has come to the chosen step."""
    global _steps
    if _steps == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    _steps += 1


def note(text: str) -> None:
    """Note what lasts beyond the process."""
    with _log.open("a") as log:
        log.write(f"{text}\n")


def paid(euros: int) -> bool:
    """Return True if a payment was made."""
    return f"paid {euros}" in _log.read_text().splitlines()


def transfer(euros: int) -> str:
    """Pay."""
    step()
    note(f"paid {euros}")
    step()
    return f"paid {euros}"


def reply(results: list[str]) -> list[int] | str:
    """Return the payments that the model calls, or its answer; each payment after the other."""
    step()
    note("request")
    step()
    if len(results) < 2:
        return [len(results) + 1]
    return f"Done: {', '.join(results)}."
