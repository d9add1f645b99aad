"""The time to parse a text grows linearly with the length of the text."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from output_parsers import OutputParser, OutputParsingError
from output_parsers.text import (
    CommaSeparatedListOutputParser,
    DatetimeOutputParser,
    MarkdownJsonDictParser,
    MarkdownListOutputParser,
    MultiTaggedContentParser,
    NumberedListOutputParser,
    RegexOutputParser,
    RegexTaggedContentParser,
    TaggedContent,
    XmlOutputParser,
)

PARSERS: list[OutputParser[Any]] = [
    CommaSeparatedListOutputParser(),
    DatetimeOutputParser(),
    MarkdownJsonDictParser(),
    MarkdownListOutputParser(),
    MultiTaggedContentParser(TaggedContent("a", "<a>", "", "</a>"), TaggedContent("b", "<b>", "", "</b>")),
    NumberedListOutputParser(),
    RegexOutputParser("x(y)", ["y"]),
    RegexTaggedContentParser(),
    XmlOutputParser(),
    XmlOutputParser(root="a"),
]
UNITS = [
    *(
        "<a>",
        "</a>",
        "<a></a>",
        '<a b="',
        "<a>1</a><b>2</b>",
        "<",
        "</",
        "<!--",
        "<![CDATA[",
        "<?",
        "&amp;",
        "&",
    ),
    *(",", "\n", '"', '""', "1. ", "1.\n", "- ", "-\n", "* * *\n", " ", "```", "{", "x", "<think></think>"),
]


def seconds(parser: OutputParser[Any], text: str, runs: int = 1) -> float:
    """Return the processor time that parsing takes: the shortest of several runs."""
    times = []
    # The garbage collector visits all objects of the test session, so its time is not that of the parser.
    gc.disable()
    try:
        for _ in range(runs):
            start = time.process_time()
            try:
                parser.parse(text)
            except OutputParsingError:
                pass
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_text_of_a_megabyte_takes_linear_time(unit: str) -> None:
    small, large = unit * (100_000 // len(unit)), unit * (1_000_000 // len(unit))
    for parser in PARSERS:
        # A parser with quadratic time takes far more than a second, so the others are not measured again.
        if seconds(parser, large) >= 1:
            # For 10 times the text, linear time is 10 times as long, and quadratic time is 100 times as long.
            assert seconds(parser, large, 3) < 40 * seconds(parser, small, 5), type(parser).__name__
