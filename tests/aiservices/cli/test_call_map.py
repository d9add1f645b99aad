"""The command map calls a method for each row of a table."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import ROOT, CommandRun

DESK = """
import asyncio
from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatReply, ChatRequest, ScriptedChatModel, create, user_message


@dataclass
class Ticket:
    team: str
    urgent: bool


class Desk(Protocol):
    @user_message("Which team? {{text}}")
    def ticket(self, text: str) -> Ticket: ...


class Model(ScriptedChatModel):
    async def acomplete(self, request: ChatRequest) -> ChatReply:
        if "slow" in request.messages[-1].text:
            await asyncio.sleep(30)
        return self.complete(request)


def answer(request: ChatRequest) -> str:
    if "fail" in request.messages[-1].text:
        return "no ticket"
    return '{"team": "billing", "urgent": true}'


def scripted() -> Desk:
    return create(Desk, Model(answer), retry=None)
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The target of a service in the current folder, with the file in.csv."""
    (tmp_path / "desk_to_map.py").write_text(DESK, "utf-8")
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "body"), (1, "I paid, twice"), (2, "fail"), (3, "I paid, twice")])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "desk_to_map", raising=False)
    return "desk_to_map:scripted.ticket"


def test_the_answers_are_beside_the_columns(run: CommandRun, desk: str) -> None:
    code, out, err = run("map", desk, "in.csv", "out.csv", "--key", "id", "--column", "text=body")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == [
        "3 rows: 2 answered, 1 with an error",
        "processed: 2, known from an earlier run or an equal row: 1",
    ]
    assert out.splitlines()[-1] == "output: out.csv"
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [(row["id"], row["body"], row["team"], row["urgent"]) for row in rows] == [
        ("1", "I paid, twice", "billing", "true"),
        ("2", "fail", "", ""),
        ("3", "I paid, twice", "billing", "true"),
    ]
    assert rows[1]["error"].startswith("ServiceOutputError: ")
    code, out, _ = run("map", desk, "in.csv", "out.csv", "--key", "id", "--column", "text=body")
    assert "processed: 1, " in out  # the reply could not be read
    code, out, _ = run("map", desk, "in.csv", "out.csv", "--key=id", "--column=text=body", "--retry-failed")
    assert "processed: 1, " in out


def test_a_dry_run_shows_the_first_request_and_sends_nothing(run: CommandRun, desk: str) -> None:
    code, out, _ = run("map", desk, "in.csv", "out.csv", "--column", "text=body", "--dry-run")
    assert code == 0
    assert out.startswith("3 rows; the request of the first one:\n\nDesk.ticket → scripted\n")
    assert "Which team? I paid, twice" in out
    assert not Path("out.csv.journal").exists()
    _, out, _ = run("map", desk, "in.csv", "out.csv", "--column", "text=body", "--dry-run", "--limit", "1")
    assert out.startswith("1 row; the request of the first one:\n\n")


def test_a_sample_gives_an_estimate(run: CommandRun, desk: str) -> None:
    code, out, _ = run("map", desk, "in.csv", "out.csv", "--column", "text=body", "--sample", "1")
    assert code == 0
    assert out.startswith("3 rows, 2 to process; used for this estimate: 1")
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (
            ["in.csv", "out.csv"],
            2,
            "the table has no column text for the parameter text; its columns are: id, body",
        ),
        (
            ["in.csv", "out.csv", "--column", "text"],
            2,
            "--column text must be PARAMETER=COLUMN, such as text=body",
        ),
        (["none.csv", "out.csv"], 2, "'none.csv' is not a file"),
        (["in.csv", "out.xls", "--column", "text=body"], 2, "'out.xls' has an unknown ending"),
        (["in.csv", "no/out.csv", "--column", "text=body"], 2, "the folder no does not exist"),
        (
            ["in.csv", "out.csv", "--column", "text=body", "--key", "body"],
            1,
            "rows 0 and 2 have the same key",
        ),
    ],
)
def test_mistakes_are_explained(
    run: CommandRun, desk: str, arguments: list[str], code: int, expected: str
) -> None:
    found, _, err = run("map", desk, *arguments)
    assert (found, err.startswith("error: ")) == (code, True)
    assert expected in err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for other processes")
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(desk: str, tmp_path: Path) -> None:
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text",), *((f"text {number}",) for number in range(20)), ("slow",)])
    command = [sys.executable, "-m", "aiservices", "map", desk, "in.csv", "out.jsonl"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=environment, text=True)
    journal = tmp_path / "out.jsonl.journal"
    end = time.monotonic() + 60
    while time.monotonic() < end and not (journal.exists() and journal.read_text().count('"done"') == 20):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err == "finished rows are stored: the same command continues with the others\nstopped\n"
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text",), *((f"text {number}",) for number in range(21))])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=environment, text=True, check=True)
    assert "processed: 1, known from an earlier run or an equal row: 20" in done.stdout
