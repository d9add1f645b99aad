"""How much memory is free on this machine, as far as it can be known without a dependency."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["free_memory"]


def free_memory() -> int | None:
    """Bytes that a program can have before the machine swaps or a container's limit ends it.

    None where the system does not say. On a Mac it is all of the memory, an upper bound.
    """
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    known = [free for free in (_available(), _left_in_container()) if free is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left_in_container() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        used = (folder / "memory.current").read_text("ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)
