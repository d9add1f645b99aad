"""The tables in README.md name tests that exist, and all tests of this folder."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = [re.split(r" \| ", line.strip("| ")) for line in TEXT.splitlines() if line.startswith("| ")]
BEHAVIOURS = [row for row in ROWS if row[0] != "Behaviour"]


@cache
def names_of_tests(path: str) -> frozenset[str]:
    tree = ast.parse((FOLDER.parent / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def named_tests(cell: str) -> list[tuple[str, str]]:
    return re.findall(r"`([\w/]+\.py)::(\w+)`", cell)


def test_each_row_has_a_behaviour_a_place_a_result_and_tests_that_exist() -> None:
    for behaviour, place, result, *tests in BEHAVIOURS:
        assert behaviour, "a row without a behaviour"
        assert place, behaviour
        assert re.fullmatch(r"passes|(differs|not done): \S.*", result), behaviour
        named = named_tests(" ".join(tests))
        assert named or result.startswith("not done"), behaviour
        missing = [f"{path}::{name}" for path, name in named if name not in names_of_tests(path)]
        assert not missing, behaviour


def test_no_behaviour_has_two_rows() -> None:
    counts = Counter((behaviour, place) for behaviour, place, *_ in BEHAVIOURS)
    assert [row for row, count in counts.items() if count > 1] == []


def test_the_numbers_above_the_tables_are_those_of_the_tables() -> None:
    counts = Counter(result.partition(":")[0] for _, _, result, *_ in BEHAVIOURS)
    numbers = (len(BEHAVIOURS), counts["passes"], counts["differs"], counts["not done"])
    total, passes, differs, not_done = numbers
    line = f"{total} behaviours: {passes} pass, {differs} differ on purpose; not done: {not_done}."
    assert line in TEXT.splitlines()


def test_all_tests_of_this_folder_are_in_the_tables() -> None:
    named = {test for row in BEHAVIOURS for test in named_tests(row[-1])}
    own = {
        (f"{FOLDER.name}/{file.name}", name)
        for file in FOLDER.glob("test_*.py")
        if file.name != Path(__file__).name
        for name in names_of_tests(f"{FOLDER.name}/{file.name}")
    }
    assert own - named == set()
