"""Tests of shell completion for services, methods and arguments."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .conftest import ROOT

PROGRAM = "import sys\nsys.argv = ['aiservices']\nfrom aiservices.cli import main\nmain()\n"
BASE = "samples.sentiment:SentimentAnalyzer"


def completed(**variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        check=False,
        timeout=100,
    )
    assert done.stderr == ""
    return done.stdout.split()


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
