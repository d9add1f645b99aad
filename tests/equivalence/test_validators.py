"""Each entry point gives the value of pydantic for exact JSON, and runs the validators as often."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from equivalence.entry_points import ENTRY_POINTS, EntryPoint
from equivalence.outcomes import of_value
from equivalence.table import Case
from equivalence.world import World
from pydantic import TypeAdapter
from validator_cases import KEEPING, RUNS, case_of, combinations

from output_parsers import UnsupportedTypeError, parser_for

# Replies, arguments of tools, bodies of requests, and rows.
NAMES = """
    partial reader|blocking|async|Stream|json_schema, blocking|json_schema, Stream|output_tool, blocking
    |structured, invoke|structured, stream|tool parameter|map_rows|argument over HTTP|argument over MCP
    |resumed call
"""
# Snapshots of a part, and the check that a value can be written, run validators, too.
_MORE_RUNS = ("partial reader", "json_schema, Stream", "map_rows")
CHOSEN = [one for one in ENTRY_POINTS if one.name in NAMES.strip().replace("\n    ", "").split("|")]


# Their JSON is not that of the schema, which has the names of enum members and numbers.
_NOT_IN_PROMPTS = ("SecretStr", "bytes", "Base64Bytes", "Base64UrlBytes")
_NOT_AS_THE_SCHEMA = ("Enum of int", "Decimal as text")


@pytest.fixture(scope="module")
def world(only_loopback: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("validators"))
    yield world
    world.close()


def exact_cases(every: int) -> Iterator[Case]:
    """Yield the cases that pydantic reads."""
    kept = [one for one in combinations() if one[1] in KEEPING and one[0] not in _NOT_AS_THE_SCHEMA]
    for combination in kept[::every]:
        name, form, text = case_of(combination)
        try:
            expected = TypeAdapter(form).validate_json(text)
            parser_for(form)
        except (ValueError, TypeError, UnsupportedTypeError):
            continue
        yield Case(name, form, text, expected, exact=True, plain=json.loads(text))


def _applies(entry_point: EntryPoint, case: Case) -> bool:
    """Return False also for secrets, and for bytes in prompts, which are errors by intention."""
    refused = {
        "map_rows": ("SecretStr",),
        "argument over HTTP": _NOT_IN_PROMPTS,
        "argument over MCP": _NOT_IN_PROMPTS,
    }
    return entry_point.applies(case) and not case.name.startswith(refused.get(entry_point.name, ()))


def difference(entry_point: EntryPoint, world: World, case: Case) -> str:
    RUNS.clear()
    TypeAdapter(case.form).validate_json(case.reply)
    runs = RUNS.copy()
    RUNS.clear()
    different = entry_point.run(world, case).differences(of_value(case.expected))
    is_same = runs == RUNS or (runs <= RUNS and entry_point.name in _MORE_RUNS)
    return different or ("" if is_same else f"{RUNS} instead of {runs}")


@pytest.mark.parametrize("every", [8009, pytest.param(149, marks=pytest.mark.slow)], ids=["sample", "more"])
def test_validators_see_the_same_json_at_every_entry_point(every: int, world: World) -> None:
    assert len(CHOSEN) == 14
    different = [
        f"{entry_point.name}: {case.name}: {text}"
        for case in exact_cases(every)
        for entry_point in CHOSEN
        if _applies(entry_point, case) and (text := difference(entry_point, world, case))
    ]
    assert not different, "\n".join(different)
