"""A parser with an envelope asks for the value under the only key of an object, and unwraps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from output_parsers import Leniency, OutputParsingError, parser_for


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
        (str, '{"answer": "x"}', "$: expected text, found an object with answer"),
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
