"""The sample with a response cache."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from samples import cache


def test_an_equal_message_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["cache", "fake"])
    for expected in (["asked", "asked", "from the cache"], ["from the cache"] * 3):
        cache.main()
        lines = capsys.readouterr().out.splitlines()
        assert [line.rpartition("(")[2].rstrip(")") for line in lines] == expected
