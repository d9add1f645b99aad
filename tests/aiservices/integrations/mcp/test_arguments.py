"""Schemas of arguments as servers write them, and what models receive."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp_types import Tool as ServerTool

from aiservices.integrations.mcp.arguments import ORIGINAL_SCHEMA, arguments_schema
from output_parsers.json_schema.parser import schema_parser

A, B = {"a": {"type": "string"}}, {"b": {"type": "integer"}}
OBJECT_A = {"type": "object", "properties": A, "additionalProperties": False}
EITHER = {"type": "object", "properties": {**A, **B}, "required": [], "additionalProperties": False}


def _schema(schema: object) -> dict[str, Any]:
    return arguments_schema(ServerTool(name="t", input_schema={}, _meta={ORIGINAL_SCHEMA: schema}))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"properties": A}, OBJECT_A),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, OBJECT_A),
        ({"type": ["object", "null"], "properties": A}, OBJECT_A),
        ({"type": ["OBJECT"], "properties": A}, OBJECT_A),
        (
            {"properties": {"a": {"items": [A["a"], B["b"]], "additionalItems": False}}},
            {
                "type": "object",
                "properties": {"a": {"prefixItems": [A["a"], B["b"]], "items": False}},
                "additionalProperties": False,
            },
        ),
        ({"type": "object", "properties": A, "required": None, "title": None}, OBJECT_A),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, OBJECT_A),
        ({"$ref": "#/$defs/A", "$defs": {"A": OBJECT_A}}, {**OBJECT_A, "$defs": {"A": OBJECT_A}}),
        ({"anyOf": [{"properties": A, "required": ["a"]}, {"properties": B}]}, EITHER),
        (
            {"type": "object", "properties": {**A, **B}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            EITHER,
        ),
        (
            {"allOf": [{"properties": A, "required": ["a"]}, {"properties": B, "required": ["b"]}]},
            {**EITHER, "required": ["a", "b"]},
        ),
        (
            {"anyOf": [{"properties": {"a": {"const": n}}, "required": ["a"]} for n in (1, 2, 1)]},
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"const": 1}, {"const": 2}]}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_an_odd_schema_becomes_an_object(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _schema(schema) == expected


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"type": "object", "properties": A, "required": ["a", "x"]}, '{"a": "1", "x": 2}'),
        ({"type": "object", "properties": {}, "required": ["x"]}, '{"x": 2}'),
        ({"type": "object", "required": ["x"]}, '{"x": 2}'),
        (
            {"type": "object", "properties": {"n": {"type": "object", "properties": A, "required": ["x"]}}},
            '{"n": {"x": [1]}}',
        ),
    ],
)
def test_a_required_property_that_is_not_declared_can_be_given(schema: Any, arguments: str) -> None:
    assert schema_parser(_schema(schema)).parse(arguments)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "it has no name, or no schema of its arguments"),
        ({"type": "array"}, "its arguments are of the type array, not an object"),
        ({"anyOf": [{}] * 101}, "its arguments have more than 100 alternatives"),
    ],
)
def test_arguments_that_are_no_object_are_refused(schema: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        _schema(schema)


@pytest.mark.parametrize("reference", ["#", "#/$defs/A", "#/nothing", "http://example.com/a"])
def test_a_reference_to_itself_or_to_nothing_ends(reference: str) -> None:
    assert _schema({"$ref": reference, "$defs": {"A": {"$ref": "#/$defs/A"}}})["type"] == "object"
