"""Schemas as the world writes them: drafts, references, ``$schema``, and numbers as decimals."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest

from output_parsers import OutputParsingError, profiles, read
from output_parsers.json_schema.document import (
    InvalidSchemaError,
    SchemaDocument,
    followed,
    is_multiple,
    plain_document,
    referenced_part,
)
from output_parsers.json_schema.parser import check_schema, close_objects, schema_parser
from output_parsers.strict import encode_parser

DRAFT_3, DRAFT_4, DRAFT_6, DRAFT_7 = (f"http://json-schema.org/draft-0{n}/schema#" for n in (3, 4, 6, 7))


def accepts(schema: dict[str, Any], text: str) -> bool:
    try:
        schema_parser(schema, name="t").parse(text)
    except OutputParsingError:
        return False
    return True


def test_a_price_is_a_multiple_of_a_cent_as_it_is_written() -> None:
    parser = schema_parser({"type": "number", "multipleOf": 0.01})
    prices = [f"{cents // 100}.{cents % 100:02}" for cents in range(1, 10_001)]
    assert [parser.parse(price) for price in prices] == [float(price) for price in prices]
    assert not accepts({"type": "number", "multipleOf": 0.01}, "0.005")


@pytest.mark.parametrize(
    ("value", "divisor", "expected"),
    [
        (0.3, 0.1, True),
        (0.35, 0.1, False),
        (Decimal("1E+999999999"), 3, False),
        (Decimal("3E+999999999"), 3, True),
        (Decimal("1E-999999999"), 3, False),
        (Decimal("0E-999999999"), 3, True),
        (1e308, 0.123456789, False),
        (1e308, 0.5, True),
        (-7, 3.5, True),
        (10**4000, 7, False),
    ],
)
def test_a_multiple_is_found_in_time_that_does_not_depend_on_exponents(
    value: Any, divisor: Any, expected: bool
) -> None:
    assert is_multiple(value, divisor) is expected


def test_a_schema_address_below_the_root_is_ignored_if_it_is_equal() -> None:
    schema = {"$schema": DRAFT_7, "items": {"$schema": DRAFT_7.rstrip("#"), "type": "integer"}}
    assert plain_document(schema, "t") == {"$schema": DRAFT_7, "items": {"type": "integer"}}


def test_the_draft_of_the_parts_is_adopted_if_the_root_has_none() -> None:
    schema = {"properties": {"a": {"$schema": DRAFT_4, "minimum": 3, "exclusiveMinimum": True}}}
    assert accepts(schema, '{"a": 4}')
    assert not accepts(schema, '{"a": 3}')


def test_parts_of_different_drafts_are_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="another draft than the whole") as caught:
        schema_parser({"$schema": DRAFT_7, "properties": {"a": {"$schema": DRAFT_4}}}, name="t")
    assert caught.value.path == "#/properties/a"


def test_a_property_of_the_name_schema_is_no_draft() -> None:
    assert accepts({"properties": {"$schema": {"const": "x"}}, "required": ["$schema"]}, '{"$schema": "x"}')


@pytest.mark.parametrize("draft", [DRAFT_4, DRAFT_6, DRAFT_7])
def test_up_to_draft_7_keywords_beside_a_reference_do_not_count_anywhere(draft: str) -> None:
    schema = {
        "$schema": draft,
        "type": "object",
        "properties": {"files": {"$ref": "#/definitions/F", "type": "string", "properties": {}}},
        "definitions": {"F": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    parser, encoding = encode_parser(schema_parser(schema, name="t"), profiles.OPENAI)
    assert parser.parse('{"files": [{"key": "a", "value": "x"}]}') == {"files": {"a": "x"}}
    assert encoding.schema["$defs"]["F"]["type"] == "array"


def test_since_draft_2019_keywords_beside_a_reference_count() -> None:
    schema = {"$ref": "#/$defs/T", "maxLength": 2, "$defs": {"T": {"type": "string"}}}
    assert not accepts(schema, '"abc"')


def test_a_schema_of_draft_3_is_read_as_one_of_draft_4() -> None:
    schema = {
        "$schema": DRAFT_3,
        "type": "object",
        "properties": {
            "host": {"type": "string", "format": "ip-address", "required": True},
            "size": {"type": ["integer", {"type": "null"}], "divisibleBy": 2},
            "any": {"type": "any", "disallow": ["string", {"type": "array"}]},
        },
        "extends": {"required": ["size"]},
        "dependencies": {"host": "any"},
    }
    assert plain_document(schema, "t") == {
        "$schema": DRAFT_4,
        "type": "object",
        "properties": {
            "host": {"type": "string", "format": "ip-address"},
            "size": {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}], "multipleOf": 2},
            "any": {"not": {"anyOf": [{"type": "string"}, {"type": "array"}]}},
        },
        "required": ["host"],
        "allOf": [{"required": ["size"]}],
        "dependencies": {"host": ["any"]},
    }
    assert accepts(schema, '{"host": "x", "size": 4, "any": 1}')
    assert not accepts(schema, '{"host": "x", "size": 3, "any": 1}')
    assert not accepts(schema, '{"size": 4}')


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": True}}, '{"a": 1}'),
        ({"properties": {"$id": {"type": "string"}, "id": {}}}, '{"$id": "x", "id": 1}'),
        ({"properties": {"a": {"$id": "#/properties/a", "type": "integer"}}}, '{"a": 1}'),
        ({"properties": {"a": {"$id": "http://x.org/a", "type": "integer"}}}, '{"a": 1}'),
        ({"$schema": DRAFT_4, "id": "http://x.org/r", "properties": {"id": {"id": "#i"}}}, '{"id": 1}'),
        ({"$schema": DRAFT_4, "parts": {"id": {"type": "integer"}}, "items": {"$ref": "#/parts/id"}}, "[1]"),
        ({"$schema": "http://json-schema.org/schema#", "type": "integer"}, "1"),
        ({"$schema": "https://example.org/unknown", "type": "integer"}, "1"),
        ({"additionalProperties": {"type": "integer"}, "unevaluatedProperties": False}, '{"a": 1}'),
    ],
)
def test_schemas_of_others_are_read(schema: dict[str, Any], text: str) -> None:
    parser, _ = encode_parser(schema_parser(schema, name="t"), profiles.ANTHROPIC)
    assert parser.parse(text) == read(Any, text).value


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$schema": 5}, "#/$schema"),
        ({"type": "text"}, "#/type"),
        ({"$defs": {"T": {"type": "text"}}}, "#/$defs/T/type"),
        ({"items": {"$ref": "#/x/T"}, "x": {"T": {"type": "text"}}}, "#/items/$ref/type"),
        ({5: {}}, "#"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"$ref": 5}, "#/$ref"),
        ({"$ref": "#/missing"}, "#/$ref"),
    ],
)
def test_an_invalid_schema_raises_our_error(schema: Any, path: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        schema_parser(schema, name="t")
    assert caught.value.path == path
    with pytest.raises(InvalidSchemaError):
        check_schema(schema, "t")


@pytest.mark.parametrize(
    ("condition", "text", "value"),
    [
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            '{"a": "x", "b": null}',
            {"a": "x"},
        ),
        ({"not": {"required": ["a", "b"]}}, '{"a": "x", "b": null}', {"a": "x"}),
        ({"dependentRequired": {"a": ["b"]}}, '{"a": null, "b": null}', {}),
        ({"dependentSchemas": {"b": {"required": ["c"]}}}, '{"a": null, "b": null}', {}),
        ({"allOf": [{"not": {"required": ["b"]}}]}, '{"a": "x", "b": null}', {"a": "x"}),
    ],
)
def test_a_null_that_means_left_out_does_not_count_as_present(
    condition: dict[str, Any], text: str, value: Any
) -> None:
    optional = {"type": ["string", "null"]}
    schema = {"type": "object", "properties": {"a": optional, "b": optional}, **condition}
    parser, _ = encode_parser(schema_parser(schema, name="t"), profiles.OPENAI)
    assert parser.parse(text) == value


def test_a_null_of_a_required_property_stays() -> None:
    schema = {
        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["string", "null"]}},
        "required": ["a"],
        "not": {"required": ["a", "b"]},
    }
    assert schema_parser(schema).parse('{"a": null, "b": null}') == {"a": None}


@pytest.mark.parametrize("properties", [{}, {"a": {"type": "string"}}])
def test_a_required_name_that_is_not_declared_is_declared(properties: dict[str, Any]) -> None:
    inner = {"type": "object", "properties": properties, "required": ["more"]}
    schema = {"type": "object", "properties": {"inner": inner}, "required": ["inner", "z"]}
    parser = schema_parser(close_objects(schema), name="t")
    for profile in (profiles.OPENAI, profiles.ANTHROPIC, profiles.GEMINI):
        encoded, encoding = encode_parser(parser, profile)
        assert encoding.lossless
        assert {"type": "null"} not in encoding.schema["properties"].values()
        value = {"inner": {"more": 1}, "z": "x"}
        assert encoded.parse(encoded.write(value)) == value


def test_references_are_followed_by_json_pointers() -> None:
    root = {
        "$defs": {
            "a/b": {"type": "integer"},
            "c": {"$ref": "#/$defs/a~1b", "minimum": 1},
            "d": {"$ref": "#/$defs/d"},
        }
    }
    assert referenced_part(root, "#/$defs/a~1b") == {"type": "integer"}
    assert referenced_part(root, "other.json#/a") is referenced_part(root, "#/no") is None
    assert followed(root, {"$ref": "#/$defs/c", "title": "C"}) == {
        "type": "integer",
        "minimum": 1,
        "title": "C",
    }
    assert followed(root, {"$ref": "#/$defs/d"}) == {"$ref": "#/$defs/d"}


def test_a_document_rewrites_older_drafts() -> None:
    schema = {
        "$schema": DRAFT_4,
        "items": [{"minimum": 1, "exclusiveMinimum": True}],
        "additionalItems": False,
    }
    assert SchemaDocument(schema).schema("#") == {
        "$schema": DRAFT_4,
        "prefixItems": [{"exclusiveMinimum": 1}],
        "items": False,
    }


def test_nulls_are_left_out_in_time_that_does_not_double_with_each_level() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(30):
        schema = {"anyOf": [{"properties": {"a": schema}}, {"properties": {"a": schema, "b": {}}}]}
    definitions = {
        f"d{n}": {"anyOf": [{"items": {"$ref": f"#/$defs/d{n + 1}"}, "title": t} for t in "ab"]}
        for n in range(25)
    }
    start = time.perf_counter()
    assert not accepts(
        {"$ref": "#/$defs/d0", "$defs": {**definitions, "d25": {"type": "integer"}}},
        "[" * 25 + '"x"' + "]" * 25,
    )
    assert time.perf_counter() - start < 5


def test_a_digit_of_a_pattern_is_one_of_the_ten_of_javascript() -> None:
    assert accepts({"type": "string", "pattern": r"^\d[\d.]\D[^\D]$"}, '"1.x2"')
    assert not accepts({"type": "string", "pattern": r"^\d+$"}, '"১২"')
