"""Values are converted to readable prompt text by one documented rule."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import attrs
import msgspec
import pytest
from pydantic import BaseModel, RootModel, SecretStr

from aiservices import ScriptedChatModel, create, preview, user_message
from aiservices.interface.decorators import TemplateSource
from aiservices.interface.templates import compile_prompt, render_value


class Colour(Enum):
    RED = "red"
    ANY = 7


class Shade(StrEnum):
    DARK = "dark"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    when: date


class Place(BaseModel):
    name: str
    colour: Colour


@attrs.define
class Road:
    name: str
    points: list[Point]


class River(msgspec.Struct):
    name: str
    length: Decimal


class Pair(NamedTuple):
    left: int
    right: str


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


Untyped = namedtuple("Untyped", "a b")
TEN = date(2024, 5, 10)


class Names(RootModel[list[str]]):
    pass


class Ages(RootModel[dict[str, int]]):
    pass


class Right(Flag):
    READ = auto()
    RUN = auto()


CASES: dict[str, tuple[Any, str]] = {
    "text as it is": ("  {{it}}\n", "  {{it}}\n"),
    "no text": ("", ""),
    "none": (None, "none"),
    "true": (True, "true"),
    "false": (False, "false"),
    "an int": (10**20, "100000000000000000000"),
    "a float": (0.1, "0.1"),
    "a decimal": (Decimal("1.10"), "1.10"),
    "a fraction": (Fraction(1, 3), "1/3"),
    "a date": (TEN, "2024-05-10"),
    "a time": (time(23, 45), "23:45:00"),
    "a datetime": (datetime(2024, 5, 10, 9, 30, tzinfo=UTC), "2024-05-10T09:30:00+00:00"),
    "an enum member with text": (Colour.RED, "red"),
    "an enum member without text": (Colour.ANY, "ANY"),
    "a StrEnum member": (Shade.DARK, "dark"),
    "an IntEnum member": (Level.HIGH, "HIGH"),
    "a list": (["a", "b"], "a, b"),
    "a tuple of scalars": ((1, None, True, Colour.RED, TEN), "1, none, true, red, 2024-05-10"),
    "an empty list": ([], ""),
    "a set in sorted order": ({"b", "c", "a"}, "a, b, c"),
    "a frozenset in sorted order": (frozenset({"b", "a"}), "a, b"),
    "a dict": ({"a": 1, "ü": [Colour.RED]}, '{"a": 1, "ü": ["red"]}'),
    "another mapping": (OrderedDict(a=TEN), '{"a": "2024-05-10"}'),
    "a dataclass": (Point(1, TEN), '{"x": 1, "when": "2024-05-10"}'),
    "a pydantic model": (Place(name="Köln", colour=Colour.RED), '{"name": "Köln", "colour": "red"}'),
    "an attrs class": (
        Road("B1", [Point(1, TEN)]),
        '{"name": "B1", "points": [{"x": 1, "when": "2024-05-10"}]}',
    ),
    "a msgspec struct": (River("Rhein", Decimal("1.5")), '{"name": "Rhein", "length": "1.5"}'),
    "a named tuple": (Pair(1, "b"), '{"left": 1, "right": "b"}'),
    "an untyped named tuple": (Untyped(1, 2), '{"a": 1, "b": 2}'),
    "a list of records": ([Pair(1, "b")], '[{"left": 1, "right": "b"}]'),
    "a nested list": ([[1, 2], [3]], "[[1, 2], [3]]"),
    "a list with a dict": (["a", {"b": 1}], '["a", {"b": 1}]'),
    "enum members in JSON": ({Colour.RED: Colour.ANY, "x": [Shade.DARK]}, '{"red": "ANY", "x": ["dark"]}'),
    "numbers and null in JSON": (
        {"a": None, "b": True, "c": 1.5, "d": 2},
        '{"a": null, "b": true, "c": 1.5, "d": 2}',
    ),
    "sets of tuples in JSON": ([(1, timedelta(hours=1))], '[[1, "1:00:00"]]'),
    "a record of odd things": ({"odd": Odd()}, '{"odd": "an odd thing"}'),
    "a uuid": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "a path": (PurePosixPath("/a/b"), "/a/b"),
    "a timedelta": (timedelta(hours=1), "1:00:00"),
    "another object": (Odd(), "an odd thing"),
    "a record class": (Point, str(Point)),
    "a root model of a list": (Names(["a", "b"]), "a, b"),
    "a root model of a dict": ({"x": Ages({"a": 1})}, '{"x": {"a": 1}}'),
    "flags": ([Right.READ | Right.RUN, Right(0)], "READ|RUN, "),
}


@pytest.mark.parametrize(("value", "text"), CASES.values(), ids=CASES.keys())
def test_a_value_is_written_as_a_reader_would_write_it(value: object, text: str) -> None:
    assert render_value(value) == text


class Login(BaseModel):
    name: str
    password: SecretStr


@pytest.mark.parametrize(
    "value", [SecretStr("x"), [SecretStr("x")], Login(name="a", password=SecretStr("x"))]
)
def test_a_secret_is_not_sent_as_asterisks(value: object) -> None:
    with pytest.raises(
        TypeError, match=r"a SecretStr is sent as asterisks; pass its get_secret_value\(\) as a text"
    ):
        render_value(value)


def test_a_loop_over_a_set_has_the_same_order_in_each_process() -> None:
    class Lists(Protocol):
        @user_message("{% for word in words %}{{word}};{% endfor %} {{words | length}} {{'b' in words}}")
        def list(self, words: set[str]) -> str: ...

    words = {f"w{number}" for number in range(20)} | {"b"}
    (message,) = preview(create(Lists, ScriptedChatModel(["x"])).list, words).messages
    assert message.text == f"{';'.join(sorted(words))}; 21 true"


@pytest.mark.parametrize(
    "template",
    [
        "{{ words|join(';') }}",
        "{{ box.words|join(';') }}",
        "{% for word in box.words %}{{ word }}{% if not loop.last %};{% endif %}{% endfor %}",
        "{{ box['words']|list|join(';') }}",
    ],
)
def test_filters_and_sets_inside_of_values_have_the_same_order_in_each_process(template: str) -> None:
    words = {f"w{number}" for number in range(20)}
    prompt = compile_prompt(TemplateSource(text=template))
    assert prompt.render({"words": words, "box": {"words": words}}, "Lists.list") == ";".join(sorted(words))
