"""Every return type is read exactly, with every strategy and return mode, from a strict provider."""

from __future__ import annotations

import pytest
from matrix.bench import SETUPS, Bench, Outcome, ReturnMode, Setup, typed
from matrix.corner_types import CORNERS
from matrix.request_check import Server
from matrix.return_types import CASES, ITEMS, TEXTS, Case

from aiservices import Strategy

STRICT_SETUPS = [setup for setup in SETUPS if setup.name.endswith("strict")]
CORNER_SETUPS = [setup for setup in SETUPS if setup.server is not Server.LOOSE]
MODE = pytest.mark.parametrize("mode", list(ReturnMode)[:4], ids=lambda mode: mode.value)


def cells(cases: list[Case], setups: list[Setup]) -> pytest.MarkDecorator:
    """Parametrize a test with each case in each setup."""
    return pytest.mark.parametrize(
        ("case", "setup"),
        [pytest.param(case, setup, id=f"{case.name}-{setup.name}") for case in cases for setup in setups],
    )


def check(outcome: Outcome, case: Case, strategy: Strategy, bench: Bench) -> None:
    """Check that one valid request gave the exact value, read without any coercion."""
    result = outcome.result
    assert typed(result.value) == typed(case.value)
    assert result.coercions == ()
    assert (result.strategy, len(result.attempts), len(bench.provider.sent)) == (strategy, 1, 1)
    if outcome.last_snapshot is not None:
        assert (outcome.last_snapshot.done, typed(outcome.last_snapshot.value)) == (True, typed(case.value))


@cells(CASES, SETUPS)
@MODE
def test_a_value_is_read_exactly(case: Case, setup: Setup, mode: ReturnMode, bench: Bench) -> None:
    try:
        outcome = bench.call(case, setup, mode)
    finally:
        assert bench.provider.errors == []
    check(outcome, case, setup.strategy, bench)


@cells(CORNERS, CORNER_SETUPS)
@pytest.mark.parametrize("mode", [ReturnMode.BLOCKING, ReturnMode.ASYNC_STREAM], ids=lambda mode: mode.value)
def test_a_value_of_an_unusual_type_is_read_exactly(
    case: Case, setup: Setup, mode: ReturnMode, bench: Bench
) -> None:
    try:
        outcome = bench.call(case, setup, mode)
    finally:
        assert bench.provider.errors == []
    check(outcome, case, setup.strategy, bench)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
@MODE
def test_text_is_returned_unchanged(case: Case, mode: ReturnMode, bench: Bench) -> None:
    setup = Setup("text", Strategy.TEXT, Server.STRICT, SETUPS[0].capabilities)
    try:
        outcome = bench.call(case, setup, mode)
    finally:
        assert bench.provider.errors == []
    check(outcome, case, Strategy.TEXT, bench)


@cells(ITEMS, SETUPS)
@pytest.mark.parametrize("mode", list(ReturnMode)[4:], ids=lambda mode: mode.value)
def test_items_are_returned_one_by_one(case: Case, setup: Setup, mode: ReturnMode, bench: Bench) -> None:
    try:
        items = bench.items(case, setup, mode)
    finally:
        assert bench.provider.errors == []
    assert typed(items) == typed(case.value)
    assert len(bench.provider.sent) == 1


@cells([case for case in (*CASES, *CORNERS) if not case.schemaless], STRICT_SETUPS)
def test_a_strict_schema_is_sent_where_the_provider_has_strict_mode(
    case: Case, setup: Setup, bench: Bench
) -> None:
    try:
        bench.call(case, setup, ReturnMode.BLOCKING)
    finally:
        assert bench.provider.errors == []
    assert bench.strictness
