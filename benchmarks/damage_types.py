"""The types and the valid replies that the damage test breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict


class Color(Enum):
    RED = "red"
    BLUE = "dark blue"
    GREEN = "green"


class Priority(Enum):
    LOW = 1
    HIGH = 2


@dataclass
class Scalars:
    name: str
    age: int
    height: float
    member: bool


@dataclass
class Person:
    name: str
    age: int
    born: date


@dataclass
class Address:
    street: str
    city: str


@dataclass
class Employee:
    name: str
    address: Address


@dataclass
class Department:
    title: str
    head: Employee
    members: list[Employee]


class Node(BaseModel):
    value: int
    next: Node | None = None


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Settings:
    name: str = ""
    limit: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Order(BaseModel):
    id: int
    price: Decimal
    color: Color
    gift: bool = False
    note: str | None = None
    tags: list[str] = []


class Options(TypedDict, total=False):
    a: int
    b: str
    c: list[int]


class Movie(TypedDict):
    title: str
    year: int
    rating: NotRequired[float]


class Point(NamedTuple):
    x: float
    y: float
    label: str = ""


class Path(NamedTuple):
    start: Point
    stops: list[Point]


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclass
class Rectangle:
    kind: Literal["rectangle"]
    width: float
    height: float


class Cat(BaseModel):
    pet: Literal["cat"]
    lives: int


class Dog(BaseModel):
    pet: Literal["dog"]
    breed: str
    owner: Person | None = None


Pet = Annotated[Cat | Dog, Field(discriminator="pet")]


class Household(BaseModel):
    city: str
    pets: list[Pet]


@dataclass
class Snippet:
    language: str
    code: str
    comment: str | None = None


class Message(BaseModel):
    subject: str
    body: str
    labels: list[str] = []


@dataclass
class Meeting:
    title: str
    start: datetime
    attendees: list[str]
    priority: Priority
    room: str | None = None


class Ticket(BaseModel):
    title: str
    severity: Literal["low", "medium", "high"] = "low"
    assignee: str | None = None
    estimate: float | None = None
    labels: list[str] = []


@dataclass
class Invoice:
    number: str
    issued: date
    lines: list[Line]
    total: Decimal
    paid: bool


@dataclass
class Line:
    product: str
    quantity: int
    price: Decimal


@dataclass
class Measurement:
    values: list[float]
    matrix: list[list[int]]
    unit: str


# Each type with its valid replies, as JSON texts. The name is shown in the examples of the damage test.
DAMAGED_TYPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Scalars": (
        Scalars,
        (
            '{"name": "Ann Lee", "age": 41, "height": 1.72, "member": true}',
            '{"name": "O\'Neil", "age": 7, "height": -0.5, "member": false}',
        ),
    ),
    "Person": (
        Person,
        (
            '{"name": "Ann Lee", "age": 41, "born": "1984-02-29"}',
            '{"name": "Zoë", "age": 100, "born": "1925-12-01"}',
        ),
    ),
    "Employee": (
        Employee,
        (
            '{"name": "Ann", "address": {"street": "Oak 5", "city": "Rome"}}',
            '{"name": "Bo, Jr.", "address": {"street": "1st \\"Main\\" St", "city": "L\'Aquila"}}',
        ),
    ),
    "Department": (
        Department,
        (
            '{"title": "Sales", "head": {"name": "A", "address": {"street": "S 1", "city": "C"}},'
            ' "members": [{"name": "B", "address": {"street": "T 2", "city": "D"}},'
            ' {"name": "E", "address": {"street": "U 3", "city": "F"}}]}',
            '{"title": "R&D", "head": {"name": "X", "address": {"street": "Y", "city": "Z"}}, "members": []}',
        ),
    ),
    "Node": (
        Node,
        (
            '{"value": 1, "next": {"value": 2, "next": {"value": 3, "next": null}}}',
            '{"value": 10, "next": {"value": 20}}',
            '{"value": 5, "next": null}',
        ),
    ),
    "Tree": (
        Tree,
        (
            '{"name": "root", "children": [{"name": "a", "children": []}, {"name": "b", "children": []}]}',
            '{"name": "r", "children": [{"name": "s", "children": [{"name": "t"}]}]}',
            '{"name": "leaf"}',
        ),
    ),
    "Settings": (
        Settings,
        (
            '{"name": "Bob", "limit": 50, "extra": {"x": 1, "name": "in"}}',
            '{"name": "a b", "extra": {"deep": {"limit": 3, "on": true}, "list": [1, null]}}',
            '{"limit": 12}',
        ),
    ),
    "Order": (
        Order,
        (
            '{"id": 17, "price": 12.75, "color": "dark blue", "gift": true, "note": "it\'s, ok",'
            ' "tags": ["a", "b c"]}',
            '{"id": 4100, "price": 1999, "color": "red", "tags": ["x:y"]}',
            '{"id": 3, "price": 0.5, "color": "green", "note": null}',
        ),
    ),
    "Options": (
        Options,
        ('{"a": 12, "b": "two words", "c": [1, 2]}', '{"b": "{not json}", "c": []}', '{"a": -3}'),
    ),
    "Movie": (
        Movie,
        (
            '{"title": "Alien", "year": 1979, "rating": 8.5}',
            '{"title": "Se7en: the \\"end\\"", "year": 1995}',
        ),
    ),
    "Point": (Point, ('{"x": 1.5, "y": -2.25, "label": "A1"}', '{"x": 10, "y": 0.125}')),
    "Path": (
        Path,
        (
            '{"start": {"x": 0, "y": 1}, "stops": [{"x": 2, "y": 3, "label": "b"}, {"x": 4, "y": 5}]}',
            '{"start": {"x": 7.5, "y": 8, "label": "s"}, "stops": []}',
        ),
    ),
    "Circle | Rectangle": (
        Circle | Rectangle,
        ('{"kind": "circle", "radius": 2.5}', '{"kind": "rectangle", "width": 30, "height": 4.5}'),
    ),
    "Employee | Address": (
        Employee | Address,
        (
            '{"name": "Ann", "address": {"street": "Oak 5", "city": "Rome"}}',
            '{"street": "Elm 7", "city": "Oslo"}',
        ),
    ),
    "Pet": (
        Pet,
        (
            '{"pet": "cat", "lives": 9}',
            '{"pet": "dog", "breed": "corgi", "owner": {"name": "Al", "age": 30, "born": "1990-05-17"}}',
        ),
    ),
    "Household": (
        Household,
        (
            '{"city": "Bonn", "pets": [{"pet": "cat", "lives": 8}, {"pet": "dog", "breed": "pug"}]}',
            '{"city": "Kyiv", "pets": []}',
        ),
    ),
    "int | list[int]": (int | list[int], ("[10, 20, 30]", "[7]")),
    "list[int]": (list[int], ("[10, 20, 30, -4]", "[1]", "[1000, 0, 25]")),
    "list[list[int]]": (list[list[int]], ("[[1, 2], [], [3, 45]]", "[[]]", "[[10, 20]]")),
    "list[str]": (
        list[str],
        (
            '["red", "dark blue", "it\'s"]',
            '["a, b", "{\\"k\\": 1}", "[x]"]',
            '["say \\"hi\\", now", "c:\\\\dir"]',
        ),
    ),
    "list[Person]": (
        list[Person],
        (
            '[{"name": "A", "age": 1, "born": "2001-01-02"}, {"name": "B", "age": 2, "born": "2002-03-04"}]',
            '[{"name": "Cy", "age": 33, "born": "1991-10-11"}]',
        ),
    ),
    "list[Settings]": (
        list[Settings],
        ('[{"name": "a", "limit": 1}, {"limit": 2, "extra": {"k": [1]}}, {}]', '[{"name": "z"}]'),
    ),
    "dict[str, int]": (dict[str, int], ('{"ab": 10, "cd": 20, "ef": 30}', '{"one two": 12}')),
    "dict[str, Any]": (
        dict[str, Any],
        (
            '{"user": {"name": "Ann", "age": 31}, "ok": true, "xs": [1, 2]}',
            '{"note": "a {b} [c]", "none": null, "ratio": 0.25}',
        ),
    ),
    "dict[str, list[str]]": (
        dict[str, list[str]],
        ('{"fruit": ["fig", "red apple"], "empty": []}', '{"k": ["a,b", "c: d"]}'),
    ),
    "dict[str, Address]": (
        dict[str, Address],
        (
            '{"home": {"street": "Oak 5", "city": "Rome"}, "work": {"street": "Elm", "city": "Bari"}}',
            '{"x": {"street": "S", "city": "C"}}',
        ),
    ),
    "dict[str, date]": (
        dict[str, date],
        ('{"start": "2024-01-31", "end": "2024-11-23"}', '{"due": "1999-12-31"}'),
    ),
    "Snippet": (
        Snippet,
        (
            '{"language": "js", "code": "f({\\"a\\": [1, 2]}, \\"b\\");", "comment": "{x: 1}"}',
            '{"language": "c", "code": "int a[] = {1, 2};\\nreturn a[0];"}',
            '{"language": "json", "code": "{\\"language\\": \\"py\\", \\"code\\": \\"\\"}", "comment": null}',
        ),
    ),
    "Message": (
        Message,
        (
            '{"subject": "Re: order, \\"urgent\\"", "body": "Dear Ann,\\nsee [1], {2}: \\"ok\\".",'
            ' "labels": ["a, b", "c"]}',
            '{"subject": "Hi", "body": "It\'s 5:30, isn\'t it? {\\"subject\\": \\"no\\", \\"body\\": 1}"}',
        ),
    ),
    "Meeting": (
        Meeting,
        (
            '{"title": "Plan", "start": "2024-05-06T09:30:00", "attendees": ["Ann", "Bob"], "priority": 2,'
            ' "room": "B 12"}',
            '{"title": "1:1", "start": "2023-12-31T23:59:00", "attendees": [], "priority": 1}',
        ),
    ),
    "Ticket": (
        Ticket,
        (
            '{"title": "Crash on start", "severity": "high", "assignee": "Ann", "estimate": 2.5,'
            ' "labels": ["ui", "p1"]}',
            '{"title": "Typo", "severity": "medium", "labels": ["docs"]}',
            '{"title": "Idea", "assignee": null, "estimate": 13}',
        ),
    ),
    "Invoice": (
        Invoice,
        (
            '{"number": "A-17", "issued": "2024-03-09", "lines": [{"product": "pen", "quantity": 10,'
            ' "price": 1.25}, {"product": "ink, blue", "quantity": 2, "price": 20}], "total": 52.5,'
            ' "paid": false}',
            '{"number": "7", "issued": "2020-01-01", "lines": [], "total": 0, "paid": true}',
        ),
    ),
    "Measurement": (
        Measurement,
        (
            '{"values": [1.5, 20, -3], "matrix": [[1, 0], [0, 1]], "unit": "cm"}',
            '{"values": [], "matrix": [], "unit": "m/s"}',
        ),
    ),
    "tuple[int, str, bool]": (tuple[int, str, bool], ('[12, "a b", true]', '[0, "x, y", false]')),
}
