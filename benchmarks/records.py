"""The types that are read."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import BaseModel

__all__ = ["Agenda", "Customer", "Customers", "Event", "Person", "Truth"]


class Person(BaseModel):
    name: str
    age: int
    height: float
    married: bool


class Truth(BaseModel):
    """The object in which a bare bool travels."""

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
    records: list[Customer]


class Event(BaseModel):
    title: str
    day: date
    begins: datetime
    seats: int


class Agenda(BaseModel):
    records: list[Event]
