"""Every program and command of the tutorial runs with the fake model, without a key or a download."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.running import ROOT, blocks_of

BLOCKS = blocks_of("tutorial.md")
# Commands that set up the environment, which these tests do not need. Another test runs pytest.
SETUP = ("mkdir", "cd", "python -m venv", "source", "pip", "export", "aiservices models pull", "pytest")
COMMANDS = [
    line
    for block in BLOCKS
    if block.language == "console"
    for line in block.text.splitlines()
    if not line.startswith(SETUP)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the programs of the tutorial."""
    folder = tmp_path_factory.mktemp("desk")
    for block in BLOCKS:
        if block.title:
            (folder / block.title).write_text(block.text, "utf-8")
    return folder


def start(command: str, folder: Path) -> subprocess.Popen[str]:
    program, *arguments = shlex.split(command)
    if program == "aiservices":
        arguments = ["-m", "aiservices", *arguments]
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "AISERVICES_MODEL": "fake"},
    )


def test_the_commands_of_the_tutorial_run_in_order_with_the_fake_model(folder: Path) -> None:
    assert len(COMMANDS) == 11
    for command in COMMANDS:
        if command.startswith("echo"):
            subprocess.run(command, cwd=folder, shell=True, check=True)
        elif not command.startswith("aiservices serve"):
            running = start(command, folder)
            out, err = running.communicate(timeout=100)
            is_mistake = command == "python mistake.py"
            assert running.returncode == is_mistake, f"{command}: {err}"
            assert bool(out) is not is_mistake


def test_the_service_of_the_tutorial_is_served(folder: Path) -> None:
    running = start(f"{COMMANDS[-1]} --port 0", folder)
    assert running.stderr is not None
    try:
        assert any("Application startup complete" in line for line in running.stderr)
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert running.returncode == 0


def test_the_tool_is_called_as_the_tutorial_says(folder: Path) -> None:
    expression = 'create(Clerk, FakeChatModel(calls="all"), tools=[in_stock])'
    assert f"`{expression}`" in (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    program = (folder / "clerk.py").read_text("utf-8")
    assert "create(Clerk, tools=[in_stock])" in program
    changed = program.replace("create(Clerk, tools=[in_stock])", expression)
    (folder / "fake_clerk.py").write_text(f"from aiservices.testing import FakeChatModel\n{changed}", "utf-8")
    running = start("python fake_clerk.py", folder)
    out, err = running.communicate(timeout=100)
    assert err == ""
    assert out.splitlines()[1].startswith("in_stock {'article': '")
    assert out.splitlines()[2] == "2 requests"
