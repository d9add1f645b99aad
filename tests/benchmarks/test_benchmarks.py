"""Each stage runs with one tiny round and tells what it found; how long anything takes is not looked at."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import call_stage, cold_stage, import_stage, parse_stage, scaling
from benchmarks.__main__ import main
from benchmarks.measure import QUICK, Sample, in_pairs
from benchmarks.results import Comparison, Skipped, Stage, lines


def _well_formed(stage: Stage) -> None:
    assert stage.comparisons
    for row in stage.comparisons:
        assert len(row.ratios) == QUICK.rounds
        assert all(ratio > 0 for ratio in row.ratios)
        assert min(row.ratios) == row.spread[0]
    shown = list(lines(stage))
    assert shown[0].startswith(f"{stage.name}: ")
    assert all(any(row.case in line for line in shown) for row in stage.rows)
    assert json.loads(json.dumps(stage.as_data()))["comparisons"]


def test_import_stage() -> None:
    stage = import_stage.run(QUICK, why=True)
    _well_formed(stage)
    assert {row.case for row in stage.comparisons} == {"import aiservices", "import output_parsers"}
    assert any("output_parsers" in remark for remark in stage.remarks)


def test_call_stage() -> None:
    stage = call_stage.run(QUICK)
    _well_formed(stage)
    assert {"Person", "Result[Person]", "bool"} <= {row.case for row in stage.comparisons}
    assert "calls/s" in stage.comparisons[-1].note


def test_parse_stage() -> None:
    stage = parse_stage.run(QUICK)
    _well_formed(stage)
    assert bool(stage.skipped) == (find_spec("json_repair") is None)


def test_scaling() -> None:
    stage = scaling.run(QUICK)
    _well_formed(stage)
    assert {row.target for row in stage.comparisons} == {2.0, None}


def test_cold_stage() -> None:
    _well_formed(cold_stage.run(QUICK))


def test_a_peer_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_stage, "find_spec", lambda name: None)
    stage = parse_stage.run(QUICK)
    assert stage.skipped == [Skipped("broken JSON", "json_repair is not installed")]
    assert "  skipped: broken JSON: json_repair is not installed" in list(lines(stage))


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    main(["cold", "--quick", "--rounds", "2", "--out", str(out)])
    told: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert told["rounds"] == 2
    assert len(told["stages"]["cold"]["comparisons"][0]["ratios"]) == 2
    assert "first call" in capsys.readouterr().out


def test_the_command_refuses_no_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["parse", "--rounds", "0"])
    assert "it must be at least 1" in capsys.readouterr().err


def test_sides_take_turns_in_being_first() -> None:
    order: list[str] = []

    def side(name: str) -> Sample:
        order.append(name)
        return Sample(1.0, 1.0)

    in_pairs(lambda: side("ours"), lambda: side("floor"), 2)
    assert order == ["floor", "ours", "ours", "floor"]


def test_ratios_allow_for_the_work_done() -> None:
    row = Comparison.of(
        "c", "a", [(Sample(8.0, 6.0), Sample(2.0, 0.0)), (Sample(4.0, 6.0), Sample(1.0, 1.0))], growth=2
    )
    assert row.ratios == (2.0, 2.0)
    assert row.cpu == 3.0
