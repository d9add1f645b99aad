"""Asynchronous methods: several calls run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, Protocol

from aiservices import ChatModel, create, user_message

from .program import run

TICKETS = (
    "I was charged twice for the same invoice.",
    "The application crashes when I open the settings.",
    "Can you deliver to Norway?",
)
Topic = Literal["billing", "bug", "delivery"]


class Desk(Protocol):
    @user_message("Which topic does this ticket belong to?\n\nTicket: {{ticket}}")
    async def topic_of(self, ticket: str) -> Topic: ...


async def topics_of(desk: Desk, tickets: Sequence[str]) -> list[Topic]:
    """Return the topic of each support ticket; the calls to the model run at the same time."""
    return await asyncio.gather(*(desk.topic_of(ticket) for ticket in tickets))


def main(model: ChatModel | str | None = None) -> None:
    """Print the topic of each support ticket. ``model`` is passed to ``create``."""
    desk = create(Desk, model)
    topics = asyncio.run(topics_of(desk, TICKETS))
    for ticket, topic in zip(TICKETS, topics, strict=True):
        print(f"{topic:<8}  {ticket}")


if __name__ == "__main__":
    run(main)
