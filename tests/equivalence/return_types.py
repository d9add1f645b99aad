"""The return types, each with a value and the JSON that a model writes for it."""

from __future__ import annotations

import collections.abc
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypeVar
from uuid import UUID

import attrs
import msgspec
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, JsonValue, RootModel
from typing_extensions import TypeAliasType, TypedDict

from aiservices import Cited, CitedSentence, CitedText, Description, Document, Int8, Int64, Quote

__all__ = ["CASES", "ITEMS", "TEXTS", "Case"]

T = TypeVar("T")
U = TypeVar("U")


class Case(NamedTuple):
    """A type, a value of it, and its plain JSON. ``schemaless``: no strict schema describes the type."""

    name: str
    form: Any
    value: Any
    plain: Any
    schemaless: bool = False


@dataclass
class Proof:
    word: Cited[str]
    other: Cited[str] | None


class ProofModel(BaseModel):
    words: dict[str, Cited[str]]


class Colour(Enum):
    RED = "red"
    DARK_BLUE = "dark blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Priority(IntEnum):
    LOW = 1
    HIGH = 2


class Mood(StrEnum):
    """How somebody feels."""

    GLAD = auto()
    """Smiles."""
    SAD = auto()


class Right(Flag):
    READ = auto()
    WRITE = auto()
    RUN = auto()


class Bits(IntFlag):
    ONE = 1
    TWO = 2


class Movie(TypedDict):
    title: str
    year: int


class Draft(TypedDict):
    title: str
    year: NotRequired[int]


class Hints(TypedDict, total=False):
    first: str
    second: list[int]


class Point(NamedTuple):
    x: int
    y: float = 0.5


@dataclass
class Person:
    name: str
    age: int


@dataclass(frozen=True)
class Settings:
    name: str
    size: int = 3
    tags: list[str] = field(default_factory=lambda: ["none"])
    note: str | None = None


@dataclass
class Nothing:
    """A record without fields."""


@dataclass
class Maybe:
    limit: int | None = 5


@dataclass
class Box:
    value: int


class Film(BaseModel):
    title: str
    released: date


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    first_name: str = Field(alias="firstName")
    birth_date: date = Field(alias="birthDate", description="the day of birth")


class Order(BaseModel):
    id: UUID
    amount: Decimal
    due: datetime | None = None
    note: str = "-"
    lines: list[str] = Field(default_factory=list)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str


class Limited(BaseModel):
    code: str = Field(pattern="^[A-Z]{3}$", min_length=3, max_length=3)
    share: float = Field(ge=0, le=1)
    count: int = Field(gt=0, multiple_of=5)
    parts: list[int] = Field(min_length=1, max_length=3)


class Employee(Film):
    """A film's child, which inherits its fields."""

    staff: int


@attrs.define
class City:
    name: str
    people: int = 0
    mayors: list[str] = attrs.Factory(list)


@attrs.frozen
class Frozen:
    name: str


class Car(msgspec.Struct):
    maker: str
    wheels: int = 4


class Renamed(msgspec.Struct, rename="camel"):
    top_speed: int


class Sent(msgspec.Struct, tag=True):
    to: str


class Received(msgspec.Struct, tag=True):
    to: str


@dataclass
class Cat:
    kind: Literal["cat"]
    name: str


@dataclass
class Dog:
    kind: Literal["dog"]
    name: str


class Circle(BaseModel):
    shape: Literal["circle"] = "circle"
    radius: float


class Square(BaseModel):
    shape: Literal["square"] = "square"
    side: float


@dataclass
class Phone:
    number: str


@dataclass
class Mail:
    address: str


@dataclass
class Tree:
    label: str
    children: list[Tree] = field(default_factory=list)


class Chain(BaseModel):
    item: int
    rest: Chain | None = None


@dataclass
class Expression:
    left: Operand
    operator: Literal["+", "-"]
    right: Operand


@dataclass
class Operand:
    of: int | Expression


class Folder(TypedDict):
    name: str
    folders: dict[str, Folder]


class Pair(BaseModel, Generic[T]):
    first: T
    second: T


@dataclass
class Keyed(Generic[T, U]):
    key: T
    items: list[U]


class Timed(TypedDict, Generic[T]):
    at: time
    of: T


class Marked(NamedTuple, Generic[T]):
    mark: int
    of: T


class Attributed(msgspec.Struct, Generic[T]):
    of: T


class Names(RootModel[list[str]]):
    pass


class Prices(RootModel[dict[str, Decimal]]):
    pass


class Score(RootModel[int]):
    pass


class Wrapped(RootModel[Film]):
    pass


Small = Annotated[int, Field(ge=0, le=9)]
UserId = NewType("UserId", int)
Ages = TypeAliasType("Ages", dict[str, int])
Nested = TypeAliasType("Nested", "int | list[Nested]")


@dataclass
class Everything:
    id: UUID
    born: date
    lasts: timedelta
    colour: Colour
    rights: Right
    seen: set[int]
    place: tuple[float, float]
    counts: dict[str, list[int]]
    friends: dict[str, Person]
    pet: Cat | Dog | None
    mood: Mood = Mood.SAD
    share: Fraction = Fraction(1, 2)
    said: Annotated[str, Description("in quotes")] = "nothing"


ID = UUID("12345678-1234-5678-1234-567812345678")
PERSON, PERSON_PLAIN = Person("Ann “A.” Ü", 42), {"name": "Ann “A.” Ü", "age": 42}
FILM, FILM_PLAIN = (
    Film(title="Hero", released=date(2002, 10, 24)),
    {"title": "Hero", "released": "2002-10-24"},
)
MIXED = Everything(
    ID,
    date(1968, 7, 4),
    timedelta(days=1, hours=2),
    Colour.DARK_BLUE,
    Right.READ | Right.RUN,
    {1, 2},
    (1.5, -2.25),
    {"a": [], "b b": [1, 2]},
    {"x": PERSON},
    Dog("dog", "Rex"),
    share=Fraction(3, 4),
)
MIXED_PLAIN = {
    "id": str(ID),
    "born": "1968-07-04",
    "lasts": "P1DT2H",
    "colour": "dark blue",
    "rights": ["READ", "RUN"],
    "seen": [1, 2],
    "place": [1.5, -2.25],
    "counts": {"a": [], "b b": [1, 2]},
    "friends": {"x": PERSON_PLAIN},
    "pet": {"kind": "dog", "name": "Rex"},
    "share": "3/4",
}
EXPRESSION = Expression(Operand(1), "+", Operand(Expression(Operand(2), "-", Operand(3))))
EXPRESSION_PLAIN = {
    "left": {"of": 1},
    "operator": "+",
    "right": {"of": {"left": {"of": 2}, "operator": "-", "right": {"of": 3}}},
}
JSON: Any = {"a": [1, 2.5, None, "t"], "b": {"c": True}}

IT = {"quote": "it", "value": "it"}  # the prompt has this word
LEASE, LEASE_PLAIN = Document("Art. 1\nÉté 😀", "lease.md"), {"text": "Art. 1\nÉté 😀", "name": "lease.md"}

CASES = [
    Case("Cited", Cited[str], Cited("it", "it"), IT),
    Case("Cited, in a list", list[Cited[str]], [Cited("it", "it")], [IT]),
    Case("Cited, in a record", Proof, Proof(Cited("it", "it"), None), {"word": IT, "other": None}),
    Case("Cited, in a model", ProofModel, ProofModel(words={"a": Cited("it", "it")}), {"words": {"a": IT}}),
    Case("Quote", Quote, Quote("it"), "it"),
    Case(
        "CitedText",
        CitedText,
        CitedText((CitedSentence("So.", (Quote("it"),)),)),
        {"sentences": [{"text": "So.", "quotes": ["it"]}]},
    ),
    Case("bool", bool, True, True),
    Case("bool, false", bool, False, False),
    Case("int", int, -42, -42),
    Case("int, large", int, 2**70, 2**70),
    Case("float", float, 1.75, 1.75),
    Case("float, whole", float, 3.0, 3.0),
    Case("float, exponent", float, 6.02e23, 6.02e23),
    Case("Decimal", Decimal, Decimal("12.5"), 12.5),
    Case("Fraction", Fraction, Fraction(3, 4), "3/4"),
    Case("bytes", bytes, "für".encode(), "für"),
    Case("date", date, date(1968, 7, 4), "1968-07-04"),
    Case("time", time, time(23, 45), "23:45:00"),
    Case("time, zoned", time, time(23, 45, 1, tzinfo=UTC), "23:45:01Z"),
    Case("datetime", datetime, datetime(1968, 7, 4, 23, 45), "1968-07-04T23:45:00"),
    Case("datetime, UTC", datetime, datetime(1968, 7, 4, 23, 45, tzinfo=UTC), "1968-07-04T23:45:00Z"),
    Case(
        "datetime, offset",
        datetime,
        datetime(1968, 7, 4, 23, 45, 0, 250000, tzinfo=timezone(timedelta(hours=2))),
        "1968-07-04T23:45:00.250+02:00",
    ),
    Case("timedelta", timedelta, timedelta(hours=1, minutes=30), "PT1H30M"),
    Case("timedelta, days", timedelta, timedelta(days=3), "P3D"),
    Case("UUID", UUID, ID, str(ID)),
    Case("Path", Path, Path("notes/a b.txt"), "notes/a b.txt"),
    Case("PurePosixPath", PurePosixPath, PurePosixPath("a/b"), "a/b"),
    Case("AnyUrl", AnyUrl, AnyUrl("ftp://example.org/a?b=1"), "ftp://example.org/a?b=1"),
    Case("HttpUrl", HttpUrl, HttpUrl("https://example.org/"), "https://example.org/"),
    Case("Enum", Colour, Colour.DARK_BLUE, "dark blue"),
    Case("Enum of numbers", Level, Level.HIGH, "HIGH"),
    Case("IntEnum", Priority, Priority.LOW, "LOW"),
    Case("StrEnum", Mood, Mood.GLAD, "glad"),
    Case("Flag", Right, Right.READ | Right.WRITE, ["READ", "WRITE"]),
    Case("Flag, none", Right, Right(0), []),
    Case("IntFlag", Bits, Bits.ONE | Bits.TWO, ["ONE", "TWO"]),
    Case("Literal", Literal["yes", "no"], "no", "no"),
    Case("Literal, one", Literal["only"], "only", "only"),
    Case("Literal of numbers", Literal[1, 2, 3], 2, 2),
    Case("Literal, mixed: text", Literal[1, "one", True, None], "one", "one"),
    Case("Literal, mixed: bool", Literal[1, "one", True, None], True, True),
    Case("Literal, mixed: null", Literal[1, "one", True, None], None, None),
    Case("Literal of enum", Literal[Colour.RED], Colour.RED, "RED"),
    Case("list[int]", list[int], [1, 2, 3], [1, 2, 3]),
    Case("list, empty", list[int], [], []),
    Case("list[str]", list[str], ["a, b", 'c "d"', "\u2028\n{", "😀"], ["a, b", 'c "d"', "\u2028\n{", "😀"]),
    Case("list[date]", list[date], [date(2024, 2, 29)], ["2024-02-29"]),
    Case("list[list[int]]", list[list[int]], [[1], [], [2, 3]], [[1], [], [2, 3]]),
    Case("list[bool | None]", list[bool | None], [True, None, False], [True, None, False]),
    Case("Sequence[int]", collections.abc.Sequence[int], [1, 2], [1, 2]),
    Case("set[int]", set[int], {1, 2}, [1, 2]),
    Case("set[Enum]", set[Colour], {Colour.RED, Colour.DARK_BLUE}, ["red", "dark blue"]),
    Case("frozenset[str]", frozenset[str], frozenset({"a", "b"}), ["a", "b"]),
    Case("tuple, fixed", tuple[int, str, bool], (1, "a", True), [1, "a", True]),
    Case("tuple, nested", tuple[date, tuple[int, int]], (date(2024, 2, 29), (1, 2)), ["2024-02-29", [1, 2]]),
    Case("tuple, optional item", tuple[int, str | None], (1, None), [1, None]),
    Case("tuple, one item", tuple[int], (1,), [1]),
    Case("tuple, open", tuple[int, ...], (1, 2), [1, 2]),
    Case("list[tuple]", list[tuple[str, float]], [("a", 0.5), ("b", 1.5)], [["a", 0.5], ["b", 1.5]]),
    Case("dict[str, int]", dict[str, int], {"a": 1, "b c": 2}, {"a": 1, "b c": 2}),
    Case("dict, empty", dict[str, int], {}, {}),
    Case("dict with a key called value", dict[str, int], {"value": 1}, {"value": 1}),
    Case("dict[int, str]", dict[int, str], {1: "a", -2: "b"}, {"1": "a", "-2": "b"}),
    Case("dict[Enum, float]", dict[Colour, float], {Colour.RED: 0.5}, {"red": 0.5}),
    Case("dict[Literal, int]", dict[Literal["a", "b"], int], {"b": 1}, {"b": 1}),
    Case("dict[date, bool]", dict[date, bool], {date(2024, 2, 29): True}, {"2024-02-29": True}),
    Case("dict[str, list]", dict[str, list[int]], {"a": [1], "b": []}, {"a": [1], "b": []}),
    Case("dict[str, dict]", dict[str, dict[str, int]], {"a": {"b": 1}}, {"a": {"b": 1}}),
    Case("dict[str, record]", dict[str, Person], {"a": PERSON}, {"a": PERSON_PLAIN}),
    Case("Mapping[str, int]", collections.abc.Mapping[str, int], {"a": 1}, {"a": 1}),
    Case("TypedDict", Movie, {"title": "Hero", "year": 2002}, {"title": "Hero", "year": 2002}),
    Case("TypedDict, not required: given", Draft, {"title": "a", "year": 1}, {"title": "a", "year": 1}),
    Case("TypedDict, not required: left out", Draft, {"title": "a"}, {"title": "a"}),
    Case("TypedDict, not total", Hints, {"second": [1]}, {"second": [1]}),
    Case("NamedTuple", Point, Point(1, 2.5), {"x": 1, "y": 2.5}),
    Case("NamedTuple, default", Point, Point(1), {"x": 1}),
    Case("dataclass", Person, PERSON, PERSON_PLAIN),
    Case("dataclass, defaults", Settings, Settings("a"), {"name": "a"}),
    Case(
        "dataclass, all given",
        Settings,
        Settings("a", 4, ["b"], "c"),
        {"name": "a", "size": 4, "tags": ["b"], "note": "c"},
    ),
    Case("dataclass, optional: null", Maybe, Maybe(None), {"limit": None}),
    Case("dataclass, optional: left out", Maybe, Maybe(5), {}),
    Case("dataclass, optional: given", Maybe, Maybe(7), {"limit": 7}),
    Case("dataclass without fields", Nothing, Nothing(), {}),
    Case("dataclass with a field called value", Box, Box(7), {"value": 7}),
    Case("list of a field called value", list[Box], [Box(7), Box(8)], [{"value": 7}, {"value": 8}]),
    Case("pydantic", Film, FILM, FILM_PLAIN),
    Case(
        "pydantic, alias",
        Aliased,
        Aliased(firstName="Ann", birthDate=date(1968, 7, 4)),
        {"firstName": "Ann", "birthDate": "1968-07-04"},
    ),
    Case("pydantic, defaults", Order, Order(id=ID, amount=Decimal("1.25")), {"id": str(ID), "amount": 1.25}),
    Case(
        "pydantic, all given",
        Order,
        Order(id=ID, amount=Decimal("1.25"), due=datetime(2024, 1, 2, 3, 4, 5), note="n", lines=["l"]),
        {"id": str(ID), "amount": 1.25, "due": "2024-01-02T03:04:05", "note": "n", "lines": ["l"]},
    ),
    Case(
        "pydantic, constraints",
        Limited,
        Limited(code="ABC", share=0.25, count=10, parts=[1]),
        {
            "code": "ABC",
            "share": 0.25,
            "count": 10,
            "parts": [1],
        },
    ),
    Case(
        "pydantic, inherited",
        Employee,
        Employee(title="a", released=date(2002, 1, 2), staff=3),
        {
            "title": "a",
            "released": "2002-01-02",
            "staff": 3,
        },
    ),
    Case("pydantic, extra", Open, Open(name="a", more=[1]), {"name": "a", "more": [1]}),  # type: ignore[call-arg]
    Case("attrs", City, City("Rome", 3, ["a"]), {"name": "Rome", "people": 3, "mayors": ["a"]}),
    Case("attrs, defaults", City, City("Rome"), {"name": "Rome"}),
    Case("attrs, frozen", Frozen, Frozen("a"), {"name": "a"}),
    Case("msgspec.Struct", Car, Car("Fiat", 3), {"maker": "Fiat", "wheels": 3}),
    Case("msgspec.Struct, default", Car, Car("Fiat"), {"maker": "Fiat"}),
    Case("msgspec.Struct, renamed", Renamed, Renamed(90), {"topSpeed": 90}),
    Case("Optional, given", Optional[int], 7, 7),  # noqa: UP045
    Case("Optional, null", Optional[int], None, None),  # noqa: UP045
    Case("Optional record", Person | None, PERSON, PERSON_PLAIN),
    Case("Optional record, null", Person | None, None, None),
    Case("Optional list, null", list[int] | None, None, None),
    Case("Union, int", int | str, 7, 7),
    Case("Union, str", int | str, "seven", "seven"),
    Case("Union, date", date | int, date(2024, 2, 29), "2024-02-29"),
    Case("Union, float", float | bool, 0.5, 0.5),
    Case("Union of list and dict", list[int] | dict[str, int], {"a": 1}, {"a": 1}),
    Case("Union of list and text", list[str] | str, ["a"], ["a"]),
    Case("Union of records", Phone | Mail, Mail("a@b"), {"address": "a@b"}),
    Case("Union of record and text", Person | str, PERSON, PERSON_PLAIN),
    Case("Union of record and text: text", Person | str, "nobody", "nobody"),
    Case("Union, tagged", Cat | Dog, Dog("dog", "Rex"), {"kind": "dog", "name": "Rex"}),
    Case(
        "Union, discriminated",
        Annotated[Circle | Square, Field(discriminator="shape")],
        Square(side=2.5),
        {"shape": "square", "side": 2.5},
    ),
    Case("Union, tagged Structs", Sent | Received, Received("a"), {"type": "Received", "to": "a"}),
    Case(
        "list of Union", list[Cat | Dog | None], [Cat("cat", "a"), None], [{"kind": "cat", "name": "a"}, None]
    ),
    Case(
        "recursive dataclass",
        Tree,
        Tree("a", [Tree("b"), Tree("c", [Tree("d")])]),
        {
            "label": "a",
            "children": [{"label": "b"}, {"label": "c", "children": [{"label": "d"}]}],
        },
    ),
    Case("recursive model", Chain, Chain(item=1, rest=Chain(item=2)), {"item": 1, "rest": {"item": 2}}),
    Case(
        "recursive list", list[Tree], [Tree("a", [Tree("b")])], [{"label": "a", "children": [{"label": "b"}]}]
    ),
    Case("recursive in two", Expression, EXPRESSION, EXPRESSION_PLAIN),
    Case(
        "recursive TypedDict",
        Folder,
        {"name": "a", "folders": {"b": {"name": "c", "folders": {}}}},
        {
            "name": "a",
            "folders": {"b": {"name": "c", "folders": {}}},
        },
    ),
    Case("recursive alias", Nested, [1, [2, [3]], []], [1, [2, [3]], []]),
    Case(
        "generic model",
        Pair[date],
        Pair[date](first=date(2024, 2, 29), second=date(2024, 3, 1)),
        {
            "first": "2024-02-29",
            "second": "2024-03-01",
        },
    ),
    Case(
        "generic model of records",
        Pair[Film],
        Pair[Film](first=FILM, second=FILM),
        {
            "first": FILM_PLAIN,
            "second": FILM_PLAIN,
        },
    ),
    Case("generic dataclass", Keyed[str, int], Keyed("a", [1]), {"key": "a", "items": [1]}),
    Case("generic TypedDict", Timed[int], {"at": time(1, 2, 3), "of": 4}, {"at": "01:02:03", "of": 4}),
    Case("generic NamedTuple", Marked[bool], Marked(1, True), {"mark": 1, "of": True}),
    Case("generic Struct", Attributed[int], Attributed(1), {"of": 1}),
    Case("constrained int", Small, 9, 9),
    Case("Int8", Int8, -128, -128),
    Case("Int64", Int64, 2**63 - 1, 2**63 - 1),
    Case("constrained float", Annotated[float, Field(gt=0, lt=1)], 0.5, 0.5),
    Case(
        "constrained Decimal",
        Annotated[Decimal, Field(max_digits=4, decimal_places=2)],
        Decimal("1.25"),
        1.25,
    ),
    Case("constrained list", Annotated[list[Small], Field(min_length=1, max_length=3)], [1, 2], [1, 2]),
    Case("constrained text", list[Annotated[str, Field(pattern="^[a-z]+$", max_length=5)]], ["abc"], ["abc"]),
    Case("constrained dict", Annotated[dict[str, int], Field(min_length=1)], {"a": 1}, {"a": 1}),
    Case("constrained set", Annotated[set[int], Field(max_length=2)], {1}, [1]),
    Case("constrained Optional", Annotated[int, Field(ge=1)] | None, 1, 1),
    Case("described", Annotated[int, Description("how many")], 3, 3),
    Case("described record", Annotated[Person, Description("who it was")], PERSON, PERSON_PLAIN),
    Case("alias", Ages, {"Ann": 42}, {"Ann": 42}),
    Case("NewType", UserId, 7, 7),
    Case("list[NewType]", list[UserId], [7], [7]),
    Case("RootModel of list", Names, Names(["a"]), ["a"]),
    Case("RootModel of dict", Prices, Prices({"a": Decimal("1.5")}), {"a": 1.5}),
    Case("RootModel of int", Score, Score(7), 7),
    Case("RootModel of record", Wrapped, Wrapped(FILM), FILM_PLAIN),
    Case("nested mix", Everything, MIXED, MIXED_PLAIN),
    Case("dict of mixes", dict[str, list[Everything]], {"k": [MIXED]}, {"k": [MIXED_PLAIN]}),
    Case("Document", Document, LEASE, LEASE_PLAIN),
    Case("Document, text", Document, Document("The rent."), "The rent."),
    Case("Document, text like JSON", Document, Document('{"text": 1}'), '{"text": 1}'),
    Case("Document, no text", Document, Document("", "a"), {"text": "", "name": "a"}),
    Case("list of documents", list[Document], [LEASE, Document("b")], [LEASE_PLAIN, "b"]),
    Case("no documents", list[Document], [], []),
    Case("Optional of Document", Document | None, LEASE, LEASE_PLAIN),
    Case("Optional of Document: null", Document | None, None, None),
    Case("dict of documents", dict[str, Document], {"a": LEASE}, {"a": LEASE_PLAIN}),
    Case("Any", Any, JSON, JSON, schemaless=True),
    Case("Any, number", Any, 7, 7, schemaless=True),
    Case("Any, text", Any, "t", "t", schemaless=True),
    Case("object", object, JSON, JSON, schemaless=True),
    Case("JsonValue", JsonValue, JSON, JSON, schemaless=True),
    Case("dict", dict, JSON, JSON),
    Case("list", list, [1, "a", None], [1, "a", None]),
    Case("dict[str, Any]", dict[str, Any], JSON, JSON),
    Case("list[Any]", list[Any], [1, "a", JSON], [1, "a", JSON]),
]

ITEMS = [
    Case("items: int", int, [1, 2, 3], [1, 2, 3]),
    Case("items: bool", bool, [True, False], [True, False]),
    Case("items: float", float, [0.5, 1.0], [0.5, 1.0]),
    Case("items: date", date, [date(2024, 2, 29)], ["2024-02-29"]),
    Case("items: Enum", Colour, [Colour.RED, Colour.DARK_BLUE], ["red", "dark blue"]),
    Case("items: Optional", int | None, [1, None, 2], [1, None, 2]),
    Case("items: list", list[int], [[1], [], [2, 3]], [[1], [], [2, 3]]),
    Case("items: tuple", tuple[int, str], [(1, "a"), (2, "b")], [[1, "a"], [2, "b"]]),
    Case("items: dict", dict[str, int], [{"a": 1}, {}], [{"a": 1}, {}]),
    Case("items: dataclass", Person, [PERSON, PERSON], [PERSON_PLAIN, PERSON_PLAIN]),
    Case(
        "items: defaults",
        Settings,
        [Settings("a"), Settings("b", 4)],
        [{"name": "a"}, {"name": "b", "size": 4}],
    ),
    Case("items: pydantic", Film, [FILM], [FILM_PLAIN]),
    Case("items: generic", Pair[int], [Pair[int](first=1, second=2)], [{"first": 1, "second": 2}]),
    Case(
        "items: tagged",
        Cat | Dog,
        [Dog("dog", "a"), Cat("cat", "b")],
        [
            {"kind": "dog", "name": "a"},
            {"kind": "cat", "name": "b"},
        ],
    ),
    Case("items: recursive", Tree, [Tree("a", [Tree("b")])], [{"label": "a", "children": [{"label": "b"}]}]),
    Case("items: nested mix", Everything, [MIXED, MIXED], [MIXED_PLAIN, MIXED_PLAIN]),
    Case("items: none", Person, [], []),
]

TEXTS = [
    Case("str", str, ' "to be" \n{not json}', ' "to be" \n{not json}'),
    Case("str, constrained", Annotated[str, Field(min_length=2)], "été 😀", "été 😀"),
    Case("str, empty", str, "", ""),
]
