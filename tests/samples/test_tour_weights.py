"""The tour runs the most capable weights that fit into memory and can be downloaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aiservices.models.local.weights import WeightsError
from samples.tour_weights import demo_weights, free_memory


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))


def test_a_demonstration_uses_the_large_weights_if_the_memory_suffices() -> None:
    pulled: list[str] = []
    assert demo_weights(None, pulled.append, 8_000_000_000) == (
        "qwen2.5-coder-1.5b",
        "Running Qwen2.5-Coder-1.5B-Instruct Q4_K_M, the most capable of the known weights.",
    )
    assert pulled == ["qwen2.5-coder-1.5b"]


def test_a_demonstration_uses_the_small_weights_if_memory_is_short() -> None:
    pulled: list[str] = []
    assert demo_weights(None, pulled.append, 1_000_000_000) == (
        "smollm2",
        "Running SmolLM2-135M-Instruct Q4_1, which is often wrong: 1.0 GB of memory are free, and "
        "Qwen2.5-Coder-1.5B-Instruct Q4_K_M needs 2.5 GB.",
    )
    assert pulled == ["smollm2"]


def test_a_demonstration_uses_the_small_weights_if_the_large_ones_cannot_be_downloaded() -> None:
    def broken(name: str) -> None:
        if name != "smollm2":
            raise WeightsError(f"{name} could not be pulled")

    assert demo_weights(None, broken, None) == (
        "smollm2",
        "Running SmolLM2-135M-Instruct Q4_1, which is often wrong: qwen2.5-coder-1.5b could not be pulled.",
    )


def test_a_demonstration_uses_the_preferred_weights() -> None:
    assert demo_weights("smollm2", lambda name: None, None) == (
        "smollm2",
        "Running SmolLM2-135M-Instruct Q4_1, as requested.",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/meminfo")
def test_the_free_memory_is_at_most_that_of_the_machine() -> None:
    free = free_memory()
    assert free is not None
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert 0 < free <= int(total.split()[1]) * 1024
