"""Makes new interfaces with ten methods and ten record types, so that nothing about them is cached.

The module has no ``from __future__ import annotations``: the types are local to a function, so their names
could not be resolved later.
"""

from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field

from aiservices import user_message


def new_interface() -> tuple[type[Any], list[type[BaseModel]]]:
    """Return a new interface and the types that its methods return."""

    class Colour(Enum):
        RED = "red"
        BLUE = "blue"

    class Address(BaseModel):
        street: str
        city: str

    class Person(BaseModel):
        name: str
        age: int = Field(ge=0, le=150)
        height: float
        married: bool

    class Customer(BaseModel):
        id: int
        email: str
        tags: list[str]
        address: Address

    class Booking(BaseModel):
        guest: str
        day: date
        nights: int = Field(description="how many nights the guest stays")

    class Price(BaseModel):
        amount: Decimal
        currency: Literal["EUR", "USD", "GBP"]

    class Ticket(BaseModel):
        title: str
        kind: Literal["fault", "wish", "question"]
        urgent: bool = False

    class Car(BaseModel):
        maker: str
        colour: Colour
        seats: int | None = None

    class Recipe(BaseModel):
        title: str
        steps: list[str]
        minutes: int

    class Score(BaseModel):
        points: dict[str, int]
        won: bool

    class TenRoute(BaseModel):
        stops: list[Address]
        kilometres: float

    class Reading(BaseModel):
        at: str
        values: list[float]
        unit: str | None = None

    class Registry(Protocol):
        @user_message("Who is meant? {{text}}")
        def person(self, text: str) -> Person: ...
        @user_message("Which customer is named? {{text}}")
        def customer(self, text: str) -> Customer: ...
        @user_message("What is booked? {{text}}")
        def booking(self, text: str) -> Booking: ...
        @user_message("What does it cost? {{text}}")
        def price(self, text: str) -> Price: ...
        @user_message("What is asked for? {{text}}")
        def ticket(self, text: str) -> Ticket: ...
        @user_message("Which car is meant? {{text}}")
        def car(self, text: str) -> Car: ...
        @user_message("How is it cooked? {{text}}")
        def recipe(self, text: str) -> Recipe: ...
        @user_message("How did it end? {{text}}")
        def score(self, text: str) -> Score: ...
        @user_message("Where does it go? {{text}}")
        def route(self, text: str) -> TenRoute: ...
        @user_message("What was measured? {{text}}")
        def reading(self, text: str) -> Reading: ...

    return Registry, [Person, Customer, Booking, Price, Ticket, Car, Recipe, Score, TenRoute, Reading]
