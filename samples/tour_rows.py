"""The rows of the tour: a call of a method, its input, and the right answer."""

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
    streaming_text,
)


@dataclass(frozen=True)
class Row:
    """A row of the tour: a call of a method and the right answer.

    Attributes:
        method: The name of the method.
        argument: The argument, for the table.
        call: Calls the method.
        expected: The right value; None if several values are right.
        problem: Returns what is wrong with a value, or "". Used if several values are right.
    """

    method: str
    argument: str
    call: Callable[[], object]
    expected: object = None
    problem: Callable[[object], str] = lambda value: ""


def rows_of(model: ChatModel | str) -> list[Row]:
    """Return all rows of the tour for a model. The model is not called yet."""
    return [*_rows_with_one_answer(model), *_rows_with_many_answers(model)]


def _rows_with_one_answer(model: ChatModel | str) -> list[Row]:
    analyzer = create(sentiment.SentimentAnalyzer, model)
    numbers = create(numbers_in_text.NumberExtractor, model)
    times = create(dates_and_times.DateTimeExtractor, model)
    people = create(person.PersonExtractor, model)
    desk = create(async_calls.Desk, model)
    books = create(custom_parser.Bookkeeper, model, parsers=[custom_parser.money])

    def row(method: Callable[[str], object], argument: str, expected: object) -> Row:
        return Row(method.__name__, argument, lambda: method(argument), expected)

    def topics() -> object:
        return asyncio.run(async_calls.topics_of(desk, async_calls.TICKETS))

    great, bad, unsure = "This is great!", "It's awful!", "I don't know."
    answer, evening = numbers_in_text.ANSWER, dates_and_times.EVENING
    born = person.Person("John", "Doe", date(1968, 7, 4))
    return [
        row(analyzer.is_positive, great, True),
        row(analyzer.is_positive, bad, False),
        row(analyzer.sentiment_of, great, sentiment.Sentiment.POSITIVE),
        row(analyzer.sentiment_of, unsure, sentiment.Sentiment.NEUTRAL),
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


def _rows_with_many_answers(model: ChatModel | str) -> list[Row]:
    chef = create(recipe.Chef, model)
    expert = create(film.FilmExpert, model)
    teller = create(streaming_text.Teller, model)
    salad = recipe.CreateRecipePrompt("salad", recipe.INGREDIENTS)
    prompt = film.FilmPrompt(film.DIRECTOR)
    return [
        Row(
            "recipe_from",
            ", ".join(recipe.INGREDIENTS),
            lambda: chef.recipe_from(*recipe.INGREDIENTS),
            problem=_recipe_problem,
        ),
        Row(
            "recipe", f"CreateRecipePrompt: {salad.dish}", lambda: chef.recipe(salad), problem=_recipe_problem
        ),
        Row("most_popular", f"FilmPrompt: {film.DIRECTOR}", lambda: expert.most_popular(prompt)),
        Row("tell", "a lighthouse", lambda: "".join(teller.tell("a lighthouse"))),
    ]


def _recipe_problem(value: object) -> str:
    if not isinstance(value, recipe.Recipe):
        return "it is not a recipe"
    title, long_ones = value.title.split(), [step for step in value.steps if len(step.split()) > 4]
    problems = [f"the title has {len(title)} words, not 3 at most"] if len(title) > 3 else []
    problems += [f"{len(long_ones)} of {len(value.steps)} steps have more than 4 words"] if long_ones else []
    return "; ".join(problems)
