"""A sample that lacks a model ends with one line that says what to choose from."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices import DefinitionError, create
from samples import person
from samples.program import run

UNKNOWN = "opnai:x"


def test_without_weights_the_choices_are_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.models.registry.find_spec", lambda name: object())
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    monkeypatch.delenv("AISERVICES_LOCAL_MODEL", raising=False)
    with pytest.raises(SystemExit) as caught:
        run(person.main)
    assert caught.value.code == (  # Python prints it to standard error and exits with 1
        'This sample has no model: no model is set: pass one, as in create(Interface, "openai:NAME") '
        'or, for made-up answers, "fake", or set '
        "AISERVICES_MODEL; the embedded model has no weights yet: get some with aiservices models "
        "pull NAME, where NAME is one of qwen2.5-coder-1.5b (1.1 GB), qwen2.5-coder-0.5b (0.5 GB), smollm2 "
        "(0.1 GB). AISERVICES_MODEL=openai:NAME selects another model, "
        "AISERVICES_MODEL=fake makes up answers."
    )


def test_other_mistakes_keep_their_traceback() -> None:
    with pytest.raises(DefinitionError):
        run(lambda: create(person.PersonExtractor, UNKNOWN))


def test_a_missing_package_is_named() -> None:
    def main() -> None:
        raise ImportError("bm25s is not installed; install the extra retrieval of aiservices")

    with pytest.raises(SystemExit, match="This sample lacks a package: bm25s is not installed; "):
        run(main)


def test_a_sample_runs_with_the_fake_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "fake")
    run(person.main)
    assert len(capsys.readouterr().out.splitlines()) == 3
