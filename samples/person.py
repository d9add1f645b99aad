"""Records: dataclasses with strings, numbers, a date, a bool and a list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import ChatModel, create, user_message

from .program import run

NEWBORN = (
    "In 1968, amidst the fading echoes of Independence Day, a child named John arrived under the calm "
    "evening sky. This newborn, bearing the surname Doe, marked the start of a new journey."
)
ADULT = (
    "John is 42 years old and lives an independent life. He stands 1.75 meters tall and carries himself with "
    "confidence. Currently unmarried, he enjoys the freedom to focus on his personal goals and interests."
)
PROGRAMMER = "张三今年30岁,他擅长Python和Go语言。"


@dataclass
class Person:
    first_name: str
    last_name: str
    birth_date: date


@dataclass
class Profile:
    name: str
    age: int
    height: Annotated[float, Field(description="in metres", gt=0)]
    married: bool


@dataclass
class PersonInfo:
    name: str
    age: int
    skills: Annotated[list[str], Field(max_length=5)]


class PersonExtractor(Protocol):
    @user_message(
        "Extract the person from this text. For the date of birth take the day of the holiday.\n\n"
        "Text: {{text}}"
    )
    def person(self, text: str) -> Person: ...

    @user_message("Extract information about the person from this text.\n\nText: {{text}}")
    def profile(self, text: str) -> Profile: ...

    @user_message("Extract information about the person from this text.\n\nText: {{text}}")
    def info(self, text: str) -> PersonInfo: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the records of three people, each of another class. ``model`` is passed to ``create``."""
    extractor = create(PersonExtractor, model)
    person = extractor.person(NEWBORN)
    print(f"{person.first_name} {person.last_name}, born on {person.birth_date:%d %B %Y}")
    profile = extractor.profile(ADULT)
    print(f"{profile.name}, {profile.age}, {profile.height} m, {'' if profile.married else 'not '}married")
    info = extractor.info(PROGRAMMER)
    print(f"{info.name}, {info.age}: {', '.join(info.skills)}")


if __name__ == "__main__":
    run(main)
