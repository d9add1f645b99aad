"""The validators of attrs classes are in the JSON Schema and in the hint."""

import re
from typing import Any

import attrs
import pytest
from attrs import validators

from output_parsers import OutputParsingError, parse, parser_for


@pytest.mark.parametrize(
    ("tp", "validator", "schema"),
    [
        (int, validators.ge(1), {"type": "integer", "minimum": 1}),
        (int, [validators.gt(1), validators.le(9)], {"type": "integer", "exclusiveMinimum": 1, "maximum": 9}),
        (
            int | None,
            validators.optional(validators.lt(5)),
            {"anyOf": [{"type": "integer", "exclusiveMaximum": 5}, {"type": "null"}]},
        ),
        (
            int | None,
            validators.optional([validators.ge(0), validators.lt(5)]),
            {"anyOf": [{"type": "integer", "minimum": 0, "exclusiveMaximum": 5}, {"type": "null"}]},
        ),
        (
            str,
            validators.and_(validators.min_len(2), validators.max_len(4)),
            {"type": "string", "minLength": 2, "maxLength": 4},
        ),
        (str, validators.matches_re("[a-z]+"), {"type": "string", "pattern": "^(?:[a-z]+)$"}),
        (str, validators.matches_re("[a-z]+", func=re.match), {"type": "string", "pattern": "^(?:[a-z]+)"}),
        (str, validators.matches_re("[a-z]+", func=re.search), {"type": "string", "pattern": "[a-z]+"}),
        (str, validators.in_(["a", "b"]), {"type": "string", "enum": ["a", "b"]}),
        (int, validators.in_({2, 1}), {"type": "integer", "enum": [1, 2]}),
        (
            list[int],
            validators.deep_iterable(validators.ge(0), validators.min_len(1)),
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        ),
        (
            tuple[int, ...],
            validators.deep_iterable(validators.ge(0)),
            {"type": "array", "items": {"type": "integer", "minimum": 0}},
        ),
        (
            dict[str, int],
            validators.deep_mapping(value_validator=validators.ge(0)),
            {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        ),
    ],
)
def test_a_validator_is_a_constraint_of_its_field(tp: Any, validator: Any, schema: dict[str, Any]) -> None:
    record = attrs.make_class("Record", {"x": attrs.field(type=tp, validator=validator)})
    assert (parser_for(record).schema or {})["properties"]["x"] == schema


@pytest.mark.parametrize(
    ("tp", "validator"),
    [
        (str, validators.matches_re("(?=a)a")),  # pydantic's engine has no look-around
        (str, validators.matches_re("a", re.IGNORECASE)),
        (str, validators.instance_of(str)),
        (str, validators.in_("abc")),
        (str, validators.in_([])),
        (str, lambda record, attribute, value: None),
    ],
)
def test_a_validator_that_is_not_a_constraint_is_left_to_attrs(tp: Any, validator: Any) -> None:
    record = attrs.make_class("Record", {"x": attrs.field(type=tp, validator=validator)})
    assert (parser_for(record).schema or {})["properties"]["x"] == {"type": "string"}


def test_the_validator_of_a_field_with_a_converter_is_left_to_attrs() -> None:
    @attrs.define
    class Account:
        cents: int = attrs.field(converter=abs, validator=validators.ge(0))

    assert parser_for(Account).hint == '{"cents": integer}'
    assert parse(Account, '{"cents": -5}') == Account(5)


def test_a_violated_validator_is_a_problem_of_its_field() -> None:
    @attrs.define
    class Order:
        amount: int = attrs.field(validator=validators.ge(1), metadata={"description": "in boxes"})
        sizes: list[int] = attrs.field(validator=validators.deep_iterable(validators.lt(9)), factory=list)

    assert parser_for(Order).hint == (
        '{\n  "amount": integer (at least 1),  // in boxes\n  "sizes"?: [integer (less than 9), ...],\n}'
    )
    assert parse(Order, '{"amount": 1, "sizes": [2]}') == Order(1, [2])
    with pytest.raises(OutputParsingError) as caught:
        parse(Order, '{"amount": 0, "sizes": [2, 10]}')
    assert list(map(str, caught.value.problems)) == [
        "$.amount: input should be greater than or equal to 1, found 0",
        "$.sizes[1]: input should be less than 9, found 10",
    ]
