"""Text, numbers, bytes, identifiers and paths are read exactly or refused, never rounded or invented."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, HttpUrl, JsonValue

from output_parsers import (
    Leniency,
    OutputParsingError,
    Problem,
    Reading,
    TypeParser,
    parse,
    parser_for,
    read,
)
from output_parsers.json_schema.parser import schema_parser

ID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
LONG = "0.1000000000000000055511151231257827"


def problem(tp: Any, text: str, leniency: Leniency = Leniency.SAFE) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text, leniency=leniency)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize("text", ["hello", " hello ", '"hello"', "", "42", '{"a": 1}', "```\nhi\n```"])
def test_text_is_the_unchanged_reply(text: str) -> None:
    assert parse(str, text) == text


def test_reasoning_is_not_part_of_a_text() -> None:
    reading = read(str, "<think>hm</think>\nhello")
    assert reading.value == "hello"
    assert list(map(str, reading.coercions)) == ["$: reasoning set aside"]


def test_a_number_in_the_place_of_text_becomes_its_digits() -> None:
    reading = read(list[str], '[1, 2.50, "x"]')
    assert reading.value == ["1", "2.50", "x"]
    assert list(map(str, reading.coercions)) == [
        '$[0]: number as text: 1 → "1"',
        '$[1]: number as text: 2.50 → "2.50"',
    ]


@pytest.mark.parametrize("text", ["[true]", "[null]", "[[]]", '[{"a": 1}]'])
def test_arrays_and_objects_are_not_text(text: str) -> None:
    assert problem(list[str], text).startswith("$[0]: expected text, found ")


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (int, "42", 42),
        (int, "-7", -7),
        (int, '"42"', 42),
        (int, "42.0", 42),
        (int, "4.2e1", 42),
        (int, "forty two", 42),
        (int, "The answer is 42.", 42),
        (int, "```json\n42\n```", 42),
        (int, "9007199254740993", 9007199254740993),
        (int, "123456789012345678901234567890", 123456789012345678901234567890),
        (float, "0.1", 0.1),
        (float, "3", 3.0),
        (float, "forty two", 42.0),
        (Decimal, "1.10", Decimal("1.10")),
        (Decimal, "1e3", Decimal("1E+3")),
        (Decimal, LONG, Decimal(LONG)),
        (list[Decimal], f"[{LONG}]", [Decimal(LONG)]),
        (Fraction, "1/3", Fraction(1, 3)),
        (Fraction, '"2/4"', Fraction(1, 2)),
        (Fraction, "-2 / 4", Fraction(-1, 2)),
        (Fraction, "0.25", Fraction(1, 4)),
        (list[Fraction], '["1/3", 0.5, 2]', [Fraction(1, 3), Fraction(1, 2), Fraction(2)]),
        (bytes, "abc", b"abc"),
        (list[bytes], '["é"]', [b"\xc3\xa9"]),
        (UUID, ID, UUID(ID)),
        (UUID, f'"{ID.upper()}"', UUID(ID)),
        (Path, "/etc/hosts", Path("/etc/hosts")),
        (PurePosixPath, '"a/b"', PurePosixPath("a/b")),
        (None, "null", None),
        (None, "None", None),
        (Any, '{"a": [1, 0.5, null, "x", true]}', {"a": [1, 0.5, None, "x", True]}),
        (object, "[1]", [1]),
    ],
)
def test_a_value_is_read(tp: Any, text: str, value: object) -> None:
    result = parse(tp, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (int, "", '$: expected an integer; the reply is empty, found ""'),
        (int, "42.7", "$: expected an integer, found 42.7"),
        (int, "null", "$: expected an integer, found null"),
        (int, '"1.000"', '$: expected an integer; this may be thousands or a fraction, found "1.000"'),
        (int, "true", "$: expected an integer, found true"),
        (int, "[42]", "$: expected an integer, found an array of 1"),
        (int, "1e5000", "$: expected an integer of a sensible size, found 1E+5000"),
        (int, "1e309", "$: expected an integer of a sensible size, found 1E+309"),
        (int, "I don't know.", '$: expected an integer, found "I don\'t know."'),
        (float, "NaN", '$: expected a number, found "NaN"'),
        (float, "Infinity", '$: expected a number, found "Infinity"'),
        (float, "1e400", "$: expected a number that a float can hold, found 1E+400"),
        (float, "-1e400", "$: expected a number that a float can hold, found -1E+400"),
        (float, "9" * 400, f"$: expected a number that a float can hold, found {'9' * 27} ... {'9' * 27}"),
        (Any, "1e400", "$: expected a number that a float can hold, found 1E+400"),
        (Decimal, "NaN", '$: expected a decimal number, found "NaN"'),
        (Decimal, "true", "$: expected a decimal number, found true"),
        (Fraction, "1/0", '$: expected a fraction; its denominator is 0, found "1/0"'),
        (Fraction, "1e9999", "$: expected a fraction of a sensible size, found 1E+9999"),
        (UUID, ID.replace("-", ""), f'$: expected a UUID, found "{ID.replace("-", "")}"'),
        (UUID, "7", "$: expected a UUID, found 7"),
        (Path, "a\nb", '$: expected a path, found "a\nb"'),
        (Path, '""', '$: expected a path, found ""'),
        (None, "x", '$: expected null, found "x"'),
        (None, "0", "$: expected null, found 0"),
        (Any, "hello", '$: expected JSON, found "hello"'),
    ],
)
def test_a_wrong_value_is_refused(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Plain(NamedTuple):
    a: float


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (Any, "expected a finite number"),
        (object, "expected a finite number"),
        (dict[str, Any], "expected a finite number"),
        (dict[str, float], "expected a number"),
        (dict[str, float | None], "expected a number or null"),
        (dict[str, str], "expected text"),
        (dict[str, str | float], "expected text or a number"),
        (dict[str, bytes], "expected text for bytes"),
        (dict[str, Path], "expected a path"),
        (dict[str, int], "expected an integer"),
        (dict[str, Decimal], "expected a decimal number"),
        (dict[str, Fraction], "expected a fraction"),
        (dict[str, bool], "expected true or false"),
        (
            dict[str, Literal["NaN", "Infinity", "-Infinity"]],
            'expected one of "NaN", "Infinity", "-Infinity"',
        ),
        (dict[str, Annotated[float, Field(ge=0)]], "expected a number"),
        (dict[str, FiniteFloat], "expected a number"),
        (dict[str, HttpUrl], "expected a finite number"),
        (Plain, "expected a number"),
        (Open, "expected an integer"),
    ],
)
def test_nan_and_infinity_are_refused_with_their_path_unless_they_are_allowed(
    tp: Any, message: str, word: str
) -> None:
    assert problem(tp, f'{{"a": {word}}}') == f"$.a: {message}, found {word}"


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (list[str], '["a", NaN]', "$[1]: expected text, found NaN"),
        (list[Any], '[1, {"b": [-inf]}]', "$[1].b[0]: expected a finite number, found -Infinity"),
        (Open, '{"a": 1, "b": nan}', "$.b: expected a finite number, found NaN"),
    ],
)
def test_a_problem_has_the_exact_path(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "number"}}},
        {"type": "object", "properties": {"a": {"type": ["string", "number"]}}},
        {"type": "object", "properties": {"a": {"enum": ["NaN", 1]}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_no_json_schema_allows_nan(schema: dict[str, Any]) -> None:
    with pytest.raises(OutputParsingError) as error:
        schema_parser(schema).parse('{"a": NaN}')
    assert error.value.problems == (Problem("$.a", "expected a finite number", "NaN"),)


Wide = Annotated[float, Field(allow_inf_nan=True)]
UNQUOTED = "$: NaN or Infinity without quotes"
OTHER = "another name of NaN or Infinity"


@pytest.mark.parametrize(
    ("tp", "text", "value", "steps"),
    [
        (list[Wide], "[NaN, Infinity, -Infinity, 1]", [math.nan, math.inf, -math.inf, 1.0], [UNQUOTED]),
        (list[Wide], '["NaN", "Infinity", "-Infinity", 0.5]', [math.nan, math.inf, -math.inf, 0.5], []),
        (
            list[Wide],
            '["nan", "+inf"]',
            [math.nan, math.inf],
            [f'$[0]: {OTHER}: "nan" → nan', f'$[1]: {OTHER}: "+inf" → inf'],
        ),
        (Wide, '"NaN"', math.nan, []),
        (Wide, "NaN", math.nan, [f'{UNQUOTED}: "NaN" → NaN']),
        (Wide, "-Infinity\n", -math.inf, [f'{UNQUOTED}: "-Infinity" → -Infinity']),
        (Wide, "42", 42.0, []),
        (Wide | None, "null", None, []),
        (Annotated[float | None, Field(allow_inf_nan=True)], '"Infinity"', math.inf, []),
        (Annotated[Wide | None, Field(ge=0)], '"Infinity"', math.inf, []),
        (list[Wide | str], '[NaN, "x"]', [math.nan, "x"], [UNQUOTED]),
    ],
)
def test_a_float_may_allow_nan_and_infinity(tp: Any, text: str, value: object, steps: list[str]) -> None:
    reading = read(tp, text)
    assert repr(reading.value) == repr(value)
    assert list(map(str, reading.coercions)) == steps


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (Wide, "1e400", "$: expected a number that a float can hold, found 1E+400"),
        (Wide, "It is NaN", '$: expected a number, found "It is NaN"'),
        (Annotated[Wide, Field(ge=0)], '"NaN"', "$: input should be greater than or equal to 0, found nan"),
        (Annotated[Wide, Field(allow_inf_nan=False)], '"NaN"', '$: expected a number, found "NaN"'),
        (
            Annotated[Wide | None, Field(allow_inf_nan=False)],
            "[NaN]",
            "$: expected a number or null, found an array of 1",
        ),
    ],
)
def test_a_float_that_allows_nan_still_has_to_be_a_number(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


def test_without_leniency_nan_is_read_in_quotes_only() -> None:
    assert read(list[Wide], '["-Infinity"]', leniency=Leniency.NONE).value == [-math.inf]
    assert problem(list[Wide], "[-Infinity]", Leniency.NONE) == (
        "$: NaN or Infinity without quotes is not permitted with Leniency.NONE"
    )


def test_the_schema_of_a_float_that_allows_nan_names_nan() -> None:
    names = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
    assert parser_for(Wide).schema == {"anyOf": [{"type": "number"}, names]}
    assert parser_for(Wide).hint == 'number | "NaN" | "Infinity" | "-Infinity"'
    assert parser_for(Annotated[float | None, Field(allow_inf_nan=True, ge=0)]).schema == {
        "anyOf": [{"anyOf": [{"type": "number", "minimum": 0}, names]}, {"type": "null"}]
    }


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.5])
def test_a_float_that_allows_nan_is_written_as_it_is_read(value: float) -> None:
    assert read(list[Wide], parser_for(list[Wide]).write([value])) == Reading([value])
    assert parser_for(Wide).parse(parser_for(Wide).write(value)) == value


def test_nan_is_written_by_its_name() -> None:
    parser = parser_for(list[Wide])
    assert isinstance(parser, TypeParser)
    assert parser.node.write([math.nan, math.inf]) == ["NaN", "Infinity"]


def test_an_integer_of_more_digits_than_python_shows_is_refused() -> None:
    assert "expected an integer of a sensible size" in problem(int, "1" * 5000)


def test_a_fraction_is_cut_off_only_if_guesses_are_allowed() -> None:
    reading = read(int, "42.7", leniency=Leniency.ALL)
    assert reading.value == 42
    assert list(map(str, reading.coercions)) == ["$: fraction cut off: 42.7 → 42"]


def test_bytes_that_cannot_be_encoded_are_refused() -> None:
    assert problem(bytes, "\ud800").startswith("$: expected text for bytes, found ")


@pytest.mark.parametrize("text", ["42", " 42 ", "42\n"])
def test_an_exact_integer_needs_no_coercion(text: str) -> None:
    assert read(int, text).coercions == ()


def test_json_value_is_read_like_any() -> None:
    reply = '{"a": [1, 2.5, null, "text"], "b": {"c": true}}'
    assert parser_for(JsonValue).read(reply) == parser_for(Any).read(reply)
    assert (parser_for(JsonValue).schema, parser_for(JsonValue).hint) == ({}, "any JSON")
    with pytest.raises(OutputParsingError):
        parser_for(JsonValue).parse("no JSON")
