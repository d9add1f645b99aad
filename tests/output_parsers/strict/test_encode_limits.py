"""References, drafts, remarks for keywords that are not enforced, and schemas that exceed a limit."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from output_parsers.json_schema.parser import schema_parser
from output_parsers.profiles import ANTHROPIC, GEMINI, LLAMA_CPP, OPENAI, VLLM, Limits
from output_parsers.strict import Finding, encode, encode_parser
from output_parsers.strict.schema_queries import exceeded_limits

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "reference",
    [
        "#/definitions/node",
        "#/properties/a",
        "#there",
        "http://example.org/root.json#/properties/a",
        "node.json",
    ],
)
def test_references_of_all_kinds_become_definitions(reference: str) -> None:
    node = {"$id": "node.json", "$anchor": "there", "type": "integer"}
    if reference == "#there":
        del node["$id"]
    schema = {
        "$id": "http://example.org/root.json",
        "type": "object",
        "properties": {"a": INTEGER, "b": {"$ref": reference, "description": "the other"}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "definitions": {"node": node},
    }
    encoding = encode(schema, OPENAI)
    ((name, definition),) = encoding.schema["$defs"].items()
    assert definition == INTEGER
    assert encoding.schema["properties"]["b"] == {
        "anyOf": [{"$ref": f"#/$defs/{name}"}],
        "description": "the other",
    }


def test_a_schema_may_refer_to_itself() -> None:
    schema = closed(kids={"type": "array", "items": {"$ref": "#"}})
    kids = {"type": "array", "items": {"$ref": "#/$defs/Root"}}
    encoding = encode(schema, OPENAI)
    assert encoding.schema == {**closed(kids=kids), "$defs": {"Root": closed(kids=kids)}}
    assert encoding.identity


def test_keywords_that_are_not_enforced_are_described() -> None:
    schema = closed(
        name={"type": "string", "minLength": 2, "format": "uri", "description": "a place"},
        ids={"type": "array", "items": INTEGER, "uniqueItems": True},
    )
    encoding = encode(schema, OPENAI)
    assert encoding.schema["properties"] == {
        "name": {"type": "string", "description": "a place (format uri; at least 2 characters)"},
        "ids": {"type": "array", "items": INTEGER, "description": "no item twice"},
    }
    assert encoding.findings == (
        Finding("#/properties/name", "format 'uri'", "not sent; enforced when read"),
        Finding("#/properties/name", "minLength", "not sent; enforced when read"),
        Finding("#/properties/ids", "uniqueItems", "not sent; enforced when read"),
    )
    assert encoding.identity


def test_a_pattern_with_lookaround_is_not_sent() -> None:
    encoding = encode(closed(a={"type": "string", "pattern": "^(?!x)"}), OPENAI)
    assert encoding.schema == closed(a={"type": "string", "description": "matching ^(?!x)"})


def test_a_reference_out_of_the_document_gives_strict_mode_up() -> None:
    schema = closed(a={"$ref": "https://example.org/other.json"})
    encoding = encode(schema, OPENAI)
    assert (encoding.schema, encoding.lossless, encoding.identity) == (schema, False, True)
    feature = "a reference out of the document (https://example.org/other.json)"
    assert Finding("#/properties/a", feature, "strict mode is given up", lossless=False) in encoding.findings


def test_a_schema_that_no_value_fits_gives_strict_mode_up() -> None:
    encoding = encode({"not": {}, "enum": []}, OPENAI)
    assert not encoding.lossless


def test_too_many_properties_give_strict_mode_up() -> None:
    encoding = encode(closed(**{f"p{number}": INTEGER for number in range(5001)}), OPENAI)
    assert not encoding.lossless
    assert [str(finding) for finding in encoding.findings if not finding.lossless] == [
        "#: 5001 properties, but openai allows 5000: strict mode is given up"
    ]


def test_a_long_enum_is_not_sent() -> None:
    schema = closed(a={"type": "string", "enum": [f"value {number}" for number in range(1001)]})
    encoding = encode(schema, OPENAI)
    assert encoding.lossless
    assert "enum" not in encoding.schema["properties"]["a"]
    assert encoding.findings == (
        Finding("#/properties/a", "an enum of 1001 values", "not sent; enforced when read"),
    )


def test_an_object_that_is_nested_too_deeply_is_sent_as_json_text() -> None:
    schema: dict[str, Any] = INTEGER
    value: Any = 1
    for _ in range(12):
        schema, value = closed(a=schema), {"a": value}
    encoding = encode(schema, OPENAI)
    assert encoding.lossless
    assert encoding.decode(encoding.encode(value)) == value


def test_draft_4_keywords_are_rewritten() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "a": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "b": {"type": "array", "items": [INTEGER], "additionalItems": False, "minItems": 1},
            "c": {"type": "string", "const": "not a keyword of this draft"},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    sent = encode(schema, OPENAI).schema["properties"]
    assert sent["a"] == {"type": "number", "exclusiveMinimum": 0}
    assert sent["b"]["properties"] == {"item_0": INTEGER}
    assert sent["c"] == STRING


def test_a_profile_that_supports_more_gets_more_unchanged() -> None:
    schema = {
        "type": "object",
        "properties": {"age": INTEGER, "at": {"type": "array", "prefixItems": [INTEGER], "items": False}},
        "additionalProperties": STRING,
    }
    for profile in (GEMINI, VLLM):
        encoding = encode(schema, profile)
        assert encoding.schema == {**schema, "required": []}
        assert encoding.identity
    assert not encode(schema, LLAMA_CPP).identity  # it has no tuples


def test_an_enum_of_booleans_is_not_sent_to_a_profile_without_them() -> None:
    encoding = encode(closed(a={"enum": [True, "x"]}), GEMINI)
    sent = [{"type": "boolean"}, {"type": "string", "enum": ["x"]}]
    assert encoding.schema["properties"]["a"] == {"anyOf": sent, "description": 'one of [true, "x"]'}
    assert encoding.findings == (
        Finding("#/properties/a", "an enum of booleans", "not sent; enforced when read"),
    )


def test_unevaluated_properties_become_additional_properties() -> None:
    schema = {"allOf": [{"properties": {"a": INTEGER}, "required": ["a"]}], "type": "object"}
    assert encode({**schema, "unevaluatedProperties": False}, OPENAI).schema == closed(a=INTEGER)


def test_recursion_becomes_json_text_for_a_profile_without_recursion() -> None:
    schema = closed(kids={"type": "array", "items": {"$ref": "#"}})
    encoding = encode(schema, ANTHROPIC)
    value = {"kids": [{"kids": [{"kids": []}]}]}
    assert encoding.decode(encoding.encode(value)) == value
    assert Finding("#", "recursion", "sent as JSON text") in encoding.findings


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 3},
        {"properties": []},
        {"enum": 1},
        {"required": 1},
        {"anyOf": {}},
        {"$ref": "#/a"},
        {"items": 1},
    ],
)
def test_an_invalid_schema_gives_strict_mode_up_or_is_ignored_in_part(schema: Any) -> None:
    encoding = encode(schema, OPENAI)
    assert encoding.lossless or any(not finding.lossless for finding in encoding.findings)


NAMES = "abcde"
REFERENCES = st.fixed_dictionaries({"$ref": st.sampled_from([f"#/$defs/{name}" for name in NAMES])})
SCHEMAS = st.recursive(
    REFERENCES | st.just({"type": "integer"}),
    lambda inner: (
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)})
        | st.builds(lambda schema: closed(x=schema), inner)
    ),
    max_leaves=4,
)


def nesting(schema: dict[str, Any], definitions: dict[str, Any], around: frozenset[str]) -> int:
    """Count the levels of objects without remembering any definition."""
    if "$ref" in schema:
        name = schema["$ref"][-1]
        return 0 if name in around else nesting(definitions[name], definitions, around | {name})
    parts = [*schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    return (schema.get("type") == "object") + max(
        (nesting(part, definitions, around) for part in parts), default=0
    )


@given(SCHEMAS, st.fixed_dictionaries(dict.fromkeys(NAMES, SCHEMAS)))
def test_the_levels_of_definitions_that_refer_to_each_other_are_counted(
    schema: dict[str, Any], definitions: dict[str, Any]
) -> None:
    levels = nesting(schema, definitions, frozenset())
    exceeded = exceeded_limits({**schema, "$defs": definitions}, Limits(depth=0))
    assert exceeded == ([("depth", 0, levels)] if levels else [])


def _combinable(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}", "minProperties": n}, {"$ref": f"#/$defs/D{n + 1}"}]}
        for n in range(levels)
    }
    definitions[f"D{levels}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": definitions}


def _self_referring(properties: int) -> dict[str, Any]:
    parts = {f"p{n}": {"$ref": "#", "minProperties": n, "description": "again"} for n in range(properties)}
    return {"type": "object", "properties": parts}


@pytest.mark.parametrize("schema", [_combinable(30), _self_referring(70), _self_referring(200)])
def test_a_schema_whose_definitions_can_be_combined_in_many_ways_takes_bounded_time(schema: Any) -> None:
    start = time.perf_counter()
    parser, encoding = encode_parser(schema_parser(schema, name="t"), OPENAI)
    assert time.perf_counter() - start < 10  # without a limit, minutes or more
    assert len(parser.hint) < 1_000_000
    assert encoding.lossless or any("is given up" in str(finding) for finding in encoding.findings)


def test_too_much_work_is_a_reason_to_give_up_strict_mode() -> None:
    _, encoding = encode_parser(schema_parser(_self_referring(100), name="t"), OPENAI)
    assert not encoding.lossless
    assert [str(finding) for finding in encoding.findings if not finding.lossless] == [
        "t: definitions that can be combined in too many ways: strict mode is given up"
    ]
