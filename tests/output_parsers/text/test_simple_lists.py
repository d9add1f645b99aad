"""List parsers work like those of LangChain, and return items or raise a parsing error."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, strategies as st

from output_parsers import OutputParser, OutputParsingError
from output_parsers.text import (
    CommaSeparatedListOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
)

COMMA = CommaSeparatedListOutputParser()
NUMBERED = NumberedListOutputParser()
MARKDOWN = MarkdownListOutputParser()


def refusal(parser: OutputParser[list[str]], text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parser.parse(text)
    assert error.value.text == text
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("foo", ["foo"]),
        ("foo, bar, baz", ["foo", "bar", "baz"]),
        ("foo,bar,baz", ["foo", "bar", "baz"]),
        ('"foo, foo2",bar,baz', ["foo, foo2", "bar", "baz"]),
        ('"say ""hi""", b', ['say "hi"', "b"]),
        ("a\nb, c", ["a", "b", "c"]),
        ('"two\nlines", b', ["two\nlines", "b"]),
    ],
)
def test_a_comma_list_is_read_as_langchain_reads_it(text: str, items: list[str]) -> None:
    assert COMMA.parse(text) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("foo ,bar\t", ["foo", "bar"]),
        ("foo,\nbar,\n", ["foo", "bar"]),
        ("foo,,bar", ["foo", "", "bar"]),
        ('""', [""]),
        ('a, ""', ["a", ""]),
        ('5" pipe, "Hello" World', ['5" pipe', '"Hello" World']),
        ("Here are the items:\nfoo, bar", ["foo", "bar"]),
        ("```\nfoo, bar\n```", ["foo", "bar"]),
        ('["foo, bar", "baz"]', ["foo, bar", "baz"]),
        ("[1], [2]", ["[1]", "[2]"]),
        ("[1, 2.50]", ["1", "2.50"]),
        ("[foo, 'bar, baz']", ["foo", "bar, baz"]),
        ("<think>one, two</think>foo, bar", ["foo", "bar"]),
    ],
)
def test_a_comma_list_is_read_without_the_text_around_it(text: str, items: list[str]) -> None:
    assert COMMA.parse(text) == items


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "$: expected values separated by commas; the reply contains none"),
        ("[1, {}]", "$[1]: expected text, found an empty object"),
        (" , ", "$: expected values separated by commas; the reply contains none"),
        ('a, "b, c', "$[1]: the quote that opens this item is never closed"),
        ('"a, b" c, d', "$[0]: there is text after the closing quote of this item"),
    ],
)
def test_an_empty_or_ambiguous_comma_list_is_refused(text: str, message: str) -> None:
    assert refusal(COMMA, text) == f"cannot read the text: {message} (the text: {text!r})"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_items_written_as_quoted_csv_are_read_back(items: list[str]) -> None:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerow(items)
    assert COMMA.parse(written.getvalue()) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (
            "Your response should be a numbered list with each item on a new line. "
            "For example: \n\n1. foo\n\n2. bar\n\n3. baz",
            ["foo", "bar", "baz"],
        ),
        ("Items:\n\n1. apple\n\n    2. banana\n\n3. cherry", ["apple", "banana", "cherry"]),
        ("No items in the list.", []),
    ],
)
def test_a_numbered_list_is_read_as_langchain_reads_it(text: str, items: list[str]) -> None:
    assert NUMBERED.parse(text) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1) foo\r\n2) bar\r\n", ["foo", "bar"]),
        ("Founded in 1968. It has\n1. foo\n2. bar", ["foo", "bar"]),
        ("Sure! 1. foo\n2. bar", ["foo", "bar"]),
        ("Sure! 1. foo\n\n2. bar", ["foo", "bar"]),
        ("1. foo\n   goes on\n2. bar\nThat is all.", ["foo\ngoes on", "bar"]),
        ("1. Fruit\n   - apple\n2. Bread", ["Fruit\n- apple", "Bread"]),
        ("1.\nfoo\n2. 3.5 litres", ["foo", "3.5 litres"]),
        ("<think>\n1. maybe\n</think>\n1. foo", ["foo"]),
        ("None", []),
        ("There are no results.", []),
    ],
)
def test_a_numbered_list_is_read_completely_and_without_the_prose(text: str, items: list[str]) -> None:
    assert NUMBERED.parse(text) == items


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("I cannot help with that.", "$: expected a numbered list; the reply has no items"),
        ("- foo\n- bar", "$: expected a numbered list; the reply has no items"),
        ("No, I will not.", "$: expected a numbered list; the reply has no items"),
        ("", "$: expected a numbered list; the reply has no items"),
        ("1. foo\n2.", "$[1]: this item is empty"),
    ],
)
def test_a_text_without_a_numbered_list_is_refused(text: str, message: str) -> None:
    assert refusal(NUMBERED, text) == f"cannot read the text: {message} (the text: {text!r})"


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (
            "Your response should be a numbered - not a list item - list with each item on a new line."
            "For example: \n- foo\n- bar\n- baz",
            ["foo", "bar", "baz"],
        ),
        ("Items:\n- apple\n     - banana\n- cherry", ["apple", "banana", "cherry"]),
        ("No items in the list.", []),
        ("* foo\n+ bar\n• baz", ["foo", "bar", "baz"]),
        ("- foo\n---\n- bar\n* * *\n", ["foo", "bar"]),
    ],
)
def test_a_markdown_list_is_read_as_langchain_reads_it(text: str, items: list[str]) -> None:
    assert MARKDOWN.parse(text) == items


def test_a_text_without_a_markdown_list_is_refused() -> None:
    assert refusal(MARKDOWN, "1. foo") == (
        "cannot read the text: $: expected a markdown list; the reply has no items (the text: '1. foo')"
    )


@given(st.lists(st.from_regex(r"[a-zA-Z][a-zA-Z ,.]{0,20}[a-z]", fullmatch=True), min_size=1, max_size=20))
def test_items_written_as_a_list_are_read_back(items: list[str]) -> None:
    numbered = "\n".join(f"{number}. {item}" for number, item in enumerate(items, start=1))
    assert NUMBERED.parse(f"Here they are:\n\n{numbered}\n\nDone.") == items
    assert MARKDOWN.parse("\n".join(f"- {item}" for item in items)) == items


LIKE_A_LIST = st.text() | st.text(st.sampled_from('12.)-* ,"\n\r\tab[]`<>/think'))


@given(LIKE_A_LIST)
def test_any_text_gives_items_or_a_parsing_error(text: str) -> None:
    for parser in (COMMA, NUMBERED, MARKDOWN):
        try:
            items = parser.parse(text)
        except OutputParsingError as error:
            items = [error.text]
        assert all(isinstance(item, str) for item in items)


def test_the_instructions_of_lists_show_an_example() -> None:
    assert [parser.format_instructions() for parser in (COMMA, NUMBERED, MARKDOWN)] == [
        "Reply with values separated by commas and nothing else, such as: foo, bar, baz",
        "Reply with a numbered list, each item on a line of its own, such as:\n1. foo\n2. bar\n3. baz",
        "Reply with a markdown list, each item on a line of its own, such as:\n- foo\n- bar\n- baz",
    ]
    assert [parser.schema for parser in (COMMA, NUMBERED, MARKDOWN)] == [None, None, None]
