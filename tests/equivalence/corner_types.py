"""Unusual return types: odd names and values, types that look like an encoding, features of each library."""

from __future__ import annotations

import collections
import dataclasses
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Required, TypeVar, Union
from uuid import UUID

import attrs
import msgspec
from equivalence.return_types import ID, JSON, PERSON, PERSON_PLAIN, Case, Cat, Colour, Person, Right, Tree
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    PositiveInt,
    PrivateAttr,
    SecretStr,
    Tag,
    computed_field,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from aiservices import Description

__all__ = ["CORNERS"]

T = TypeVar("T")


class Odd(Enum):
    EMPTY_WORD = "-"
    TRUE = "true"
    NULL = "null"
    NUMBER = "7"
    QUOTED = '"'


class Described(Enum):
    GOOD = "good"
    """All is well."""
    BAD = "bad"
    """Nothing is."""


class Fractions(Enum):
    HALF = 0.5
    PAIR = (1, 2)


Many = Enum("Many", {f"MEMBER_{number}": f"member {number}" for number in range(1_200)})  # type: ignore[misc]
Long = Enum("Long", {f"M{n}": f"{n} " + "x" * 60 for n in range(300)})  # type: ignore[misc]


class Nullable(TypedDict):
    limit: NotRequired[int | None]


class Partly(TypedDict, total=False):
    name: Required[str]
    colour: Colour


class Child(Partly):
    age: int


class Entry(BaseModel):
    key: str
    value: int


class Item(BaseModel):
    item_0: int
    rest: list[int]


@dataclass
class Option:
    option_1: int


@dataclass
class Ref:
    type: str
    properties: dict[str, str]


class Keywords(TypedDict):
    required: list[str]
    items: int
    anyOf: bool
    description: str


class Größe(BaseModel):
    länge: float = Field(description="in Metern — “ungefähr”")


@dataclass
class AVeryLongNameOfAClassThatGoesOnAndOnUntilNoProviderTakesItAnyMoreForItIsTooLong:
    a: int


@dataclass
class Documented:
    """PLACEHOLDER"""

    a: int


Documented.__doc__ = "What it is about is told at length. " * 60


class Untyped(BaseModel):
    name: str
    extra: Any
    more: dict[str, Any] = {}


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    first_name: str
    is_married: bool = False


class Hidden(BaseModel):
    name: str
    secret: str = Field(default="s", exclude=True)
    _note: str = PrivateAttr(default="n")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def loud(self) -> str:
        return self.name.upper()


class Checked(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def short(cls, name: str) -> str:
        if len(name) > 5:
            raise ValueError("too long")
        return name


class Validated(BaseModel):
    at: AwareDatetime
    host: IPv4Address
    size: ByteSize
    count: PositiveInt
    password: SecretStr


@pydantic_dataclass
class PydanticData:
    name: str
    born: date = Field(default=date(2000, 1, 1))


@dataclass(kw_only=True, slots=True)
class KeywordOnly:
    name: str
    known: bool = False


@dataclass
class Computed:
    name: str
    loud: str = field(init=False)

    def __post_init__(self) -> None:
        self.loud = self.name.upper()


@dataclass
class Base:
    name: str
    size: int | float = 1


@dataclass
class Derived(Base):
    size: int = 2
    note: Annotated[str | None, Description("what to add, if anything")] = None


@attrs.define
class Private:
    _name: str
    size: int = attrs.field(default=1, validator=attrs.validators.ge(0))


@attrs.define(kw_only=True)
class AttrsDerived(Private):
    parts: tuple[int, ...] = ()


class Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    name: str
    share: Annotated[float, msgspec.Meta(ge=0, le=1, description="of all")] = 0.5


class Unset(msgspec.Struct):
    name: str
    limit: int | msgspec.UnsetType = msgspec.UNSET


class Marked(msgspec.Struct, tag_field="what", tag="marked"):
    a: int


class Unmarked(msgspec.Struct, tag_field="what", tag="unmarked"):
    a: int


class Deep(BaseModel, Generic[T]):
    below: T


def nested_deeply(levels: int) -> tuple[Any, Any, Any]:
    """Return a type with this many levels of objects, a value of it, and its JSON."""
    form: Any = int
    value: Any = 7
    plain: Any = 7
    for level in range(levels):
        form = dataclasses.make_dataclass(f"Level{level}", [("below", form), ("size", int, field(default=1))])
        value, plain = form(value), {"below": plain}
    return form, value, plain


class Spot(NamedTuple):
    name: str
    at: tuple[float, float] = (0.0, 0.0)
    tags: frozenset[str] = frozenset()


class Walk(BaseModel):
    type: Literal["walk"]
    steps: int


class Ride(BaseModel):
    type: Literal["ride"]
    vehicle: Annotated[Union[Bus, Bike], Field(discriminator="kind")]  # noqa: UP007


class Bus(BaseModel):
    kind: Literal["bus"]
    line: str


class Bike(BaseModel):
    kind: Literal["bike"]
    gears: int | None = None


Ride.model_rebuild()


def kind_of(value: Any) -> str:
    return "named" if (value.get("name") if isinstance(value, dict) else value.name) else "nameless"


class Named(BaseModel):
    name: Literal["n"]
    size: int


class Nameless(BaseModel):
    name: Literal[""]
    size: int


class Binary(BaseModel, Generic[T]):
    of: T
    left: Binary[T] | None = None
    right: Binary[T] | None = None


class Linked(TypedDict):
    of: int
    next: Linked | None


class Graph(msgspec.Struct):
    name: str
    links: list[Graph] = []


@attrs.define
class Menu:
    title: str
    parts: dict[str, Menu] = attrs.Factory(dict)


DEEP, DEEP_VALUE, DEEP_PLAIN = nested_deeply(12)
TREE = Tree("a", [Tree("b", [Tree("c", [Tree("d", [Tree("e", [Tree("f")])])])])])
TREE_PLAIN = {"label": "f"}
for label in "edcba":
    TREE_PLAIN = {"label": label, "children": [TREE_PLAIN]}  # type: ignore[dict-item]

CORNERS = [
    Case("Enum with odd values: true", Odd, Odd.TRUE, "true"),
    Case("Enum with odd values: null", Odd, Odd.NULL, "null"),
    Case("Enum with odd values: number", Odd, Odd.NUMBER, "7"),
    Case("Enum with odd values: quote", Odd, Odd.QUOTED, '"'),
    Case("Enum, described", Described, Described.BAD, "bad"),
    Case("Enum of fractions and tuples", Fractions, Fractions.PAIR, "PAIR"),
    Case("Enum, many", Many, Many["MEMBER_1199"], "member 1199"),
    Case("Enum, long", Long, Long["M299"], "299 " + "x" * 60),
    Case("Literal, text like JSON", Literal["true", "null", "7", "[1]"], "[1]", "[1]"),
    Case("Literal, text and number alike", Literal["7", 7], 7, 7),
    Case("Literal, text and number alike: text", Literal["7", 7], "7", "7"),
    Case("Literal, bool", Literal[True], True, True),
    Case("Literal, in a list", list[Literal[1, "a", None]], [1, "a", None], [1, "a", None]),
    Case("float, negative zero", list[float], [-0.0, 1e-7, 0.1], [-0.0, 1e-7, 0.1]),
    Case("Decimal, small", Decimal, Decimal("1E-7"), 1e-7),
    Case("Decimal, int", Decimal, Decimal(3), 3),
    Case("timedelta, negative", timedelta, timedelta(seconds=-90), "-PT1M30S"),
    Case("bytes, empty", list[bytes], [b"", b"a"], ["", "a"]),
    Case(
        "text like JSON",
        list[str],
        ["{}", "null", '"', "[1]", "\\", "</think>"],
        ["{}", "null", '"', "[1]", "\\", "</think>"],
    ),
    Case("text with a fence", Person, Person("```json\n{}\n```", 1), {"name": "```json\n{}\n```", "age": 1}),
    Case("text of thoughts", Person, Person("<think>{}</think>", 1), {"name": "<think>{}</think>", "age": 1}),
    Case(
        "dict with odd keys",
        dict[str, int],
        {"": 1, "a.b": 2, "$ref": 3, "é": 4, "key": 5, '"': 6},
        {
            "": 1,
            "a.b": 2,
            "$ref": 3,
            "é": 4,
            "key": 5,
            '"': 6,
        },
    ),
    Case("dict[UUID, int]", dict[UUID, int], {ID: 1}, {str(ID): 1}),
    Case("dict[bool, int]", dict[bool, int], {True: 1}, {"true": 1}),
    Case("dict[str, int | None]", dict[str, int | None], {"a": None, "b": 1}, {"a": None, "b": 1}),
    Case("dict of tuples", dict[str, tuple[int, str]], {"a": (1, "b")}, {"a": [1, "b"]}),
    Case(
        "OrderedDict", collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}
    ),
    Case("deque", collections.deque[int], collections.deque([1, 2]), [1, 2]),
    Case("tuple, bare", tuple, (1, "a"), [1, "a"]),
    Case("tuple, empty", tuple[()], (), []),
    Case("tuple of dicts", tuple[dict[str, int], dict[str, int]], ({"a": 1}, {}), [{"a": 1}, {}]),
    Case("tuple, nullable dict", tuple[dict[str, int] | None, int], (None, 1), [None, 1]),
    Case("set of tuples", set[tuple[int, str]], {(1, "a")}, [[1, "a"]]),
    Case("set, empty", set[int], set(), []),
    Case("list of sets", list[frozenset[Colour]], [frozenset({Colour.RED})], [["red"]]),
    Case("list of dicts", list[dict[str, Person]], [{"a": PERSON}, {}], [{"a": PERSON_PLAIN}, {}]),
    Case("list of optional records", list[Person | None], [None, PERSON], [None, PERSON_PLAIN]),
    Case("list of Flags", list[Right], [Right(0), Right.READ | Right.RUN], [[], ["READ", "RUN"]]),
    Case("optional Flag", Right | None, None, None),
    Case("optional tuple", tuple[int, str] | None, (1, "a"), [1, "a"]),
    Case("optional dict", dict[str, int] | None, {"a": 1}, {"a": 1}),
    Case("optional dict, null", dict[str, int] | None, None, None),
    Case("not required and nullable: null", Nullable, {"limit": None}, {"limit": None}),
    Case("not required and nullable: left out", Nullable, {}, {}),
    Case("not required and nullable: given", Nullable, {"limit": 0}, {"limit": 0}),
    Case("TypedDict, inherited", Child, {"name": "a", "age": 1}, {"name": "a", "age": 1}),
    Case("record like a pair", Entry, Entry(key="a", value=1), {"key": "a", "value": 1}),
    Case("list of records like pairs", list[Entry], [Entry(key="a", value=1)], [{"key": "a", "value": 1}]),
    Case("pairs or a dict", list[Entry] | dict[str, int], {"a": 1}, {"a": 1}),
    Case(
        "pairs or a dict: pairs",
        list[Entry] | dict[str, int],
        [Entry(key="a", value=1)],
        [{"key": "a", "value": 1}],
    ),
    Case("record like a tuple", Item, Item(item_0=1, rest=[2]), {"item_0": 1, "rest": [2]}),
    Case("record like a tuple, or one", Item | tuple[int, list[int]], (1, [2]), [1, [2]]),
    Case("record like a box", Option, Option(1), {"option_1": 1}),
    Case(
        "record like a schema",
        Ref,
        Ref("object", {"$ref": "a"}),
        {"type": "object", "properties": {"$ref": "a"}},
    ),
    Case(
        "keys like keywords",
        Keywords,
        {"required": ["a"], "items": 1, "anyOf": True, "description": "d"},
        {
            "required": ["a"],
            "items": 1,
            "anyOf": True,
            "description": "d",
        },
    ),
    Case("names of other scripts", Größe, Größe(länge=1.5), {"länge": 1.5}),
    Case(
        "long name",
        AVeryLongNameOfAClassThatGoesOnAndOnUntilNoProviderTakesItAnyMoreForItIsTooLong,
        AVeryLongNameOfAClassThatGoesOnAndOnUntilNoProviderTakesItAnyMoreForItIsTooLong(1),
        {"a": 1},
    ),
    Case("long docstring", Documented, Documented(1), {"a": 1}),
    Case("fields of any JSON", Untyped, Untyped(name="a", extra=JSON), {"name": "a", "extra": JSON}),
    Case("fields of any JSON: null", Untyped, Untyped(name="a", extra=None), {"name": "a", "extra": None}),
    Case(
        "fields of any JSON: text",
        Untyped,
        Untyped(name="a", extra="7", more={"b": "c"}),
        {
            "name": "a",
            "extra": "7",
            "more": {"b": "c"},
        },
    ),
    Case("pydantic, alias generator", Camel, Camel.model_validate({"firstName": "a"}), {"firstName": "a"}),
    Case("pydantic, excluded and computed", Hidden, Hidden(name="a"), {"name": "a"}),
    Case("pydantic, validator", Checked, Checked(name="a"), {"name": "a"}),
    Case(
        "pydantic types",
        Validated,
        Validated(
            at=datetime.fromisoformat("2024-01-02T03:04:05+00:00"),
            host=IPv4Address("10.0.0.1"),
            size=ByteSize(1024),
            count=3,
            password=SecretStr("p"),
        ),
        {"at": "2024-01-02T03:04:05Z", "host": "10.0.0.1", "size": 1024, "count": 3, "password": "p"},
    ),
    Case("pydantic type alone", IPv4Address, IPv4Address("10.0.0.1"), "10.0.0.1"),
    Case("pydantic dataclass", PydanticData, PydanticData("a"), {"name": "a"}),
    Case("dataclass, keywords only", KeywordOnly, KeywordOnly(name="a"), {"name": "a"}),
    Case("dataclass, computed", Computed, Computed("a"), {"name": "a"}),
    Case("dataclass, derived", Derived, Derived("a", 3, "n"), {"name": "a", "size": 3, "note": "n"}),
    Case("attrs, private name", Private, Private("a", 2), {"_name": "a", "size": 2}),
    Case("attrs, derived", AttrsDerived, AttrsDerived(name="a", parts=(1,)), {"_name": "a", "parts": [1]}),
    Case("msgspec.Struct, strict", Strict, Strict(name="a"), {"name": "a"}),
    Case("msgspec.Struct, unset", Unset, Unset("a"), {"name": "a"}),
    Case("msgspec.Struct, tag field", Marked | Unmarked, Unmarked(1), {"what": "unmarked", "a": 1}),
    Case("msgspec.Struct, one with a tag", Marked, Marked(1), {"what": "marked", "a": 1}),
    Case("NamedTuple with defaults", Spot, Spot("a", (1.5, 2.0)), {"name": "a", "at": [1.5, 2.0]}),
    Case(
        "list of NamedTuples",
        list[Spot],
        [Spot("a"), Spot("b", tags=frozenset("x"))],
        [
            {"name": "a"},
            {"name": "b", "tags": ["x"]},
        ],
    ),
    Case(
        "nested discriminators",
        Annotated[Walk | Ride, Field(discriminator="type")],
        Ride(type="ride", vehicle=Bike(kind="bike")),
        {"type": "ride", "vehicle": {"kind": "bike"}},
    ),
    Case(
        "callable discriminator",
        Annotated[
            Annotated[Named, Tag("named")] | Annotated[Nameless, Tag("nameless")], Discriminator(kind_of)
        ],
        Nameless(name="", size=1),
        {"name": "", "size": 1},
    ),
    Case("tag or text or null", Cat | str | None, Cat("cat", "Tom"), {"kind": "cat", "name": "Tom"}),
    Case("Union of lists", list[int] | list[str], ["a"], ["a"]),
    Case("Union of lists of records", list[Person] | list[Option], [Option(1)], [{"option_1": 1}]),
    Case("Union of Enum and int", Colour | int, Colour.RED, "red"),
    Case("Union of date and time", date | bool | None, True, True),
    Case("12 levels", DEEP, DEEP_VALUE, DEEP_PLAIN),
    Case("recursive, 6 levels", Tree, TREE, TREE_PLAIN),
    Case(
        "recursive generic",
        Binary[int],
        Binary[int](of=1, left=Binary[int](of=2)),
        {"of": 1, "left": {"of": 2}},
    ),
    Case(
        "recursive TypedDict, null",
        Linked,
        {"of": 1, "next": {"of": 2, "next": None}},
        {
            "of": 1,
            "next": {"of": 2, "next": None},
        },
    ),
    Case("recursive Struct", Graph, Graph("a", [Graph("b")]), {"name": "a", "links": [{"name": "b"}]}),
    Case(
        "recursive attrs", Menu, Menu("a", {"x": Menu("b")}), {"title": "a", "parts": {"x": {"title": "b"}}}
    ),
    Case("recursive, optional", Tree | None, Tree("a"), {"label": "a"}),
    Case(
        "recursive in a dict",
        dict[str, Tree],
        {"x": Tree("a", [Tree("b")])},
        {
            "x": {"label": "a", "children": [{"label": "b"}]},
        },
    ),
    Case(
        "generic in generic",
        Deep[Deep[list[Colour]]],
        Deep[Deep[list[Colour]]](below=Deep[list[Colour]](below=[Colour.RED])),
        {"below": {"below": ["red"]}},
    ),
    Case("constrained date", Annotated[date, Field(ge=date(2000, 1, 1))], date(2024, 2, 29), "2024-02-29"),
    Case("constrained large", Annotated[int, Field(ge=-(2**63), lt=2**64)], 2**64 - 1, 2**64 - 1),
    Case("constrained multiple", Annotated[float, Field(multiple_of=0.5)], 1.5, 1.5),
    Case("constrained keys", dict[Annotated[str, Field(pattern="^[a-z]$")], int], {"a": 1}, {"a": 1}),
    Case("converted", Annotated[int, BeforeValidator(lambda found: found)], 7, 7),
]
