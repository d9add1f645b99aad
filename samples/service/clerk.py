"""The interface of the service: methods that return booleans, enums, numbers, dates, records and streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from aiservices import Int32, Int64, Result, Stream, structured_prompt, user_message

NUMBER = "Extract the number from this text.\n\nText: {{prompt}}"
# Paths for methods whose path differs from their name.
PATHS = {
    "is_positive": "/boolean",
    "sentiment_of": "/enum",
    "to_int": "/int",
    "to_long": "/long",
    "to_integer": "/integer",
    "to_float": "/float",
    "to_double": "/double",
    "to_big_decimal": "/bigDecimal",
    "person": "/pojo",
    "recipe_from": "/recipe",
    "recipe": "/recipe2",
    "most_popular": "/film",
    "stream_recipe": "/recipe/stream",
}


class Sentiment(Enum):
    POSITIVE = "positive"
    NEUTRAL = "neutral"
    NEGATIVE = "negative"


class Json(BaseModel):
    """Base class of the records. The keys of their JSON are in camel case (``firstName``)."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class Person(Json):
    first_name: str
    last_name: str
    birth_date: date


class Recipe(Json):
    title: str = Field(description="3 words at most", max_length=60)
    description: str = Field(description="2 sentences at most", max_length=200)
    steps: list[str] = Field(description="4 words each", min_length=1, max_length=8)
    preparation_time_minutes: int = Field(gt=0, le=1440)


@dataclass
@structured_prompt("Create a recipe of a {{dish}} that can be prepared using only {{ingredients}}.")
class RecipePrompt:
    dish: str
    ingredients: list[str]


class Film(Json):
    title: str = Field(max_length=60)
    director: str = Field(max_length=60)
    publication_date: date
    description: str = Field(description="the story in one sentence", max_length=300)


class Clerk(Protocol):
    """Reads texts and writes recipes."""

    @user_message("Does this text have a positive sentiment?\n\nText: {{prompt}}")
    def is_positive(self, prompt: str) -> bool: ...

    @user_message("Analyze the sentiment of this text.\n\nText: {{prompt}}")
    def sentiment_of(self, prompt: str) -> Sentiment: ...

    @user_message(NUMBER)
    def to_int(self, prompt: str) -> Int32: ...

    @user_message(NUMBER)
    def to_long(self, prompt: str) -> Int64: ...

    @user_message(NUMBER)
    def to_integer(self, prompt: str) -> int:
        """Return an integer of any size."""
        ...

    @user_message(NUMBER)
    def to_float(self, prompt: str) -> float: ...

    @user_message(NUMBER)
    def to_double(self, prompt: str) -> float: ...

    @user_message(NUMBER)
    def to_big_decimal(self, prompt: str) -> Decimal:
        """Return a number with all digits that the model wrote."""
        ...

    @user_message("Extract the person from this text.\n\nText: {{prompt}}")
    def person(self, prompt: str) -> Person: ...

    @user_message("Create a recipe that can be prepared using only {{prompt}}.")
    def recipe_from(self, *prompt: str) -> Recipe: ...

    def recipe(self, prompt: RecipePrompt) -> Recipe:
        """Return a recipe of a dish for a list of ingredients."""
        ...

    @user_message("Extract the date from this text.\n\nText: {{prompt}}")
    def extract_date(self, prompt: str) -> date: ...

    @user_message("Extract the time of day from this text.\n\nText: {{prompt}}")
    def extract_time(self, prompt: str) -> time: ...

    @user_message("Which date and exact time does this text describe?\n\nText: {{prompt}}")
    def extract_datetime(self, prompt: str) -> datetime: ...

    @user_message("What is the most popular film of the director {{prompt}}? Tell its year and its story.")
    async def most_popular(self, prompt: str) -> Result[Film]:
        """Return a film with the details of the call, as a Result."""
        ...

    @user_message("Create a recipe of a {{prompt}}.")
    def stream_recipe(self, prompt: str) -> Stream[Recipe]:
        """Stream a recipe while the model writes it, as events."""
        ...

    @user_message("Tell a story of three sentences about {{prompt}}.")
    def story(self, prompt: str) -> Iterator[str]:
        """Stream a text while the model writes it, as events."""
        ...
