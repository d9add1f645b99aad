"""``cases_from`` reads the cases of an evaluation from files, by the types of the evaluated method."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest

from aiservices import (
    ChatOptions,
    Decision,
    DefinitionError,
    History,
    Image,
    Message,
    Result,
    Scale,
    ScriptedChatModel,
    UserMessage,
    create,
    user_message,
)
from aiservices.models.media import Media
from aiservices.testing import Case, cases_from, evaluate, exact
from aiservices.testing.scoring import NOT_GIVEN

pytest.importorskip("yaml")


class Team(Enum):
    BILLING = "billing"
    SUPPORT = "support"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Ticket:
    title: str
    urgency: Literal["low", "high"]
    due: date | None = None


class Desk(Protocol):
    @user_message("{{letter}} {{year}}")
    def ticket(self, letter: str, year: int = 2026) -> Ticket: ...

    @user_message("{{letter}} {{teams}}")
    def team(self, letter: str, teams: list[Team]) -> Result[Decision[Team]]: ...

    @user_message("{{letter}}")
    def level(self, letter: str) -> Scale[Level]: ...

    @user_message("{{letter}}")
    def items(self, letter: str) -> Iterator[Ticket]: ...

    @user_message("{{letter}}")
    def price(self, letter: str) -> Decimal: ...

    @user_message("{{number}} {{day}}")
    def text(self, number: str, day: date | None = None) -> str: ...

    def total(self, receipt: Image, others: list[Image], question: Annotated[str, UserMessage]) -> int: ...

    def message(self, message: UserMessage) -> bool: ...

    def chat(self, text: str, past: Annotated[list[Message], History]) -> str: ...

    @user_message("{{text}}")
    def tuned(self, text: str, options: ChatOptions | None = None) -> str: ...

    @user_message("{{case}} {{tags}}")
    def titled(self, case: str, tags: list[str]) -> str: ...

    @user_message("{{expected}}")
    def wrong(self, expected: str) -> str: ...


def desk(*replies: str) -> Desk:
    return create(Desk, ScriptedChatModel(replies))


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


TICKETS = {
    "cases.csv": """\
letter,year,expected,case,tags
"The pipe
has burst.",2025,"{""title"": ""Pipe"", ""urgency"": ""high"", ""due"": ""2025-03-01""}",pipe,"water, urgent"
Thank you.,,,,

""",
    "cases.jsonl": """\
{"letter": "The pipe\\nhas burst.", "year": 2025, "expected": {"title": "Pipe", "urgency": "high", \
"due": "2025-03-01"}, "case": "pipe", "tags": ["water", "urgent"]}

{"letter": "Thank you."}
""",
    "cases.yaml": """\
- letter: |-
    The pipe
    has burst.
  year: 2025
  expected: {title: Pipe, urgency: high, due: 2025-03-01}
  case: pipe
  tags: [water, urgent]
- letter: Thank you.
""",
}


@pytest.mark.parametrize("name", TICKETS)
def test_each_format_has_the_same_cases(name: str, tmp_path: Path) -> None:
    assert cases_from(written(tmp_path, name, TICKETS[name]), desk().ticket) == [
        Case(
            {"letter": "The pipe\nhas burst.", "year": 2025},
            Ticket("Pipe", "high", date(2025, 3, 1)),
            "pipe",
            ("water", "urgent"),
        ),
        Case({"letter": "Thank you."}, NOT_GIVEN),
    ]


def test_cases_can_be_evaluated(tmp_path: Path) -> None:
    path = written(tmp_path, "cases.csv", "number,expected,tags\n1,one,a\n2,two,\n3,three,a\n")
    service = desk("one", "two", "four")
    report = evaluate(service.text, cases_from(path, service.text), [exact()], max_concurrency=1)
    assert [outcome.scores["exact"] for outcome in report.outcomes] == [True, True, False]
    assert report.summary("exact", tag="a").value == 0.5


@pytest.mark.parametrize(
    ("method", "cells", "case"),
    [
        ("text", {"number": "007", "expected": "1"}, Case({"number": "007"}, "1")),
        ("text", {"number": "", "day": "", "expected": "a"}, Case({"number": ""}, "a")),
        ("text", {"number": "x", "day": "2026-02-03"}, Case({"number": "x", "day": date(2026, 2, 3)})),
        (
            "team",
            {"letter": "x", "teams": '["billing", "support"]', "expected": "support"},
            Case({"letter": "x", "teams": [Team.BILLING, Team.SUPPORT]}, Team.SUPPORT),
        ),
        ("level", {"letter": "x", "expected": "HIGH"}, Case({"letter": "x"}, Level.HIGH)),
        ("price", {"letter": "x", "expected": "3.10"}, Case({"letter": "x"}, Decimal("3.10"))),
        (
            "items",
            {"letter": "x", "expected": '[{"title": "a", "urgency": "low"}]'},
            Case({"letter": "x"}, [Ticket("a", "low")]),
        ),
        ("message", {"message": "5", "expected": "true"}, Case({"message": UserMessage("5")}, True)),
        ("titled", {"case": "5", "tags": '["a"]'}, Case({"case": "5", "tags": ["a"]})),
    ],
)
def test_cells_are_read_by_the_types(method: str, cells: dict[str, str], case: Any, tmp_path: Path) -> None:
    quoted = [
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in (cells, cells.values())
    ]
    path = written(tmp_path, "cases.csv", "\n".join(quoted))
    assert cases_from(path, getattr(desk(), method)) == [case]


def test_numbers_of_jsonl_files_are_not_rounded(tmp_path: Path) -> None:
    path = written(tmp_path, "c.jsonl", '{"letter": "x", "expected": 0.10000000000000000000001}')
    assert cases_from(path, desk().price)[0].expected == Decimal("0.10000000000000000000001")


def test_media_are_urls_or_paths_relative_to_the_file(tmp_path: Path) -> None:
    image_data = b"\x89PNG\r\n\x1a\n"
    (tmp_path / "a.png").write_bytes(image_data)
    url = "https://example.com/b.png"
    data = {"receipt": "a.png", "others": ["a.png", url], "question": "How much?", "expected": 3}
    for path in (
        written(tmp_path, "c.jsonl", json.dumps(data)),
        written(tmp_path, "c.csv", f'receipt,others,question,expected\na.png,"a.png, {url}",How much?,3'),
    ):
        [case] = cases_from(path, desk().total)
        assert case.expected == 3
        assert [case.arguments["receipt"].data, case.arguments["question"]] == [image_data, "How much?"]
        assert [image.data or image.url for image in case.arguments["others"]] == [image_data, url]
        assert all(isinstance(image, Media) for image in case.arguments["others"])


def test_a_parameter_with_a_default_may_be_for_python_code_only(tmp_path: Path) -> None:
    path = written(tmp_path, "c.jsonl", '{"text": "x"}')
    assert cases_from(path, desk().tuned) == [Case({"text": "x"})]


# --- mistakes ---

WRONG: dict[str, tuple[str, str, list[str]]] = {
    "a value of a wrong type in a cell": (
        "c.csv",
        "letter,year\nx,12\ny,soon\n",
        ['line 3, column year: expected an integer, found "soon"'],
    ),
    "a wrong part of an expected value": (
        "c.jsonl",
        '{"letter": "x"}\n{"letter": "y", "expected": {"title": "a", "urgency": "HUGE"}}',
        [
            'line 2, expected.urgency: expected one of "low", "high"; the text names none of them, found '
            '"HUGE"'
        ],
    ),
    "a wrong value in YAML": (
        "c.yaml",
        "- letter: x\n  year: [1]\n- letter: no\n",
        [
            "line 2, column 9, year: expected an integer, found an array of 1",
            "line 3, column 11, letter: expected text, found false",
        ],
    ),
    "an unknown column": (
        "c.csv",
        "leter,expected\nx,\n",
        [
            "line 2, column leter: there is no parameter or field leter; did you mean letter?",
            "line 2: letter is missing, a parameter of Desk.ticket",
        ],
    ),
    "an unknown field that is like no other": (
        "c.jsonl",
        '{"letter": "x", "qqq": 1}',
        ["line 1, qqq: there is no parameter or field qqq; there are: letter, year, expected, case, tags"],
    ),
    "a missing argument": (
        "c.yaml",
        "- year: 3",
        ["line 1, column 3: letter is missing, a parameter of Desk.ticket"],
    ),
    "a row with too many cells": (
        "c.csv",
        'letter\n"a\nb"\nx,y\n',
        ["line 4: it has 2 cells, and the first line has 1"],
    ),
    "a column that occurs twice": (
        "c.csv",
        "letter,letter\nx,y\n",
        ["line 1: the column letter occurs twice"],
    ),
    "a column without a name": ("c.csv", "letter,\nx,y\n", ["line 1: a column has no name"]),
    "a quote that is not closed": ("c.csv", 'letter\n"x\n', ["line 2: unexpected end of data"]),
    "no JSON": ("c.jsonl", '{"letter": "x"}\n{"letter": }', ["line 2, column 12: Expecting value"]),
    "no object": ("c.jsonl", '["x"]', ['line 1: a case must be a JSON object, found ["x"]']),
    "a key that occurs twice": (
        "c.jsonl",
        '{"letter": "x", "letter": "y"}',
        ["line 1: the key letter occurs twice"],
    ),
    "no YAML": ("c.yaml", "- letter: 'x\n", ["line 2, column 1: found unexpected end of stream"]),
    "no list": ("c.yaml", "letter: x\n", ["line 1, column 1: the file must be a list of cases"]),
    "no mapping": ("c.yaml", "- x\n", ["line 1, column 3: a case must be a mapping of names to values"]),
    "a YAML key that occurs twice": (
        "c.yaml",
        "- letter: x\n  letter: y",
        ["line 2, column 3: the key letter occurs twice"],
    ),
    "a YAML tag": (
        "c.yaml",
        "- letter: !!python/name:os.system x",
        [
            "line 1, column 11: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/name:os.system'"
        ],
    ),
    "tags that are a text": (
        "c.jsonl",
        '{"letter": "x", "tags": "a"}',
        ['line 1, tags: expected a list of texts, found "a"'],
    ),
    "a name that is an object": (
        "c.jsonl",
        '{"letter": "x", "case": {}}',
        ["line 1, case: expected the name of the case, found {}"],
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_reported_with_their_place(mistake: str, tmp_path: Path) -> None:
    name, text, expected = WRONG[mistake]
    path = written(tmp_path, name, text)
    with pytest.raises(DefinitionError) as caught:
        cases_from(path, desk().ticket)
    assert [str(problem) for problem in caught.value.problems] == [
        f"{path}, {problem}" for problem in expected
    ]


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl", "c.yaml"])
def test_a_file_without_cases_is_an_error(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, "letter\n" if name == "c.csv" else "")
    with pytest.raises(DefinitionError, match=re.escape(f"{path}: it has no cases")):
        cases_from(path, desk().ticket)


def test_many_problems_are_shortened(tmp_path: Path) -> None:
    path = written(tmp_path, "c.csv", "letter,year\n" + "x,soon\n" * 30)
    with pytest.raises(DefinitionError) as caught:
        cases_from(path, desk().ticket)
    assert (len(caught.value.problems), caught.value.problems[-1].message) == (21, "and 10 more problems")


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    def problem(path: Path) -> str:
        with pytest.raises(DefinitionError) as caught:
            cases_from(path, desk().ticket)
        return str(caught.value).removeprefix(str(path))

    assert problem(tmp_path / "no.csv") == ": it cannot be read: No such file or directory"
    assert problem(tmp_path / "c.json") == ": the ending must be one of .csv, .jsonl, .yaml, .yml"
    path = tmp_path / "c.csv"
    path.write_bytes(b"letter\n\xff\n")
    assert problem(path).startswith(": it is not UTF-8 text")
    image = written(tmp_path, "i.jsonl", '{"receipt": "no.png", "others": [], "question": "x"}')
    with pytest.raises(DefinitionError, match=r"line 1, receipt: .*no\.png"):
        cases_from(image, desk().total)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "chat",
            "Desk.chat: the parameter past cannot be read from a file: it is History, which only Python "
            "code can pass",
        ),
        (
            "wrong",
            "Desk.wrong: the parameter expected has the name of the field for the expected value; rename it",
        ),
    ],
)
def test_methods_whose_cases_cannot_be_in_files(method: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=re.escape(message)):
        cases_from(written(tmp_path, "c.jsonl", '{"text": "x"}'), getattr(desk(), method))


def test_only_methods_of_services_have_cases_in_files(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not a method of a service made by create"):
        cases_from(written(tmp_path, "c.jsonl", "{}"), len)
