"""Constraints of Annotated and Field are shown in the schema and enforced on every value."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest
from annotated_types import Ge, Gt, Interval, Le, Len, MaxLen, MinLen, MultipleOf
from pydantic import UUID4, AfterValidator, BaseModel, Field, StringConstraints, condecimal, conlist, constr

from output_parsers import (
    Int8,
    Int16,
    Int32,
    Int64,
    OutputParsingError,
    UnsupportedTypeError,
    parse,
    parser_for,
)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


def not_red(color: Color) -> Color:
    if color is Color.RED:
        raise ValueError("red is taken")
    return color


def not_zero(value: float) -> float:
    return 1 / value


@pytest.mark.parametrize(
    ("tp", "good", "value", "bad", "message"),
    [
        (Annotated[int, Field(ge=1, le=5)], "5", 5, "6", "less than or equal to 5, found 6"),
        (Annotated[int, Interval(gt=0, lt=9)], "8", 8, "9", "less than 9, found 9"),
        (Annotated[int, MultipleOf(3)], "six", 6, "7", "a multiple of 3, found 7"),
        (Annotated[float, Gt(0)], "0.5", 0.5, "0", "greater than 0, found 0.0"),
        (Annotated[Decimal, Le(1)], "1", Decimal(1), "1.01", "less than or equal to 1, found 1.01"),
        (
            condecimal(max_digits=3),
            "1.25",
            Decimal("1.25"),
            "1.255",
            "no more than 3 digits in total, found 1.255",
        ),
        (Annotated[Fraction, Gt(0)], "1/2", Fraction(1, 2), "-1/2", "greater than 0, found -1/2"),
        (Annotated[str, MinLen(2)], "ab", "ab", "a", 'at least 2 characters, found "a"'),
        (constr(pattern="^a"), "ab", "ab", "b", "match pattern '^a', found \"b\""),
        (
            Annotated[str, StringConstraints(to_upper=True, max_length=2)],
            "ab",
            "AB",
            "abc",
            'characters, found "abc"',
        ),
        (Annotated[bytes, MaxLen(1)], "a", b"a", "ab", "at most 1 byte, found b'ab'"),
        (
            Annotated[date, Ge(date(2020, 1, 1))],
            "2020-01-01",
            date(2020, 1, 1),
            "2019-12-31",
            "greater than or equal to 2020-01-01, found 2019-12-31",
        ),
        (
            Annotated[timedelta, Le(timedelta(hours=1))],
            "PT1H",
            timedelta(hours=1),
            "PT2H",
            "less than or equal to 1 hour, found 2:00:00",
        ),
        (
            UUID4,
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"),
            "f47ac10b-58cc-1372-a567-0e02b2c3d479",
            'UUID version 4 expected, found "f47ac10b-58cc-1372-a567-0e02b2c3d479"',
        ),
        (
            Annotated[list[int], Len(1, 2)],
            "[1]",
            [1],
            "[]",
            "at least 1 item after validation, not 0, found an array of 0",
        ),
        (
            conlist(int, max_length=1),
            "[1]",
            [1],
            "[1, 2]",
            "at most 1 item after validation, not 2, found an array of 2",
        ),
        (
            Annotated[set[int], MinLen(2)],
            "[1, 2]",
            {1, 2},
            "[1, 1]",
            "at least 2 items after validation, not 1, found {1}",
        ),
        (
            Annotated[tuple[int, ...], MaxLen(1)],
            "[1]",
            (1,),
            "[1, 2]",
            "at most 1 item after validation, not 2, found (1, 2)",
        ),
        (
            Annotated[dict[str, int], MaxLen(1)],
            '{"a": 1}',
            {"a": 1},
            '{"a": 1, "b": 2}',
            "at most 1 item after validation, not more, found an object with a, b",
        ),
        (
            Annotated[Color, AfterValidator(not_red)],
            "blue",
            Color.BLUE,
            "red",
            'red is taken, found "red"',
        ),
        (Annotated[Literal[0, 4], AfterValidator(not_zero)], "4", 0.25, "0", "division by zero, found 0"),
        (Annotated[int | None, Field(gt=0)], "null", None, "0", "greater than 0, found 0"),
        (Annotated[int | None, Field(gt=0)], "1", 1, "-1", "greater than 0, found -1"),
        (Annotated[Annotated[int, Gt(0)], Le(5)], "5", 5, "6", "less than or equal to 5, found 6"),
    ],
)
def test_a_value_must_satisfy_its_constraints(
    tp: Any, good: str, value: object, bad: str, message: str
) -> None:
    result = parse(tp, good)
    assert result == value
    assert type(result) is type(value)
    assert problem(tp, bad).endswith(message)


def test_constraints_of_a_list_and_of_its_items_are_both_enforced() -> None:
    tp = Annotated[list[Annotated[int, Gt(0)]], MaxLen(1)]
    assert problem(tp, "[0]") == "$[0]: input should be greater than 0, found 0"
    assert problem(tp, "[1, 2]") == (
        "$: list should have at most 1 item after validation, not 2, found an array of 2"
    )


@pytest.mark.parametrize(("tp", "bits"), [(Int8, 8), (Int16, 16), (Int32, 32), (Int64, 64)])
def test_sized_integers_accept_exactly_their_range(tp: Any, bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert (parse(tp, str(low)), parse(tp, str(high))) == (low, high)
    assert problem(tp, str(high + 1)) == (
        f"$: input should be less than or equal to {high}, found {high + 1}"
    )
    assert problem(tp, str(low - 1)) == (
        f"$: input should be greater than or equal to {low}, found {low - 1}"
    )
    assert parser_for(tp).schema == {"type": "integer", "minimum": low, "maximum": high}


@pytest.mark.parametrize(
    ("tp", "schema", "hint"),
    [
        (
            Annotated[int, Field(ge=1, le=5)],
            {"type": "integer", "minimum": 1, "maximum": 5},
            "integer (at least 1, at most 5)",
        ),
        (
            Annotated[float, Gt(0), MultipleOf(0.5)],
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            "number (more than 0, a multiple of 0.5)",
        ),
        (
            Annotated[list[int], Len(1, 3)],
            {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
            "[integer, ...] (at least 1 item, at most 3 items)",
        ),
        (
            Annotated[Decimal, Le(1)],
            {"type": "number", "maximum": 1},
            "number (at most 1.0)",
        ),
        (
            Annotated[int | None, Gt(0)],
            {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]},
            "integer | null (more than 0)",
        ),
        (Annotated[Fraction, Gt(0)], {"type": "string"}, '"numerator/denominator" (more than 0.0)'),
        (
            list[Annotated[str, StringConstraints(pattern="^a", max_length=3)]],
            {"type": "array", "items": {"type": "string", "maxLength": 3, "pattern": "^a"}},
            "[string (at most 3 characters, matching ^a), ...]",
        ),
    ],
)
def test_constraints_are_shown_in_the_schema_and_the_hint(tp: Any, schema: dict[str, Any], hint: str) -> None:
    assert parser_for(tp).schema == schema
    assert parser_for(tp).hint == hint


class Rated(BaseModel):
    stars: int = Field(ge=1, le=5, description="how good")
    note: str | None = Field(default=None, max_length=3)


@dataclass
class Scored:
    points: Annotated[int, Ge(0)]


class Measured(msgspec.Struct):
    size: Annotated[int, msgspec.Meta(gt=0)]


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Rated, '{"stars": 6}', "$.stars: input should be less than or equal to 5, found 6"),
        (
            Rated,
            '{"stars": 5, "note": "long"}',
            '$.note: string should have at most 3 characters, found "long"',
        ),
        (Scored, '{"points": -1}', "$.points: input should be greater than or equal to 0, found -1"),
        (Measured, '{"size": 0}', "$.size: input should be greater than 0, found 0"),
    ],
)
def test_constraints_of_the_fields_of_any_record_are_enforced(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message
    assert problem(tp, f"```json\n{text}\n```") == message


def test_constraints_of_an_optional_field_do_not_apply_to_null() -> None:
    assert parse(Rated, '```json\n{"stars": 5, "note": null}\n```') == Rated(stars=5)


def test_a_pattern_that_pydantic_cannot_compile_makes_the_type_unsupported() -> None:
    with pytest.raises(UnsupportedTypeError) as error:
        parser_for(Annotated[str, Field(pattern="(")])
    assert str(error.value).startswith(
        'no parser reads str: its constraints do not apply to it (Error building "str" validator:'
    )


def test_a_constraint_that_does_not_apply_to_a_member_of_a_union_refuses_its_values() -> None:
    tp = Annotated[int | str, Gt(0)]
    assert parse(tp, "1") == 1
    assert problem(tp, '"abc"') == "$: unable to apply constraint 'gt' to supplied value abc, found \"abc\""
