"""What is known to be wrong in the table of faults: one rule for each cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .calls import Cell
from .dialects import ANTHROPIC, DIALECTS, RESPONSES, Dialect
from .table import KINDS, STREAMS

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
        "the blocking client takes trailers for a response without headers",
        ["trailers", "trailers ", "a redirect with trailers"],
        BLOCKING,
    ),
    Rule(
        "aiohttp takes the bytes after a body that is longer than its length for a broken connection",
        ["a length that is too short"],
        ASYNC,
    ),
    Rule(
        "aiohttp refuses responses whose length is given twice, and libcurl reads them",
        ["the same length twice", "a length with chunks"],
        ASYNC,
    ),
    Rule("libcurl ignores a length that is too large for it", ["a length beyond all numbers"], BLOCKING),
    Rule(
        "an empty body of a whole reply is not an error that may be repeated",
        ["204", "200 without a body", "a length of 0"],
        ("blocking", "async"),
    ),
    Rule("libcurl and aiohttp decode different codings", ["x-gzip", "gzip twice"], ASYNC),
    Rule("libcurl reads one member of gzip", ["gzip of two members"], BLOCKING),
    Rule("libcurl refuses unknown codings", ["an unknown coding", "an unknown coding "], BLOCKING),
    Rule("bytes after the end of gzip are refused", ["gzip with bytes after its end"], (*ASYNC, "blocking")),
    Rule("gzip that is cut is read as if it were complete", ["gzip that is cut"], ("blocking", "async")),
    Rule("a redirect after a 401 is not followed", ["a redirect after a 401"]),
    Rule(
        "control characters of providers are in messages",
        ["502 with a page", "an error with control characters", "a page with control characters"],
    ),
    Rule("long numbers in errors raise a ValueError", ["an error whose code has 5,000 digits"]),
    Rule("the size of an error is not limited in time", ["a huge error"], BLOCKING),
    Rule(
        "the status of an error whose body is cut is lost",
        ["an error that is cut", "an error whose chunks break", "a 429 that is cut"],
    ),
    Rule("a header that comes twice is read in two ways", ["Retry-After twice"]),
    Rule("a BOM before JSON is refused", ["JSON with a BOM"]),
    Rule(
        "the content type alone says whether a reply is a stream",
        [
            "JSON that is labelled text",
            "JSON that is labelled a stream",
            "JSON without a content type",
            "a page with the status 200",
            "a text with the status 200",
            "a stream that is labelled JSON",
        ],
        STREAMS,
    ),
    Rule(
        "text that is not valid Unicode is refused",
        [
            "invalid UTF-8 in the text",
            "half a surrogate in the text",
            "invalid UTF-8 in an event",
            "half a surrogate in an event",
        ],
    ),
    Rule(
        "lines of event streams may not end with CR",
        ["CR", "CR in packets of one byte", "mixed line ends", "data over several lines with CR"],
        STREAMS,
    ),
    Rule(
        "a BOM before a stream of events loses the first one",
        ["a BOM", "a BOM in packets of one byte"],
        STREAMS,
    ),
    Rule(
        "events without data are read",
        ["an empty data line", "an empty data line with a space", "two empty data lines"],
        STREAMS,
    ),
    Rule("an event without a type ends the call", ["data: {}"], STREAMS, (ANTHROPIC,)),
    Rule("events after the end are read", ["events after the end"], STREAMS, (RESPONSES, ANTHROPIC)),
    Rule(
        "a stream that is cut after its finish reason is not complete",
        ["a close after the finish reason", "a reset after the finish reason"],
        STREAMS,
        (ANTHROPIC,),
    ),
]
