"""Two values are one when they are equal and of the same types all the way down."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, RootModel

from output_parsers import parse
from output_parsers.result.reading import strict_equal


@dataclass
class Plain:
    of: Any


@dataclass(slots=True)
class Slotted:
    of: Any


@dataclass(eq=False)
class Identical:
    of: Any


@attrs.define
class Defined:
    of: Any


class Struct(msgspec.Struct):
    of: Any


class Model(BaseModel):
    of: Any


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Root(RootModel[Any]):
    pass


class Named(NamedTuple):
    of: Any


class Bare:
    def __init__(self, of: Any) -> None:
        self.of = of


class Equal:
    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    __hash__ = None  # type: ignore[assignment]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


HOLDERS = [
    Plain,
    Slotted,
    Identical,
    Defined,
    Struct,
    lambda of: Model(of=of),
    Named,
    Bare,
    lambda of: Root(of),
    lambda of: Open(**{"other": of}),
    lambda of: [of],
    lambda of: (of,),
    lambda of: {"a": of},
    lambda of: {of: "a"},
    lambda of: {of},
    lambda of: frozenset([(of,)]),
    lambda of: [{"a": (of,)}],
]
IDS = [
    *("dataclass slots eq=False attrs Struct model namedtuple bare root".split()),
    *("extra list tuple value key set nested-set nested".split()),
]
holder = pytest.mark.parametrize("holder", HOLDERS, ids=IDS)


@holder
def test_what_holds_the_same_is_the_same(holder: Any) -> None:
    assert strict_equal(holder(1), holder(1))


@holder
@pytest.mark.parametrize("other", [True, 1.0, Decimal(1), 2])
def test_what_holds_another_type_or_value_is_another(holder: Any, other: Any) -> None:
    assert (strict_equal(holder(1), holder(other)), strict_equal(holder(other), holder(1))) == (False, False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], [1, 2]),
        ([1], (1,)),
        ({1}, frozenset([1])),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"b": 1}),
        (Plain(1), Slotted(1)),
        (Named(1), (1,)),
        (Colour.RED, Colour.BLUE),
        (object(), object()),
        ("a", b"a"),
        (None, 0),
    ],
)
def test_other_values_are_not_the_same(one: Any, other: Any) -> None:
    assert (strict_equal(one, other), strict_equal(other, one)) == (False, False)


@pytest.mark.parametrize("value", [float("nan"), Colour.RED, None, object(), Plain, []])
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert strict_equal(value, value)


def test_the_order_of_a_dict_and_a_set_says_nothing() -> None:
    assert strict_equal({"a": 1, "b": {3, 4}}, {"b": {4, 3}, "a": 1})


def test_a_class_that_is_no_record_says_itself_what_is_equal() -> None:
    assert strict_equal(Equal(1), Equal(2))


def test_what_a_record_remembers_beside_its_fields_makes_no_difference() -> None:
    @dataclass
    class Person:
        name: str

        @cached_property
        def loud(self) -> str:
            return self.name.upper()

    one, other = Person("Ann"), Person("Ann")
    assert one.loud == "ANN"
    assert strict_equal(one, other)


def test_two_equal_blocks_are_one_answer_though_their_class_does_not_compare() -> None:
    """``@dataclass(eq=False)`` compares by identity, and the same value was read twice."""
    text = 'First:\n```json\n{"of": 1}\n```\nand again:\n```json\n{"of": 1}\n```'
    assert parse(Identical, text).of == 1
