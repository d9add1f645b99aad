"""The tables in README.md name tests that exist, and all tests of this folder."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
BEHAVIOURS = [row for row in ROWS if row[0] != "Behaviour"]
NAMED = {name for *_, tests in BEHAVIOURS for name in re.findall(r"`(test_\w+)`", tests)}


def names_of_tests(files: Iterable[Path]) -> set[str]:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    nodes = [node for tree in trees for node in tree.body]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def test_each_row_has_a_behaviour_a_place_a_result_and_a_test() -> None:
    for behaviour, place, result, *tests in BEHAVIOURS:
        assert behaviour, "a row without a behaviour"
        assert place, behaviour
        assert re.fullmatch(r"passes|(differs|not done): \S.*", result), behaviour
        assert tests or result.startswith("not done"), behaviour


def test_the_tests_in_the_tables_exist() -> None:
    assert NAMED - names_of_tests(FOLDER.parent.rglob("test_*.py")) == set()


def test_no_behaviour_has_two_rows() -> None:
    counts = Counter((behaviour, place) for behaviour, place, *_ in BEHAVIOURS)
    assert [row for row, count in counts.items() if count > 1] == []


def test_the_numbers_above_the_tables_are_those_of_the_tables() -> None:
    counts = Counter(result.partition(":")[0] for _, _, result, *_ in BEHAVIOURS)
    numbers = (
        f"{counts['passes']} pass, {counts['differs']} differ on purpose; not done: {counts['not done']}."
    )
    assert f"{len(BEHAVIOURS)} behaviours: {numbers}" in TEXT.splitlines()


def test_all_tests_of_this_folder_are_in_the_tables() -> None:
    others = [file for file in FOLDER.glob("test_*.py") if file.name != Path(__file__).name]
    assert names_of_tests(others) - NAMED == set()
