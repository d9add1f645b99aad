"""``strict_equal`` takes two values as equal if all their parts are equal and of the same types."""

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
    value: Any


@dataclass(slots=True)
class Slotted:
    value: Any


@dataclass(eq=False)
class Identical:
    value: Any


@attrs.define
class Defined:
    value: Any


class Struct(msgspec.Struct):
    value: Any


class Model(BaseModel):
    value: Any


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Root(RootModel[Any]):
    pass


class Named(NamedTuple):
    value: Any


class Bare:
    def __init__(self, value: Any) -> None:
        self.value = value


class Equal:
    def __init__(self, value: Any) -> None:
        self.value = value

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
    lambda value: Model(value=value),
    Named,
    Bare,
    lambda value: Root(value),
    lambda value: Open(**{"other": value}),
    lambda value: [value],
    lambda value: (value,),
    lambda value: {"a": value},
    lambda value: {value: "a"},
    lambda value: {value},
    lambda value: frozenset([(value,)]),
    lambda value: [{"a": (value,)}],
]
IDS = [
    *("dataclass slots eq=False attrs Struct model namedtuple bare root".split()),
    *("extra list tuple value key set nested-set nested".split()),
]
holder = pytest.mark.parametrize("holder", HOLDERS, ids=IDS)


@holder
def test_holders_of_equal_values_are_equal(holder: Any) -> None:
    assert strict_equal(holder(1), holder(1))


@holder
@pytest.mark.parametrize("other", [True, 1.0, Decimal(1), 2])
def test_holders_of_values_of_another_type_differ(holder: Any, other: Any) -> None:
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
def test_different_values_are_not_equal(one: Any, other: Any) -> None:
    assert (strict_equal(one, other), strict_equal(other, one)) == (False, False)


@pytest.mark.parametrize("value", [float("nan"), Colour.RED, None, object(), Plain, []])
def test_a_value_equals_itself(value: Any) -> None:
    assert strict_equal(value, value)


def test_the_order_of_dicts_and_sets_is_ignored() -> None:
    assert strict_equal({"a": 1, "b": {3, 4}}, {"b": {4, 3}, "a": 1})


def test_a_class_that_is_not_a_record_is_compared_with_its_own_eq() -> None:
    assert strict_equal(Equal(1), Equal(2))


def test_attributes_of_a_record_that_are_not_fields_are_ignored() -> None:
    @dataclass
    class Person:
        name: str

        @cached_property
        def loud(self) -> str:
            return self.name.upper()

    one, other = Person("Ann"), Person("Ann")
    assert one.loud == "ANN"
    assert strict_equal(one, other)


def test_two_equal_blocks_are_one_answer_even_if_their_class_has_no_eq() -> None:
    """``@dataclass(eq=False)`` compares by identity, although both blocks have the same value."""
    text = 'Here is the JSON:\n```json\n{"value": 1}\n```\n```json\n{"value": 1}\n```'
    assert parse(Identical, text).value == 1
