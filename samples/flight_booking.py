"""Book a flight: one service reads flights from a page, one chooses, and one reads where to sit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, Protocol

from pydantic import Field

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    Description,
    ScriptedChatModel,
    SharedBudget,
    ToolCall,
    ToolContext,
    create,
    system_message,
)
from aiservices.guardrails import OutputGuardrails, Verdict, passed, reprompt
from aiservices.interceptors import Invocation
from aiservices.memory import ChatMemory

Airport = Annotated[str, Description("Three letters")]


@dataclass
class Flight:
    number: str
    euros: int
    start: Airport
    end: Airport
    day: date


@dataclass(frozen=True)
class Trip:
    start: str
    end: str
    day: date
    page: str


@dataclass
class Seat:
    row: Annotated[int, Field(ge=1, le=30)]
    letter: Literal["A", "B", "C", "D", "E", "F"]


FLIGHTS = [
    Flight("AX 101", 180, "VIE", "OSL", date(2026, 5, 5)),
    Flight("AX 205", 140, "VIE", "OSL", date(2026, 5, 5)),
    Flight("BK 17", 90, "VIE", "BGO", date(2026, 5, 5)),
    Flight("BK 33", 70, "VIE", "OSL", date(2026, 5, 6)),
]
PAGE = "\n".join(
    f"{one.number}, {one.day:%d %B %Y}: {one.start} to {one.end}, {one.euros} euros" for one in FLIGHTS
)


class Reader(Protocol):
    @system_message("List all flights in the text.")
    def flights(self, text: str) -> list[Flight]: ...


class Agency(Protocol):
    @system_message("Find the cheapest flight. If there is none, return null.")
    def search(self, wish: str, trip: Annotated[Trip, ToolContext]) -> Flight | None: ...


class Desk(Protocol):
    @system_message(
        "Read which seat the customer wants, else return null. A and F are at the window; the rows 1, 14 and "
        "20 have more room for the legs."
    )
    def seat(self, wish: str) -> Seat | None: ...


def fits_the_trip(flight: Flight | None, invocation: Invocation) -> Verdict:
    """Let the model search again if the flight is another trip."""
    trip: Trip = invocation.arguments["trip"]
    if flight is None or (flight.start, flight.end, flight.day) == (trip.start, trip.end, trip.day):
        return passed()
    return reprompt(f"The flight must go from {trip.start} to {trip.end} on {trip.day}.")


def book(trip: Trip, ask: Callable[[str], str], model: ChatModel | str) -> None:
    """Search until the customer buys a flight, and ask for a seat. At most 15 requests are made."""
    reader = create(Reader, model)

    def flights(trip: Annotated[Trip, ToolContext]) -> list[Flight]:
        """Return all flights."""
        return reader.flights(trip.page)

    guards = OutputGuardrails(fits_the_trip, on="value")
    agency = create(Agency, model, tools=[flights], interceptors=[ChatMemory(), guards])
    desk = create(Desk, model, interceptors=[ChatMemory()])
    with SharedBudget(requests=15):
        flight = agency.search(f"A flight from {trip.start} to {trip.end} on {trip.day}, please.", trip)
        while (
            flight is not None and ask(f"{flight.number} for {flight.euros} euros: buy or search? ") != "buy"
        ):
            flight = agency.search("Please suggest another flight.", trip)
        if flight is None:
            print("There is no flight.")
            return
        while (seat := desk.seat(ask("Which seat would you like? "))) is None:
            print("Which row, and which letter?")
        print(f"Booked: {flight.number} on {flight.day}, seat {seat.row}{seat.letter}")


def scripted() -> ScriptedChatModel:
    """Return a scripted model, which first chooses a flight on the wrong day."""
    found = [{**vars(flight), "day": str(flight.day)} for flight in FLIGHTS]
    ax_101, ax_205, _, bk_33 = (json.dumps({"value": flight}) for flight in found)
    call = ChatReply(AiMessage("", (ToolCall("call_1", "flights", "{}"),)))
    seat = '{"value": {"row": 14, "letter": "A"}}'
    return ScriptedChatModel(
        [call, json.dumps({"value": found}), bk_33, ax_205, ax_101, '{"value": null}', seat]
    )


def scripted_customer() -> Callable[[str], str]:
    """Return a function that answers the questions in place of a customer, and prints both."""
    answers = iter(["search", "buy", "Somewhere nice.", "At the window, with room for my legs."])

    def answer(question: str) -> str:
        text = next(answers)
        print(f"{question}{text}")
        return text

    return answer


def main(model: ChatModel | str | None = None, ask: Callable[[str], str] = input) -> None:
    """Book a flight. Without a model, a scripted one answers, and so does the customer."""
    trip = Trip("VIE", "OSL", date(2026, 5, 5), PAGE)
    book(trip, scripted_customer() if model is None else ask, model or scripted())


if __name__ == "__main__":
    main()
