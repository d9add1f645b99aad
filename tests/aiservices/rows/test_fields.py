"""The columns of an answer follow from its type, and their names differ from those of the input."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pyarrow as pa
import pytest
from output_rows import cells
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, HttpUrl, NaiveDatetime, RootModel
from typing_extensions import TypeAliasType

from aiservices import DefinitionError
from aiservices.rows.fields import AnswerColumns, Cells, answer_columns, output_fields
from aiservices.rows.row import RowsError
from aiservices.rows.tables import open_table
from output_parsers import Decision, Scale


class Level(Enum):
    LOW = 1
    HIGH = 2


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Access(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Place:
    city: str
    number: int | None = None


@dataclass
class Tree:
    name: str
    children: list[Tree]


@dataclass
class Nothing:
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Aliased(BaseModel):
    due_date: date = Field(alias="dueDate")


class Price(RootModel[float]):
    pass


class Note(TypedDict):
    text: str
    tag: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: str


@attrs.define
class Point:
    x: float


class Cat(msgspec.Struct, tag="cat"):
    name: str


def arrow_and_value(answer_type: Any, value: Any) -> tuple[str, Any]:
    """Return the Arrow type of an answer with one column, and the value in it."""
    (column,) = answer_columns(answer_type).columns
    facts: set[str] = set()
    plain = column.shape.value(column.to_json(value), facts)
    return str(column.shape.arrow(facts)), plain


TWO_HOURS = timezone(timedelta(hours=2))
TREE = Tree("a", [Tree("b", [])])
STRUCT = "struct<city: string, number: int64>"
DECISION = "struct<value: string, probability: double, source: string>"


@pytest.mark.parametrize(
    ("answer_type", "value", "arrow", "plain"),
    [
        (bool, True, "bool", True),
        (int, 2**63 - 1, "int64", 2**63 - 1),
        (Annotated[int, Field(ge=0)], 1, "int64", 1),
        (float, 0.1, "double", 0.1),
        (Annotated[float, Field(allow_inf_nan=True)], float("inf"), "double", float("inf")),
        (Decimal, Decimal("1.10"), "decimal128(38, 18)", Decimal("1.10")),
        (Decimal, Decimal("1e-19"), "string", Decimal("1e-19")),
        (Decimal, Decimal("1e20"), "string", Decimal("1e20")),
        (str, "é", "string", "é"),
        (bytes, b"a", "string", "a"),
        (UUID, UUID(int=1), "string", "00000000-0000-0000-0000-000000000001"),
        (Path, Path("a/b"), "string", "a/b"),
        (Fraction, Fraction(1, 3), "string", "1/3"),
        (HttpUrl, HttpUrl("https://example.org/"), "string", "https://example.org/"),
        (date, date(2024, 1, 2), "date32[day]", date(2024, 1, 2)),
        (datetime, datetime(2024, 1, 2, 3), "timestamp[us, tz=UTC]", datetime(2024, 1, 2, 3, tzinfo=UTC)),
        (NaiveDatetime, datetime(2024, 1, 2, 3), "timestamp[us]", datetime(2024, 1, 2, 3)),
        (NaiveDatetime | None, datetime(2024, 1, 2, 3), "timestamp[us]", datetime(2024, 1, 2, 3)),
        (
            datetime,
            datetime(2024, 1, 2, 3, tzinfo=TWO_HOURS),
            "timestamp[us, tz=UTC]",
            datetime(2024, 1, 2, 1, tzinfo=UTC),
        ),
        (
            AwareDatetime,
            datetime(2024, 1, 2, tzinfo=UTC),
            "timestamp[us, tz=UTC]",
            datetime(2024, 1, 2, tzinfo=UTC),
        ),
        (time, time(1, 2, 3, 4), "time64[us]", time(1, 2, 3, 4)),
        (time, time(1, 2, tzinfo=UTC), "string", time(1, 2, tzinfo=UTC)),
        (timedelta, timedelta(days=-1, microseconds=1), "duration[us]", timedelta(days=-1, microseconds=1)),
        (Mood, Mood.BAD, "string", "bad"),
        (Level, Level.LOW, "string", "LOW"),
        (Literal["a", "b"], "a", "string", "a"),
        (Literal[1, 2], 2, "int64", 2),
        (Literal[True], True, "bool", True),
        (Literal[1, "a"], "a", "string", '"a"'),
        (Literal["a", None], None, "string", None),
        (Access, Access.READ | Access.WRITE, "list<item: string>", ["READ", "WRITE"]),
        (int | None, None, "int64", None),
        (int | float, 2**53, "double", 2.0**53),
        (int | str, "5", "string", '"5"'),
        (Place | None, Place("Rome"), STRUCT, {"city": "Rome", "number": None}),
        (Place | Pair, Place("Rome"), "string", '{"city": "Rome", "number": null}'),
        (list[int], [1, 2], "list<item: int64>", [1, 2]),
        (set[str], {"a"}, "list<item: string>", ["a"]),
        (tuple[int, ...], (1,), "list<item: int64>", [1]),
        (tuple[int, int], (1, 2), "list<item: int64>", [1, 2]),
        (tuple[int, str], (1, "a"), "string", '[1, "a"]'),
        (dict[str, float], {"a": 1.5}, "map<string, double>", [("a", 1.5)]),
        (dict[int, list[bool]], {1: [True]}, "map<string, list<item: bool>>", [("1", [True])]),
        (list[Place], [Place("Rome", 1)], f"list<item: {STRUCT}>", [{"city": "Rome", "number": 1}]),
        (list[Tree], [TREE], "list<item: struct<name: string, children: list<item: string>>>", None),
        (list[Open], [Open(x=1, **{"y": 2})], "list<item: string>", ['{"x": 1, "y": 2}']),
        (Nothing, Nothing(), "string", "{}"),
        (Any, {"a": [1.5]}, "string", '{"a": [1.5]}'),
        (None, None, "null", None),
        (Price, Price(1.5), "double", 1.5),
        (list[Cat], [Cat("Tom")], "list<item: struct<type: string, name: string>>", None),
        (
            list[Decision[Mood]],
            [Decision(Mood.BAD, {Mood.GOOD: 0.25, Mood.BAD: 0.75}, source="votes(4)"), Decision(Mood.GOOD)],
            f"list<item: {DECISION}>",
            [
                {"value": "bad", "probability": 0.75, "source": "votes(4)"},
                {"value": "good", "probability": None, "source": ""},
            ],
        ),
        (
            list[Decision[list[Mood]]],
            [Decision([Mood.BAD], {Mood.GOOD: 0.25, Mood.BAD: 0.875}, source="votes(4)"), Decision([])],
            "list<item: struct<value: list<item: string>, probability: double, source: string>>",
            [
                {"value": ["bad"], "probability": 0.75, "source": "votes(4)"},
                {"value": [], "probability": None, "source": ""},
            ],
        ),
    ],
)
def test_the_arrow_type_follows_from_the_type_of_the_answer(
    answer_type: Any, value: Any, arrow: str, plain: Any
) -> None:
    found_type, found = arrow_and_value(answer_type, value)
    assert found_type == arrow
    assert plain is None or found == plain


Nested = TypeAliasType("Nested", "int | list[Nested]")


def test_a_union_inside_itself_is_json_text() -> None:
    assert arrow_and_value(Nested, [1, [2]])[1] == "[1, [2]]"


def test_a_record_inside_itself_is_json_text() -> None:
    _, plain = arrow_and_value(list[Tree], [TREE])
    assert plain == [{"name": "a", "children": ['{"name": "b", "children": []}']}]


def test_the_tag_of_a_struct_is_a_field() -> None:
    assert arrow_and_value(list[Cat], [Cat("Tom")])[1] == [{"type": "cat", "name": "Tom"}]


@pytest.mark.parametrize(
    ("answer_type", "value", "message"),
    [
        (int, 2**63, "the integer 9223372036854775808 has more than 64 bits, which the file cannot hold"),
        (
            list[int],
            [-(2**63) - 1],
            "the integer -9223372036854775809 has more than 64 bits, which the file cannot hold",
        ),
        (
            int | float,
            2**53 + 1,
            "the integer 9007199254740993 is not exact as a float, which the column holds",
        ),
        (
            str,
            "\ud800",
            "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
        ),
        (timedelta, timedelta.max, "the duration of 999999999 days is too long for the file"),
        (
            datetime,
            datetime(1, 1, 1, tzinfo=TWO_HOURS),
            "the date 0001-01-01T00:00:00+02:00 has a year before 1 or after 9999 in UTC",
        ),
        (str, 5, "expected a text, found 5"),
    ],
)
def test_an_answer_that_arrow_cannot_hold_is_an_error(answer_type: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        arrow_and_value(answer_type, value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("answer_type", "answer", "columns"),
    [
        (Place, Place("Rome", 1), {"city": "Rome", "number": 1}),
        (Annotated[Place, "described"], Place("Rome", 1), {"city": "Rome", "number": 1}),
        (Note, {"text": "a"}, {"text": "a", "tag": None}),
        (Pair, Pair(1, "a"), {"left": 1, "right": "a"}),
        (Point, Point(1.5), {"x": 1.5}),
        (Cat, Cat("Tom"), {"type": "cat", "name": "Tom"}),
        (Aliased, Aliased(dueDate=date(2024, 1, 2)), {"dueDate": date(2024, 1, 2)}),
        (Open, Open(x=1, **{"y": 2}), {"x": 1, "extra": {"y": 2}}),
        (Open, Open(x=1), {"x": 1, "extra": None}),
        (Tree, TREE, {"name": "a", "children": TREE.children}),
        (int, 5, {"value": 5}),
        (Nothing, Nothing(), {"value": Nothing()}),
        (Place | None, None, {"value": None}),
        (Decision[bool], Decision(True), {"value": True, "probability": None, "source": ""}),
        (
            Scale[Level],
            Scale(Level.LOW, {Level.LOW: 0.75, Level.HIGH: 0.25}, source="logprobs"),
            {"value": Level.LOW, "probability": 0.75, "source": "logprobs"},
        ),
    ],
)
def test_a_record_has_a_column_for_each_field(answer_type: Any, answer: Any, columns: dict[str, Any]) -> None:
    assert answer_columns(answer_type).split(answer) == columns


def test_a_value_of_another_type_is_an_error() -> None:
    (column,) = answer_columns(Mood).columns
    with pytest.raises(ValueError, match='expected one of "good", "bad", found 5'):
        column.to_json(5)


# --- names --------------------------------------------------------------------------------------------------


def names(table: Any, answers: AnswerColumns) -> tuple[str, ...]:
    return output_fields(open_table(table), answers).columns


class Failure(BaseModel):
    error: str


def test_the_columns_of_the_answer_are_beside_those_of_the_input() -> None:
    table = {"id": [1], "text": ["a"]}
    assert names(table, answer_columns(Place)) == ("id", "text", "city", "number", "error")


def test_a_column_that_the_input_has_too_gets_a_prefix() -> None:
    assert names({"city": [1], "error": [2]}, answer_columns(Place)) == (
        "city",
        "error",
        "answer_city",
        "number",
        "answer_error",
    )
    assert names({"id": [1]}, answer_columns(Failure)) == ("id", "answer_error", "error")


def test_names_that_remain_equal_are_an_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        names({"city": [1], "answer_city": [2]}, answer_columns(Place))
    assert str(caught.value) == (
        "the output: the columns 'city' and 'answer_city' exist already; choose another prefix= or "
        "error_column=, or rename a column of the input"
    )


def test_a_row_has_the_answer_or_the_error() -> None:
    fields = output_fields(open_table({"id": [1], "text": ["a"]}), answer_columns(Place))
    inputs = {"id": 1, "text": "a"}
    assert cells(fields, inputs, answer=Place("Rome")) == Cells(inputs, ["Rome", None], None)
    assert cells(fields, inputs, error=ValueError("bad")) == Cells(inputs, [None, None], "bad")


def test_columns_that_are_known_only_from_the_rows_must_not_have_the_names_of_the_answer() -> None:
    fields = output_fields(open_table(iter([])), answer_columns(Place))
    assert not fields.inputs_complete
    assert cells(fields, {"id": 1}, answer=Place("Rome")) == Cells({"id": 1}, ["Rome", None], None)
    with pytest.raises(RowsError) as caught:
        cells(fields, {"city": "Rome"}, answer=Place("Rome"))
    assert str(caught.value) == (
        "the input has a column 'city', and the output adds one of that name; rename it, or choose another "
        "prefix= or error_column="
    )


def test_the_types_of_the_input_are_kept() -> None:
    table = pa.table({"id": pa.array([1], pa.int8())})
    assert output_fields(open_table(table), answer_columns(int)).input_types() == {"id": pa.int8()}
