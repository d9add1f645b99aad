"""The calls of the tour: the method, its input, and what the answer must be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

from aiservices import ChatModel, create

from . import (
    async_calls,
    custom_parser,
    dates_and_times,
    film,
    numbers_in_text,
    person,
    recipe,
    sentiment,
)


@dataclass(frozen=True)
class Row:
    """``expected`` is the only right value, None where there is no single one.

    ``problem`` says what is wrong with a value of which more than one is right, "" when nothing is.
    """

    method: str
    given: str
    call: Callable[[], object]
    expected: object = None
    problem: Callable[[object], str] = lambda value: ""


def rows_of(model: ChatModel | str) -> list[Row]:
    """All rows of the tour, for a model. Nothing is asked of it yet."""
    return [*_closed(model), *_open(model)]


def _closed(model: ChatModel | str) -> list[Row]:
    feeling = create(sentiment.SentimentAnalyzer, model)
    numbers = create(numbers_in_text.NumberExtractor, model)
    times = create(dates_and_times.DateTimeExtractor, model)
    people = create(person.PersonExtractor, model)
    desk = create(async_calls.Desk, model)
    books = create(custom_parser.Bookkeeper, model, parsers=[custom_parser.money])

    def row(method: Callable[[str], object], given: str, expected: object) -> Row:
        return Row(method.__name__, given, lambda: method(given), expected)

    def topics() -> object:
        return asyncio.run(async_calls.topics_of(desk, async_calls.TICKETS))

    great, bad, unsure = "This is great!", "It's awful!", "I don't know."
    answer, evening = numbers_in_text.ANSWER, dates_and_times.EVENING
    born = person.Person("John", "Doe", date(1968, 7, 4))
    return [
        row(feeling.is_positive, great, True),
        row(feeling.is_positive, bad, False),
        row(feeling.sentiment_of, great, sentiment.Sentiment.POSITIVE),
        row(feeling.sentiment_of, unsure, sentiment.Sentiment.NEUTRAL),
        row(numbers.to_int, answer, 42),
        row(numbers.to_int32, answer, 42),
        row(numbers.to_float, answer, 42.0),
        row(numbers.to_decimal, answer, Decimal(42)),
        row(times.extract_date, evening, date(1968, 7, 4)),
        row(times.extract_time, evening, time(23, 45)),
        row(times.extract_datetime, evening, datetime(1968, 7, 4, 23, 45)),
        row(people.person, person.NEWBORN, born),
        row(people.profile, person.ADULT, person.Profile("John", 42, 1.75, False)),
        row(people.info, person.PROGRAMMER, person.PersonInfo("张三", 30, ["Python", "Go语言"])),
        row(books.price, custom_parser.PRICE, custom_parser.Money(Decimal("12.50"), "EUR")),
        Row("topic_of × 3", " / ".join(async_calls.TICKETS), topics, ["billing", "bug", "delivery"]),
    ]


def _open(model: ChatModel | str) -> list[Row]:
    chef = create(recipe.Chef, model)
    expert = create(film.FilmExpert, model)
    teller = create(streaming.Teller, model)
    salad = recipe.CreateRecipePrompt("salad", recipe.INGREDIENTS)
    prompt = film.FilmPrompt(film.DIRECTOR)
    return [
        Row(
            "recipe_from",
            ", ".join(recipe.INGREDIENTS),
            lambda: chef.recipe_from(*recipe.INGREDIENTS),
            problem=_fault_of_recipe,
        ),
        Row(
            "recipe", f"CreateRecipePrompt: {salad.dish}", lambda: chef.recipe(salad), problem=_fault_of_recipe
        ),
        Row("most_popular", f"FilmPrompt: {film.DIRECTOR}", lambda: expert.most_popular(prompt)),
        Row("tell", "a lighthouse", lambda: "".join(teller.tell("a lighthouse"))),
    ]


def _fault_of_recipe(value: object) -> str:
    if not isinstance(value, recipe.Recipe):
        return "it is no recipe"
    title, long = value.title.split(), [step for step in value.steps if len(step.split()) > 4]
    problems = [f"the title has {len(title)} words, not 3 at most"] if len(title) > 3 else []
    problems += [f"{len(long)} of {len(value.steps)} steps have more than 4 words"] if long else []
    return "; ".join(problems)
