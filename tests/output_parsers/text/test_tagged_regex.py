"""The content of tags with any name is read as by the parser of AgentScope."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from output_parsers import OutputParsingError
from output_parsers.text import RegexTaggedContentParser, TextResponse

REGEX = RegexTaggedContentParser()
TAGGED = "[SPEAK]Hello, world![/SPEAK]\n[THOUGHT]xxx[/THOUGHT]\n[END_DISCUSSION]true[/END_DISCUSSION]"


def problems(parser: RegexTaggedContentParser, text: str) -> list[str]:
    with pytest.raises(OutputParsingError) as error:
        parser.parse(text)
    assert error.value.text == text
    return [str(problem) for problem in error.value.problems]


def test_tags_with_any_name_are_read() -> None:
    text = "<thought>I add 40\nand 2.</thought><number>42</number>\n<code>if 1 < 2:\n    print()</code>"
    assert REGEX.parse(TextResponse(text)).parsed == {
        "thought": "I add 40\nand 2.",
        "number": 42,
        "code": "if 1 < 2:\n    print()",
    }


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('<a>{"b": [1, 2.5]}</a>', {"a": {"b": [1, 2.5]}}),
        ("<a> true </a><b>007</b>", {"a": True, "b": "007"}),
        ("<a>{'b': 1}</a>", {"a": "{'b': 1}"}),
        ("<a>NaN</a><b>1e999</b>", {"a": "NaN", "b": "1e999"}),
        ("<a>x</><b></b>", {"a": "x", "b": ""}),
        ("1 < 2, so <a><b>1</b></a>", {"a": "<b>1</b>"}),
        ("<a>1</a><a> 1 </a><br>", {"a": 1}),
        ("<my name>1</my name>", {"my name": 1}),
        ("<think>First <a>1</a>?</think><a>2</a>", {"a": 2}),
        ("First <a>1</a>?</think><a>2</a>", {"a": 2}),
    ],
)
def test_content_of_a_tag_is_read_as_json_only_if_it_is_exact_json(text: str, parsed: Any) -> None:
    assert REGEX.parse(text) == parsed


def test_content_of_a_tag_stays_text_when_json_is_not_tried() -> None:
    assert RegexTaggedContentParser(try_parse_json=False).parse("<a>1</a>") == {"a": "1"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("None.", "$: expected tagged content, such as <name>content</name>; the reply contains none"),
        ("<a>1</a><a>2</a>", "$: <a> occurs twice with different contents"),
        ("<a>Write <a>1</a></a>", "$: <a> is inside another <a>"),
        ("<a>x</a><b>4", "$: the tag </b> is missing after <b>"),
        ("<think>Is it <a>1</a>", "$: the reply ends inside its reasoning"),
    ],
)
def test_ambiguous_tags_are_refused(text: str, problem: str) -> None:
    assert problems(REGEX, text) == [problem]


def test_required_tags_are_in_the_instructions_and_their_absence_is_an_error() -> None:
    parser = RegexTaggedContentParser(required_keys=["think", "number"])
    assert parser.parse("<think>Hm.</think><number>1</number>") == {"think": "Hm.", "number": 1}
    assert problems(parser, "<number>1</number>") == [
        "$: these tags are missing: <think>; there are: <number>"
    ]
    assert problems(parser, "1") == ["$: these tags are missing: <think>, <number>; there are: none"]
    assert parser.format_instructions() == (
        "Reply with these tags:\n<think>your think</think>\n<number>your number</number>"
    )
    assert RegexTaggedContentParser(format_instruction="Use tags.").format_instructions() == "Use tags."
    assert REGEX.format_instructions() == ""


def test_tags_are_found_by_a_custom_pattern() -> None:
    pattern = r"\[(?P<name>\w+)\](?P<content>.*?)\[/(?P=name)\]"
    parser = RegexTaggedContentParser(pattern, required_keys=["SPEAK"])
    assert parser.parse(TAGGED) == {"SPEAK": "Hello, world!", "THOUGHT": "xxx", "END_DISCUSSION": True}
    assert parser.format_instructions() == ""


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "the pattern '(' is invalid: missing ), unterminated subpattern at position 0"),
        ("(?P<name>a)", "the pattern '(?P<name>a)' has no group named 'content'"),
    ],
)
def test_a_pattern_without_name_and_content_raises_an_error_at_creation(pattern: str, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        RegexTaggedContentParser(pattern)
    assert str(error.value) == message


@given(
    st.dictionaries(
        st.from_regex(r"(?!br$|hr$)[a-z]{2,8}", fullmatch=True),
        st.text(st.characters(exclude_characters="<")),
        min_size=1,
    )
)
def test_written_tags_are_read_back(contents: dict[str, str]) -> None:
    required = list(contents)
    parser = RegexTaggedContentParser(try_parse_json=False, required_keys=required)
    assert parser.parse("\n".join(f"<{name}>{text}</{name}>" for name, text in contents.items())) == contents
