"""mypy --strict and pyright accept correct uses of services and reject wrong ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIGHT = ROOT / "tests" / "typing" / "services.py"
WRONG = ROOT / "tests" / "typing" / "wrong.py"
WHOLE_FILE_IGNORED = "# type: ignore\n"  # so that an ordinary run of a type checker passes over the file

Errors = dict[str, list[tuple[int, str]]]  # by the name of the file: line and code


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The right file, and a copy of the wrong one that type checkers look into."""
    copy = tmp_path_factory.mktemp("typing") / "wrong.py"
    text = WRONG.read_text("utf-8")
    assert text.startswith(WHOLE_FILE_IGNORED)
    copy.write_text(text.replace(WHOLE_FILE_IGNORED, "#\n", 1), "utf-8")  # the lines keep their numbers
    return [RIGHT, copy]


@pytest.fixture(scope="module")
def by_mypy(checked: list[Path]) -> Errors:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-pretty"]
    done = subprocess.run([*command, *map(str, checked)], capture_output=True, text=True, cwd=ROOT)
    errors: Errors = {file.name: [] for file in checked}
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"(.+?):(\d+): error: .*\[([\w-]+)\]", line)
        if found:
            errors[Path(found[1]).name].append((int(found[2]), found[3]))
    assert done.returncode == 1, done.stdout + done.stderr
    return errors


@pytest.fixture(scope="module")
def by_pyright(checked: list[Path]) -> Errors:
    env = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    pyright = shutil.which(
        "pyright", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if pyright is None:
        pytest.skip("pyright is not installed")
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, *map(str, checked)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright cannot run here: {(done.stderr or done.stdout).strip()[-200:]}")
    errors: Errors = {file.name: [] for file in checked}
    for error in report["generalDiagnostics"]:
        line = error["range"]["start"]["line"] + 1
        errors[Path(error["file"]).name].append((line, error.get("rule", error["message"])))
    return errors


def expected(which: int) -> list[tuple[int, str]]:
    """The lines of the wrong file that are errors, with the code of mypy (0) or of pyright (1)."""
    lines = enumerate(WRONG.read_text("utf-8").splitlines(), 1)
    marks = [(number, re.search(r"# E: (\S+) (\S+)$", line)) for number, line in lines]
    return [(number, mark[1 + which]) for number, mark in marks if mark]


def test_mypy_accepts_correct_uses(by_mypy: Errors) -> None:
    assert by_mypy["services.py"] == []


def test_mypy_refuses_each_wrong_line(by_mypy: Errors) -> None:
    assert sorted(set(by_mypy["wrong.py"])) == expected(0)


def test_pyright_accepts_correct_uses(by_pyright: Errors) -> None:
    assert by_pyright["services.py"] == []


def test_pyright_refuses_each_wrong_line(by_pyright: Errors) -> None:
    """Pyright may report several messages for a line; the expected one must be among them."""
    found = set(by_pyright["wrong.py"])
    wanted = set(expected(1))
    assert (wanted - found, {line for line, _ in found} - {line for line, _ in wanted}) == (set(), set())
