"""The text that is written for a value is read back as exactly that value, or writing is refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, auto
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import msgspec
import pytest
from equivalence.corner_types import CORNERS
from equivalence.return_types import CASES, TEXTS, Case
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, RootModel, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from output_parsers import OutputParsingError, Problem, TypeParser, parser_for
from output_parsers.profiles import OPENAI
from output_parsers.prose.fillers import is_value
from output_parsers.result.reading import strict_equal
from output_parsers.strict import encode_parser

T = TypeVar("T")
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
THOROUGH = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
VARIANTS: dict[str, Callable[[TypeParser[Any]], TypeParser[Any]]] = {
    "plain": lambda parser: parser,
    "enveloped": lambda parser: parser.with_envelope(),
    "encoded": lambda parser: encode_parser(parser, OPENAI)[0],
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def check(tp: Any, value: Any, variant: str) -> None:
    parser = VARIANTS[variant](parser_for(tp))
    text = parser.write(value)
    reading = parser.read(text)
    assert strict_equal(reading.value, value), (text, reading)
    assert reading.coercions == (), text


def not_read_back(cases: Iterable[Case], variant: str) -> dict[str, Exception]:
    """Return the cases that fail, and why."""
    failures: dict[str, Exception] = {}
    for case in cases:
        try:
            check(case.form, case.value, variant)
        except (AssertionError, ValueError) as error:
            failures[case.name] = error
    return failures


@every_variant
def test_a_value_of_each_type_is_read_back(variant: str) -> None:
    assert not_read_back([*CASES, *TEXTS], variant) == {}


# Tested below: texts that look alike, a secret, which is never written, and unset fields.
_SKIPPED = ("Literal, text and number alike", "pydantic types", "msgspec.Struct, unset")


@every_variant
def test_an_unusual_value_is_read_back(variant: str) -> None:
    assert not_read_back([case for case in CORNERS if case.name not in _SKIPPED], variant) == {}


class Colour(Enum):
    RED = "red"
    """Of blood."""
    DARK_BLUE = "dark-blue"
    TRUE = "true"
    NUMBER = "7"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Right(Flag):
    READ = auto()
    WRITE = auto()


@dataclass
class Person:
    name: str
    age: int | None = None


class Film(BaseModel):
    title: str = Field(alias="theTitle")
    price: Decimal
    released: date | None = None


class Row(TypedDict):
    key: str
    cells: list[float]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@pydantic_dataclass(config=ConfigDict(extra="allow"))
class OpenRecord:
    name: str


class Sent(msgspec.Struct, tag=True):
    to: str


class Received(msgspec.Struct, tag=True):
    to: str


@dataclass
class Tree:
    label: str
    children: list[Tree]


@dataclass
class Pair(Generic[T]):
    first: T
    second: T


class Names(RootModel[list[str]]):
    pass


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=15).filter(is_value)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).filter(is_value)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(-(10**9), 10**9, places=4)
ZONES = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
PEOPLE = st.builds(Person, WORDS, st.none() | st.integers())
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.builds(Tree, WORDS, st.just([])),
    lambda below: st.builds(Tree, WORDS, st.lists(below, max_size=2)),
    max_leaves=5,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | WORDS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(WORDS, below, max_size=3),
    max_leaves=6,
)
VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, st.integers()),
    "float": (float, FLOATS),
    "bool": (bool, st.booleans()),
    "Decimal": (Decimal, DECIMALS),
    "Fraction": (Fraction, st.fractions()),
    "bytes": (bytes, WORDS.map(str.encode)),
    "date": (date, st.dates()),
    "time": (time, st.times()),
    "datetime": (datetime, st.datetimes(timezones=ZONES)),
    "timedelta": (timedelta, st.timedeltas(timedelta(0))),
    "timedelta, negative": (timedelta, st.timedeltas(max_value=timedelta(0))),
    "UUID": (UUID, st.uuids()),
    "Enum": (Colour, st.sampled_from(Colour)),
    "Enum of numbers": (Level, st.sampled_from(Level)),
    "Flag": (Right, st.sampled_from([Right(0), Right.READ, Right.READ | Right.WRITE])),
    "Literal": (Literal["a", 1, True, None, "2"], st.sampled_from(["a", 1, True, None, "2"])),
    "list[str]": (list[str], st.lists(TEXT, max_size=4)),
    "list[float]": (list[float], st.lists(FLOATS, max_size=4)),
    "set[Decimal]": (set[Decimal], st.sets(DECIMALS, max_size=4)),
    "frozenset[date]": (frozenset[date], st.frozensets(st.dates(), max_size=4)),
    "tuple": (tuple[int, str, float | None], st.tuples(st.integers(), TEXT, st.none() | FLOATS)),
    "tuple, open": (tuple[time, ...], st.lists(st.times(), max_size=3).map(tuple)),
    "dict[str, int]": (dict[str, int], st.dictionaries(TEXT, st.integers(), max_size=4)),
    "dict[int, bool]": (dict[int, bool], st.dictionaries(st.integers(), st.booleans(), max_size=4)),
    "dict[Level, str]": (dict[Level, str], st.dictionaries(st.sampled_from(Level), TEXT)),
    "dict[str, list]": (dict[str, list[str]], st.dictionaries(TEXT, st.lists(TEXT, max_size=2), max_size=3)),
    "dataclass": (Person, PEOPLE),
    "list[dataclass]": (list[Person], st.lists(PEOPLE, max_size=3)),
    "pydantic": (Film, st.builds(Film, theTitle=TEXT, price=DECIMALS, released=st.none() | st.dates())),
    "TypedDict": (Row, st.fixed_dictionaries({"key": TEXT, "cells": st.lists(FLOATS, max_size=3)})),
    "generic": (Pair[float], st.builds(Pair, FLOATS, FLOATS)),
    "RootModel": (Names, st.lists(TEXT, max_size=3).map(Names)),
    "Optional": (int | None, st.none() | st.integers()),
    "Union": (int | list[str], st.integers() | st.lists(TEXT, max_size=3)),
    "Union, tagged": (Sent | Received, st.builds(Sent, TEXT) | st.builds(Received, TEXT)),
    "recursive": (Tree, TREES),
    "JSON": (JsonValue, JSON),
    "Any": (Any, JSON),
    "constrained": (Annotated[float, Field(ge=0, le=9)], st.floats(0, 9)),
}


@every_variant
@pytest.mark.parametrize("name", VALUES)
def test_any_value_of_a_type_is_read_back(name: str, variant: str) -> None:
    tp, values = VALUES[name]

    @QUICK
    @given(value=values)
    def comes_back(value: Any) -> None:
        check(tp, value, variant)

    comes_back()


@every_variant
@QUICK
@given(text=TEXT)
def test_text_is_read_back_or_refused(text: str, variant: str) -> None:
    """Text with reasoning tags is read without them, so it cannot be written."""
    parser = VARIANTS[variant](parser_for(str))
    try:
        message = parser.write(text)
    except ValueError:
        assert variant == "plain"
    else:
        assert parser.parse(message) == text


ANYTHING = st.one_of(
    JSON,
    st.dates(),
    DECIMALS,
    st.binary(max_size=4),
    st.sampled_from([Level.LOW, Colour.RED, Right.READ, object(), object, Person("a"), float("nan"), {1: 2}]),
    st.tuples(st.integers(), st.integers()),
    st.sets(st.integers(), max_size=2),
)


@every_variant
@THOROUGH
@given(name=st.sampled_from(list(VALUES)), value=ANYTHING)
def test_any_object_is_read_back_or_refused(name: str, value: Any, variant: str) -> None:
    parser = VARIANTS[variant](parser_for(VALUES[name][0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            text = parser.write(value)
        except ValueError:
            return
    assert strict_equal(parser.parse(text), value)


class Child(Film):
    more: int = 0


class Loop:
    def __str__(self) -> str:
        raise AttributeError("no text")


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> Any:
    found: Any = 1
    for _ in range(100_000):
        found = [found]
    return found


OF_ANOTHER_TYPE: list[tuple[Any, Any]] = [
    (int, "5"),
    (int, True),
    (int, 5.0),
    (float, 5),
    (float, float("nan")),
    (float, float("inf")),
    (Decimal, Decimal("NaN")),
    (Decimal, 0.5),
    (bool, 1),
    (str, 5),
    (str, None),
    (bytes, b"\xff"),
    (date, "2024-02-29"),
    (date, datetime(2024, 2, 29)),
    (Level, 1),
    (Level, "LOW"),
    (Colour, Level.LOW),
    (Right, Level.LOW),
    (Literal["a"], "b"),
    (Literal[1], True),
    (list[str], "ab"),
    (list[str], {"a": 1}),
    (list[int], 5),
    (list[int], (1, 2)),
    (list[int], [1, "2"]),
    (list[int], (n for n in range(3))),
    (set[int], [1]),
    (tuple[int, int], [1, 2]),
    (tuple[int, int], (1, 2, 3)),
    (tuple[str, str], "ab"),
    (dict[str, int], [("a", 1)]),
    (dict[str, int], {1: 1}),
    (dict[int, str], {"1": "a"}),
    (dict[int | str, int], {1: 1, "1": 2}),
    (Person, {"name": "Ann", "age": 1}),
    (Person, Person),
    (Person, Person("Ann", "old")),  # type: ignore[arg-type]
    (Film, Child(theTitle="x", price=Decimal(1))),
    (Row, {"key": "a"}),
    (Row, {"key": "a", "cells": [], "more": 1}),
    (Row, Person("a")),
    (Names, ["a"]),
    (int | None, "x"),
    (Sent | Received, Person("a")),
    (Path, 5),
    (Any, object()),
    (list[Any], Loop()),
    (Path, Loop()),
    (Annotated[int, Field(ge=0)], -1),
]


@every_variant
def test_a_value_of_another_type_is_refused(variant: str) -> None:
    for tp, value in OF_ANOTHER_TYPE:
        try:
            text = VARIANTS[variant](parser_for(tp)).write(value)
        except ValueError:  # the messages are tested below
            continue
        pytest.fail(f"{value!r} is written as {tp}: {text}")


@every_variant
@pytest.mark.parametrize("make", [circle, deep])
def test_a_value_that_contains_itself_is_refused(make: Callable[[], Any], variant: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        VARIANTS[variant](parser_for(Any)).write(make())


@pytest.mark.parametrize(
    ("tp", "value", "message"),
    [
        (int, "5", "'5' is read as 5"),
        (float, 5, "5 is read as 5.0"),
        (Level, "LOW", 'expected one of "LOW", "HIGH", found \'LOW\''),
        (list[str], "ab", "expected an array, found 'ab'"),
        (tuple[int, int], (1,), "expected an array of exactly 2, found (1,)"),
        (dict[str, int], 5, "expected an object, found 5"),
        (Person, {"name": "Ann"}, "expected an object (Person), found {'name': 'Ann'}"),
        (Names, ["a"], "expected an array, found ['a']"),
        (
            Annotated[int, Field(ge=0)],
            -1,
            "-1 is not read as int: $: input should be greater than or equal to 0, found -1",
        ),
        (Person, Person("Ann", "x"), "Person(name='Ann', age='x') cannot be written as Person: expected an"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_the_error_says_what_is_wrong(tp: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parser_for(tp).write(value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("tp", "value", "text"),
    [
        (int, 42, "42"),
        (float, 3.0, "3.0"),
        (float, 1e300, "1E+300"),
        (Decimal, Decimal("1.50"), "1.50"),
        (bool, True, "true"),
        (str, ' "a" ', ' "a" '),
        (date, date(1968, 7, 4), "1968-07-04"),
        (Level, Level.HIGH, "HIGH"),
        (Colour, Colour.DARK_BLUE, "dark-blue"),
        (Colour, Colour.NUMBER, "7"),
        (int | None, None, "null"),
        (list[Level], [Level.LOW], '["LOW"]'),
        (Person, Person("Ann “A.”"), '{"name": "Ann “A.”", "age": null}'),
        (
            Film,
            Film(theTitle="Hero", price=Decimal("9.90")),
            '{"theTitle": "Hero", "price": 9.90, "released": null}',
        ),
        (dict[Level, float], {Level.LOW: 0.5}, '{"LOW": 0.5}'),
        (Sent | Received, Received("Ann"), '{"type": "Received", "to": "Ann"}'),
        (Open, Open(name="a", size=0.5), '{"name": "a", "size": 0.5}'),  # type: ignore[call-arg]
        (OpenRecord, OpenRecord(name="a", size=[1]), '{"name": "a", "size": [1]}'),  # type: ignore[call-arg]
    ],
    ids=repr,
)
def test_the_text_is_the_one_that_a_model_should_write(tp: Any, value: Any, text: str) -> None:
    assert parser_for(tp).write(value) == text


def test_an_envelope_is_written_around_the_value() -> None:
    assert parser_for(list[int]).with_envelope().write([1]) == '{"value": [1]}'


def test_text_in_an_envelope_is_json() -> None:
    assert parser_for(str).with_envelope().write('a "b"') == '{"value": "a \\"b\\""}'


def test_a_value_of_an_encoded_type_is_written_in_its_encoding() -> None:
    parser, _ = encode_parser(parser_for(dict[str, int]), OPENAI)
    assert parser.write({"a": 1}) == '{"value": [{"key": "a", "value": 1}]}'


def test_a_field_with_a_converting_validator_is_written_from_its_stored_value() -> None:
    class Tags(BaseModel):
        tags: Annotated[list[str], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)]

    assert parser_for(Tags).write(Tags(tags=["a", "b"])) == '{"tags": ["a", "b"]}'


def test_a_validator_that_changes_the_value_each_time_makes_it_unwritable() -> None:
    """The validator runs once for each value, as with pydantic itself."""

    class Grown(BaseModel):
        size: Annotated[int, BeforeValidator(lambda v: v * 2)]

    message = r"^\$\.size cannot be written so that it is read back: 2 becomes 4$"
    with pytest.raises(ValueError, match=message):
        parser_for(Grown).write(Grown.model_construct(size=2))


def test_a_secret_is_not_written() -> None:
    with pytest.raises(ValueError, match=r"is read as SecretStr\('\*+'\)$"):
        parser_for(SecretStr).write(SecretStr("p"))


@pytest.mark.parametrize("variant", ["enveloped", "encoded"])
@pytest.mark.parametrize("value", ["1", 1])
@pytest.mark.parametrize("tp", [Literal["1", 1], Literal[1, "1"]])
def test_text_and_a_number_that_look_alike_differ_in_json(tp: Any, value: Any, variant: str) -> None:
    check(tp, value, variant)


def test_a_value_of_a_custom_parser_is_written_as_its_text() -> None:
    class Upper:
        schema = None

        def format_instructions(self) -> str:
            return "in capitals"

        def parse(self, text: str) -> str:
            if not text.isupper():
                raise OutputParsingError(text, [Problem("$", "expected capitals", text)])
            return text

    parser = TypeParser.wrap(Upper())
    assert parser.write("ABC") == "ABC"
    with pytest.raises(ValueError, match=r"^'abc' is not read as Any: .*expected capitals"):
        parser.write("abc")


class Signed(BaseModel):
    name: str
    token: SecretStr


class Team(BaseModel):
    members: list[Signed]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Signed(name="a", token=SecretStr("x")), "$.token"),
        (Team(members=[Signed(name="a", token=SecretStr("x"))]), "$.members[0].token"),
    ],
)
def test_a_field_that_cannot_be_written_back_is_named(value: BaseModel, path: str) -> None:
    with pytest.raises(ValueError, match="cannot be written") as error:
        parser_for(type(value)).write(value)
    assert str(error.value) == (
        f"{path} cannot be written so that it is read back: "
        "SecretStr('**********') becomes SecretStr('**********')"
    )


Wide = Annotated[float, Field(allow_inf_nan=True)]


@pytest.mark.parametrize(("tp", "text"), [(Wide, "NaN"), (Wide | None, "NaN")])
def test_nan_is_written_if_the_type_allows_it(tp: Any, text: str) -> None:
    assert parser_for(tp).write(float("nan")) == text
    assert parser_for(list[tp]).write([float("nan"), math.inf]) == '["NaN", "Infinity"]'


class Limited(msgspec.Struct):
    name: str
    limit: int | msgspec.UnsetType = msgspec.UNSET


def test_an_unset_field_is_not_written() -> None:
    assert parser_for(Limited).write(Limited("a")) == '{"name": "a"}'
    assert parser_for(Limited).write(Limited("a", 3)) == '{"name": "a", "limit": 3}'


def test_texts_that_are_no_values_in_replies_are_values_in_written_data() -> None:
    for output_type, value in (
        (list[str], ["a", "..."]),
        (list[list[str]], [["etc."]]),
        (dict[str, str], {"name": "<name>"}),
        (list[str], ["TODO"]),
    ):
        parser: TypeParser[Any] = parser_for(output_type)
        text = parser.write(value)
        assert parser.restore(text) == value
        with pytest.raises(OutputParsingError):
            parser.parse(text)
