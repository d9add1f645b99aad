"""The first call of a fresh process, imports and all, beside the SDK doing the same."""

from __future__ import annotations

from .fresh import serving, timed_fresh
from .measure import Effort, Sample, in_pairs
from .results import Comparison, Stage

__all__ = ["run"]

_TARGET = 0.8


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """The stage ``cold``."""
    with serving(server_core) as base_url:

        def ours() -> Sample:
            return timed_fresh("-m", "benchmarks.cold_ours", base_url)

        def floor() -> Sample:
            return timed_fresh("-m", "benchmarks.cold_sdk", base_url)

        ours(), floor()  # compiled and in the page cache
        pairs = in_pairs(ours, floor, effort.rounds)
    return Stage("cold", [Comparison.of("first call", "SDK create + validate_json", pairs, _TARGET)])
