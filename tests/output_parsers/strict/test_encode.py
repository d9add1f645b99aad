"""Schemas that strict mode does not support are sent in another form, and the values are translated."""

from __future__ import annotations

from typing import Any

import pytest

from output_parsers.profiles import OPENAI
from output_parsers.strict import EncodingError, Finding, encode


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def record(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object whose properties are all optional."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
LEFT_OUT = {"description": "null: left out"}


def check_round_trip(schema: Any, plain: Any, encoded: Any) -> None:
    encoding = encode(schema, OPENAI)
    assert encoding.encode(plain) == encoded
    assert encoding.decode(encoded) == plain


def test_a_strict_schema_is_sent_unchanged() -> None:
    schema = closed(name=STRING, ages={"type": "array", "items": INTEGER, "minItems": 1})
    encoding = encode(schema, OPENAI)
    assert (encoding.schema, encoding.findings) == (schema, ())
    assert (encoding.identity, encoding.lossless) == (True, True)


def test_an_optional_property_is_null_when_it_is_left_out() -> None:
    encoding = encode(record(age=INTEGER), OPENAI)
    assert encoding.schema == closed(age={"anyOf": [INTEGER, NULL], **LEFT_OUT})
    assert encoding.decode({"age": None}) == {}
    assert encoding.decode({"age": 3}) == {"age": 3}
    assert encoding.encode({}) == {"age": None}
    assert not encoding.identity


def test_an_optional_property_that_may_be_null_is_wrapped() -> None:
    schema = record(age={"type": ["integer", "null"]})
    wrapped = closed(value={"anyOf": [INTEGER, NULL]})
    assert encode(schema, OPENAI).schema == closed(age={"anyOf": [wrapped, NULL], **LEFT_OUT})
    check_round_trip(schema, {}, {"age": None})
    check_round_trip(schema, {"age": None}, {"age": {"value": None}})
    check_round_trip(schema, {"age": 3}, {"age": {"value": 3}})


def test_null_stays_null_if_it_is_the_default() -> None:
    encoding = encode(record(age={"anyOf": [INTEGER, NULL], "default": None}), OPENAI)
    assert encoding.schema == closed(age={"anyOf": [INTEGER, NULL]})
    assert encoding.identity
    assert encoding.decode({"age": None}) == {"age": None}
    assert encoding.encode({}) == {"age": None}


def test_a_default_is_described_and_filled_in_by_the_reader() -> None:
    encoding = encode(record(age={"type": "integer", "default": 3, "description": "in years"}), OPENAI)
    description = "null: left out, which means 3 (in years)"
    assert encoding.schema == closed(age={"anyOf": [INTEGER, NULL], "description": description})
    assert encoding.decode({"age": None}) == {}


def test_a_dict_is_sent_as_a_list_of_pairs() -> None:
    schema = closed(ages={"type": "object", "additionalProperties": INTEGER, "minProperties": 1})
    pairs = {"type": "array", "items": closed(key=STRING, value=INTEGER), "minItems": 1}
    description = {"description": "as a list of keys and values, each key once"}
    assert encode(schema, OPENAI).schema == closed(ages={**pairs, **description})
    check_round_trip(
        schema, {"ages": {"a": 1, "b": 2}}, {"ages": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}
    )


def test_a_repeated_key_in_a_list_of_pairs_is_an_error() -> None:
    decode = encode({"type": "object", "additionalProperties": INTEGER}, OPENAI).decode
    with pytest.raises(EncodingError) as caught:
        decode({"value": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]})
    assert str(caught.value) == '$.value[1].key: the key appears twice, found "a"'


def test_additional_properties_are_sent_under_a_name_that_no_property_has() -> None:
    schema = {
        "type": "object",
        "properties": {"additional_properties": INTEGER},
        "required": ["additional_properties"],
        "additionalProperties": STRING,
    }
    encoding = encode(schema, OPENAI)
    assert list(encoding.schema["properties"]) == ["additional_properties", "additional_properties_"]
    check_round_trip(
        schema,
        {"additional_properties": 1, "b": "x"},
        {"additional_properties": 1, "additional_properties_": [{"key": "b", "value": "x"}]},
    )
    pair = {"key": "additional_properties", "value": "x"}
    with pytest.raises(EncodingError) as caught:
        encoding.decode({"additional_properties": 1, "additional_properties_": [pair]})
    assert (
        str(caught.value) == '$.additional_properties_: the key appears twice, found "additional_properties"'
    )


def test_each_key_pattern_has_a_list_of_its_own() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^i_": INTEGER, "^s_": STRING},
        "additionalProperties": False,
    }
    check_round_trip(
        schema,
        {"i_a": 1, "s_a": "x"},
        {
            "matching_properties": [{"key": "i_a", "value": 1}],
            "matching_properties_": [{"key": "s_a", "value": "x"}],
        },
    )


def test_a_tuple_is_sent_as_an_object_with_numbered_items() -> None:
    schema = closed(at={"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2})
    description = {"description": "items by their position"}
    assert encode(schema, OPENAI).schema == closed(
        at={**closed(item_0=INTEGER, item_1=STRING), **description}
    )
    check_round_trip(schema, {"at": [1, "x"]}, {"at": {"item_0": 1, "item_1": "x"}})


def test_a_tuple_may_have_optional_and_further_items() -> None:
    schema = {"type": "array", "prefixItems": [INTEGER, STRING], "items": {"type": "boolean"}, "minItems": 1}
    check_round_trip(schema, [1], {"item_0": 1, "item_1": None, "rest": []})
    check_round_trip(schema, [1, "x", True], {"item_0": 1, "item_1": "x", "rest": [True]})
    with pytest.raises(EncodingError) as caught:
        encode(schema, OPENAI).decode({"item_0": 1, "item_1": None, "rest": [True]})
    assert str(caught.value) == "$.rest: an earlier item is missing, found an array of 1"


def test_any_json_is_sent_as_its_text() -> None:
    schema = closed(data=True)
    description = "any JSON value, written as JSON text in this string"
    assert encode(schema, OPENAI).schema == closed(data={"type": "string", "description": description})
    check_round_trip(schema, {"data": {"a": [1, None]}}, {"data": '{"a": [1, null]}'})
    check_round_trip(schema, {"data": "1"}, {"data": '"1"'})
    with pytest.raises(EncodingError) as caught:
        encode(schema, OPENAI).decode({"data": "{"})
    assert caught.value.path == "$.data"
    assert caught.value.message.startswith("expected JSON text in a string")


def test_one_of_is_sent_as_any_of() -> None:
    encoding = encode(closed(a={"oneOf": [INTEGER, STRING]}), OPENAI)
    assert encoding.schema == closed(a={"anyOf": [INTEGER, STRING]})
    assert encoding.identity


def test_all_of_is_merged() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"minimum": 1}}, "required": ["a"]},
            {"properties": {"a": INTEGER, "b": STRING}, "required": ["b"], "additionalProperties": False},
        ]
    }
    assert encode(schema, OPENAI).schema == closed(a={"type": "integer", "minimum": 1}, b=STRING)


def test_a_mixed_enum_has_a_branch_for_each_type_and_objects_as_text() -> None:
    schema = closed(a={"enum": ["x", 1, None, {"b": 1}, True]})
    sent = [
        {"type": "string", "enum": ["x", '{"b": 1}']},
        {"type": "integer", "enum": [1]},
        {"type": "null"},
        {"type": "boolean", "enum": [True]},
    ]
    assert encode(schema, OPENAI).schema == closed(a={"anyOf": sent})
    for plain, encoded in (("x", "x"), (1, 1), (None, None), ({"b": 1}, '{"b": 1}'), (True, True)):
        check_round_trip(schema, {"a": plain}, {"a": encoded})


def test_branches_that_look_alike_are_wrapped() -> None:
    schema = {"anyOf": [{"type": "array", "items": True}, {"type": "object"}]}
    encoding = encode(schema, OPENAI)
    assert encoding.encode([]) == {"value": []}
    assert encoding.encode({}) == {"value": {"option_2": []}}
    assert encoding.decode({"value": {"option_2": []}}) == {}
    assert encoding.findings[-2:] == (
        Finding("#", "a union", "branches that look alike are sent in objects of their own"),
        Finding("#", "a root that is not an object", "sent in an object under 'value'"),
    )
