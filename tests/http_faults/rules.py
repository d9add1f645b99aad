"""What is known to be wrong in the table of faults: one rule for each cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .calls import Cell
from .dialects import DIALECTS, Dialect
from .table import KINDS

BLOCKING = ("blocking", "stream")
ASYNC = ("async", "async stream")


@dataclass(frozen=True)
class Rule:
    """A cause of wrong outcomes.

    Attributes:
        reason: A sentence that says what is wrong.
        faults: The names of the faults; one that ends with a space stands for all that begin like that.
        kinds: The kinds of calls with a wrong outcome.
        dialects: The dialects with a wrong outcome.
    """

    reason: str
    faults: Sequence[str]
    kinds: Sequence[str] = KINDS
    dialects: Sequence[Dialect] = DIALECTS

    def covers(self, cell: Cell) -> bool:
        name = cell.fault.name
        is_named = any(name == one or (one.endswith(" ") and name.startswith(one)) for one in self.faults)
        return is_named and cell.kind in self.kinds and cell.dialect in self.dialects


RULES = [
    Rule(
        "aiohttp reports faults after the bytes that it has received before these bytes",
        ["a length that is too short", "an error whose chunks break"],
        ASYNC,
    ),
    Rule(
        "aiohttp refuses responses with two lengths or a space after a header's name, and libcurl reads them",
        ["the same length twice", "a length with chunks", "a space before the colon"],
        ASYNC,
    ),
    Rule("aiohttp ignores transfer codings that it does not know", ["an unknown transfer coding"], ASYNC),
    Rule("libcurl refuses a blank line before a response", ["a blank line first"], BLOCKING),
    Rule("libcurl ignores a length that is too large for it", ["a length beyond all numbers"], BLOCKING),
]
