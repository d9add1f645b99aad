"""The stage ``cold``: the first call of a new process with its imports, compared to the SDK."""

from __future__ import annotations

from .measure import Effort, Sample, measure_pairs
from .new_process import running_server, time_in_new_process
from .results import Comparison, Stage

_TARGET = 0.8


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """Run the stage ``cold``."""
    with running_server(server_core) as base_url:

        def ours() -> Sample:
            return time_in_new_process("-m", "benchmarks.cold_start_aiservices", base_url)

        def baseline_run() -> Sample:
            return time_in_new_process("-m", "benchmarks.cold_start_sdk", base_url)

        ours(), baseline_run()  # writes the .pyc files and fills the page cache
        pairs = measure_pairs(ours, baseline_run, effort.rounds)
    return Stage("cold", [Comparison.of("first call", "SDK create + validate_json", pairs, _TARGET)])
