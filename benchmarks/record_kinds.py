"""The events of the benchmarks as attrs classes, msgspec Structs, TypedDicts and NamedTuples."""

from __future__ import annotations

from datetime import date, datetime
from typing import NamedTuple

import attrs
import msgspec
from typing_extensions import TypedDict


@attrs.define
class AttrsEvent:
    title: str
    day: date
    begins: datetime
    seats: int


@attrs.define
class AttrsAgenda:
    records: list[AttrsEvent]


class StructEvent(msgspec.Struct):
    title: str
    day: date
    begins: datetime
    seats: int


class StructAgenda(msgspec.Struct):
    records: list[StructEvent]


class TypedDictEvent(TypedDict):
    title: str
    day: date
    begins: datetime
    seats: int


class TypedDictAgenda(TypedDict):
    records: list[TypedDictEvent]


class NamedTupleEvent(NamedTuple):
    title: str
    day: date
    begins: datetime
    seats: int


class NamedTupleAgenda(NamedTuple):
    records: list[NamedTupleEvent]
