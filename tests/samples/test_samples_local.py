"""The samples run on the embedded model, and every answer has the right type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import astuple
from datetime import date, datetime, time
from decimal import Decimal
from importlib.util import find_spec
from types import ModuleType

import pytest

from aiservices import Result, create
from aiservices.models.local.weights import is_ready, weights_named
from samples import (
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

MODEL = "local:smollm2"
# A value is had within seconds; a machine that does much else at once takes minutes.
pytestmark = [
    pytest.mark.peers,
    pytest.mark.local_model,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="install the extra local of aiservices first"),
    pytest.mark.skipif(
        not is_ready(weights_named("smollm2")),
        reason="no SmolLM2 here: aiservices models pull smollm2",
    ),
]


@pytest.mark.parametrize(
    "sample",
    [async_calls, dates_and_times, numbers_in_text, custom_parser, person, sentiment, streaming_text],
    ids=lambda sample: sample.__name__,
)
def test_a_sample_runs_on_the_embedded_model(sample: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    sample.main(MODEL)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("method", ["to_int", "to_int32", "to_float", "to_decimal"])
def test_a_number_has_the_type_that_was_declared(method: str) -> None:
    wanted = {"to_float": float, "to_decimal": Decimal}.get(method, int)
    extractor = create(numbers_in_text.NumberExtractor, MODEL)
    assert type(getattr(extractor, method)(numbers_in_text.ANSWER)) is wanted


@pytest.mark.parametrize(
    ("method", "wanted"),
    [("extract_date", date), ("extract_time", time), ("extract_datetime", datetime)],
)
def test_a_time_has_the_type_that_was_declared(method: str, wanted: type) -> None:
    extractor = create(dates_and_times.DateTimeExtractor, MODEL)
    assert type(getattr(extractor, method)(dates_and_times.EVENING)) is wanted


def test_a_sentiment_is_a_bool_or_a_member_of_the_enum() -> None:
    analyzer = create(sentiment.SentimentAnalyzer, MODEL)
    assert type(analyzer.is_positive("This is great!")) is bool
    assert analyzer.sentiment_of("This is great!") in sentiment.Sentiment


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        (lambda extractor: extractor.person(person.NEWBORN), [str, str, date]),
        (lambda extractor: extractor.profile(person.ADULT), [str, int, float, bool]),
        (lambda extractor: extractor.info(person.PROGRAMMER), [str, int, list]),
    ],
    ids=["person", "profile", "info"],
)
def test_the_fields_of_a_person_have_their_types(
    ask: Callable[[person.PersonExtractor], object], wanted: list[type]
) -> None:
    record = ask(create(person.PersonExtractor, MODEL))
    assert list(map(type, astuple(record))) == wanted  # type: ignore[call-overload]


def test_a_recipe_satisfies_its_constraints() -> None:
    made = create(recipe.Chef, MODEL).recipe_from(*recipe.INGREDIENTS)
    assert type(made) is recipe.Recipe
    assert len(made.title.split()) <= 3
    assert 1 <= len(made.steps) <= 8
    assert 0 < made.preparation_time_minutes <= 1440


def test_a_film_comes_with_its_usage() -> None:
    result = create(film.FilmExpert, MODEL).most_popular(film.FilmPrompt(film.DIRECTOR))
    assert type(result) is Result
    assert type(result.value) is film.Film
    assert result.usage.input_tokens > 50
    assert result.usage.output_tokens > 10
    assert result.model == "smollm2"


def test_concurrent_calls_return_topics() -> None:
    desk = create(async_calls.Desk, MODEL)
    topics = asyncio.run(async_calls.topics_of(desk, async_calls.TICKETS))
    assert len(topics) == 3
    assert set(topics) <= {"billing", "bug", "delivery"}


def test_text_comes_in_pieces() -> None:
    pieces = list(create(streaming_text.Teller, MODEL).tell("a lighthouse"))
    assert len(pieces) > 3
    assert all(type(piece) is str for piece in pieces)


def test_money_is_read_by_the_custom_parser() -> None:
    bookkeeper = create(custom_parser.Bookkeeper, MODEL, parsers=[custom_parser.money])
    assert type(bookkeeper.price(custom_parser.PRICE)) is custom_parser.Money
    assert (
        type(bookkeeper.receipt("At Harper's I paid 20.00 pounds for a lamp.").total) is custom_parser.Money
    )
