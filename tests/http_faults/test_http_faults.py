"""Every fault of HTTP and of event streams gives the same in all kinds of calls and all API formats."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

import pytest

from .calls import Cell, cells, check
from .table import FAULTS, MOST_BYTES


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replies and errors have fewer bytes than otherwise, so that too large ones are small enough."""
    for client in ("curl", "sync_client", "async_client"):  # later, they would keep these limits
        import_module(f"aiservices.models.http.{client}")
    for name, module in tuple(sys.modules.items()):
        if name.startswith("aiservices.models."):
            for limit, size in (("MAX_REPLY_BYTES", MOST_BYTES), ("MAX_ERROR_BYTES", MOST_BYTES // 8)):
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, size)


def listed(problems: Mapping[Cell, str]) -> str:
    """Return one line for each problem, with the cells that have it."""
    by_problem: dict[tuple[str, str], list[str]] = {}
    for cell, text in problems.items():
        by_problem.setdefault((cell.fault.name, text), []).append(f"{cell.dialect.name} {cell.kind}")
    return "\n".join(f"{name}: {text} ({', '.join(where)})" for (name, text), where in by_problem.items())


def test_each_fault_gives_what_the_table_says_in_one_dialect() -> None:
    sample = [
        cell
        for cell in cells(FAULTS)
        if cell.dialect is cell.fault.dialects[FAULTS.index(cell.fault) % len(cell.fault.dialects)]
    ]
    assert listed(check(sample)) == ""


@pytest.mark.slow
def test_each_fault_gives_what_the_table_says_in_all_dialects() -> None:
    assert listed(check(list(cells(FAULTS)))) == ""
