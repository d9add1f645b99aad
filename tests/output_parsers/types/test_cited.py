"""A Cited value is accepted if its quote occurs in the text, and the value in the quote."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, TypeAdapter

from output_parsers import (
    Cited,
    CitedText,
    OutputParsingError,
    Quote,
    UnsupportedTypeError,
    parse,
    parser_for,
)
from output_parsers.types.cited import Place, cited_from
from output_parsers.types.decisions import values_with_details
from output_parsers.types.evidence import Check, Sources


@dataclass
class Text:
    text: str
    offset: int = 0

    def page_at(self, index: int) -> int | None:
        return None

    def boxes(self, start: int, end: int) -> tuple[Any, ...]:
        return ()


def read(tp: Any, data: object, *texts: str, check: Check = "value") -> Any:
    sources = Sources({f"text {number}": Text(text) for number, text in enumerate(texts)}, check)
    with cited_from(sources):
        value = parser_for(tp).parse(json.dumps(data))
    sources.resolve()
    return value


def problems(tp: Any, data: object, text: str) -> list[str]:
    with pytest.raises(OutputParsingError) as raised:
        read(tp, data, text)
    return [problem.path for problem in raised.value.problems]


class Color(Enum):
    DARK_RED = "dark red"
    BLUE = "b"


@dataclass
class Duty:
    title: str
    days: int


class Pair(NamedTuple):
    one: Cited[int]
    other: Cited[str]


class Keys(TypedDict):
    party: Cited[str]


class Model(BaseModel):
    party: Cited[str]
    duties: list[Cited[Duty]]
    by_name: dict[str, Cited[int]]
    either: Cited[int] | str
    missing: Cited[str] | None


TEXT = "ACME Corp. pays 1,500 euros to Bob. Bob reports in 30 days."


def test_a_value_has_the_place_of_its_quote() -> None:
    cited = read(Cited[str], {"quote": "acme  CORP. pays", "value": "Acme Corp"}, TEXT)
    assert cited.value == "Acme Corp"
    assert (cited.quote, cited.document, cited.start, cited.end) == ("ACME Corp. pays", "text 0", 0, 15)
    assert (cited.match, cited.score, cited.value_checked) == ("normalized", 1.0, True)
    assert cited.places == (Place("text 0", 0, 15),)
    assert repr(cited) == "Cited('Acme Corp', 'ACME Corp. pays', 'text 0', 0:15, 'normalized')"


def test_cited_values_are_read_at_any_depth_and_keep_their_places_when_written() -> None:
    data = {
        "party": {"quote": "ACME Corp.", "value": "ACME Corp."},
        "duties": [{"quote": "Bob reports in 30 days", "value": {"title": "reports", "days": 30}}],
        "by_name": {"sum": {"quote": "1,500 euros", "value": 1500}},
        "either": {"quote": "in 30 days", "value": 30},
        "missing": None,
    }
    value = read(Model, data, TEXT)
    assert [value.party.start, value.duties[0].start, value.by_name["sum"].end] == [0, 36, 27]
    assert value.duties[0].value == Duty("reports", 30)
    assert value.either.quote == "in 30 days"
    assert pickle.loads(pickle.dumps(value)) == value
    assert parser_for(Model).parse(parser_for(Model).write(value)) == value
    with values_with_details():
        text = parser_for(Model).write(value)
        assert parser_for(Model).parse(text) == value
    assert json.loads(text)["party"]["end"] == 10
    assert json.loads(value.model_dump_json())["party"]["start"] == 0


def test_other_records_have_cited_fields_too() -> None:
    one, other = {"quote": "30 days", "value": 30}, {"quote": "to Bob", "value": "Bob"}
    assert read(Pair, {"one": one, "other": other}, TEXT).one.start == 51
    assert read(Keys, {"party": other}, TEXT)["party"].value == "Bob"
    assert read(tuple[Cited[int], Cited[str]], [one, other], TEXT)[1].quote == "to Bob"


def test_problems_are_at_the_quote_or_at_the_value() -> None:
    good = {"quote": "in 30 days", "value": 30}
    assert problems(list[Cited[int]], [good, {"quote": "in 40 days", "value": 40}], TEXT) == ["$[1]"]
    assert problems(list[Cited[int]], [{"quote": "in 30 days", "value": 3}, good], TEXT) == ["$[0]"]
    duty = {"quote": "Bob reports in 30 days", "value": {"title": "reports", "days": 31}}
    assert problems(dict[str, Cited[Duty]], {"a": duty}, TEXT) == ["$.a"]
    assert problems(Cited[int], {"quote": "", "value": 3}, TEXT) == ["$"]


def test_what_is_checked_can_be_chosen() -> None:
    wrong = {"quote": "in 30 days", "value": 3}
    assert read(Cited[int], wrong, TEXT, check="quote").value_checked is False
    missing = read(Cited[int], {"quote": "in 40 days", "value": 3}, TEXT, check="off")
    assert (missing.value, missing.quote, missing.match, missing.start) == (3, "in 40 days", "", None)
    assert parse(Cited[int], json.dumps(wrong)).match == ""


@pytest.mark.parametrize(
    ("tp", "quote", "value", "wrong"),
    [
        (int, "for 1,500 euros", 1500, 15),
        (int, "2.5 million people", 2_500_000, 2),
        (int, "twenty-five days", 25, 20),
        (int, "in May 2024", 2024, 202),
        (float, "at 12.5 %", 0.125, 1.25),
        (Decimal, "1.500,00 EUR", "1500.00", "150"),
        (Fraction, "1/3 of it", "1/3", "1/4"),
        (date, "on 3 May 2024", "2024-05-03", "2024-05-04"),
        (date, "on 03/05/2024", "2024-03-05", "2024-03-06"),
        (datetime, "on 3 May 2024 at 10:30", "2024-05-03T10:30:00", "2024-05-03T10:31:00"),
        (time, "at 9:05", "21:05:00", "09:06:00"),
        (timedelta, "within 30 days", "P30D", "P31D"),
        (str, "paid by ACME Corp.", "Acme Corp", "Acme Corporation"),
        (str, "on 3 May 2024", "2024-05-03", "2024-05-04"),
        (Literal["rent", "sale"], "for rent", "rent", "sale"),
        (Color, "the dark red one", "dark red", "b"),
        (bool, "smoker: yes", True, False),
        (list[int], "5, 6 and 7", [5, 7], [5, 8]),
        (dict[str, int], "a is 5", {"a": 5}, {"a": 6}),
        (dict[str, int], "the monthly rent is 5", {"monthly_rent": 5}, {"monthly_rent": 6}),
        (dict[int, str], "5 men", {5: "men"}, {6: "men"}),
        (dict[Literal["rent", "sale"], int], "rent of 5", {"rent": 5}, {"sale": 5}),
        (datetime, "on 3 May 2024 at 0:00", "2024-05-03T00:00:00", "2024-05-04T00:00:00"),
        (int | None, "5 men", 5, 6),
        (Literal["paid", "not paid"], "not paid", "not paid", "paid"),
        (Literal["paid", "not paid"], "paid in May", "paid", "not paid"),
        (Literal["Paid", "paid", "open"], "paid in May", "paid", "open"),
        (Literal["≤ 5", "> 5"], "x > 5", "> 5", "≤ 5"),
        (str, "x ≥ 5 mm", "x ≥ 5", "x ≤ 5"),
        (str, "x ≥ 5 mm", "5 mm", "< 5 mm"),
        (str, "a ≠ b", "a ≠ b", "a = b"),
        (str, "the mark ✓", "✓", "✗"),
        (str, "the code 00123", "00123", "123"),
        (str, "the total 1,250.00", "1250", "01250"),
        (int, "共250毫克", 250, 25),
        (int, "共99万元", 990000, 99),
        (int, "rent – 500 EUR", 500, 50),
        (int | str, "5 men", "men", "women"),
        (list[Duty], "report in 5 days", [{"title": "report", "days": 5}], [{"title": "report", "days": 6}]),
    ],
)
def test_the_value_must_be_in_the_quote(tp: Any, quote: str, value: object, wrong: object) -> None:
    text = f"There was {quote}."
    assert read(Cited[tp], {"quote": quote, "value": value}, text).value_checked is True
    assert problems(Cited[tp], {"quote": quote, "value": wrong}, text) == ["$"]


@pytest.mark.parametrize(
    ("tp", "quote", "value"),
    [
        (Literal["rent", "sale"], "the tenant pays", "rent"),
        (bool, "no later than Monday", True),
        (bool, "he smokes", True),
        (bytes, "some text", "some"),
        (datetime, "on 3 May 2024", "2024-05-03T00:00:00"),
        (time, "open until midnight", "00:00:00"),
        (dict[str, int], "the rent is 5", {"price": 5}),
        (dict, "the rent is 5", {"price": 5}),
    ],
)
def test_some_values_cannot_be_checked(tp: Any, quote: str, value: object) -> None:
    assert read(Cited[tp], {"quote": quote, "value": value}, f"So {quote}.").value_checked is False


def test_a_number_that_goes_on_outside_of_the_quote_is_not_in_it() -> None:
    assert problems(Cited[int], {"quote": "he paid 5", "value": 5}, "he paid 5 million") == ["$"]


def test_a_missing_value_needs_no_quote() -> None:
    assert read(Cited[int | None], {"quote": "", "value": None}, TEXT).match == ""


def test_several_places_are_resolved_by_the_neighbours() -> None:
    text = "A: Bob, 5 cats.\nB: Bob, 6 cats.\nC: Bob, 7 cats."
    name, cats = {"quote": "Bob", "value": "Bob"}, {"quote": "6 cats", "value": 6}
    alone = read(Cited[str], name, text)
    assert [place.start for place in alone.places] == [3, 19, 35]
    assert alone.start == 3
    both = read(dict[str, Cited[Any]], {"name": name, "cats": cats}, text)
    assert (both["name"].start, len(both["name"].places)) == (19, 1)


def test_the_items_of_a_list_have_one_place_each_if_there_are_as_many() -> None:
    item = {"quote": "Row X", "value": "Row X"}
    text = "Row X pays. Row X pays. Row X pays."
    assert [one.start for one in read(list[Cited[str]], [item] * 3, text)] == [0, 12, 24]
    assert [len(one.places) for one in read(list[Cited[str]], [item] * 2, text)] == [3, 3]


def test_the_document_with_the_better_match_is_cited() -> None:
    cited = read(Cited[str], {"quote": "the cat", "value": "cat"}, "THE CAT", "so the cat")
    assert (cited.document, cited.start, cited.match) == ("text 1", 3, "exact")


def test_a_cited_cannot_be_changed_or_taken_for_its_value() -> None:
    cited = Cited(5, "5 men")
    with pytest.raises(AttributeError, match="cannot be changed"):
        cited.value = 6  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"use its \.value"):
        bool(cited)
    assert cited == Cited(5, "5 men") != Cited(6, "5 men")
    assert hash(cited) == hash(Cited(5, "5 men"))


def test_cited_needs_a_type() -> None:
    with pytest.raises(UnsupportedTypeError, match="write what is cited, as in Cited"):
        parser_for(Cited)


def test_an_answer_has_quotes_for_each_sentence() -> None:
    data = {
        "sentences": [
            {"text": "ACME pays.", "quotes": ["acme Corp. pays 1,500 euros", "to Bob"]},
            {"text": "That is all.", "quotes": []},
        ]
    }
    answer = read(CitedText, data, TEXT)
    assert (answer.text, str(answer)) == ("ACME pays. That is all.", "ACME pays. That is all.")
    assert [(one.value, one.start, one.match) for one in answer.quotes] == [
        ("ACME Corp. pays 1,500 euros", 0, "normalized"),
        ("to Bob", 28, "exact"),
    ]
    assert repr(answer.quotes[1]) == "Quote('to Bob', 'text 0', 28:34, 'exact')"
    assert pickle.loads(pickle.dumps(answer)) == answer
    parser = parser_for(CitedText)
    assert parser.parse(parser.write(answer)) == answer
    with values_with_details():
        assert parser.parse(parser.write(answer)).quotes[0].end == 27
    data["sentences"][0]["quotes"] = ["to Bob", "to Ann"]  # type: ignore[index]
    assert problems(CitedText, data, TEXT) == ["$.sentences[0].quotes[1]"]
    assert TypeAdapter(Quote).validate_json(TypeAdapter(Quote).dump_json(answer.quotes[1])).start == 28
