"""Each stage runs with one tiny round and tells what it found; how long anything takes is not looked at."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aiservices import AiServiceError, ChatRequest, ScriptedChatModel, Strategy, create, preview
from benchmarks import (
    accuracy,
    call_stage,
    cold_stage,
    conversation_stage,
    import_stage,
    parse_stage,
    scaling,
    stream_stage,
)
from benchmarks.__main__ import main
from benchmarks.accuracy import Answered, Scores
from benchmarks.measure import QUICK, Sample, in_pairs
from benchmarks.peer import PEERS, Peer
from benchmarks.questions import Questions, ShownQuestions
from benchmarks.results import Comparison, Skipped, Stage, lines
from benchmarks.right_answers import RIGHT_ANSWERS


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


def test_conversation_stage() -> None:
    stage = conversation_stage.run(QUICK)
    _well_formed(stage)
    assert [row.case for row in stage.comparisons] == [
        "memory, tool, listener: first turn",
        "memory, tool, listener: after 9 turns",
    ]
    assert {row.target for row in stage.comparisons} == {1.25}


def test_stream_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without other libraries, which are told to be missing."""
    monkeypatch.setattr(Peer, "python", lambda self, environments: None)
    stage = stream_stage.run(QUICK)
    _well_formed(stage)
    assert {row.target for row in stage.comparisons} == {0.3, 1.5, None}
    assert stage.skipped == [
        Skipped(f"Stream[Customers] beside {peer.call}", f"{peer.name} is not installed") for peer in PEERS
    ]


def test_a_peer_runs_in_its_own_environment(tmp_path: Path) -> None:
    own = tmp_path / "json" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    peer = Peer("json", "loads", "json", "none")
    assert peer.python(tmp_path) == str(own)
    assert peer.python(tmp_path / "elsewhere") == sys.executable
    assert Peer("nothing", "loads", "no_such_module", "none").python(tmp_path) is None


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


SAID: dict[str, dict[str, Any]] = {
    "complains": {"It broke.": True, "It shines.": True, "Hm.": True},
    "count": {"Six geese": 6},
}


def _says(request: ChatRequest) -> str:
    asked = " ".join(message.text for message in request.messages)
    if "geese" in asked:
        return '{"value": 6}'
    return '{"value": false}' if "shines" in asked else "perhaps" if "Hm." in asked else '{"value": true}'


def test_accuracy_counts_right_answers_other_values_and_errors() -> None:
    told: list[str] = []
    model = ScriptedChatModel(_says)
    scores = accuracy.run(model, strategies=[Strategy.JSON_MODE], cases=SAID, progress=told.append)
    assert [line.rpartition(",")[0] for line in told] == [
        "  json_mode, examples: none: 2 of 4",
        "  json_mode, examples: two: 2 of 4",
    ]
    for score, examples in zip(scores.scores, ("none", "two"), strict=True):
        assert score.cells()[:7] == ("json_mode", examples, "2 / 4", "1", "1", "3 / 3", "1")
    shown = list(scores.lines())
    assert shown[0] == "accuracy of scripted: right answers of those asked"
    assert [line.split() for line in shown[5:8]] == [
        ["method", "json_mode,", "none", "json_mode,", "two"],
        ["complains", "1", "/", "3", "1", "/", "3"],
        ["count", "1", "/", "1", "1", "/", "1"],
    ]
    first = json.loads(json.dumps(scores.as_data()))["scores"][0]
    assert (first["right"], first["errors"], first["typed"], first["asked_again"]) == (2, 1, 3, 1)
    assert [one["text"] for one in first["not_right"]] == ["It shines.", "Hm."]


def test_an_answer_of_another_type_is_not_right() -> None:
    assert not Answered("count", "one", 1, True, True, 1, 0.1).right
    assert not Answered("count", "one", 1, AiServiceError("no"), False, 1, 0.1).right
    assert Answered("count", "one", 1, 1, True, 1, 0.1).right


def test_the_right_answers_are_of_the_types_that_are_asked_for() -> None:
    assert sum(map(len, RIGHT_ANSWERS.values())) >= 60
    for method, answers in RIGHT_ANSWERS.items():
        for text, right in answers.items():
            assert accuracy.is_of_the_type(method, right), (method, text)


def test_both_ways_ask_the_same_and_one_shows_two_examples_before() -> None:
    model = ScriptedChatModel([])
    bare, shown = (create(way, model, strategy="prompt") for way in (Questions, ShownQuestions))
    for method, answers in RIGHT_ANSWERS.items():
        for text in answers:
            asked = preview(getattr(bare, method), text).messages
            shows = preview(getattr(shown, method), text).messages
            assert shows[-1] == asked[-1]
            assert len(shows) == len(asked) + 4
            assert not any(text in message.text for message in shows[:-1])


def test_the_command_judges_the_answers_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(model: str, progress: Any) -> Scores:
        assert model == "local:some"
        return measured(
            ScriptedChatModel(_says), strategies=[Strategy.JSON_MODE], cases=SAID, progress=progress
        )

    measured: Any = accuracy.run
    monkeypatch.setattr(accuracy, "run", run)
    out = tmp_path / "answers.json"
    main(["accuracy", "--model", "local:some", "--quick", "--out", str(out)])
    assert json.loads(out.read_text(encoding="utf-8"))["stages"]["accuracy"]["model"] == "scripted"
    assert "2 / 4" in capsys.readouterr().out
