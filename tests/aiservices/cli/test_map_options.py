"""The command map has each setting of map_rows, and its messages name options, not parameters."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from aiservices.cli.map_options import SETTINGS, MapOptions, in_options
from aiservices.rows import RowSettings

from .conftest import CommandRun

# The order of a file is always that of the table; rows of files have names.
WITHOUT_OPTION = {"ordered", "names"}
GROUPS = {
    "budget": {"max_money", "max_requests", "max_tokens", "max_seconds"},
    "limits": {"rpm", "tpm", "max_concurrency"},
}
DESK = """
import json
from dataclasses import dataclass
from typing import Protocol

from aiservices import ScriptedChatModel, create, user_message


@dataclass
class Ticket:
    items: list[str]


class Desk(Protocol):
    @user_message("Which? {{text}}")
    def ticket(self, text: str) -> Ticket: ...


def scripted() -> Desk:
    def answer(request):
        text = request.messages[-1].text
        return "no" if "fail" in text else '{"items": ["a", "b"]}'
    return create(Desk, ScriptedChatModel(answer), retry=None)
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "desk_with_options.py").write_text(DESK, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "desk_with_options", raising=False)
    return "desk_with_options:scripted.ticket"


def test_each_setting_has_an_option() -> None:
    options = set(MapOptions._fields)
    for setting in RowSettings.__annotations__:
        if setting in WITHOUT_OPTION or setting == "to":
            continue
        assert GROUPS.get(setting, {"column" if setting == "columns" else setting}) <= options, setting


def test_the_options_reach_the_run(run: CommandRun, desk: str) -> None:
    Path("in.csv").write_bytes("id;body\n1;Привет\n2;x\n3;fail\n".encode("cp1251"))
    code, out, err = run(
        *(
            "map",
            desk,
            "in.csv",
            "out.jsonl",
            "--column",
            "text=body",
            "--encoding",
            "cp1251",
            "--delimiter",
            ";",
        ),
        *("--prefix", "x_", "--error-column", "why", "--usage", "--explode", "items", "--max-failures", "1"),
        *(
            "--row-timeout",
            "5",
            "--no-dedupe",
            "--nulls",
            "null",
            "--journal",
            "other.journal",
            "--max-tokens",
            "9999",
        ),
        *("--max-seconds", "60", "--no-progress"),
    )
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["body"], row["x_items"]) for row in rows] == [
        ("1", "Привет", "a"),
        ("1", "Привет", "b"),
        ("2", "x", "a"),
        ("2", "x", "b"),
        ("3", "fail", None),
    ]
    assert rows[-1]["why"].startswith("ServiceOutputError: ")
    assert list(rows[0]) == ["id", "body", "x_items", "x_tokens", "x_cost", "x_attempts", "x_seconds", "why"]
    assert Path("other.journal").exists()
    assert "read as: cp1251, separated by semicolons" in out


PYTHON = re.compile(rf"\b({'|'.join({*RowSettings.__annotations__, 'SharedBudget', 'Budget'})})(=|\()")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Name another one with --column text=COLUMN"),
        (
            ["--column=text=body", "--max-failures", "7"],
            "--max-failures is 7.0; it must be between 0 and 1",
        ),
        (["--column=text=body", "--max-concurrency", "0"], "--max-concurrency is 0"),
        (["--column=text=body", "--row-timeout", "0"], "--row-timeout is 0.0; it must be greater than 0"),
        (
            ["--column=text=body", "--prefix", "bo", "--error-column", "body"],
            "choose another --prefix or --error-column",
        ),
        (
            ["--column=text=body", "--explode", "nothing"],
            "--explode is 'nothing', but the answer has no list",
        ),
        (["--column=text=body", "--review", "r.csv"], "pass --unsure-below 0.9"),
        (["--column=text=body", "--engine", "batch"], "BatchEngine works with the models of"),
        (["--column=text=body", "--max-requests", "1"], "raise --max-requests"),
        (["--column=text=body", "--key", "none"], "the table has no column none, which is the key"),
    ],
)
def test_messages_name_options(run: CommandRun, desk: str, arguments: list[str], expected: str) -> None:
    with Path("in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "body"), (1, "a"), (2, "b"), (3, "c")])
    code, _, err = run("map", desk, "in.csv", "out.csv", *arguments)
    assert code != 0
    assert expected in err
    assert PYTHON.search(err) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("pass restart=True to process all", "pass --restart to process all"),
        ('annotate it, or pass nulls="null" to have null', "annotate it, or pass --nulls null to have null"),
        ("more than max_failures=0.5. The reason", "more than --max-failures 0.5. The reason"),
        (
            "the same error; to continue, pass max_failures=1.0",
            "the same error; to continue, pass --max-failures 1.0",
        ),
        ("retry_failed=True asks for all", "--retry-failed asks for all"),
        ("pass dedupe=False.", "pass --no-dedupe."),
        ('pass encoding=, such as encoding="cp1251", or', "pass --encoding, such as --encoding cp1251, or"),
        ("raise budget=Budget(money=…)", "raise --max-money"),
        ("the journal is there, and the key is 5; so", "the journal is there, and the key is 5; so"),
        ("pass to= or journal=", "pass OUTPUT or --journal"),
        ("engine=BatchEngine(tools=True) runs", "--engine batch runs"),
        # the words of a provider
        ("'max_tokens' is not supported with this model", "'max_tokens' is not supported with this model"),
        ("max_tokens=9 is too large", "max_tokens=9 is too large"),
    ],
)
def test_settings_in_messages_become_options(message: str, expected: str) -> None:
    assert in_options(message) == expected


def test_each_option_of_the_table_exists(run: CommandRun) -> None:
    _, out, _ = run("map", "--help")
    flat = " ".join(out.split())
    missing = [option for option in SETTINGS.values() if option.startswith("--") and option not in flat]
    assert missing == []
