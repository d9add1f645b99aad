"""Parallel: independent services work at the same time, and a function joins their answers."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import ChatModel, create, user_message

from .scripts import scripted

Three = Annotated[list[str], Field(min_length=3, max_length=3)]


@dataclass
class Evening:
    meal: str
    film: str


class Planner(Protocol):
    @user_message("Propose three meals for a {{mood}} evening.")
    async def meals(self, mood: str) -> Three: ...

    @user_message("Propose three films for a {{mood}} evening.")
    async def films(self, mood: str) -> Three: ...


async def evenings(planner: Planner, mood: str) -> list[Evening]:
    """Ask for meals and films at the same time, and combine them."""
    meals, films = await asyncio.gather(planner.meals(mood), planner.films(mood))
    return [Evening(meal, film) for meal, film in zip(meals, films, strict=True)]


def main(model: ChatModel | str | None = None) -> None:
    """Print three evenings. Without a model, a scripted one answers."""
    for evening in asyncio.run(evenings(create(Planner, model or scripted("parallel")), "romantic")):
        print(evening)


if __name__ == "__main__":
    main(*sys.argv[1:2])
