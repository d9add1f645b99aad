"""Every return type comes back exactly, in every strategy and way, from a provider that checks requests."""

from __future__ import annotations

import pytest
from matrix.bench import ASKINGS, Asking, AskingWay, Bench, Outcome, typed
from matrix.corner_types import CORNERS
from matrix.requests_checked import Server
from matrix.return_types import CASES, ITEMS, TEXTS, Case

from aiservices import Strategy

ASKED_STRICTLY = [asking for asking in ASKINGS if asking.name.endswith("strict")]
ASKED_AT_CORNERS = [asking for asking in ASKINGS if asking.server is not Server.LOOSE]
WAY = pytest.mark.parametrize("way", list(AskingWay)[:4], ids=lambda way: way.value)


def cells(cases: list[Case], askings: list[Asking]) -> pytest.MarkDecorator:
    """All of these cases asked for in all of these ways."""
    return pytest.mark.parametrize(
        ("case", "asking"),
        [pytest.param(case, asking, id=f"{case.name}-{asking.name}") for case in cases for asking in askings],
    )


def check(outcome: Outcome, case: Case, strategy: Strategy, bench: Bench) -> None:
    """The exact value, by one request that nothing is wrong with, and read without any leniency."""
    result = outcome.result
    assert typed(result.value) == typed(case.value)
    assert result.coercions == ()
    assert (result.strategy, len(result.attempts), len(bench.provider.sent)) == (strategy, 1, 1)
    if outcome.shown is not None:
        assert (outcome.shown.done, typed(outcome.shown.value)) == (True, typed(case.value))


@cells(CASES, ASKINGS)
@WAY
def test_a_type_comes_back_exactly(case: Case, asking: Asking, way: AskingWay, bench: Bench) -> None:
    try:
        outcome = bench.call(case, asking, way)
    finally:
        assert bench.provider.faults == []
    check(outcome, case, asking.strategy, bench)


@cells(CORNERS, ASKED_AT_CORNERS)
@pytest.mark.parametrize("way", [AskingWay.BLOCKING, AskingWay.ASYNC_STREAM], ids=lambda way: way.value)
def test_a_type_at_a_corner_comes_back_exactly(
    case: Case, asking: Asking, way: AskingWay, bench: Bench
) -> None:
    try:
        outcome = bench.call(case, asking, way)
    finally:
        assert bench.provider.faults == []
    check(outcome, case, asking.strategy, bench)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
@WAY
def test_text_comes_back_as_it_was_written(case: Case, way: AskingWay, bench: Bench) -> None:
    asking = Asking("text", Strategy.TEXT, Server.STRICT, ASKINGS[0].capabilities)
    try:
        outcome = bench.call(case, asking, way)
    finally:
        assert bench.provider.faults == []
    check(outcome, case, Strategy.TEXT, bench)


@cells(ITEMS, ASKINGS)
@pytest.mark.parametrize("way", list(AskingWay)[4:], ids=lambda way: way.value)
def test_items_come_one_by_one(case: Case, asking: Asking, way: AskingWay, bench: Bench) -> None:
    try:
        given = bench.items(case, asking, way)
    finally:
        assert bench.provider.faults == []
    assert typed(given) == typed(case.value)
    assert len(bench.provider.sent) == 1


@cells([case for case in (*CASES, *CORNERS) if not case.schemaless], ASKED_STRICTLY)
def test_a_type_is_enforced_where_the_provider_can(case: Case, asking: Asking, bench: Bench) -> None:
    try:
        bench.call(case, asking, AskingWay.BLOCKING)
    finally:
        assert bench.provider.faults == []
    assert bench.strictness
