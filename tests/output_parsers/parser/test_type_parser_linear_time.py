"""Reading takes time in proportion to the text, for any text and any type."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from output_parsers import OutputParsingError, parse

SHORT, LONG, LONGEST = 10_000, 1_000_000, 10_000_000
# Times the cost of a character of the short text. With quadratic time it is a hundred times as much.
MAX_GROWTH = 3.0


class Person(BaseModel):
    name: str
    age: int


class Color(Enum):
    RED = "red"
    GREEN = "green"


TYPES: dict[str, Any] = {
    "record": Person,
    "records": list[Person],
    "integers": list[int],
    "texts": list[str],
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "date": date,
    "datetime": datetime,
    "timedelta": timedelta,
    "bool": bool,
    "Enum": Color,
    "Literal": Literal["yes", "no"],
    "str": str,
    "dict": dict[str, int],
    "Any": Any,
    "union": int | str | Person,
}
UNITS = {
    "records": '{"name": "Ann", "age": 3},\n',
    "broken records": "{name: 'Ann', \"age\": 3,} ",
    "square brackets": "[",
    "closing square brackets": "]",
    "braces": "{",
    "closing braces": "}",
    "parentheses": "(",
    "angle brackets": "<",
    "pairs of brackets": "[] ",
    "quotes": '"',
    "apostrophes": "'",
    "backticks": "`",
    "curly quotes": "“",
    "quotes in words": 'a"',
    "escaped quotes": '\\"',
    "backslashes": "\\",
    "escapes": "\\u0041",
    "prose": "The quick brown fox has 3 of them, not two. ",
    "one word": "a",
    "digits": "1",
    "numbers": "1,",
    "signs": "-",
    "times": "12:30 ",
    "commas": ",",
    "newlines": "\n",
    "short lines": "red wine\n",
    "spaces": " ",
    "openings of reasoning": "<think>",
    "closings of reasoning": "</think>",
    "reasoning": "<think>a</think>",
    "tags": "<a>",
    "fences": "```json\n",
    "tildes": "~",
    "openings of objects": '{"a": ',
    "openings of objects in arrays": '[{"a": ',
    "fields": '"k": 1, ',
    "bare fields": "k: a, ",
    "a list on one line": "a, ",
    "a list on many lines": "- a\n",
    "stated answers": "The answer is 1. ",
    "choices": "red green yes no ",
    "comments": "/* a */ // b\n",
    "objects with a comma too many": '{"a": 1,} ',
    "objects in single quotes": "{'a': 'b',} ",
    "objects with a comment": '{"a": 1 // b\n} ',
    "strings with a quote too many": '["x,"z"] ',
}
# A beginning that makes a reader take what follows for the inside of something.
UNCLOSED = {
    "an array": "[",
    "an array of text": '["',
    "an object": '{"name": ',
    "a string": '{"name": "',
    "single quotes": "{'name': '",
    "a fence": "```json\n",
}
# These stand for all types: the others differ from them only where they look at a single value.
SOME_TYPES = ("records", "int", "datetime", "Enum", "union")


def seconds(tp: Any, text: str) -> float:
    start = time.process_time()
    try:
        parse(tp, text)
    except OutputParsingError:
        pass
    return time.process_time() - start


@pytest.fixture(autouse=True)
def no_collecting() -> Iterator[None]:
    """Disable the garbage collector during a measurement.

    It visits all objects of the process, so its time does not depend on the text.
    """
    gc.disable()
    yield
    gc.enable()


def growth(tp: Any, head: str, unit: str, longest: int) -> float:
    """Return by how much the time per character grows from a short text to a long one.

    It is the lowest of several measurements.
    """
    short, long = (head + unit * (length // len(unit)) for length in (SHORT, longest))
    lowest = float("inf")
    for _ in range(4):
        small = min(seconds(tp, short) for _ in range(3))
        # a time below one tick of the clock counts as one tick
        lowest = min(lowest, seconds(tp, long) / len(long) * len(short) / max(small, 2e-4))
        if lowest <= MAX_GROWTH:
            break
    return lowest


@pytest.mark.parametrize("tp", SOME_TYPES)
@pytest.mark.parametrize("unit", UNITS)
def test_the_cost_of_a_character_does_not_grow_with_the_text(unit: str, tp: str) -> None:
    assert growth(TYPES[tp], "", UNITS[unit], LONG) <= MAX_GROWTH


@pytest.mark.parametrize("tp", sorted(TYPES.keys() - set(SOME_TYPES)))
@pytest.mark.parametrize("unit", ["quotes", "prose", "digits", "spaces", "fields"])
def test_the_cost_of_a_character_does_not_grow_for_any_other_type(unit: str, tp: str) -> None:
    assert growth(TYPES[tp], "", UNITS[unit], LONG) <= MAX_GROWTH


@pytest.mark.parametrize("inside", UNCLOSED)
@pytest.mark.parametrize("unit", UNITS)
def test_the_cost_of_a_character_does_not_grow_inside_an_unclosed_container(unit: str, inside: str) -> None:
    assert growth(list[Person], UNCLOSED[inside], UNITS[unit], 50_000) <= MAX_GROWTH


@pytest.mark.parametrize(
    "unit", ["spaces", "newlines", "digits", "openings of reasoning", "openings of objects"]
)
@pytest.mark.parametrize("tp", ["int", "str", "record"])
def test_the_cost_of_a_character_does_not_grow_up_to_ten_megabytes(tp: str, unit: str) -> None:
    assert growth(TYPES[tp], "", UNITS[unit], LONGEST) <= MAX_GROWTH


@pytest.mark.parametrize("unit", [" ", "\n", "-", ".", "yes ", "very "])
@pytest.mark.parametrize("tp", [bool, Literal["yes", "no", 3, None]])
def test_the_cost_of_a_character_does_not_grow_after_a_choice(tp: Any, unit: str) -> None:
    assert growth(tp, "yes", unit, LONG) <= MAX_GROWTH


@pytest.mark.parametrize(
    "text", ['[{"name": "Ann", "age": 3}' + ', {"name": "Ann", "age": 3}' * 40_000 + "]"]
)
def test_the_cost_of_a_character_does_not_grow_for_a_valid_list_of_records(text: str) -> None:
    assert len(parse(list[Person], text)) == 40_001
    assert growth(list[Person], "", text[:SHORT], LONG) <= MAX_GROWTH


BROKEN = {
    "commas too many": '{"name": "Ann", "age": 3,},\n',
    "comments": '{"name": "Ann", /* the age */ "age": 3}, // the next one\n',
    "blanks before a comma too many": '{"name": "Ann", "age": 3,' + " " * 300 + "},\n",
    "single quotes": "{'name': 'Ann', 'age': 3},\n",
}


@pytest.mark.parametrize("unit", BROKEN)
def test_the_cost_of_a_character_does_not_grow_for_a_repaired_list_of_records(unit: str) -> None:
    def text(length: int) -> str:
        return "Here it is:\n[" + BROKEN[unit] * (length // len(BROKEN[unit])) + "]"

    assert parse(list[Person], text(SHORT))[-1] == Person(name="Ann", age=3)
    small, large = (min(seconds(list[Person], text(length)) for _ in range(3)) for length in (SHORT, LONG))
    assert large <= MAX_GROWTH * small * LONG / SHORT


class Tree(BaseModel):
    child: Tree | None = None


LEVELS = 10_000


@pytest.mark.parametrize("tp", [list, Any, int, dict[str, Any], Tree, int | list[int]])
@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [
        ("[", "", "]"),
        ('{"child": ', "null", "}"),
        ("{'child': ", "None", "}"),
        ("(", "", ")"),
        ("[", "1", ""),
    ],
)
def test_ten_thousand_levels_of_nesting_raise_a_clear_error(
    tp: Any, opening: str, middle: str, closing: str
) -> None:
    text = opening * LEVELS + middle + closing * LEVELS
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    found = f', found "{text[:27]} ... {text[-27:]}"' if closing else ""
    assert str(error.value) == (
        f"cannot read the text: $: the JSON is broken: nested deeper than 500 levels{found} "
        f"(the text: {text[:97] + ' ... ' + text[-97:]!r})"
    )
