"""The methods of the accuracy stage, one for each type of answer, without examples and with two of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Literal, Protocol

from aiservices import Result, example, user_message


class Department(Enum):
    BILLING = "billing"
    DELIVERY = "delivery"
    REPAIRS = "repairs"


@dataclass(frozen=True)
class Booking:
    name: str
    city: str
    guests: int
    breakfast: bool


@dataclass(frozen=True)
class Contact:
    name: str
    phone: str | None = None
    email: str | None = None


@dataclass(frozen=True)
class Call:
    phone: str


@dataclass(frozen=True)
class Visit:
    street: str
    hour: int


@dataclass(frozen=True)
class Customer:
    name: str
    city: str


@dataclass(frozen=True)
class Line:
    product: str
    quantity: int


@dataclass(frozen=True)
class Order:
    customer: Customer
    lines: list[Line]


_COMPLAINS = "Does the writer complain? {{text}}"
_DEPARTMENT = "Which department should answer this letter? {{text}}"
_SIZE = "Which size is wanted? {{text}}"
_COUNT = "How many are there? {{text}}"
_WEIGHT = "How many kilograms does it weigh? {{text}}"
_PRICE = "What is the price in euros? {{text}}"
_DAY = "On which date is it? {{text}}"
_HOUR = "At what time is it? {{text}}"
_MOMENT = "When exactly is it? {{text}}"
_ANIMALS = "Which animals are named? List them in the singular, in the order of the text: {{text}}"
_BOOKING = "Read this booking of a hotel: {{text}}"
_CONTACT = "How can this person be reached? {{text}}"
_WISH = "Does the customer want a call or a visit, and where? {{text}}"
_ORDER = "Read this order: {{text}}"


class Methods(Protocol):
    """The methods of the accuracy stage without examples."""

    @user_message(_COMPLAINS)
    def complains(self, text: str) -> Result[bool]: ...
    @user_message(_DEPARTMENT)
    def department(self, text: str) -> Result[Department]: ...
    @user_message(_SIZE)
    def size(self, text: str) -> Result[Literal["small", "medium", "large"]]: ...
    @user_message(_COUNT)
    def count(self, text: str) -> Result[int]: ...
    @user_message(_WEIGHT)
    def weight(self, text: str) -> Result[float]: ...
    @user_message(_PRICE)
    def price(self, text: str) -> Result[Decimal]: ...
    @user_message(_DAY)
    def day(self, text: str) -> Result[date]: ...
    @user_message(_HOUR)
    def hour(self, text: str) -> Result[time]: ...
    @user_message(_MOMENT)
    def moment(self, text: str) -> Result[datetime]: ...
    @user_message(_ANIMALS)
    def animals(self, text: str) -> Result[list[str]]: ...
    @user_message(_BOOKING)
    def booking(self, text: str) -> Result[Booking]: ...
    @user_message(_CONTACT)
    def contact(self, text: str) -> Result[Contact]: ...
    @user_message(_WISH)
    def wish(self, text: str) -> Result[Call | Visit]: ...
    @user_message(_ORDER)
    def order(self, text: str) -> Result[Order]: ...


class MethodsWithExamples(Protocol):
    """The methods of the accuracy stage with the same prompts and two examples each."""

    @example("My suitcase came back with a broken wheel.", returns=True)
    @example("Your staff carried my suitcase upstairs, thank you.", returns=False)
    @user_message(_COMPLAINS)
    def complains(self, text: str) -> Result[bool]: ...

    @example("The invoice of March was paid twice.", returns=Department.BILLING)
    @example("The lamp does not light any more.", returns=Department.REPAIRS)
    @user_message(_DEPARTMENT)
    def department(self, text: str) -> Result[Department]: ...

    @example("A little one will do for the two of us.", returns="small")
    @example("Neither the big one nor the little one, please.", returns="medium")
    @user_message(_SIZE)
    def size(self, text: str) -> Result[Literal["small", "medium", "large"]]: ...

    @example("Eleven boats lay in the harbour.", returns=11)
    @example("The choir has 64 voices.", returns=64)
    @user_message(_COUNT)
    def count(self, text: str) -> Result[int]: ...

    @example("The parcel is 2.5 kg.", returns=2.5)
    @example("It weighs five hundred grams.", returns=0.5)
    @user_message(_WEIGHT)
    def weight(self, text: str) -> Result[float]: ...

    @example("One ticket: EUR 8.20", returns=Decimal("8.20"))
    @example("It was sold for thirty euros.", returns=Decimal(30))
    @user_message(_PRICE)
    def price(self, text: str) -> Result[Decimal]: ...

    @example("The fair opens on 2 May 2031.", returns=date(2031, 5, 2))
    @example("Signed on November 30th, 1987", returns=date(1987, 11, 30))
    @user_message(_DAY)
    def day(self, text: str) -> Result[date]: ...

    @example("Dinner is at half past seven in the evening.", returns=time(19, 30))
    @example("The gates close at 10:15 p.m.", returns=time(22, 15))
    @user_message(_HOUR)
    def hour(self, text: str) -> Result[time]: ...

    @example("The talk is on 4 June 2029 at 6 pm.", returns=datetime(2029, 6, 4, 18, 0))
    @example("Departure: 1 February 2030, 05:50", returns=datetime(2030, 2, 1, 5, 50))
    @user_message(_MOMENT)
    def moment(self, text: str) -> Result[datetime]: ...

    @example("Two goats stood beside a donkey.", returns=["goat", "donkey"])
    @example("There was nobody but an owl.", returns=["owl"])
    @user_message(_ANIMALS)
    def animals(self, text: str) -> Result[list[str]]: ...

    @example(
        "Lena Vos, three persons in Ghent, with breakfast", returns=Booking("Lena Vos", "Ghent", 3, True)
    )
    @example("In Porto for Rui Alves, alone, no breakfast", returns=Booking("Rui Alves", "Porto", 1, False))
    @user_message(_BOOKING)
    def booking(self, text: str) -> Result[Booking]: ...

    @example("Ring Ole Dahl: 555-0101", returns=Contact("Ole Dahl", phone="555-0101"))
    @example("Una Byrne reads una@mail.example", returns=Contact("Una Byrne", email="una@mail.example"))
    @user_message(_CONTACT)
    def contact(self, text: str) -> Result[Contact]: ...

    @example("My number is 555-0102, please ring.", returns=Call("555-0102"))
    @example("Please come to 3 Mill Lane at 4 pm.", returns=Visit("3 Mill Lane", 16))
    @user_message(_WISH)
    def wish(self, text: str) -> Result[Call | Visit]: ...

    @example(
        "Two chairs and a table for Ivo Kral in Brno",
        returns=Order(Customer("Ivo Kral", "Brno"), [Line("chair", 2), Line("table", 1)]),
    )
    @example(
        "Mia Holm of Turku takes six mugs.", returns=Order(Customer("Mia Holm", "Turku"), [Line("mug", 6)])
    )
    @user_message(_ORDER)
    def order(self, text: str) -> Result[Order]: ...
