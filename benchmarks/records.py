"""The records that the benchmarks parse: pydantic models, and the same as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from pydantic import BaseModel


class Person(BaseModel):
    """The record that the benchmarks parse from short replies."""

    name: str
    age: int
    height: float
    married: bool


class Truth(BaseModel):
    """The record for a bool in a JSON reply."""

    value: bool


class Address(BaseModel):
    street: str
    city: str
    zip: str


class Customer(BaseModel):
    id: int
    name: str
    email: str
    active: bool
    score: float
    tags: list[str]
    address: Address


class Customers(BaseModel):
    """A large record with a list of customers."""

    records: list[Customer]


class Event(BaseModel):
    title: str
    day: date
    begins: datetime
    seats: int


class Agenda(BaseModel):
    """A large record with a list of events that have dates."""

    records: list[Event]


@dataclass
class DataclassAddress:
    street: str
    city: str
    zip: str


@dataclass
class DataclassCustomer:
    id: int
    name: str
    email: str
    active: bool
    score: float
    tags: list[str]
    address: DataclassAddress
    note: str | None = None  # a default, which no reply sets


@dataclass
class DataclassCustomers:
    records: list[DataclassCustomer]


@dataclass
class DataclassEvent:
    title: str
    day: date
    begins: datetime
    seats: int


@dataclass
class DataclassAgenda:
    records: list[DataclassEvent]
