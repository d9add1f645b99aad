"""A union value is read as the member that fits best, and an ambiguous value is refused."""

# ruff: noqa: UP007, UP045, RUF036  # both spellings of a union, in any order
from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import FrameType
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, TypeVar, Union

import msgspec
import pytest
from annotated_types import MaxLen
from pydantic import BaseModel, Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from output_parsers import OutputParsingError, UnsupportedTypeError, parse, parser_for, read
from output_parsers.result.reading import Cursor, ValidationFailure

T = TypeVar("T")


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Optional[int], "null", None),
        (Optional[int], "42", 42),
        (int | None, "none", None),
        (int | None, "forty two", 42),
        (str | None, "null", None),
        (str | None, '"null"', "null"),
        (str | None, "hello", "hello"),
        (str | None, "N/A", None),
        (str | None, " n/a\n", None),
        (int | str | None, "None", None),
        (str | None, '"N/A"', "N/A"),
        (str | None, "N/A.", "N/A."),
        (str | None, "unknown", "unknown"),
        (str, "N/A", "N/A"),
        (list[str | None], '["N/A", null]', ["N/A", None]),
        (list[int | None], "[1, null]", [1, None]),
        (str | int, "42", 42),
        (str | int, '"42"', "42"),
        (int | str, '"42"', "42"),
        (int | str, "hello", "hello"),
        (int | float, "1", 1),
        (int | float, "1.5", 1.5),
        (float | int, "1", 1),
        (int | bool, "true", True),
        (bool | int, "1", 1),
        (int | Decimal, "1.50", Decimal("1.50")),
        (date | str, "1968-07-04", date(1968, 7, 4)),
        (date | str, "soon", "soon"),
        (date | datetime, "1968-07-04", date(1968, 7, 4)),
        (date | datetime, "1968-07-04T10:00:00", datetime(1968, 7, 4, 10)),
        (list[int] | int, "[1]", [1]),
        (list[int] | int, "1", 1),
        (list[int] | list[str], '["a"]', ["a"]),
        (dict[str, int] | list[int], "[1]", [1]),
        (Literal["auto"] | int, "auto", "auto"),
        (Literal["auto"] | int, "7", 7),
        (list[str] | None, "null", None),
        (int | Any, '"x"', "x"),
    ],
)
def test_the_member_that_fits_is_read(tp: Any, text: str, value: object) -> None:
    result = parse(tp, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Optional[int], "x", '$: expected an integer or null, found "x"'),
        (int | None, "4.5", "$: expected an integer or null, found 4.5"),
        (int | bool, '"yes or no"', '$: expected an integer or true or false, found "yes or no"'),
        (list[int] | dict[str, int], '["x"]', '$[0]: expected an integer, found "x"'),
        (str | int, "[1]", "$: expected text or an integer, found an array of 1"),
    ],
)
def test_a_value_that_fits_no_member_is_refused(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: int


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


@dataclass
class Named:
    name: str


@dataclass
class Circle:
    shape: Literal["circle"]
    size: int


@dataclass
class Square:
    shape: Literal["square"]
    size: int


class On(TypedDict):
    state: Literal["on"]
    level: int


class Off(TypedDict):
    state: Literal["off"]
    level: int


class Get(msgspec.Struct, tag=True):
    url: str


class Put(msgspec.Struct, tag=True):
    url: str


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Cat | Dog, '{"kind": "dog", "lives": 1}', Dog(kind="dog", lives=1)),
        (Cat | Dog, '{"Kind": "DOG", "Lives": "1"}', Dog(kind="dog", lives=1)),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            '{"kind": "dog", "lives": 1}',
            Dog(kind="dog", lives=1),
        ),
        (
            Annotated[Cat | Dog, Discriminator("kind")],
            '{"kind": "Cat", "lives": 1}',
            Cat(kind="cat", lives=1),
        ),
        (
            Annotated[
                Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(lambda v: v["kind"])
            ],
            '{"kind": "dog", "lives": 1}',
            Dog(kind="dog", lives=1),
        ),
        (Circle | Square, '{"shape": "square", "size": 1}', Square("square", 1)),
        (
            Annotated[Circle | Named, Discriminator("shape")],
            '{"shape": "circle", "size": 1}',
            Circle("circle", 1),
        ),
        (Owner, '{"pet": {"kind": "dog", "lives": 1}}', Owner(pet=Dog(kind="dog", lives=1))),
        (On | Off, '{"state": "off", "level": 1}', {"state": "off", "level": 1}),
        (Get | Put, '{"type": "Put", "url": "u"}', Put("u")),
        (list[Cat | Circle], '[{"shape": "circle", "size": 1}]', [Circle("circle", 1)]),
    ],
)
def test_a_tag_selects_the_member(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text) == value


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Cat | Dog, '{"kind": "dog", "lives": "x"}', '$.lives: expected an integer, found "x"'),
        (
            Cat | Dog,
            '{"kind": "cow", "lives": 1}',
            '$.kind: expected "cat"; the text names none of them, found "cow"',
        ),
        (Cat | Dog, '{"lives": 1}', "$.kind: the required field 'kind' is missing"),
        (Circle | Square, '{"shape": null, "size": 1}', '$.shape: expected "circle", found null'),
    ],
)
def test_a_wrong_or_missing_tag_is_refused(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@dataclass
class Metres:
    value: int


@dataclass
class Feet:
    value: int


def test_an_object_that_fits_two_records_is_refused() -> None:
    assert problem(Metres | Feet, '{"value": 1}') == (
        "$: it can be read in more than one way: as Metres and Feet"
    )


@dataclass
class Measured:
    size: Metres | Feet
    note: str = ""


@dataclass
class Anything:
    size: Any


def test_an_ambiguity_inside_one_record_is_not_hidden_by_another_record() -> None:
    text = '{"size": {"value": 1}}'
    assert problem(Measured | Anything, text) == (
        "$.size: it can be read in more than one way: as Metres and Feet"
    )
    assert problem(Measured | Anything, f"[{text}, {text}]").startswith("$: expected an object (Measured) or")


def test_a_record_without_dropped_keys_wins_over_an_ambiguous_one_with_dropped_keys() -> None:
    @dataclass
    class Exact:
        size: Any
        unit: str

    text = '{"size": {"value": 1}, "unit": "m"}'
    assert parse(Measured | Exact, text) == Exact({"value": 1}, "m")


def test_the_fields_of_an_object_select_the_record() -> None:
    assert parse(Metres | Named, '{"name": "x"}') == Named("x")


def test_a_record_without_dropped_keys_wins_over_one_with_dropped_keys() -> None:
    @dataclass
    class Longer:
        value: int
        unit: str = ""

    reading = read(Metres | Longer, '{"value": 1, "unit": "m"}')
    assert reading.value == Longer(1, "m")
    assert reading.coercions == ()


Tree = TypeAliasType("Tree", "int | list[Tree]")
Json = TypeAliasType("Json", "None | bool | int | float | str | list[Json] | dict[str, Json]")
Short = TypeAliasType("Short", Annotated[list["Short"], MaxLen(2)])
Loop = TypeAliasType("Loop", "Loop")
Listed = TypeAliasType("Listed", list[T] | T, type_params=(T,))
UserId = NewType("UserId", int)


@dataclass
class Add:
    op: Literal["+"]
    left: Expr
    right: Expr


@dataclass
class Negate:
    op: Literal["-"]
    inner: Expr


Expr = Union[int, Add, Negate]


@dataclass
class Left:
    a: int
    kid: Left | Right | None = None


@dataclass
class Right:
    b: int
    kid: Left | Right | None = None


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Tree, "[1, [2, [3]], []]", [1, [2, [3]], []]),
        (Json, '{"a": [1, 0.5, null, "x", true]}', {"a": [1, 0.5, None, "x", True]}),
        (Short, "[[], [[]]]", [[], [[]]]),
        (Listed[int], "1", 1),
        (Listed[int], "[1]", [1]),
        (list[UserId], "[1]", [1]),
        (
            Expr,
            '{"op": "+", "left": 1, "right": {"op": "-", "inner": 2}}',
            Add("+", 1, Negate("-", 2)),
        ),
        (Left, '{"a": 1, "kid": {"b": 2, "kid": {"a": 3}}}', Left(1, Right(2, Left(3)))),
    ],
)
def test_a_union_may_contain_itself(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text) == value


def test_a_problem_deep_inside_a_union_has_its_path() -> None:
    text = '{"op": "+", "left": 1, "right": {"op": "-", "inner": "x"}}'
    assert (
        problem(Expr, text)
        == '$.right.inner: expected an integer or an object (Add) or an object (Negate), found "x"'
    )
    assert problem(Short, "[[], [[], [], []]]") == (
        "$[1]: list should have at most 2 items after validation, not 3, found an array of 3"
    )


def test_an_alias_of_itself_is_an_unsupported_type() -> None:
    with pytest.raises(UnsupportedTypeError) as error:
        parser_for(Loop)
    assert str(error.value) == (
        "no parser reads Loop: it refers only to itself; tried: type aliases. "
        "Use a type that one of them reads, or add a ParserFactory for it"
    )


def test_members_that_contain_the_union_read_each_part_once() -> None:
    depth = 60  # with two checks on each level, it would not end
    text = '{"a": 1, "kid": ' * depth + "null" + "}" * depth
    result: Any = parse(Left | Right, text)
    for _ in range(depth - 1):
        result = result.kid
    assert result == Left(1)


@pytest.mark.parametrize(
    ("tp", "schema", "hint"),
    [
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        (str | int, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | integer"),
        (
            Tree,
            {
                "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}],
                "$defs": {
                    "Tree": {
                        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]
                    }
                },
            },
            "integer | [Tree, ...]",
        ),
    ],
)
def test_the_schema_and_the_hint_show_all_members(tp: Any, schema: dict[str, Any], hint: str) -> None:
    assert parser_for(tp).schema == schema
    assert parser_for(tp).hint == hint


class CountingCursor(Cursor):
    """Counts the messages that are built."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = 0

    def failure(self, message: str, value: object) -> ValidationFailure:
        self.messages += 1
        return super().failure(message, value)


@pytest.mark.parametrize("data", [1, "x", True, None, Decimal("1.5"), [1], {"b": "x"}])
def test_a_value_of_the_json_type_of_a_member_is_read_without_building_messages_of_the_others(
    data: Any,
) -> None:
    class First(BaseModel):
        a: int

    class Second(BaseModel):
        b: str

    tp: Any = int | str | bool | float | list[int] | First | Second | None
    cursor = CountingCursor()
    parser_for(tp).node.read(data, cursor)
    assert cursor.messages == 0


def test_the_time_for_a_list_of_unions_that_the_fast_path_cannot_read_is_linear() -> None:
    tp = list[int | str | dict[str, int] | list[int]]
    text = "[" + "1, [], {}, " * 5_000 + '"x"] '
    value = read(tp, f"```\n{text}")
    assert len(value.value) == 15_001
    assert len(value.coercions) == 1


@pytest.mark.parametrize("text", ["  7\n]", "```json\n  7\n]\n```", "7 ]}"])
def test_the_end_of_a_list_is_not_its_only_item(text: str) -> None:
    form: Any = int | list[int]
    with pytest.raises(OutputParsingError, match="the opening bracket is missing"):
        parse(form, text)
    assert parse(int, text) == 7
    either: Any = list[int] | str
    assert parse(either, f"Hello :{text}") == f"Hello :{text}"


def test_an_exact_tag_is_not_searched_for_in_the_words_of_each_member() -> None:
    """That made damaged message histories take 100 times pydantic's time."""

    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog", "Cat"]

    searched: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == "ChoiceMatcher.find":
            searched.append(frame.f_locals["text"])

    pets = parser_for(list[Annotated[Cat | Dog, Field(discriminator="kind")]])
    sys.setprofile(profile)
    try:
        read_pets = pets.parse('[{"kind": "cat"}, {"kind": "Cat"}, {"kind": "dog"},]')
        assert searched == []
        assert pets.parse('[{"kind": "DOG"},]') == [Dog(kind="dog")]
    finally:
        sys.setprofile(None)
    assert searched != []
    assert read_pets == [Cat(kind="cat"), Dog(kind="Cat"), Dog(kind="dog")]
