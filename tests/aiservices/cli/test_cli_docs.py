"""The commands print the output that docs/cli.md shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from .conftest import ROOT, CommandRun

PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    pair
    for language, text in BLOCKS
    if language == "console"
    for pair in re.findall(r"^\$ aiservices (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
]


def test_the_page_has_one_module_and_commands() -> None:
    assert [language for language, _ in BLOCKS] == ["python"] + ["console"] * 4
    assert len(COMMANDS) == 5


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_each_command_prints_the_output_below_it(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, expected: str
) -> None:
    (tmp_path / "desk.py").write_text(BLOCKS[0][1], "utf-8")
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(command))
    assert result.out + result.err == expected
