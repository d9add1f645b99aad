"""Settings of one method, a prompt for all methods, and a method that returns nothing.

The conversation of ``chat`` has an id with two fields. ``acall`` awaits a blocking method.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Protocol

from aiservices import ChatModel, MemoryId, acall, create, options, tool
from aiservices.guardrails import InputGuardrails, OutputGuardrails, forbidden, max_length
from aiservices.memory import ChatMemory


@dataclass(frozen=True)
class Visitor:
    museum: str
    ticket: int


class Guide(Protocol):
    @options(interceptors=[ChatMemory(), OutputGuardrails(forbidden("free"))])
    def chat(self, visitor: Annotated[Visitor, MemoryId], question: str) -> str: ...

    def reserve(self, wish: str) -> None: ...


class Tours:
    """The tours of a museum."""

    def __init__(self) -> None:
        self.reserved: list[str] = []

    @tool
    def reserve_tour(self, day: str, people: int) -> str:
        """Reserve a tour."""
        self.reserved.append(f"{people} on {day}")
        return "reserved"


def main(model: ChatModel | str | None = None) -> None:
    tours = Tours()
    guide = create(
        Guide,
        model,
        tools=[tours],
        interceptors=[InputGuardrails(max_length(200))],
        system_message="You work in a museum.",
        user_message="The visitor writes: {{it}}",
    )
    visitor = Visitor("north", 7)
    guide.chat(visitor, "My name is Ann.")
    print(guide.chat(visitor, "What is my name?"))
    print(asyncio.run(acall(guide.chat, Visitor("north", 8), "What is my name?")))
    guide.reserve("A tour for two on Monday, please.")
    print(tours.reserved)


if __name__ == "__main__":
    main()
