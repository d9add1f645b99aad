"""Decisions: triage tickets with probabilities, and collect those that a person should look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Protocol

from aiservices import ChatModel, Decision, Result, Scale, create, user_message

from .program import run

TICKETS = (
    "I was charged twice this month. Please refund one of the payments.",
    "Since the update the app closes when I open the camera. I have a wedding to photograph today!",
    "Hello, is this the right address?",
)


class Team(Enum):
    BILLING = "billing"
    """Invoices, payments and refunds."""
    TECHNICAL = "technical"
    """Something does not work."""
    OTHER = "other"
    """Anything else."""


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 3


@dataclass
class Triage:
    team: Annotated[Decision[Team], "Which team should handle the ticket?"]
    urgent: Annotated[bool, "Does it need an answer today?"]
    severity: Scale[Severity]


class Desk(Protocol):
    @user_message("Triage the ticket.\n\nTicket: {{ticket}}")
    def triage(self, ticket: str) -> Result[Triage]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the triage of some tickets, and those that are unsure. ``model`` is passed to ``create``."""
    desk = create(Desk, model, thresholds={"triage.team": 0.7, "triage.urgent": 0.6})
    review = []
    for ticket in TICKETS:
        result = desk.triage(ticket)
        triage, urgent = result.value, result.probabilities["$.urgent"][True]
        print(f"{ticket[:40]}…")
        print(
            f"  team {triage.team.value.value} ({triage.team.probability:.2f}), "
            f"urgent {triage.urgent} ({urgent:.2f}), severity {triage.severity.mean:.1f}"
        )
        if triage.team.at() is None:
            review.append(ticket)
    print(f"{len(review)} for a person to look at")


if __name__ == "__main__":
    run(main)
