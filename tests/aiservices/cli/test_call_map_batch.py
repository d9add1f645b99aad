"""The command batch looks after the batches of the command map."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_desk import answer
from batch_server import BatchServer, Faults

from .conftest import ROOT, CommandRun

DESK = """
from dataclasses import dataclass
from typing import Protocol
from aiservices import user_message

@dataclass
class Person:
    name: str
    age: int

class Desk(Protocol):
    @user_message("Extract the person.\\n\\n{{text}}")
    def person(self, text: str) -> Person: ...
"""

MAP = "map batch_clerk:Desk.person in.csv out.csv --model=openai:gpt-x --key=id --engine=batch".split()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    """A server with the batch of a run that was killed, which has not ended."""
    (tmp_path / "batch_clerk.py").write_text(DESK, "utf-8")
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), (1, "Ann is 42"), (2, "Bob is 7")])
    with BatchServer(answer, Faults(polls=10**6)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{tmp_path}")
        running = subprocess.Popen([sys.executable, "-m", "aiservices", *MAP], cwd=tmp_path)
        while not any(
            '"state": "submitted"' in path.read_text() for path in tmp_path.glob("*.batches/*.json")
        ):
            assert running.poll() is None
            time.sleep(0.02)
        running.kill()
        running.wait()
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        yield server


def test_a_batch_is_listed_fetched_and_read(run: CommandRun, server: BatchServer, tmp_path: Path) -> None:
    assert run("batch", "list", "out.csv") == (0, "batch_0  openai:gpt-x  2 requests  submitted\n", "")
    code, out, _ = run("batch", "status", "out.csv")
    assert (code, out) == (0, "batch_0  openai:gpt-x  running, 0 of 2 requests finished\n")
    assert run("batch", "fetch", "out.csv").out == "batch_0  still running\n"
    server.faults.polls = 0
    assert run("batch", "fetch", "out.csv").out.startswith("batch_0  2 responses stored; ")
    server.batches.clear()  # as a provider does after some weeks
    code, out, err = run(*MAP)
    assert (code, out.splitlines()[0]) == (0, "2 rows: 2 answered, 0 with an error"), err
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [(row["name"], row["age"]) for row in rows] == [("Ann", "42"), ("Bob", "7")]
    assert run("batch", "list", "out.csv").out == ""


def test_a_batch_is_cancelled(run: CommandRun, server: BatchServer, tmp_path: Path) -> None:
    assert run("batch", "cancel", "out.csv") == (0, "batch_0  cancelled\n", "")
    assert server.cancelled == ["batch_0"]


def test_mistakes_are_explained(
    run: CommandRun, server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run("batch", "list", "other.csv")
    assert (code, err) == (
        2,
        "error: no batches were found for other.csv: other.csv.journal.batches does not exist\n",
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    code, _, err = run("batch", "status", "out.csv")
    assert code == 2
    assert (
        f"belongs to openai:gpt-x at {server.url}/v1, and the environment gives http://127.0.0.1:9/v1" in err
    )
