"""Each stage runs one tiny round and returns its results. The tests do not look at times."""

from __future__ import annotations

import ast
import importlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from benchmarks import (
    call_stage,
    cold_start_stage,
    conversation_stage,
    create_stage,
    import_stage,
    parse_stage,
    providers_stage,
    scaling,
    stream_stage,
)
from benchmarks.__main__ import main
from benchmarks.measure import QUICK, Sample, measure_pairs
from benchmarks.peer import PEERS, Peer
from benchmarks.results import Comparison, Skipped, Stage, lines
from benchmarks.ten_methods import new_interface

ROOT = Path(__file__).parents[2]


def _well_formed(stage: Stage) -> None:
    assert stage.comparisons
    for row in stage.comparisons:
        assert len(row.ratios) == QUICK.rounds
        assert all(ratio > 0 for ratio in row.ratios)
        assert min(row.ratios) == row.spread[0]
    table = list(lines(stage))
    assert table[0].startswith(f"{stage.name}: ")
    assert all(any(row.case in line for line in table) for row in stage.rows)
    assert json.loads(json.dumps(stage.as_data()))["comparisons"]


@pytest.fixture
def no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that no other library is installed."""
    monkeypatch.setattr(Peer, "python", lambda self, environments: None)


def _missing(cases: dict[str, str]) -> list[Skipped]:
    """Return the skipped comparisons of peers that are not installed."""
    return [Skipped(case, f"{name} is not installed") for case, name in cases.items()]


@pytest.mark.slow
@pytest.mark.usefixtures("no_peers")
def test_import_stage() -> None:
    stage = import_stage.run(QUICK, show_imports=True)
    _well_formed(stage)
    declare = "from aiservices import create, user_message"
    assert {row.case for row in stage.comparisons} == {
        "import aiservices",
        declare,
        "import output_parsers",
        "from output_parsers import parser_for",
    }
    assert any(remark.endswith("  aiservices.models.base") for remark in stage.remarks)
    assert stage.skipped == _missing(
        {f"{declare} beside import of {peer.title}": peer.name for peer in PEERS}
    )


@pytest.mark.slow
def test_providers_stage() -> None:
    pytest.importorskip("anthropic")
    pytest.importorskip("google.genai")
    stage = providers_stage.run(QUICK)
    _well_formed(stage)
    streams = [f"text stream, {size}" for size in ("10 KB", "100 KB")]
    names = [f"{name}: {case}" for name in ("Claude", "Gemini") for case in ("Person", *streams)]
    assert [row.case for row in stage.comparisons] == names


@pytest.mark.slow
@pytest.mark.usefixtures("no_peers")
def test_call_stage() -> None:
    stage = call_stage.run(QUICK)
    _well_formed(stage)
    rows = {(row.case, row.baseline): (row.target, row.cpu_target) for row in stage.comparisons}
    sdk = "SDK create + validate_json"
    assert rows == {
        ("Person", sdk): (0.22, None),
        ("Person, 20 threads", sdk): (None, None),
        ("Result[Person]", "our own Person"): (1.05, None),
        ("bool", sdk): (0.4, None),
        ("50 records", sdk): (0.45, None),
        ("50 records as dataclasses", sdk): (0.4, None),
        ("Person", "SDK parse"): (None, None),
        ("50 records", "SDK parse"): (None, None),
        ("Person, async, 5 at a time", sdk): (0.25, 0.3),
        ("Person, async, 10 at a time", "our own, 5 at a time"): (None, None),
    }
    assert "calls/s" in stage.comparisons[-2].note
    assert stage.comparisons[-1].note == "50 calls, none failed"
    assert len(stage.skipped) == 2 * len(PEERS)


@pytest.mark.slow
def test_create_stage() -> None:
    stage = create_stage.run(QUICK)
    _well_formed(stage)
    assert [row.target for row in stage.comparisons] == [10.0]


def test_each_new_interface_has_new_types() -> None:
    (interface, types), (another, others) = new_interface(), new_interface()
    assert interface is not another
    assert len(types) == 10
    assert not {*types} & {*others}
    assert [get_type_hints(getattr(interface, name))["return"] for name in _methods(interface)] == types


def _methods(interface: type[Any]) -> list[str]:
    return [name for name in vars(interface) if not name.startswith("_")]


@pytest.mark.slow
def test_conversation_stage() -> None:
    stage = conversation_stage.run(QUICK)
    _well_formed(stage)
    assert [row.case for row in stage.comparisons] == [
        "memory, tool, listener: first turn",
        "memory, tool, listener: after 9 turns",
    ]
    assert {row.target for row in stage.comparisons} == {1.25}


@pytest.mark.slow
@pytest.mark.usefixtures("no_peers")
def test_stream_stage() -> None:
    stage = stream_stage.run(QUICK)
    _well_formed(stage)
    assert {row.target for row in stage.comparisons} == {0.3, 0.15, 1.5, None}
    assert stage.skipped == [
        Skipped(f"Stream[Customers], {size} beside {peer.stream}", f"{peer.name} is not installed")
        for peer in PEERS
        if peer.stream
        for size in ("10 KB", "100 KB")
    ]


def test_parse_stage() -> None:
    stage = parse_stage.run(QUICK)
    _well_formed(stage)
    assert bool(stage.skipped) == (find_spec("json_repair") is None)


@pytest.mark.slow
def test_scaling() -> None:
    stage = scaling.run(QUICK)
    _well_formed(stage)
    assert {row.target for row in stage.comparisons} == {2.0, None}


@pytest.mark.slow
def test_cold_stage() -> None:
    _well_formed(cold_start_stage.run(QUICK))


def test_a_missing_package_is_reported_as_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_stage, "find_spec", lambda name: None)
    stage = parse_stage.run(QUICK)
    assert stage.skipped == [Skipped("broken JSON", "json_repair is not installed")]
    assert "  skipped: broken JSON: json_repair is not installed" in list(lines(stage))


@pytest.mark.slow
def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    main(["cold", "--quick", "--rounds", "2", "--out", str(out)])
    figures: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert figures["rounds"] == 2
    assert len(figures["stages"]["cold"]["comparisons"][0]["ratios"]) == 2
    assert "first call" in capsys.readouterr().out


def test_the_command_refuses_zero_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["parse", "--rounds", "0"])
    assert "it must be at least 1" in capsys.readouterr().err


def test_the_two_sides_alternate_in_going_first() -> None:
    order: list[str] = []

    def side(name: str) -> Sample:
        order.append(name)
        return Sample(1.0, 1.0)

    measure_pairs(lambda: side("ours"), lambda: side("baseline"), 2)
    assert order == ["baseline", "ours", "ours", "baseline"]


def test_ratios_are_divided_by_the_growth_of_the_work() -> None:
    row = Comparison.of(
        "c", "a", [(Sample(8.0, 6.0), Sample(2.0, 0.0)), (Sample(4.0, 6.0), Sample(1.0, 1.0))], growth=2
    )
    assert row.ratios == (2.0, 2.0)
    assert row.cpu == 3.0


@pytest.mark.parametrize(
    ("target", "cpu_target", "text"),
    [
        (2.0, 3.0, "≤ 2.00, CPU ≤ 3.00"),
        (1.9, 3.0, "≤ 1.90, CPU ≤ 3.00: missed"),
        (2.0, 2.9, "≤ 2.00, CPU ≤ 2.90: missed"),
        (None, None, ""),
    ],
)
def test_a_missed_target_is_marked(target: float | None, cpu_target: float | None, text: str) -> None:
    row = Comparison.of("c", "a", [(Sample(2.0, 3.0), Sample(1.0, 1.0))], target, cpu_target=cpu_target)
    assert list(lines(Stage("s", [row])))[2].split(maxsplit=6)[6:] == ([text] if text else [])
    assert row.is_missed == text.endswith("missed")


def test_the_benchmarks_import_names_that_exist() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("aiservices", "output_parsers")
            ):
                module = importlib.import_module(str(node.module))
                missing = [one.name for one in node.names if not hasattr(module, one.name)]
                assert missing == [], path.name
