"""The accuracy stage counts right answers, wrong values and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiservices import AiServiceError, ChatRequest, ScriptedChatModel, Strategy, create, preview
from benchmarks import accuracy
from benchmarks.__main__ import main
from benchmarks.accuracy import AnsweredCase, Scores
from benchmarks.accuracy_cases import ACCURACY_CASES
from benchmarks.accuracy_methods import Methods, MethodsWithExamples

CASES: dict[str, dict[str, Any]] = {
    "complains": {"It broke.": True, "It shines.": True, "Hm.": True},
    "count": {"Six geese": 6},
}


def _reply(request: ChatRequest) -> str:
    request = " ".join(message.text for message in request.messages)
    if "geese" in request:
        return '{"value": 6}'
    return '{"value": false}' if "shines" in request else "perhaps" if "Hm." in request else '{"value": true}'


def test_accuracy_counts_right_answers_other_values_and_errors() -> None:
    lines: list[str] = []
    model = ScriptedChatModel(_reply)
    scores = accuracy.run(model, strategies=[Strategy.JSON_MODE], cases=CASES, progress=lines.append)
    assert [line.rpartition(",")[0] for line in lines] == [
        "  json_mode, examples: none: 2 of 4",
        "  json_mode, examples: two: 2 of 4",
    ]
    for score, examples in zip(scores.scores, ("none", "two"), strict=True):
        assert score.cells()[:7] == ("json_mode", examples, "2 / 4", "1", "1", "3 / 3", "1")
    table = list(scores.lines())
    assert table[0] == "accuracy of scripted: right answers of those asked"
    assert [line.split() for line in table[5:8]] == [
        ["method", "json_mode,", "none", "json_mode,", "two"],
        ["complains", "1", "/", "3", "1", "/", "3"],
        ["count", "1", "/", "1", "1", "/", "1"],
    ]
    first = json.loads(json.dumps(scores.as_data()))["scores"][0]
    assert (first["right"], first["errors"], first["typed"], first["asked_again"]) == (2, 1, 3, 1)
    assert [one["text"] for one in first["not_right"]] == ["It shines.", "Hm."]


def test_an_answer_of_another_type_is_not_right() -> None:
    assert not AnsweredCase("count", "one", 1, True, True, 1, 0.1).right
    assert not AnsweredCase("count", "one", 1, AiServiceError("no"), False, 1, 0.1).right
    assert AnsweredCase("count", "one", 1, 1, True, 1, 0.1).right


def test_the_right_answers_have_the_types_of_their_methods() -> None:
    assert sum(map(len, ACCURACY_CASES.values())) >= 60
    for method, answers in ACCURACY_CASES.items():
        for text, right in answers.items():
            assert accuracy.has_method_type(method, right), (method, text)


def test_both_interfaces_send_the_same_prompt_and_one_adds_two_examples() -> None:
    model = ScriptedChatModel([])
    without, with_examples = (
        create(interface, model, strategy="prompt") for interface in (Methods, MethodsWithExamples)
    )
    for method, answers in ACCURACY_CASES.items():
        for text in answers:
            request = preview(getattr(without, method), text).messages
            messages_with_examples = preview(getattr(with_examples, method), text).messages
            assert messages_with_examples[-1] == request[-1]
            assert len(messages_with_examples) == len(request) + 4
            assert not any(text in message.text for message in messages_with_examples[:-1])


def test_the_command_writes_the_accuracy_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(model: str, progress: Any) -> Scores:
        assert model == "local:some"
        scores: Scores = measured(
            ScriptedChatModel(_reply), strategies=[Strategy.JSON_MODE], cases=CASES, progress=progress
        )
        return scores

    measured: Any = accuracy.run
    monkeypatch.setattr(accuracy, "run", run)
    out = tmp_path / "answers.json"
    main(["accuracy", "--model", "local:some", "--quick", "--out", str(out)])
    assert json.loads(out.read_text(encoding="utf-8"))["stages"]["accuracy"]["model"] == "scripted"
    assert "2 / 4" in capsys.readouterr().out
