"""A parser for your own type: a ParserFactory that reads Money, alone and inside a record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from aiservices import ChatModel, create, user_message
from output_parsers import OutputParser, OutputParsingError, ParserRegistry, Problem, Target

from .program import run

PRICE = "The book cost me 12.50 euros."
PATTERN = r"([0-9]{1,9}(?:\.[0-9]{2})?) (EUR|GBP|USD)"


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str


class MoneyParser:
    """A parser for amounts of money such as "12.50 EUR"."""

    schema: Mapping[str, Any] = {"type": "string", "pattern": f"^{PATTERN}$"}

    def format_instructions(self) -> str:
        return 'amount and currency, such as "8.25 EUR"'

    def parse(self, text: str) -> Money:
        match = re.fullmatch(PATTERN, text.strip().strip('"'))
        if match is None:
            raise OutputParsingError(text, [Problem("$", "expected an amount and EUR, GBP or USD", text)])
        return Money(Decimal(match[1]), match[2])


def money(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
    """Return a parser for the type Money, or None if the type is not Money."""
    return MoneyParser() if target.type is Money else None


@dataclass
class Receipt:
    shop: str
    total: Money


class Bookkeeper(Protocol):
    @user_message("What was paid?\n\nText: {{text}}")
    def price(self, text: str) -> Money: ...

    @user_message("Extract the receipt from this text.\n\nText: {{text}}")
    def receipt(self, text: str) -> Receipt: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print a price and a receipt. ``model`` is passed to ``create``."""
    bookkeeper = create(Bookkeeper, model, parsers=[money])
    print(bookkeeper.price(PRICE))
    print(bookkeeper.receipt("At Harper's I paid 20.00 pounds for a lamp."))


if __name__ == "__main__":
    run(main)
