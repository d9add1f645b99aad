"""``parse`` and ``read`` return a value with every coercion, or raise one error with all problems."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import output_parsers
from output_parsers import (
    Coercion,
    Leniency,
    OutputParsingError,
    Problem,
    Reading,
    UnsupportedTypeError,
    parse,
    parser_for,
    read,
)
from output_parsers.result.reading import describe_value


@dataclass
class Child:
    name: str
    born: date


@dataclass
class Family:
    name: str
    children: list[Child]
    income: dict[str, Decimal]


TEXT = '{"name": "Doe", "children": [{"name": "John", "born": "1968-07-04"}], "income": {"a b": 1.50}}'
DOE = Family("Doe", [Child("John", date(1968, 7, 4))], {"a b": Decimal("1.50")})


def failure(tp: Any, text: str, leniency: Leniency = Leniency.SAFE) -> OutputParsingError:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text, leniency=leniency)
    return error.value


def test_parse_returns_the_value_and_read_also_the_coercions() -> None:
    assert parse(Family, TEXT) == DOE
    assert read(Family, TEXT) == Reading(DOE, ())


def test_every_coercion_is_recorded_in_its_order() -> None:
    text = (
        "<think>hm</think>Here:\n```json\n"
        '{"Name": "Doe", "children": [{"name": 7, "born": "July 4, 1968",}], '
        '"income": {"a b": "1.50"}, "x": 1}\n```'
    )
    assert read(Family, text).coercions == (
        Coercion("$", "reasoning set aside", "", ""),
        Coercion("$", "text around the JSON left out", "", ""),
        Coercion("$", "trailing comma", "", ""),
        Coercion("$.Name", "key in another form", '"Name"', '"name"'),
        Coercion("$.x", "unknown key left out", "", ""),
        Coercion("$.children[0].name", "number as text", "7", '"7"'),
        Coercion("$.children[0].born", "date in words", '"July 4, 1968"', "1968-07-04"),
        Coercion('$.income["a b"]', "number as text", '"1.50"', "1.50"),
    )


def test_the_text_of_a_coercion_names_path_rule_and_change() -> None:
    assert str(Coercion("$.a", "number as text", '"1"', "1")) == '$.a: number as text: "1" → 1'
    assert str(Coercion("$", "tuple", "", "")) == "$: tuple"


def test_all_problems_are_reported_together_with_their_paths() -> None:
    error = failure(
        Family,
        '{"children": [{"name": [], "born": "July 4, 1968"}, {"born": 7}], "income": {"a b": "much"}}',
    )
    assert error.problems == (
        Problem("$.name", "the required field 'name' is missing"),
        Problem("$.children[0].name", "expected text", "an array of 0"),
        Problem("$.children[1].name", "the required field 'name' is missing"),
        Problem("$.children[1].born", "expected a date (YYYY-MM-DD)", "7"),
        Problem('$.income["a b"]', "expected a decimal number", '"much"'),
    )


def test_the_message_of_an_error_contains_problems_and_reply() -> None:
    error = failure(list[int], '["a", null]')
    assert str(error) == (
        'cannot read the text: $[0]: expected an integer, found "a"; $[1]: expected an integer, found null '
        "(the text: '[\"a\", null]')"
    )
    assert error.text == '["a", null]'


def test_a_long_reply_is_shortened_in_the_message_only() -> None:
    text = "a" * 300 + "z" * 300
    error = failure(int, text)
    assert str(error) == (
        f'cannot read the text: $: expected an integer, found "{"a" * 27} ... {"z" * 27}" '
        f"(the text: '{'a' * 97} ... {'z' * 97}')"
    )
    assert error.text == text


def test_an_error_can_be_pickled_and_copied() -> None:
    error = failure(int, "x")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is OutputParsingError
        assert (str(other), other.text, other.problems) == (str(error), error.text, error.problems)
    with pytest.raises(UnsupportedTypeError) as raised:
        parser_for(list[Reading])
    other = pickle.loads(pickle.dumps(raised.value))
    assert (str(other), other.path, other.tried) == (str(raised.value), raised.value.path, raised.value.tried)


@pytest.mark.parametrize(
    ("tp", "text", "step"),
    [
        (int, "```\n42\n```", "fence or tag taken off"),
        (int, '"42"', "number as text"),
        (int, "42.0", "whole number written with a fraction"),
        (bool, "yes", "case or punctuation"),
        (list[int], "Sure: [1]", "text around the JSON left out"),
        (list[int], "[1,]", "trailing comma"),
        (Child, '{"NAME": "x", "born": "1968-07-04"}', "key in another form"),
        (str, "<think></think>x", "reasoning set aside"),
    ],
)
def test_without_leniency_a_coercion_is_refused_by_name(tp: Any, text: str, step: str) -> None:
    assert f"{step} is not permitted with Leniency.NONE" in str(failure(tp, text, Leniency.NONE))
    assert step in [taken.rule for taken in read(tp, text).coercions]


@pytest.mark.parametrize(
    ("tp", "text", "value"), [(int, "42.7", 42), (list[str], "a, b", ["a", "b"]), (int, "42", 42)]
)
def test_guesses_are_made_only_with_leniency_all(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text, leniency=Leniency.ALL) == value
    if text != "42":
        failure(tp, text)


def test_a_failed_alternative_leaves_no_coercions() -> None:
    reading = read(list[int] | list[str], '["1", "x"]')
    assert reading == Reading(["1", "x"], ())


@dataclass
class Link:
    next: Link | None = None


def test_a_text_nested_deeper_than_the_stack_is_a_parsing_error() -> None:
    text = '{"next": ' * 400 + "null" + "}" * 400
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # other tools raise it
    try:
        assert failure(Link, text).problems == (Problem("$", "it is nested too deeply"),)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (None, "null"),
        (True, "true"),
        ([], "an array of 0"),
        ({}, "an empty object"),
        (dict.fromkeys("abcdefgh"), "an object with a, b, c, d, e, f"),
        ([10**5000], "an array of 1"),
        ("a" * 100, f'"{"a" * 27} ... {"a" * 27}"'),
    ],
)
def test_a_value_is_described_in_few_words(value: object, description: str) -> None:
    assert describe_value(value) == description


def test_a_number_with_too_many_digits_is_described_in_words() -> None:
    assert describe_value(10**5000) == "a very long number"


def test_the_package_exports_its_public_names() -> None:
    assert len(set(output_parsers.__all__)) == len(output_parsers.__all__)
    assert all(hasattr(output_parsers, name) for name in output_parsers.__all__)
