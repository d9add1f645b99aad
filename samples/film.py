"""Result[T]: the value of a call with the text of the reply, the tokens and the attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Protocol

from pydantic import BaseModel, Field

from aiservices import ChatModel, Result, create, structured_prompt

from .program import run

DIRECTOR = "张艺谋"


@dataclass
@structured_prompt("What is the most popular film of the director {{director}}? Tell its year and its story.")
class FilmPrompt:
    director: str


class Film(BaseModel):
    title: str = Field(max_length=60)
    director: str = Field(max_length=60)
    publication_date: date
    description: str = Field(description="the story in one sentence", max_length=300)


class FilmExpert(Protocol):
    def most_popular(self, prompt: FilmPrompt) -> Result[Film]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print a film and the details of the call. ``model`` is passed to ``create``."""
    expert = create(FilmExpert, model)
    result = expert.most_popular(FilmPrompt(DIRECTOR))
    film = result.value
    print(f"{film.title} ({film.publication_date.year}) by {film.director}: {film.description}")
    print(f"input and output tokens: {result.usage.input_tokens}, {result.usage.output_tokens}")
    print(f"finish reason: {result.finish_reason}, strategy: {result.strategy}")
    print(f"attempts: {len(result.attempts)}, coercions: {len(result.coercions)}")


if __name__ == "__main__":
    run(main)
