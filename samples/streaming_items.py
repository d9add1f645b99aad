"""Iterator[Item]: the items of a list, each as soon as it is complete, optionally with errors as items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import ChatModel, ScriptedChatModel, create, user_message
from output_parsers import ItemError

from .program import run

TEXT = "Ann, who is 31, met Bob, who is 27, and Cy, who is 5."
ANSWER = '{"value": [{"name": "Ann", "age": 31}, {"name": "Bob", "age": "old"}, {"name": "Cy", "age": 5}]}'


@dataclass
class Person:
    name: Annotated[str, Field(max_length=40)]
    age: Annotated[int, Field(ge=0, le=150)]


class Census(Protocol):
    @user_message("List the people in this text.\n\nText: {{text}}")
    def people(self, text: str) -> Iterator[Person]:
        """Yield people. An invalid item raises an error, or is requested again if it is the first one."""
        ...

    @user_message("List the people in this text.\n\nText: {{text}}")
    def people_or_errors(self, text: str) -> Iterator[Person | ItemError]:
        """Yield people, and an ItemError for each invalid item."""
        ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the people in a text, each as soon as it is complete. ``model`` is passed to ``create``."""
    # A small model may not end the list. Leaving the loop ends the request.
    for person in islice(create(Census, model).people(TEXT), 3):
        print(f"{person.name} is {person.age}")
    for item in create(Census, ScriptedChatModel([ANSWER])).people_or_errors(TEXT):
        match item:
            case ItemError(index, text, problems):
                print(f"item {index} does not fit: {text}: {'; '.join(map(str, problems))}")
            case Person(name, age):
                print(f"{name} is {age}")


if __name__ == "__main__":
    run(main)
