"""The examples in the grammar of ``numbers-dates-choices.md`` are read or rejected, as the page says."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from output_parsers import OutputParsingError, parse

PAGE = Path(__file__).parents[2] / "docs/how-to/numbers-dates-choices.md"
Level = Literal["low", "high"]
TYPES: list[Any] = [
    Level,
    bool,
    Annotated[int, Field(le=5)],
    int,
    float,
    Decimal,
    date,
    time,
    datetime,
    timedelta,
]
RECORDS = [dict[str, float], dict[str, str]]
LETTERS: list[Any] = [Literal["A", "B", "C"]]
EXAMPLE = re.compile(r"`([^`]+)`")
# Not replies: words of the declaration, names of signs and files, and the answers of other rows.
NO_REPLIES = {
    "answer",
    "category",
    "sentiment",
    "total",
    "bool",
    "Field(le=5)",
    ".",
    ":",
    "-",
    "B",
    "C",
    "low",
}


def section(start: str, end: str) -> str:
    page = PAGE.read_text("utf-8")
    return page[page.index(start) : page.index(end, page.index(start))]


def examples(text: str) -> list[str]:
    found = [one.replace("⏎", "\n").replace("…", "The text is clear.") for one in EXAMPLE.findall(text)]
    return [one for one in found if one not in NO_REPLIES and not one.endswith((".md", ".txt"))]


def readers_of(text: str, types: list[Any]) -> list[Any]:
    readers = []
    for tp in types:
        try:
            parse(tp, text)
        except OutputParsingError:
            continue
        readers.append(tp)
    return readers


def test_each_example_of_an_accepted_form_is_read() -> None:
    rows = section("| Form | Examples |", "\n\nThe harmless words").splitlines()[2:]
    texts = [text for row in rows for text in examples(row.rpartition(" | ")[2])]
    assert len(texts) > 40
    assert [text for text in texts if not readers_of(text, [*TYPES, *LETTERS, *RECORDS])] == []


def test_each_example_of_an_error_is_rejected_by_every_type() -> None:
    texts = examples(section("These are errors:\n", "- a percentage"))
    assert len(texts) > 30
    assert {text: read for text in texts if (read := readers_of(text, [*TYPES, *LETTERS]))} == {}
