"""The types for the fuzzing, each with valid texts that the mutations break."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, auto
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional
from uuid import UUID

import attrs
import msgspec
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from output_parsers import DateOrder, Int8

__all__ = ["SUBJECTS", "Subject"]


class Mood(Enum):
    POSITIVE = "positive"
    NEGATIVE = "negative"
    NOT_SURE = "not sure"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Access(Flag):
    READ = auto()
    WRITE = auto()


class Person(BaseModel):
    first_name: str
    age: int
    born: date | None = None


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int
    tags: list[str] = []
    score: float = Field(default=0.0, ge=0)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: Annotated[str, Field(min_length=1, alias="fullName")]


class Nested(BaseModel):
    title: str
    people: list[Person]
    by_mood: dict[str, Mood] = {}
    price: Decimal = Decimal(0)


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Scores(RootModel[list[int]]):
    pass


@dataclass
class Point:
    x: float
    y: float
    labels: list[str] = field(default_factory=list)


class Move(TypedDict):
    to: str
    steps: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str


@attrs.define
class Box:
    width: int
    note: Optional[str] = None  # noqa: UP045


class Row(msgspec.Struct):
    key: str
    count: int = 0


@dataclass(frozen=True)
class Subject:
    """A type, texts that are read as it, and whether pydantic can check its values."""

    tp: Any
    texts: tuple[str, ...]
    supported_by_pydantic: bool = True


def _subject(tp: Any, *examples: Any, in_pydantic: bool = True) -> Subject:
    """Create a subject. Examples that are not text are dumped as JSON."""
    texts = tuple(e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in examples)
    return Subject(tp, texts, in_pydantic)


_PERSON = {"first_name": 'Zoë "Zo" O\'Hara', "age": 42, "born": "1968-07-04"}
_NESTED = {
    "title": "A, B: {c} [d]",
    "people": [_PERSON, {"first_name": "Bo", "age": 7}],
    "by_mood": {"x": "positive", "y-z": "not sure"},
    "price": 1234.50,
}
_TREE = {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}, {"value": 4}]}

SUBJECTS: tuple[Subject, ...] = (
    _subject(int, "42", "The answer is 42.", "1,234", "-7", "forty-two", '{"value": 3}'),
    _subject(float, "3.25", "Temperature: -3.5°C", "1e-3", "1.234,56"),
    _subject(Decimal, "1.10", "€ 12.50", "0.1000000000000000055"),
    _subject(Fraction, "1/3", "0.25", in_pydantic=False),
    _subject(bool, "true", "Yes, it is.", "No.", "FALSE"),
    _subject(str, "plain text", '{"a": 1}', "<think>no</think>yes"),
    _subject(bytes, '"raw"', "raw"),
    _subject(date, "1968-07-04", "July 4th, 1968", "It was on 4 July 1968.", "13/02/2024"),
    _subject(Annotated[date, DateOrder.DMY], "01/02/2024", "2024-02-01"),
    _subject(
        datetime, "2024-02-13T10:30:00+05:30", "Tue, 13 Feb 2024 10:30:00 GMT", "July 4, 1968 at 11:45 PM"
    ),
    _subject(time, "23:45", "11:45 PM", "noon", "at 10:30:15.250Z"),
    _subject(timedelta, "PT1H30M", "1:30:00", "2 hours 5 minutes", "three days"),
    _subject(UUID, "123e4567-e89b-12d3-a456-426614174000"),
    _subject(Path, "/usr/share/doc.txt", '"a b/c"'),
    _subject(AnyUrl, "https://example.org/a?b=c#d", '"ftp://example.org"'),
    _subject(None, "null", "None"),
    _subject(Any, _NESTED, [1, 2.5, None, True, "x"], "7"),
    _subject(Mood, "positive", "I would say it is NEGATIVE.", '"not sure"', "Mood.NEGATIVE"),
    _subject(Level, "LOW", "2", "The level is high"),
    _subject(Access, ["READ", "WRITE"], "READ | WRITE", in_pydantic=False),
    _subject(Literal["yes", "no", 3, True, None], "yes", "no", "3", "true", "null"),
    _subject(Int8, "127", "-128"),
    _subject(Annotated[str, Field(max_length=5)], "short", "too long a text"),
    _subject(list[int], [1, 2, 3], "1, 2, 3", "- 1\n- 2\n- 3", "1. 10\n2. 20", "(1, 2)"),
    _subject(list[str], ["a", "b, c", 'd "e"'], "- a\n- b", "[a, b]"),
    _subject(set[int], [3, 1, 2]),
    _subject(frozenset[Mood], ["positive", "negative"]),
    _subject(tuple[int, str], [1, "a"]),
    _subject(tuple[float, ...], [1, 2.5]),
    _subject(dict[str, int], {"a": 1, "b": 2}, "{a: 1, b: 2,}"),
    _subject(dict[Mood, list[float]], {"positive": [1.5], "not sure": []}),
    _subject(dict[str, Any], _NESTED, {}),
    _subject(Person, _PERSON, {"firstName": "Ann", "Age": "42", "x": 1}, {"person": _PERSON}),
    _subject(Strict, {"id": 1, "tags": ["a", "b"], "score": 0.5}, {"id": 2}),
    _subject(Open, {"fullName": "Ann", "more": [1, {"a": None}]}),
    _subject(Nested, _NESTED),
    _subject(Tree, _TREE),
    _subject(Cat | Dog, {"kind": "cat", "lives": 9}, {"kind": "dog", "tricks": ["sit"]}),
    _subject(Scores, [1, 2], "1, 2"),
    _subject(Point, {"x": 1, "y": 2.5, "labels": ["a"]}, "Point(x=1, y=2)"),
    _subject(Move, {"to": "e4", "steps": 2}, {"to": "e5"}),
    _subject(Pair, {"left": 1, "right": "a"}, in_pydantic=False),
    _subject(Box, {"width": 3, "note": "n"}, {"width": 3}, in_pydantic=False),
    _subject(Row, {"key": "k", "count": 2}, in_pydantic=False),
    _subject(int | str, "42", "some words", '"42"'),
    _subject(Optional[int], "42", "null", "7 apples"),  # noqa: UP045
    _subject(Optional[Person], _PERSON, "null"),  # noqa: UP045
    _subject(int | float | bool | None, "1", "1.5", "true", "null"),
    _subject(list[Person], [_PERSON, _PERSON], "\n".join([json.dumps(_PERSON)] * 2)),
    _subject(list[list[int]], [[1, 2], [], [3]]),
    _subject(list[Cat | Dog], [{"kind": "cat", "lives": 1}, {"kind": "dog", "tricks": []}]),
)
