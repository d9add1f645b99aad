"""Text, numbers, bytes, identifiers and paths are read exactly, or refused; never rounded or made up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from output_parsers import Leniency, OutputParsingError, parse, read

ID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"
LONG = "0.1000000000000000055511151231257827"


def problem(form: Any, text: str, leniency: Leniency = Leniency.SAFE) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(form, text, leniency=leniency)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize("text", ["hello", " hello ", '"hello"', "", "42", '{"a": 1}', "```\nhi\n```"])
def test_text_is_the_reply_as_it_stands(text: str) -> None:
    assert parse(str, text) == text


def test_reasoning_is_no_part_of_a_text() -> None:
    reading = read(str, "<think>hm</think>\nhello")
    assert reading.value == "hello"
    assert list(map(str, reading.coercions)) == ["$: reasoning set aside"]


def test_a_number_where_text_is_due_is_its_digits() -> None:
    reading = read(list[str], '[1, 2.50, "x"]')
    assert reading.value == ["1", "2.50", "x"]
    assert list(map(str, reading.coercions)) == [
        '$[0]: number as text: 1 → "1"',
        '$[1]: number as text: 2.50 → "2.50"',
    ]


@pytest.mark.parametrize("text", ["[true]", "[null]", "[[]]", '[{"a": 1}]'])
def test_what_is_no_scalar_is_no_text(text: str) -> None:
    assert problem(list[str], text).startswith("$[0]: expected text, found ")


@pytest.mark.parametrize(
    ("form", "text", "value"),
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
def test_a_value_is_read(form: Any, text: str, value: object) -> None:
    found = parse(form, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        (int, "", '$: expected an integer; the reply is empty, found ""'),
        (int, "42.7", "$: expected an integer, found 42.7"),
        (int, "null", "$: expected an integer, found null"),
        (int, '"1.000"', '$: expected an integer; this may be thousands or a fraction, found "1.000"'),
        (int, "true", "$: expected an integer, found true"),
        (int, "[42]", "$: expected an integer, found an array of 1"),
        (int, "1e5000", "$: expected an integer of a sensible size, found 1E+5000"),
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
def test_what_is_no_such_value_is_refused(form: Any, text: str, said: str) -> None:
    assert problem(form, text) == said


def test_an_integer_of_more_digits_than_python_shows_is_refused() -> None:
    assert "expected an integer of a sensible size" in problem(int, "1" * 5000)


def test_a_fraction_is_cut_off_only_where_guesses_are_permitted() -> None:
    reading = read(int, "42.7", leniency=Leniency.ALL)
    assert reading.value == 42
    assert list(map(str, reading.coercions)) == ["$: fraction cut off: 42.7 → 42"]


def test_bytes_that_cannot_be_encoded_are_refused() -> None:
    assert problem(bytes, "\ud800").startswith("$: expected text for bytes, found ")


@pytest.mark.parametrize("text", ["42", " 42 ", "42\n"])
def test_an_exact_integer_takes_no_step(text: str) -> None:
    assert read(int, text).coercions == ()
