"""Reading takes time in proportion to the text, for any text and any type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from growth import MAX_GROWTH, SHORT, growing, growth
from pydantic import BaseModel

from output_parsers import OutputParsingError, parse

# How many times as long the long text is. A small factor finds quadratic time, a large one also where its
# share is small.
FACTORS = [10, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


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


def reader_of(tp: Any) -> Callable[[str], object]:
    return lambda text: parse(tp, text)


@pytest.mark.parametrize("times", FACTORS)
@pytest.mark.parametrize("tp", SOME_TYPES)
def test_the_cost_of_a_character_does_not_grow_with_the_text(tp: str, times: int) -> None:
    short = 5_000 if times == 10 else SHORT  # Python reads no longer whole numbers than 4,300 digits
    assert growing(reader_of(TYPES[tp]), UNITS.values(), short=short, times=times) == {}


@pytest.mark.parametrize("times", FACTORS)
@pytest.mark.parametrize("tp", sorted(TYPES.keys() - set(SOME_TYPES)))
def test_the_cost_of_a_character_does_not_grow_for_any_other_type(tp: str, times: int) -> None:
    units = [UNITS[name] for name in ("quotes", "prose", "digits", "spaces", "fields")]
    assert growing(reader_of(TYPES[tp]), units, times=times) == {}


@pytest.mark.parametrize("inside", UNCLOSED)
def test_the_cost_of_a_character_does_not_grow_inside_an_unclosed_container(inside: str) -> None:
    assert growing(reader_of(list[Person]), UNITS.values(), UNCLOSED[inside], short=3_000) == {}


@pytest.mark.slow
@pytest.mark.parametrize("tp", ["int", "str", "record"])
def test_the_cost_of_a_character_does_not_grow_up_to_ten_megabytes(tp: str) -> None:
    names = ["spaces", "newlines", "digits", "openings of reasoning", "openings of objects"]
    assert growing(reader_of(TYPES[tp]), [UNITS[name] for name in names], times=1_000) == {}


@pytest.mark.parametrize("times", FACTORS)
@pytest.mark.parametrize("tp", [bool, Literal["yes", "no", 3, None]])
def test_the_cost_of_a_character_does_not_grow_after_a_choice(tp: Any, times: int) -> None:
    assert growing(reader_of(tp), [" ", "\n", "-", ".", "yes ", "very "], "yes", times=times) == {}


@pytest.mark.parametrize("times", FACTORS)
@pytest.mark.parametrize(("tp", "unit"), [(int, "1a"), (float, "a."), (bool, "!")])
def test_the_cost_of_a_character_does_not_grow_inside_a_word(tp: Any, unit: str, times: int) -> None:
    assert growing(reader_of(tp), [unit], "so ", "; 5 x", times=times) == {}


def test_the_cost_of_a_character_does_not_grow_for_a_valid_list_of_records() -> None:
    record = ', {"name": "Ann", "age": 3}'
    head = "[" + record[2:]
    assert len(parse(list[Person], head + record * 40_000 + "]")) == 40_001
    assert growth(reader_of(list[Person]), record, head, "]", times=100) <= MAX_GROWTH


BROKEN = {
    "commas too many": '{"name": "Ann", "age": 3,},\n',
    "comments": '{"name": "Ann", /* the age */ "age": 3}, // the next one\n',
    "long comments": '{"name": "Ann", "age": 3}, // this is the next person in the list\n',
    "blanks before a comma too many": '{"name": "Ann", "age": 3,' + " " * 300 + "},\n",
    "single quotes": "{'name': 'Ann', 'age': 3},\n",
}


@pytest.mark.parametrize("times", FACTORS)
def test_the_cost_of_a_character_does_not_grow_for_a_repaired_list_of_records(times: int) -> None:
    head = "Here it is:\n["
    for unit in BROKEN.values():
        assert parse(list[Person], f"{head}{unit}]") == [Person(name="Ann", age=3)]
    assert growing(reader_of(list[Person]), BROKEN.values(), head, "]", times=times) == {}


class Tree(BaseModel):
    child: Tree | None = None


LEVELS = 10_000


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
def test_ten_thousand_levels_of_nesting_raise_a_clear_error(opening: str, middle: str, closing: str) -> None:
    text = opening * LEVELS + middle + closing * LEVELS
    found = f', found "{text[:27]} ... {text[-27:]}"' if closing else ""
    message = (
        f"cannot read the text: $: the JSON is broken: nested deeper than 500 levels{found} "
        f"(the text: {text[:97] + ' ... ' + text[-97:]!r})"
    )
    types: list[Any] = [list, Any, int, dict[str, Any], Tree, int | list[int]]
    for tp in types:
        with pytest.raises(OutputParsingError) as error:
            parse(tp, text)
        assert str(error.value) == message, tp


@pytest.mark.parametrize("unit", [" ", "\n", "a ", "- "])
def test_announced_json_with_much_space_is_read_in_linear_time(unit: str) -> None:
    assert growth(lambda text: parse(dict[str, Any], text), unit, "The values: {", '"a": 1}') <= MAX_GROWTH
