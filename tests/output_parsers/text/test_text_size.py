"""The time to read a text grows linearly with its length, whatever it contains."""

from __future__ import annotations

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


def seconds(parser: OutputParser[Any], text: str) -> float:
    start = time.process_time()
    try:
        parser.parse(text)
    except OutputParsingError:
        pass
    return time.process_time() - start


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_a_text_of_a_megabyte_takes_linear_time(unit: str) -> None:
    small, large = unit * (50_000 // len(unit)), unit * (1_000_000 // len(unit))
    for parser in PARSERS:
        taken = seconds(parser, large)
        # 20 times the text; a quadratic reader takes 400 times the time, and far more than a second.
        if taken >= 1:  # a busy machine, or a slow reader
            taken = min(taken, seconds(parser, large))
            assert taken < 200 * min(seconds(parser, small) for _ in range(3)), type(parser).__name__
