"""Iterator[Item]: the items of a list one by one, while the rest is written, and ItemError for a misfit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import ChatModel, ScriptedChatModel, create, user_message
from output_parsers import ItemError

TEXT = "Ann, who is 31, met Bob, who is 27, and Cy, who is 5."
ERRING = '{"value": [{"name": "Ann", "age": 31}, {"name": "Bob", "age": "old"}, {"name": "Cy", "age": 5}]}'


@dataclass
class Person:
    name: Annotated[str, Field(max_length=40)]
    age: Annotated[int, Field(ge=0, le=150)]


class Census(Protocol):
    @user_message("List the people in this text.\n\nText: {{text}}")
    def people(self, text: str) -> Iterator[Person]:
        """One that does not fit is an error after the items before it; the first is asked for again."""
        ...

    @user_message("List the people in this text.\n\nText: {{text}}")
    def people_or_errors(self, text: str) -> Iterator[Person | ItemError]:
        """One that does not fit is handed over in its place, and the list goes on."""
        ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the people of a text, each as soon as it is complete. ``model`` is as in ``create``."""
    # A small model may not find the end of a list. Whoever leaves the loop ends the request.
    for person in islice(create(Census, model).people(TEXT), 3):
        print(f"{person.name} is {person.age}")
    for found in create(Census, ScriptedChatModel([ERRING])).people_or_errors(TEXT):
        match found:
            case ItemError(index, text, problems):
                print(f"item {index} left out: {text}: {'; '.join(map(str, problems))}")
            case Person(name, age):
                print(f"{name} is {age}")


if __name__ == "__main__":
    main()
