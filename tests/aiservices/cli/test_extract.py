"""Tests of the command extract: a method is called with each document, and its quotes are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CommandRun

MODULE = """
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Protocol

from aiservices import ChatRequest, Cited, Document, ScriptedChatModel, create, options, user_message
from aiservices.documents import Split


@dataclass
class Bill:
    amounts: list[Cited[int]]


class Reader(Protocol):
    @user_message("{{currency}}\\n\\n{{document}}")
    @options(split=Split(40, 0))
    def bill(self, document: Document, currency: str = "EUR") -> Bill: ...
    @user_message("{{text}}")
    def other(self, text: str) -> str: ...


def reply(request: ChatRequest) -> str:
    text = request.messages[-1].text
    currency = text.split()[0]
    found = re.finditer(rf"(\\d+) {currency}", text)
    return json.dumps({"amounts": [{"quote": one[0], "value": int(one[1])} for one in found]})


reader = create(Reader, ScriptedChatModel(reply))
"""


@pytest.fixture
def folder(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bills.py").write_text(MODULE, "utf-8")
    words = "and many more words here " * 8
    (tmp_path / "a.txt").write_text(f"First 12 EUR.\n\n{words}\n\nThen 30 EUR and 5 USD.", "utf-8")
    (tmp_path / "b.html").write_text("<html><body><p>Just <b>7</b> EUR</p>", "utf-8")
    (tmp_path / "c.bin").write_bytes(b"\x00\x01")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_each_file_gives_a_line_with_its_values_and_places(run: CommandRun, folder: Path) -> None:
    result = run(
        "extract", "bills:reader.bill", "a.txt", "b.html", "--to", "out.jsonl", "--html", "out.html",
        "--no-progress",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "2 of 2 files have an answer, in out.jsonl\n")
    first, second = lines(folder / "out.jsonl")
    amounts = first["value"]["amounts"]  # type: ignore[index]
    assert [(one["value"], one["quote"]) for one in amounts] == [(12, "12 EUR"), (30, "30 EUR")]
    text = (folder / "a.txt").read_text("utf-8")
    assert [one["start"] for one in amounts] == [text.index("12 EUR"), text.index("30 EUR")]
    assert second["file"] == "b.html"
    page = (folder / "out.html").read_text("utf-8")
    assert page.count("<mark") == 3
    assert "<h2>b.html</h2>" in page


def test_a_file_without_an_answer_is_reported_and_the_others_are_read(run: CommandRun, folder: Path) -> None:
    result = run(
        "extract", "bills:reader.bill", "a.txt", "c.bin", "none.txt", "--to", "out.jsonl",
        "--argument", "currency=USD", "--no-progress",
    )  # fmt: skip
    assert result.code == 1
    assert "c.bin: c.bin is not text, Markdown, HTML, PDF or DOCX" in result.err
    assert "none.txt: [Errno 2] No such file or directory" in result.err
    assert [sorted(line) for line in lines(folder / "out.jsonl")] == [
        ["file", "value"],
        ["error", "file"],
        ["error", "file"],
    ]
    first = lines(folder / "out.jsonl")[0]["value"]["amounts"]  # type: ignore[index]
    assert [one["value"] for one in first] == [5]


def test_a_run_that_lacks_answers_continues_with_the_same_command(run: CommandRun, folder: Path) -> None:
    failing = MODULE.replace(
        "    currency = text.split()[0]\n",
        "    currency = text.split()[0]\n"
        "    with open('calls.txt', 'a') as calls: calls.write('x')\n"
        "    if 'Just' in str(request.messages) and not pathlib.Path('go').exists(): return 'I cannot'\n",
    ).replace("import json\n", "import json\nimport pathlib\n")
    (folder / "failing.py").write_text(failing, "utf-8")
    command = ("extract", "failing:reader.bill", "a.txt", "b.html", "--to", "out.jsonl", "--no-progress")

    def asked(*options: str) -> tuple[int, int]:
        (folder / "calls.txt").write_text("")
        return run(*command, *options).code, len((folder / "calls.txt").read_text())

    code, calls = asked()
    assert (code, (folder / "out.jsonl.journal").exists()) == (1, True)
    assert [sorted(one) for one in lines(folder / "out.jsonl")] == [["file", "value"], ["error", "file"]]
    (folder / "go").write_text("")
    assert asked() == (0, 1)  # only about b.html
    assert [sorted(one) for one in lines(folder / "out.jsonl")] == [["file", "value"], ["file", "value"]]
    assert not (folder / "out.jsonl.journal").exists()
    assert asked("--restart") == (0, calls - 2)  # b.html had three attempts


def test_a_method_without_a_document_is_refused(run: CommandRun, folder: Path) -> None:
    result = run("extract", "bills:reader.other", "a.txt", "--to", "out.jsonl")
    assert result.code == 2
    assert "Reader.other has 0 parameters of the type Document; it must have one" in result.err


def test_the_first_file_may_be_the_one_that_cannot_be_read(run: CommandRun, folder: Path) -> None:
    result = run("extract", "bills:reader.bill", "c.bin", "a.txt", "--to", "out.jsonl", "--no-progress")
    assert (result.code, result.out) == (1, "1 of 2 files have an answer, in out.jsonl\n")
    assert [sorted(line) for line in lines(folder / "out.jsonl")] == [["error", "file"], ["file", "value"]]
    result = run("extract", "bills:reader.bill", "c.bin", "--to", "out.jsonl", "--no-progress")
    assert (result.code, result.out) == (1, "0 of 1 files have an answer, in out.jsonl\n")
