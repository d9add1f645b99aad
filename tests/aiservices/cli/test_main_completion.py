"""Tests of shell completion for services, methods and arguments."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from aiservices.cli.main import application

from .conftest import ROOT

BASE = "samples.sentiment:SentimentAnalyzer"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))


def completed(**variables: str) -> list[str]:
    result = CliRunner().invoke(application, env={**os.environ, **variables}, prog_name="aiservices")
    assert result.stderr == ""
    return result.stdout.split()


def in_fish(line: str) -> list[str]:
    return completed(
        _AISERVICES_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS=line,
    )


def in_bash(*words: str) -> list[str]:
    return completed(
        _AISERVICES_COMPLETE="complete_bash", COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1)
    )


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("show samples.sentiment:", [BASE]),
        (f"check {BASE}.", [f"{BASE}.is_positive", f"{BASE}.sentiment_of"]),
        (f"call {BASE}.is_positive te", ["text="]),
        ("call samples.preview_prompt:Postmaster letter=x co", ["company="]),
        ("show nothing.like.it:", []),
    ],
)
def test_completion_continues_a_line(typed: str, completions: list[str]) -> None:
    assert in_fish(f"aiservices {typed}") == completions


def test_bash_splits_at_colons() -> None:
    words = ("aiservices", "call", "samples.sentiment", ":")
    assert in_bash(*words, "Sen") == ["SentimentAnalyzer"]
    assert in_bash(*words, "SentimentAnalyzer.se") == ["SentimentAnalyzer.sentiment_of"]
    assert in_bash(*words, "SentimentAnalyzer.is_positive", "t") == ["text="]
