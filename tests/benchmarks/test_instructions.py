"""The instructions of calls are counted and compared to the reference."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import instruction_cases, instructions
from benchmarks.__main__ import main
from benchmarks.instructions import MAX_RATIO, REFERENCE, CallgrindMissingError, Count, counts

REFERENCE_FIGURES = json.loads(REFERENCE.read_text(encoding="utf-8"))


@pytest.fixture
def reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "reference.json"
    monkeypatch.setattr(instructions, "REFERENCE", path)
    monkeypatch.setattr(
        instructions, "counts", lambda: [Count("Person", 112.0, 100.0), Count("bool", 50.0, 100.0)]
    )
    return path


def test_there_is_a_reference_for_each_case() -> None:
    assert list(REFERENCE_FIGURES["ratios"]) == list(instruction_cases.CASES)


@pytest.mark.parametrize("case", instruction_cases.CASES)
def test_a_call_and_its_baseline_return_the_same_value(case: str) -> None:
    call, reading = instruction_cases.CASES[case].make()
    answer, read = call(), reading()
    value = getattr(answer, "value", answer)
    assert value == (read.value if case == "bool" else read)


def test_a_ratio_more_than_ten_percent_above_the_reference_fails(
    reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference.write_text('{"ratios": {"Person": 1.0, "bool": 0.6}}', encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["instructions"])
    assert str(caught.value) == "more than 10% above the reference: Person"
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["Person", "112", "100", "1.120", "1.000", "+12.0%"],
        ["bool", "50", "100", "0.500", "0.600", "-16.7%"],
    ]


def test_a_ratio_within_ten_percent_of_the_reference_passes(reference: Path) -> None:
    reference.write_text('{"ratios": {"Person": 1.1, "bool": 0.5}}', encoding="utf-8")
    main(["instructions"])


def test_accept_stores_the_new_ratios(reference: Path) -> None:
    main(["instructions", "--accept"])
    assert json.loads(reference.read_text(encoding="utf-8"))["ratios"] == {"Person": 1.12, "bool": 0.5}
    main(["instructions"])


def test_without_valgrind_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_program(name: str) -> None:
        return None

    monkeypatch.setattr(shutil, "which", no_program)
    with pytest.raises(SystemExit) as caught:
        main(["instructions"])
    assert str(caught.value) == "valgrind is not installed: it counts the instructions"


@pytest.mark.slow
def test_a_call_does_not_take_more_instructions_than_the_reference() -> None:
    """If more instructions are justified, run `python -m benchmarks instructions --accept`."""
    try:
        counted: Sequence[Count] = counts(["Person"])
    except CallgrindMissingError as error:
        pytest.skip(str(error))
    assert counted[0].ratio <= MAX_RATIO * REFERENCE_FIGURES["ratios"]["Person"]
