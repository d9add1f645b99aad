"""Chooses the weights of the embedded model for the tour: the most capable that fit into memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from aiservices.models.local.weights import Weights, WeightsError, is_ready, weights_named


def free_memory() -> int | None:
    """Return the bytes of memory that this process can still use, or None if that is unknown.

    The memory limit of a container counts too. On macOS, the result is the whole memory of the machine, which
    is an upper bound.
    """
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    amounts = [free for free in (_free_on_machine(), _free_in_container()) if free is not None]
    return min(amounts, default=None)


def _free_on_machine() -> int | None:
    """Return the memory in bytes that Linux reports as available on this machine."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _free_in_container() -> int | None:
    """Return the unused bytes of the container's memory limit; None if there is no limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        used = (folder / "memory.current").read_text("ascii").strip()
    except OSError:
        return None
    return None if limit == "max" else int(limit) - int(used)


_LARGE_WEIGHTS, _SMALL_WEIGHTS = "qwen2.5-coder-1.5b", "smollm2"
# The large weights need at least this free memory, in bytes.
_MEMORY_FOR_LARGE = 2_500_000_000


def demo_weights(prefer: str | None, pull: Callable[[str], object], free: int | None) -> tuple[str, str]:
    """Download demo model weights that fit into memory; return their name and why they were chosen.

    ``prefer`` is the name of the weights to use. Without it, the large weights are used, or the small ones if
    the memory is short or the large ones cannot be downloaded. ``pull`` downloads weights; it may ask first.
    ``free`` is the free memory in bytes, if it is known. Raises LookupError for an unknown name, and
    WeightsError if no weights can be downloaded.
    """

    def ensure_ready(weights: Weights) -> None:
        if not is_ready(weights):
            pull(weights.name)

    if prefer:
        preferred = weights_named(prefer)
        ensure_ready(preferred)
        return preferred.name, f"Running {preferred.title}, as requested."
    large, small = weights_named(_LARGE_WEIGHTS), weights_named(_SMALL_WEIGHTS)
    if free is not None and free < _MEMORY_FOR_LARGE:
        needed = f"{_MEMORY_FOR_LARGE / 1e9:.1f} GB"
        reason = f"{free / 1e9:.1f} GB of memory are free, and {large.title} needs {needed}"
    else:
        try:
            ensure_ready(large)
            return large.name, f"Running {large.title}, the most capable of the known weights."
        except WeightsError as error:
            reason = str(error)
    ensure_ready(small)
    return small.name, f"Running {small.title}, which is often wrong: {reason}."
