"""A parser with an envelope asks for the value under the only key of an object, and unwraps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest

from output_parsers import Leniency, OutputParsingError, parser_for
from output_parsers.json_schema.parser import schema_parser


@dataclass
class Node:
    label: str
    kid: Node | None = None


def problem(form: Any, text: str, leniency: Leniency = Leniency.SAFE) -> str:
    with pytest.raises(OutputParsingError) as error:
        parser_for(form).with_envelope().parse(text, leniency)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (int, '{"value": 42}', 42),
        (str, '{"value": "hello"}', "hello"),
        (str, '{"value": ""}', ""),
        (date, '{"value": "1968-07-04"}', date(1968, 7, 4)),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int | None, '{"value": null}', None),
        (dict[str, int], '{"value": {"value": 1}}', {"value": 1}),
        (Node, '{"value": {"label": "a"}}', Node("a")),
    ],
)
def test_a_value_in_its_envelope_is_read_without_coercions(form: Any, text: str, value: object) -> None:
    reading = parser_for(form).with_envelope().read(text, Leniency.NONE)
    assert reading.value == value
    assert reading.coercions == ()


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (int, "42", 42),
        (int, "The answer is 42.", 42),
        (str, "hello", "hello"),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Node, '```json\n{"label": "a"}\n```', Node("a")),
    ],
)
def test_a_missing_envelope_is_accepted_and_recorded(form: Any, text: str, value: object) -> None:
    reading = parser_for(form).with_envelope().read(text)
    assert reading.value == value
    assert reading.coercions[-1].rule == "envelope left out"
    assert "not permitted with Leniency.NONE" in problem(form, text, Leniency.NONE)


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (int, '{"value": "x"}', '$.value: expected an integer, found "x"'),
        (int, '{"value": 1, "note": "x"}', "$: expected an integer, found an object with value, note"),
        (str, '{"other": "x"}', "$: expected text, found an object with other"),
        (
            str,
            '{"value": "x',
            "$: the JSON is cut off: the text is cut off: the string that begins here is not closed",
        ),
        (dict[str, int], '{"value": 3}', "$.value: expected an object, found 3"),
        (int, "", "$: expected an object with 'value'; the reply is empty, found \"\""),
    ],
)
def test_a_wrong_envelope_is_an_error(form: Any, text: str, message: str) -> None:
    assert problem(form, text) == message


def test_the_key_of_the_envelope_can_be_chosen() -> None:
    parser = parser_for(int).with_envelope("answer")
    assert parser.parse('{"answer": 42}') == 42
    assert parser.schema == {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    assert parser.hint == '{"answer": integer}'


def test_definitions_stay_at_the_root_of_the_envelope() -> None:
    node = {
        "type": "object",
        "title": "Node",
        "properties": {
            "label": {"type": "string"},
            "kid": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        },
        "required": ["label"],
        "additionalProperties": False,
    }
    assert parser_for(Node).with_envelope().schema == {
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/Node"}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {"Node": node},
    }


def test_text_in_an_envelope_is_not_plain_text() -> None:
    assert parser_for(str).plain_text
    assert not parser_for(str).with_envelope().plain_text


@pytest.mark.parametrize(
    ("form", "text", "value", "rules"),
    [
        (bool, '{"value": true}', True, ["$.value: value in an envelope"]),
        (
            int,
            '{"value": "42"}',
            42,
            ["$.value: value in an envelope", '$.value: number as text: "42" → 42'],
        ),
        (list[int], '{"value": [1, 2]}', [1, 2], ["$.value: value in an envelope"]),
        (list[int], '{"values": [1, 2]}', [1, 2], ["$.values: value in an envelope"]),
        (
            list[int],
            'Here:\n{"value": [1]}',
            [1],
            ["$: text around the JSON left out", "$.value: value in an envelope"],
        ),
        (date, '```json\n{"value": "1968-07-04"}\n```', date(1968, 7, 4), None),
        (int | None, '{"value": null}', None, ["$.value: value in an envelope"]),
        (Literal["a", "b"], '{"value": "a"}', "a", ["$.value: value in an envelope"]),
        (dict[str, int], '{"value": 1}', {"value": 1}, []),
        (Any, '{"value": 1}', {"value": 1}, []),
        (list[int] | dict[str, list[int]], '{"value": [1]}', {"value": [1]}, []),
    ],
)
def test_an_envelope_that_was_not_requested_is_opened_if_the_type_takes_no_object(
    form: Any, text: str, value: object, rules: list[str] | None
) -> None:
    reading = parser_for(form).read(text)
    assert reading.value == value
    assert rules is None or list(map(str, reading.coercions)) == rules


def test_the_envelope_of_a_json_schema_is_opened_only_if_the_schema_allows_no_object() -> None:
    number: dict[str, Any] = {"type": "integer"}
    assert schema_parser(number).parse('{"value": 3}') == 3
    assert schema_parser({"enum": [1, {"value": 3}]}).parse('{"value": 3}') == {"value": 3}
    assert schema_parser({"type": ["integer", "object"]}).parse('{"value": 3}') == {"value": 3}
    assert schema_parser({"anyOf": [number, True]}).parse('{"value": 3}') == {"value": 3}


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (int, '{"length": 3}', "$: expected an integer, found an object with length"),
        (int, '{"values": 3}', "$: expected an integer, found an object with values"),
        (int, '{"value": "many"}', '$.value: expected an integer, found "many"'),
        (int, '{"value": {"value": 1}}', "$.value: expected an integer, found an object with value"),
        (int, '{"value": 1, "unit": "m"}', "$: expected an integer, found an object with value, unit"),
    ],
)
def test_another_object_is_not_an_envelope(form: Any, text: str, message: str) -> None:
    with pytest.raises(OutputParsingError) as caught:
        parser_for(form).parse(text)
    assert "; ".join(map(str, caught.value.problems)) == message


def test_an_envelope_that_was_not_requested_is_an_error_without_leniency() -> None:
    with pytest.raises(OutputParsingError) as caught:
        parser_for(int).parse('{"value": 1}', Leniency.NONE)
    assert "; ".join(map(str, caught.value.problems)) == (
        "$.value: value in an envelope is not permitted with Leniency.NONE"
    )


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Literal["good", "bad"], '{"sentiment": "good"}', "good"),
        (Literal["good", "bad"], '```json\n{"Category": "Good"}\n```', "good"),
        (bool, '{"is_valid": true}', True),
        (int, '{"count": "25"}', 25),
        (float, '{"score": 0.85}', 0.85),
        (date, '{"date": "2024-03-15"}', date(2024, 3, 15)),
        (date | None, '{"date": null}', None),
    ],
)
def test_an_object_with_only_the_name_of_what_is_asked_stands_for_its_value(
    form: Any, text: str, value: object
) -> None:
    assert parser_for(form).parse(text) == value


@pytest.mark.parametrize("key", ["confidence", "error", "input", "status", "id", "example", "minimum"])
def test_an_object_with_another_key_does_not_stand_for_a_number(key: str) -> None:
    with pytest.raises(OutputParsingError):
        parser_for(int).parse(f'{{"{key}": 3}}')


@pytest.mark.parametrize("text", ['{"count": 3, "score": 4}', '{"score": {"score": 3}}', '{"score": [3]}'])
def test_an_object_with_other_values_does_not_stand_for_a_number(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parser_for(int).parse(text)
