"""Each case gives the same value or class of error, and the same accounting, at every entry point."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from equivalence import table
from equivalence.corpus import CORPUS, FILES, cases_of
from equivalence.differences import FAULTS, ON_PURPOSE, Rule, rule_for
from equivalence.entry_points import ENTRY_POINTS, EntryPoint
from equivalence.outcomes import Outcome, of_error, of_value
from equivalence.plans import PLANS
from equivalence.table import AS_PARSED, Case
from equivalence.world import USAGE, World

from output_parsers import read

CASES = [*table.CASES, *PLANS]
DOCS = Path(__file__).parents[2] / "docs"
# The entry points that texts of the corpus go through; iterators choose another list in all of their faults.
READERS = (
    "partial reader|blocking|Stream|AsyncStream|structured, (invoke|stream)"
    "|(json_schema|json_mode|output_tool), (blocking|Stream)|remote client, Stream|MCP tool|map_rows"
    "|(chat|responses|anthropic|gemini|bedrock), prompt, (blocking|Stream)"
)
pytestmark = pytest.mark.timeout(600)  # some tests run thousands of cases
SHARE = 45  # the sample has every n-th case at each entry point, and other cases at the next


@pytest.fixture(scope="module")
def world(only_loopback: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("equivalence"))
    yield world
    world.close()


def expected_outcome(case: Case) -> Outcome:
    """Return what a case must give at every entry point."""
    usage = None if case.model else USAGE
    if case.fails:
        outcome = Outcome(error=case.expected.__name__)
    elif case.exact:
        outcome = of_value(case.expected, ())
    elif case.model:
        outcome = of_value(case.expected)
    else:
        try:
            reading = read(case.form, case.reply)
        except Exception as error:
            outcome = of_error(error)
        else:
            value = reading.value if case.expected is AS_PARSED else case.expected
            outcome = of_value(value, reading.coercions)
    messages = None if outcome.error else ("Give it.", "an answer")
    return outcome._replace(requests=case.requests, usage=usage, messages=messages)


def find_differences(world: World, pairs: Iterable[tuple[EntryPoint, Case]]) -> Iterator[str]:
    for entry_point, case in pairs:
        difference = entry_point.run(world, case).differences(expected_outcome(case))
        if difference:
            yield f"{entry_point.name}: {case.name}: {difference}"


def pairs_of(rule: Rule) -> Iterator[tuple[EntryPoint, Case]]:
    for entry_point in ENTRY_POINTS:
        for case in CASES:
            if rule.covers(entry_point.name, case) and entry_point.applies(case):
                yield entry_point, case


@pytest.mark.parametrize("share", [SHARE, pytest.param(1, marks=pytest.mark.slow)], ids=["sample", "all"])
@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda entry_point: entry_point.name)
def test_an_entry_point_gives_what_all_others_give(entry_point: EntryPoint, share: int, world: World) -> None:
    cases = CASES[ENTRY_POINTS.index(entry_point) % share :: share]
    pairs = [
        (entry_point, case)
        for case in cases
        if entry_point.applies(case) and rule_for(entry_point.name, case) is None
    ]
    differences = list(find_differences(world, pairs))
    assert not differences, "\n".join(differences)


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason=f"the shared corpus is not at {CORPUS}")
@pytest.mark.parametrize("file", FILES)
def test_entry_points_agree_about_texts_of_models(file: str, world: World) -> None:
    readers = [entry_point for entry_point in ENTRY_POINTS if re.fullmatch(READERS, entry_point.name)]
    pairs = [
        (entry_point, case)
        for number, case in enumerate(cases_of(file))
        for entry_point in readers[number % 2 :: 2]
        if entry_point.applies(case) and rule_for(entry_point.name, case) is None
    ]
    differences = list(find_differences(world, pairs))
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=rule.reason, marks=pytest.mark.xfail(strict=True, reason=rule.reason))
        for rule in FAULTS
    ],
)
def test_a_known_fault_is_fixed(rule: Rule, world: World) -> None:
    assert next(find_differences(world, pairs_of(rule)), "") == ""


@pytest.mark.slow
@pytest.mark.parametrize("rule", [*FAULTS, *ON_PURPOSE], ids=lambda rule: rule.reason)
def test_a_rule_covers_nothing_that_is_equal(rule: Rule, world: World) -> None:
    pairs = list(pairs_of(rule))
    equal = [f"{pair[0].name}: {pair[1].name}" for pair in pairs if not list(find_differences(world, [pair]))]
    assert equal == []


@pytest.mark.parametrize("rule", ON_PURPOSE, ids=lambda rule: rule.reason)
def test_a_difference_on_purpose_is_real_and_documented(rule: Rule, world: World) -> None:
    page, words = rule.page
    assert words in " ".join((DOCS / page).read_text("utf-8").split())
    assert next(find_differences(world, pairs_of(rule)), "") != ""


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert sorted({name for name in names if names.count(name) > 1}) == []
