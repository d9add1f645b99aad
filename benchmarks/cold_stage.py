"""The first call of a fresh process, imports and all, beside the SDK doing the same."""

from __future__ import annotations

from .fresh import run_fresh, serving
from .measure import Effort, in_pairs
from .results import Comparison, Stage

__all__ = ["run"]


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """The stage ``cold``."""
    with serving(server_core) as base_url:

        def seconds(module: str) -> float:
            return float(run_fresh("-m", f"benchmarks.{module}", base_url)[0])

        def ours() -> float:
            return seconds("cold_ours")

        def floor() -> float:
            return seconds("cold_sdk")

        ours(), floor()
        pairs = in_pairs(ours, floor, effort.rounds)
    ratios = tuple(mine / other for mine, other in pairs)
    return Stage("cold", [Comparison("first call", "SDK create + validate_json", ratios)])
