"""The time to parse a text grows linearly with the length of the text."""

from __future__ import annotations

from typing import Any

import pytest
from growth import growing

from output_parsers import OutputParser
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


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: type(parser).__name__)
def test_the_time_grows_in_proportion_to_the_text(parser: OutputParser[Any]) -> None:
    assert growing(parser.parse, UNITS) == {}
