"""Dicts are read with keys and values of their types, and equal keys are refused."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from annotated_types import MinLen

from output_parsers import Leniency, OutputParsingError, parse, parser_for, read


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    ONE = 1


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (dict[str, int], "{}", {}),
        (dict[str, int], '{"a": 1, "a b": 2}', {"a": 1, "a b": 2}),
        (dict, '{"a": [1, 0.5]}', {"a": [1, 0.5]}),
        (Mapping[str, int], '{"a": 1}', {"a": 1}),
        (OrderedDict[str, int], '{"b": 1, "a": 2}', OrderedDict(b=1, a=2)),
        (dict[int, str], '{"1": "a", "-2": "b"}', {1: "a", -2: "b"}),
        (dict[bool, int], '{"true": 1, "false": 0}', {True: 1, False: 0}),
        (dict[Decimal, int], '{"1.50": 1}', {Decimal("1.50"): 1}),
        (dict[date, int], '{"2024-01-02": 1}', {date(2024, 1, 2): 1}),
        (dict[UUID, int], '{"f47ac10b-58cc-4372-a567-0e02b2c3d479": 1}', None),
        (dict[Color, int], '{"red": 1}', {Color.RED: 1}),
        (dict[Level, int], '{"1": 1}', {Level.ONE: 1}),
        (dict[Level, int], '{"ONE": 1}', {Level.ONE: 1}),
        (dict[Literal[1, "a"], int], '{"1": 1, "a": 2}', {1: 1, "a": 2}),
        (dict[str, int], '{"a": 1, "a": 1}', {"a": 1}),
        (dict[str, int], 'So: {"a": 1}', {"a": 1}),
        (dict[str, dict[str, int]], '{"a": "{\\"b\\": 1}"}', {"a": {"b": 1}}),
        (dict[str, list[int]], "{a: [1,],}", {"a": [1]}),
    ],
)
def test_a_dict_is_read(tp: Any, text: str, value: dict[Any, Any] | None) -> None:
    result = parse(tp, text)
    assert result == ({UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"): 1} if value is None else value)
    assert [type(key) for key in result] == [type(key) for key in value or result]


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (dict[str, int], "[1]", "$: expected an object, found an array of 1"),
        (dict[str, int], "hello", '$: expected an object, found "hello"'),
        (dict[str, int], '{"a": 1, "a": 2}', '$: the key "a" appears twice with different values'),
        (
            dict[str, int],
            '{"a": "x", "b c": null}',
            '$.a: expected an integer, found "x"; $["b c"]: expected an integer, found null',
        ),
        (dict[int, int], '{"1": 1, "01": 2}', '$["01"]: expected a key that is an integer, found "01"'),
        (dict[int, int], '{"1,000": 1}', '$["1,000"]: expected a key that is an integer, found "1,000"'),
        (
            dict[Color, int],
            '{"the red": 1}',
            '$["the red"]: expected a key that is one of "red", "blue", found "the red"',
        ),
        (
            dict[float, int],
            '{"1": 1, "1.0": 2}',
            '$["1.0"]: expected each key once; another key is read as the same key, found "1.0"',
        ),
        (
            dict[Annotated[str, MinLen(2)], int],
            '{"a": 1}',
            '$.a: expected a key that is text, found "a"',
        ),
    ],
)
def test_wrong_keys_and_values_of_a_dict_are_reported_one_by_one(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@pytest.mark.parametrize("tp", [dict[int, int], dict[bool, int], dict[Literal[1], int], dict[Level, int]])
def test_a_number_as_a_key_needs_no_coercion(tp: Any) -> None:
    text = '{"true": 1}' if tp == dict[bool, int] else '{"1": 1}'
    reading = read(tp, text, leniency=Leniency.NONE)
    assert list(reading.value.values()) == [1]
    assert reading.coercions == ()


@pytest.mark.parametrize(
    ("tp", "schema", "hint"),
    [
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
            "{string: integer, ...}",
        ),
        (dict, {"type": "object", "additionalProperties": {}}, "{string: any JSON, ...}"),
        (
            dict[Color, int],
            {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "propertyNames": {"enum": ["red", "blue"]},
            },
            '{"red" | "blue": integer, ...}',
        ),
        (
            dict[Literal[1], int],
            {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"enum": ["1"]}},
            "{1: integer, ...}",
        ),
    ],
)
def test_the_schema_and_the_hint_show_keys_and_values(tp: Any, schema: dict[str, Any], hint: str) -> None:
    assert parser_for(tp).schema == schema
    assert parser_for(tp).hint == hint


@pytest.mark.parametrize(
    "text", ["apples: 3\npears: 4", "- apples: 3\n- pears: 4", "- **apples**: 3\n- **pears**: 4"]
)
def test_lines_of_names_and_numbers_are_a_dict_of_numbers(text: str) -> None:
    assert parse(dict[str, int], text) == {"apples": 3, "pears": 4}
    with pytest.raises(OutputParsingError):
        parse(dict[str, str], text)


@pytest.mark.parametrize(
    "text",
    [
        "apples: 3",
        "apples: 3\napples: 4",
        "apples: 3\npears: 4-5",
        "apples: 3\npears: unknown",
        "apples: 3\ntotal: 3",
        "error: 429\nretry: 3",
        "apples: 3\npears: 4\nThis is wrong.",
        "not apples: 3\npears: 4",
    ],
)
def test_other_lines_are_not_a_dict_of_numbers(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(dict[str, int], text)
