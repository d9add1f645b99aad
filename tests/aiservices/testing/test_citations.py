"""A fake model answers with values that stand in the documents of the call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, Protocol

import pytest

from aiservices import Cited, CitedText, Document, Strategy, create, user_message
from aiservices.testing import FakeChatModel

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
