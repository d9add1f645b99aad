"""Keeps the server and the measured code on separate cores, if the operating system supports it."""

from __future__ import annotations

import os


def choose_cores() -> tuple[int, int] | None:
    """Return a CPU core for the measured code and one for the server, or None if there is only one core."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    free = sorted(os.sched_getaffinity(0))
    return (free[-1], free[0]) if len(free) > 1 else None


def pin_to_core(core: int) -> None:
    """Keep this process and its future child processes on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
