"""Parsers for JSON, enums, patterns, datetimes and unchanged text work like those of LangChain."""

from __future__ import annotations

import re
import types
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from aiservices import AiMessage, ChatReply
from output_parsers import (
    Coercion,
    Leniency,
    OutputParser,
    OutputParsingError,
    UnsupportedTypeError,
    parser_for,
)
from output_parsers.text import (
    CommaSeparatedListOutputParser,
    DatetimeOutputParser,
    EnumOutputParser,
    JsonOutputParser,
    PydanticOutputParser,
    RegexOutputParser,
    StrOutputParser,
    XmlOutputParser,
)


class Color(Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


@pytest.mark.parametrize("reply", [AiMessage("red"), ChatReply(AiMessage("red"))])
def test_the_text_of_a_reply_is_parsed(reply: Any) -> None:
    assert StrOutputParser().parse(reply) == "red"
    assert RegexOutputParser("(r)", ["letter"]).parse(reply) == {"letter": "r"}
    assert EnumOutputParser(Color).parse(reply) is Color.RED
    assert EnumOutputParser(Color).read(reply).value is Color.RED
    assert CommaSeparatedListOutputParser().parse(reply) == ["red"]
    assert XmlOutputParser().parse(AiMessage("<a>x</a>")) == {"a": "x"}


@pytest.mark.parametrize("parser", [StrOutputParser(), JsonOutputParser(), XmlOutputParser()])
@pytest.mark.parametrize("value", [None, 5, b"red", {"content": "red"}, types.SimpleNamespace(text=None)])
def test_an_object_without_a_text_is_a_type_error(parser: Any, value: Any) -> None:
    with pytest.raises(TypeError) as error:
        parser.parse(value)
    message = "pass a str, or a reply whose attribute text is a str"
    assert str(error.value) == f"{type(parser).__name__} got {type(value).__name__}; {message}"


class Joke(BaseModel):
    setup: str
    rating: int = Field(ge=0, le=10)


@dataclass
class Point:
    x: int


def refusal(parser: OutputParser[Any], text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parser.parse(text)
    assert error.value.text == text
    return str(error.value)


@given(st.text())
def test_the_string_parser_changes_nothing(text: str) -> None:
    assert StrOutputParser().parse(text) == text


def test_the_string_parser_has_no_instructions() -> None:
    assert StrOutputParser().format_instructions() == ""
    assert StrOutputParser().schema is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"foo": "bar"}', {"foo": "bar"}),
        ('```json\n{"foo": "bar"}\n```', {"foo": "bar"}),
        ('```\n{\n    "foo": "bar"\n}\n```', {"foo": "bar"}),
        ('Here is a response formatted as schema:\n\n```json\n{"foo": "bar"}\n```', {"foo": "bar"}),
        ('Thought: I need to use a tool.\n{"action": {"name": "x"}}', {"action": {"name": "x"}}),
        ("[1, 2.5, null, true]", [1, 2.5, None, True]),
        ("42", 42),
    ],
)
def test_the_json_parser_reads_any_json(text: str, value: Any) -> None:
    assert JsonOutputParser().parse(text) == value


def test_the_json_parser_gives_values_of_its_type() -> None:
    assert JsonOutputParser(Joke).parse('{"setup": "Why?", "rating": "7"}') == Joke(setup="Why?", rating=7)
    assert JsonOutputParser(dict[str, list[int]]).parse('{"a": [1]}') == {"a": [1]}
    assert JsonOutputParser(output_type=Point).parse('{"x": 1}') == Point(1)


def test_truncated_json_is_refused() -> None:
    assert "the JSON is cut off" in refusal(JsonOutputParser(), '```json\n{"foo": "bar", "a": [1')


def test_the_pydantic_parser_says_what_is_wrong_with_a_field() -> None:
    parser = PydanticOutputParser(pydantic_object=Joke)
    assert parser.parse('Sure: {"setup": "Why?", "rating": 7}') == Joke(setup="Why?", rating=7)
    with pytest.raises(OutputParsingError) as error:
        parser.parse('{"setup": "Why?", "rating": 11}')
    assert [problem.path for problem in error.value.problems] == ["$.rating"]


def test_a_parser_by_type_gives_the_same_results_as_the_parser_of_the_type() -> None:
    parser, own = PydanticOutputParser(Joke), parser_for(Joke)
    assert (parser.schema, parser.format_instructions()) == (own.schema, own.format_instructions())
    assert parser.read('{"setup": "Why?", "rating": "7"}').coercions == (
        Coercion("$.rating", "number as text", '"7"', "7"),
    )
    with pytest.raises(OutputParsingError, match=r"not permitted with Leniency\.NONE"):
        parser.parse('{"setup": "Why?", "rating": "7"}', Leniency.NONE)
    assert PydanticOutputParser(int | None).parse("null") is None


def test_an_unsupported_type_raises_an_error_at_creation() -> None:
    with pytest.raises(UnsupportedTypeError):
        PydanticOutputParser(types.FunctionType)


@pytest.mark.parametrize("text", ["red", " red ", "Red.", "RED", "\nred\n"])
def test_an_enum_is_read_by_value_or_name(text: str) -> None:
    assert EnumOutputParser(Color).parse(text) is Color.RED


def test_an_enum_refuses_a_text_that_names_no_member_or_two_members() -> None:
    assert refusal(EnumOutputParser(enum=Color), "FOO") == (
        'cannot read the text: $: expected one of "red", "green", "blue"; the text names none of them, '
        "found \"FOO\" (the text: 'FOO')"
    )
    refusal(EnumOutputParser(Color), "red or blue")


CONFIDENCE = RegexOutputParser(
    r"Confidence: (A|B|C). Explanation: (.*)", ["confidence", "explanation"], default_output_key="explanation"
)
ANSWER = "Foo\nConfidence: A. Explanation: Paris is the capital of France according to Wikipedia."


def test_a_pattern_returns_its_groups_by_key() -> None:
    assert CONFIDENCE.parse(ANSWER) == {
        "confidence": "A",
        "explanation": "Paris is the capital of France according to Wikipedia.",
    }
    assert RegexOutputParser(re.compile("a(b)?(C)", re.IGNORECASE), ["b", "c"]).parse("xAc") == {
        "b": None,
        "c": "c",
    }


def test_a_text_that_does_not_match_goes_to_the_default_key_or_is_refused() -> None:
    assert CONFIDENCE.parse("I am sure.") == {"confidence": "", "explanation": "I am sure."}
    assert refusal(RegexOutputParser("Score: (\\d+)", ["score"]), "Good.") == (
        r"cannot read the text: $: expected text that matches 'Score: (\\d+)', which gives score "
        "(the text: 'Good.')"
    )


def test_a_match_in_the_reasoning_does_not_count_unless_the_pattern_wants_it() -> None:
    text = "<think>Score: 3? Rather</think>Score: 5"
    assert RegexOutputParser(r"Score: (\d)", ["score"]).parse(text) == {"score": "5"}
    assert RegexOutputParser(r"<think>(.*)</think>", ["why"]).parse(text) == {"why": "Score: 3? Rather"}
    with pytest.raises(OutputParsingError, match="the reply ends inside its reasoning"):
        RegexOutputParser(r"Score: (\d)", ["score"]).parse("<think>Score: 3?")


@pytest.mark.parametrize(
    ("pattern", "keys", "default", "message"),
    [
        ("(a", ["a"], None, "the pattern '(a' is invalid: missing ), unterminated subpattern at position 0"),
        ("(a)", ["a", "b"], None, "the pattern '(a)' has 1 groups for the 2 output keys a, b"),
        ("(a)", [], None, "RegexOutputParser needs at least one output key"),
        ("(a)", ["a"], "b", "the default output key 'b' is not one of the output keys a"),
    ],
)
def test_an_unusable_pattern_raises_an_error_at_creation(
    pattern: str, keys: list[str], default: str | None, message: str
) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the whole message is compared
        RegexOutputParser(pattern, keys, default)
    assert str(error.value) == message


def test_the_instructions_of_a_pattern_show_it() -> None:
    assert RegexOutputParser("(a)", ["a"]).format_instructions() == (
        "Reply with text that this regular expression matches: (a)"
    )


@pytest.mark.parametrize(
    "value", [datetime(2023, 7, 4, 14, 30, 1, 5), datetime(1, 1, 1), datetime(9999, 12, 31)]
)
@pytest.mark.parametrize("tp", ["{}", " {}\n", "`{}`", '"{}".', "```\n{}\n```", "<think>Hm</think>{}"])
def test_a_datetime_is_read_in_the_default_format(value: datetime, tp: str) -> None:
    written = f"{value.isoformat(timespec='microseconds')}Z"
    assert DatetimeOutputParser().parse(tp.format(written)) == value


def test_a_datetime_is_read_in_a_custom_format() -> None:
    assert DatetimeOutputParser(format="%d.%m.%Y").parse("04.07.2023") == datetime(2023, 7, 4)
    zone = timezone(timedelta(hours=2))
    parser = DatetimeOutputParser("%Y-%m-%d %H:%M%z")
    assert parser.parse("2023-07-04 14:30+0200") == datetime(2023, 7, 4, 14, 30, tzinfo=zone)


@pytest.mark.parametrize("text", ["2023-07-04", "It was 2023-07-04T14:30:00.000000Z", "", "tomorrow"])
def test_a_datetime_in_another_format_is_refused(text: str) -> None:
    assert refusal(DatetimeOutputParser(), text) == (
        "cannot read the text: $: expected a date and time in the format %Y-%m-%dT%H:%M:%S.%fZ, such as "
        f'2023-07-04T14:30:59.250000Z, found "{text}" (the text: {text!r})'
    )


def test_an_invalid_format_raises_an_error_at_creation() -> None:
    with pytest.raises(ValueError, match="'%Q' is not a valid datetime format"):
        DatetimeOutputParser("%Q")
    assert DatetimeOutputParser("%H:%M").format_instructions() == (
        "Reply only with a date and time in the format %H:%M, such as 14:30"
    )


@given(st.text() | st.text(st.sampled_from('redblu01-:TZ.{}[]",`<>/think\n')))
def test_any_text_gives_a_value_or_a_parsing_error(text: str) -> None:
    parsers: list[OutputParser[Any]] = [
        *(JsonOutputParser(), JsonOutputParser(Joke), EnumOutputParser(Color), DatetimeOutputParser()),
        RegexOutputParser("a(b)", ["b"]),
    ]
    for parser in parsers:
        seen = text
        try:
            parser.parse(text)
        except OutputParsingError as error:
            seen = error.text
        assert seen == text
