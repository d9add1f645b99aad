"""Keeps the server and what is measured on cores of their own, where the system can."""

from __future__ import annotations

import os

__all__ = ["pin", "two_cores"]


def two_cores() -> tuple[int, int] | None:
    """A core for what is measured and one for the server; None where they cannot be told apart."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    free = sorted(os.sched_getaffinity(0))
    return (free[-1], free[0]) if len(free) > 1 else None


def pin(core: int) -> None:
    """Keep this process, and those that it will start, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
