"""A fake model answers with values that occur in the documents of the call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, Protocol

import pytest

from aiservices import (
    Cited,
    CitedText,
    Document,
    Result,
    ServiceOutputError,
    Strategy,
    create,
    options,
    user_message,
)
from aiservices.documents import Split, by
from aiservices.testing import FakeChatModel
from aiservices.testing.citations import about_part
from output_parsers import parser_for
from output_parsers.types.evidence import Sources

DOCUMENT = Document("Ann pays 1,250.50 euros from 3 May 2024 on. She has 2 cats and 14 days of holidays.")


@dataclass
class Duty:
    what: str
    days: int


@dataclass
class Contract:
    tenant: Cited[str]
    start: Cited[date]
    rent: Cited[Decimal]
    cats: list[Cited[int]]
    duty: Cited[Duty] | None
    kind: Cited[Literal["rent", "sale"]]


class Reader(Protocol):
    @user_message("Extract this.\n\n{{document}}")
    def contract(self, document: Document) -> Contract: ...
    @user_message("Explain this.\n\n{{document}}")
    def explain(self, document: Document) -> CitedText: ...


@pytest.mark.parametrize("strategy", [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.PROMPT])
def test_each_cited_value_stands_in_the_document(strategy: Strategy) -> None:
    for seed in range(5):
        reader = create(Reader, FakeChatModel(seed), strategy=strategy)
        contract = reader.contract(DOCUMENT)
        assert contract.start.value == date(2024, 5, 3)
        assert contract.rent.value in {Decimal(number) for number in ("1250.50", "3", "2024", "2", "14")}
        assert contract.tenant.value in DOCUMENT.text
        assert all(cats.value_checked for cats in contract.cats)
        for quote in reader.explain(DOCUMENT).quotes:
            assert DOCUMENT.text[quote.start : quote.end] == quote.quote


def test_a_document_without_such_a_value_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"have no value for \$\.start; pass the answer"):
        create(Reader, FakeChatModel()).contract(Document("Ann pays nothing."))


@dataclass
class Owned:
    owner: Cited[str]
    cats: Cited[int]
    note: str
    items: list[str]


class Long(Protocol):
    @options(split=Split(tokens=20, overlap=5), merge={"items": by("name")})
    @user_message("Extract this.\n\n{{documents}}")
    def things(self, documents: list[Document]) -> Things: ...
    @options(split=Split(tokens=20, overlap=5))
    @user_message("Extract this.\n\n{{document}}")
    def owned(self, document: Document) -> Result[Owned]: ...
    @options(split=Split(tokens=20, overlap=5))
    @user_message("Extract this.\n\n{{document}}")
    def names(self, document: Document) -> list[str]: ...
    @options(split=Split(tokens=20, overlap=5))
    @user_message("Extract this.\n\n{{document}}")
    def count(self, document: Document) -> int: ...


@dataclass
class Thing:
    name: str
    price: int


@dataclass
class Things:
    title: str
    items: list[Thing]
    by_name: dict[str, int]


def test_the_parts_of_a_long_document_do_not_contradict_each_other() -> None:
    text = " ".join(f"Ann has {number} cats and Bob pays {10 * number} euros." for number in range(1, 30))
    for seed in range(10):
        reader = create(Long, FakeChatModel(seed))
        owned = reader.owned(Document(text))
        assert owned.conflicts == ()
        assert text[owned.value.cats.start : owned.value.cats.end] == owned.value.cats.quote
        assert reader.things([Document(text), Document(text[:300])]).title
        assert reader.names(Document(text))
        assert isinstance(reader.count(Document(text)), int)


@dataclass
class Term:
    name: str
    days: Cited[int]
    fee: Cited[int] | None


@dataclass
class Terms:
    party: Cited[str]
    rent: Cited[Decimal]
    terms: list[Term]
    tags: list[str]
    counts: dict[str, int]


class Lawyer(Protocol):
    @options(split=Split(tokens=20, overlap=5), merge={"terms": by("name")})
    @user_message("Extract this.\n\n{{document}}")
    def terms(self, document: Document) -> Terms: ...


def test_given_values_with_quotes_in_several_parts_are_found_in_each_of_them() -> None:
    filler = " Nothing here." * 30
    terms = f"Repairs take 14 days and cost 90 euros.{filler} Answers take 3 days."
    text = f"The tenant is Ann.{filler} {terms}{filler} Pay 500.50."
    answer = Terms(
        party=Cited("Ann", "tenant is Ann"),
        rent=Cited(Decimal("500.50"), "Pay 500.50"),
        terms=[
            Term("repairs", Cited(14, "take 14 days"), Cited(90, "cost 90 euros")),
            Term("answers", Cited(3, "take 3 days"), None),
        ],
        tags=["lease"],
        counts={"rooms": 2},
    )
    assert create(Lawyer, FakeChatModel(values={Terms: answer})).terms(Document(text)) == answer
    answer.rent = Cited(Decimal(501), "Pay 501")
    with pytest.raises(ServiceOutputError) as caught:
        create(Lawyer, FakeChatModel(values={Terms: answer})).terms(Document(text))
    assert [str(problem) for problem in caught.value.problems] == [
        "$.rent: no part of the document has a value"
    ]


def test_given_values_of_a_long_document_are_found_in_the_part_with_their_quotes() -> None:
    text = "Nothing here. " * 30 + "Ann has 7 cats. " + "Nothing more. " * 30
    value = Owned(Cited("Ann", "Ann has"), Cited(7, "7 cats"), "a note", ["x"])
    fake = FakeChatModel(values={Owned: value})
    owned = create(Long, fake).owned(Document(text))
    assert (owned.value.cats.value, owned.value.note, owned.value.items) == (7, "a note", ["x"])
    assert len(fake.requests) > 10


@dataclass
class Lease:
    part: Thing | None
    party: Cited[str]


def test_a_field_without_quotes_is_not_in_a_part_because_a_longer_name_is() -> None:
    sources = Sources({"text": Document("The tenant is Ann.")}, is_continued=True)
    answer = '{"part":{"name":"a","price":1},"party":{"quote":"tenant is Ann","value":"Ann"}}'
    about = json.loads(about_part(parser_for(Lease), answer, sources))
    assert (about["part"], about["party"]["value"]) == (None, "Ann")
