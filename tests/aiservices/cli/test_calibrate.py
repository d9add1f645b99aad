"""Tests of the command calibrate: the examples in a CSV file, the file that it writes, and errors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from aiservices import Calibration
from aiservices.decisions.calibration import logit, sigmoid

from .conftest import CommandRun

MODULE = '''
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from aiservices import (
    AiMessage, ChatReply, ChatRequest, Decision, ModelServerError, ScriptedChatModel, create, user_message
)


class Team(Enum):
    BILLING = "billing"
    SUPPORT = "support"


@dataclass
class Triage:
    team: Decision[Team]
    urgent: bool


class Desk(Protocol):
    @user_message("Is this spam?\\n\\n{{message}} {{limit}}")
    def is_spam(self, message: str, limit: int = 3) -> Decision[bool]: ...
    @user_message("Which team?\\n\\n{{message}}")
    async def team(self, message: str) -> Decision[Team | None]: ...
    @user_message("Triage.\\n\\n{{message}}")
    def triage(self, message: str) -> Triage: ...
    @user_message("Answer.\\n\\n{{message}}")
    def answer(self, message: str) -> str: ...
    @user_message("Each.\\n\\n{{message}}")
    def each(self, message: str) -> list[bool]: ...
    @user_message("Join {{words}}.")
    def join(self, *words: str) -> bool: ...
    @user_message("{{expected}}")
    def fits(self, expected: str) -> bool: ...


def replies(request: ChatRequest) -> ChatReply:
    """Answer with the number in the prompt as the probability of the first answer."""
    text = request.messages[-1].text
    if "down" in text:
        raise ModelServerError("the server is down")
    share = float(text.split()[-1] if "spam" not in text else text.split()[-2])
    if "Triage" in text:
        reply = json.dumps({"team": "billing" if share >= 0.5 else "support", "urgent": share >= 0.5})
        shares = {
            "$.team": (("billing", share), ("support", 1 - share)),
            "$.urgent": ((True, share), (False, 1 - share)),
        }
    elif "team" in text:
        reply = json.dumps({"value": "billing" if share >= 0.5 else None})
        shares = {"$.value": (("billing", share), ("support", 0.0), (None, 1 - share))}
    else:
        reply = json.dumps({"value": share >= 0.5})
        shares = {"$.value": ((True, share), (False, 1 - share))}
    return ChatReply(AiMessage(reply), probabilities=shares, model="stub-1")


def desk() -> Desk:
    return create(Desk, ScriptedChatModel(replies, name="stub"), retry=None)


class Plain(Protocol):
    @user_message("{{text}}")
    def say(self, text: str) -> str: ...
    @user_message("{{text}}")
    def sing(self, text: str) -> str: ...
'''
Write = Callable[[str], None]


@pytest.fixture
def write(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the examples to ``cases.csv`` in a folder with the module ``desk``."""
    (tmp_path / "desk.py").write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return lambda text: (tmp_path / "cases.csv").write_text(text, "utf-8") and None


def rows(count: int, answers: tuple[str, str] = ("true", "false")) -> str:
    """Return rows with a stated probability of the first answer, which is right more often than stated."""
    draw = random.Random(1)
    lines = []
    for _ in range(count):
        share = 0.02 + 0.96 * draw.betavariate(0.4, 0.4)
        is_first = draw.random() < sigmoid(2 * logit(share) + 1)
        lines.append(f"text {share:.4f},{answers[not is_first]}\n")
    return "".join(lines)


def test_a_method_is_calibrated_by_the_rows_of_a_file(run: CommandRun, write: Write, tmp_path: Path) -> None:
    write("message,expected\n" + rows(300))
    code, out, err = run(
        "calibrate", "desk:desk.is_spam", "cases.csv", "--error", "0.1", "--out", "desk.json"
    )
    assert (code, err) == (0, "")
    assert out.startswith("Desk.is_spam $: 300 examples, stub-1, decisions\n  calibration: platt\n")
    assert "log loss" in out
    assert "with an error of at most 10% (confidence 95%" in out
    assert out.endswith("\nwritten to desk.json\n")
    (entry,) = Calibration.read(tmp_path / "desk.json").entries
    assert (entry.method, entry.n) == ("Desk.is_spam", 300)


def test_too_few_examples_give_no_threshold(run: CommandRun, write: Write, tmp_path: Path) -> None:
    write("message,expected\n" + rows(30))
    code, out, _ = run("calibrate", "desk:desk.is_spam", "cases.csv", "--confidence", "0.9")
    assert code == 0
    assert "threshold: none keeps the error below the limit; label more examples" in out
    assert "at least 45 sure and right answers are needed" in out
    assert (tmp_path / "calibration.json").exists()


def test_the_calibrations_of_other_methods_are_kept(run: CommandRun, write: Write, tmp_path: Path) -> None:
    write("message,right\n" + rows(20))
    run("calibrate", "desk:desk.is_spam", "cases.csv", "--expected", "right")
    write("message,expected\n" + rows(20, ("billing", "null")))
    assert run("calibrate", "desk:desk.team", "cases.csv").code == 0
    methods = [entry.method for entry in Calibration.read(tmp_path / "calibration.json").entries]
    assert methods == ["Desk.is_spam", "Desk.team"]


def test_the_fields_of_a_record_have_their_own_columns(run: CommandRun, write: Write) -> None:
    write(
        "message;expected.team;expected.urgent;note\n"
        "text 0.9;billing;TRUE;a\ntext 0.2;support;;b\n\ntext 0.4;Billing;no;\n"
    )
    code, out, err = run("calibrate", "desk:desk.triage", "cases.csv", "--json")
    assert (code, err) == (0, "columns that are not used: note\n")
    data = json.loads(out)
    assert [(one["path"], one["n"]) for one in data["calibrations"]] == [("$.team", 3), ("$.urgent", 2)]
    assert (data["failed"], data["file"]) == ([], "calibration.json")


def test_parameters_have_their_types_and_texts_are_not_read_from_files(run: CommandRun, write: Write) -> None:
    write('message,limit,expected\n"@x, 0.9",4,yes\n0.2,,0\n')
    code, out, _ = run("calibrate", "desk:desk.is_spam", "cases.csv")
    assert (code, out.splitlines()[0]) == (0, "Desk.is_spam $: 2 examples, stub-1, decisions")


def test_failed_calls_are_counted(run: CommandRun, write: Write) -> None:
    write("message,expected\ntext 0.9,true\nserver down,true\n")
    code, out, _ = run("calibrate", "desk:desk.is_spam", "cases.csv")
    assert code == 0
    assert "1 calls failed, the first with: " in out


def test_wrong_rows_are_reported_together(run: CommandRun, write: Write, tmp_path: Path) -> None:
    write("message,limit,expected\na 0.9,many,true\nb 0.1,2,spam\nc 0.1,2\nd 0.1,2,\ne 0.3,2,true\n")
    code, out, err = run("calibrate", "desk:desk.is_spam", "cases.csv")
    assert (code, out) == (2, "")
    assert err == (
        "error: cases.csv: 4 problems\n"
        '  - row 2: limit: expected an integer, found "many"\n'
        "  - row 3: expected is 'spam'; it must be one of: true, false\n"
        "  - row 4: it has 2 cells, not 3\n"
        "  - row 5: expected is empty\n"
    )
    assert not (tmp_path / "calibration.json").exists()


def test_only_the_first_wrong_rows_are_reported(run: CommandRun, write: Write) -> None:
    write("message,expected\n" + "a 0.5,spam\n" * 12)
    err = run("calibrate", "desk:desk.is_spam", "cases.csv").err
    assert err.startswith("error: cases.csv: 12 problems\n  - row 2: ")
    assert err.endswith("  - and 2 more\n")


@pytest.mark.parametrize(
    ("method", "table", "message"),
    [
        (
            "is_spam",
            "text,label\nx,true\n",
            "error: cases.csv: the columns are text, label\n"
            "  - the column message is missing, a parameter of Desk.is_spam\n"
            "  - the column expected with the right answer is missing; name it with --expected; "
            "there are: text, label\n",
        ),
        (
            "triage",
            "message\nx\n",
            "error: cases.csv: the columns are message\n"
            "  - the column expected.team or expected.urgent with the right answer is missing\n",
        ),
        (
            "is_spam",
            "message,message,expected\nx,y,true\n",
            "error: cases.csv: the columns are message, message, expected\n  - message occurs 2 times\n",
        ),
        (
            "fits",
            "expected\ntrue\n",
            "error: cases.csv: the columns are expected\n"
            "  - expected is also a parameter; name the column of the right answer with --expected\n",
        ),
        (
            "join",
            "words,expected\na,true\n",
            "error: cases.csv: the columns are words, expected\n  - *words cannot be a column\n",
        ),
        ("is_spam", "", "error: cases.csv is empty; its first row must have the names of the columns\n"),
        ("is_spam", "message,expected\n", "error: cases.csv has no rows below the names of the columns\n"),
        (
            "is_spam",
            'message,expected\n"x,true\n',
            "error: cases.csv is not a CSV file: unexpected end of data\n",
        ),
        (
            "answer",
            "message,expected\nx,true\n",
            "error: Desk.answer: it does not return a Decision, bool, Enum or Literal, so there is nothing "
            "to calibrate\n",
        ),
        (
            "each",
            "message,expected\nx,true\n",
            "error: Desk.each: answers in a list cannot be calibrated\n",
        ),
    ],
)
def test_what_cannot_be_calibrated(
    run: CommandRun, write: Write, method: str, table: str, message: str
) -> None:
    write(table)
    assert run("calibrate", f"desk:desk.{method}", "cases.csv") == (2, "", message)


def test_wrong_targets_and_files(run: CommandRun, write: Write, tmp_path: Path) -> None:
    write("message,expected\ntext 0.9,true\n")
    assert run("calibrate", "desk:desk", "cases.csv").err == (
        "error: desk:desk has several methods; name one as desk:desk.METHOD: is_spam, team, triage, each, "
        "join, fits\n"
    )
    assert (
        "has several methods; it does not return a Decision"
        in run("calibrate", "desk:Plain", "cases.csv", "--model", "fake").err
    )
    err = run("calibrate", "desk:desk.is_spam", "other.csv").err
    assert err == "error: other.csv cannot be read: No such file or directory\n"
    (tmp_path / "latin.csv").write_bytes("message,expected\nGrüße 0.9,true\n".encode("latin-1"))
    assert "latin.csv is not UTF-8 text" in run("calibrate", "desk:desk.is_spam", "latin.csv").err
    arguments = ("calibrate", "desk:desk.is_spam", "cases.csv")
    assert run(*arguments, "--out", "no/desk.json").err == "error: --out: the folder no does not exist\n"
    assert "it is not a calibration file" in run(*arguments, "--out", "cases.csv").err
    assert "error is 5.0; it must be between 0 and 1" in run(*arguments, "--error", "5").err


def test_a_file_that_cannot_be_written_is_an_error_after_the_result(
    run: CommandRun, write: Write, tmp_path: Path
) -> None:
    write("message,expected\ntext 0.9,true\n")
    (tmp_path / "loop.json").symlink_to("loop.json")  # a link to itself cannot be opened
    code, out, err = run("calibrate", "desk:desk.is_spam", "cases.csv", "--out", "loop.json")
    assert (code, out.splitlines()[0]) == (1, "Desk.is_spam $: 1 examples, stub-1, decisions")
    assert err.startswith("error: loop.json cannot be written: Too many levels of symbolic links")
