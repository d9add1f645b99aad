"""For schemas of all kinds, a valid value can be encoded, sent and decoded again.

The encoded value fits the schema that is sent.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from output_parsers.profiles import OPENAI, PROFILES, Profile
from output_parsers.strict import EncodingError, encode
from output_parsers.strict.schema_queries import json_equal, kind_of

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed; it judges the schemas")


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


strict_subset = load("strict_subset")
nulls = load("null_defaults")

THOROUGH = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
KEYS = st.sampled_from(["a", "b", "c", "value", "key", "additional_properties", "item_0"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2.5, "", "a", "1", "null", '{"a": 1}', "[1]"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.one_of(
    st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"]).map(
        lambda t: {"type": t}
    ),
    st.lists(
        st.sampled_from(["null", "integer", "string", "array", "object"]), min_size=2, max_size=3, unique=True
    ).map(lambda types: {"type": types}),
    st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    VALUES.map(lambda value: {"const": value}),
    st.sampled_from(
        [
            True,
            {},
            {"minLength": 1},
            {"$ref": "#/$defs/Tree"},
            {"$ref": "#"},
            {"not": {"type": "null"}},
            {"required": ["a"]},
        ]
    ),
)


@st.composite
def records(draw: Any, inner: st.SearchStrategy[Any]) -> Any:
    schema: dict[str, Any] = {"properties": draw(st.dictionaries(KEYS, inner, max_size=3))}
    if draw(st.booleans()):
        schema["type"] = "object"
    schema["required"] = draw(st.lists(KEYS, max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.just(False) | inner)
    if draw(st.integers(0, 3)) == 0:
        schema["patternProperties"] = {draw(st.sampled_from(["^a", "e", "."])): draw(inner)}
    if draw(st.integers(0, 3)) == 0:
        schema["minProperties"] = 1
    return schema


@st.composite
def tuples(draw: Any, inner: st.SearchStrategy[Any]) -> Any:
    schema: dict[str, Any] = {"type": "array", "prefixItems": draw(st.lists(inner, min_size=1, max_size=2))}
    schema["items"] = draw(st.just(False) | inner)
    if draw(st.booleans()):
        schema["minItems"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        schema["maxItems"] = draw(st.integers(1, 3))
    return schema


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    optional = st.tuples(inner, SCALARS).map(
        lambda p: {**p[0], "default": p[1]} if isinstance(p[0], dict) and "$ref" not in p[0] else p[0]
    )
    return st.one_of(
        records(inner | optional),
        tuples(inner),
        inner.map(lambda item: {"type": "array", "items": item, "uniqueItems": True}),
        inner.map(lambda item: {"type": "object", "additionalProperties": item}),
        several.map(lambda options: {"anyOf": options}),
        several.map(lambda options: {"oneOf": options}),
        several.map(lambda parts: {"allOf": parts}),
        st.tuples(records(inner), several).map(lambda p: {**p[0], "anyOf": p[1]}),
    )


TREE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "a": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    "required": ["value"],
    "additionalProperties": False,
}
SCHEMAS = st.recursive(LEAVES, compound, max_leaves=6).map(
    lambda schema: {**schema, "$defs": {"Tree": TREE}} if isinstance(schema, dict) else schema
)


def is_valid(schema: Any, value: Any) -> bool | None:
    """Validate a value with the package jsonschema.

    Return None if the package cannot decide, as for ``{"$ref": "#"}``.
    """
    try:
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
    except RecursionError:
        return None
    except BaseException as error:  # a RecursionError in the Rust code of jsonschema becomes a panic
        if type(error).__name__ != "PanicException":
            raise
        return None


def check_round_trip(schema: Any, value: Any, profile: Profile) -> None:
    encoding = encode(schema, profile)
    if not encoding.lossless:
        features = [finding.feature for finding in encoding.findings if not finding.lossless]
        assert features
        assert not any("an invalid JSON Schema" in feature for feature in features)
        return
    valid = is_valid(schema, value)
    try:
        encoded = encoding.encode(value)
    except EncodingError:
        assert not valid, f"a valid value is refused: {json.dumps(encoding.schema)}"
        return
    assert is_valid(encoding.schema, encoded), f"{encoded} does not fit {json.dumps(encoding.schema)}"
    decoded = encoding.decode(json.loads(json.dumps(encoded)))
    names = nulls.null_by_default(schema)
    assert nulls.equal_except_nulls(names, decoded, value), f"{encoded} was decoded as {decoded}"
    if valid:
        assert is_valid(schema, decoded) is not False, (
            f"{encoded} was decoded as {decoded}, which is not valid"
        )
    if encoding.identity:
        assert nulls.equal_except_nulls(names, encoded, value)


@THOROUGH
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_a_valid_value_survives_encoding_and_decoding(schema: Any, values: list[Any]) -> None:
    for value in values:
        check_round_trip(schema, value, OPENAI)


@THOROUGH
@given(SCHEMAS)
def test_the_schema_that_is_sent_lies_in_the_strict_subset(schema: Any) -> None:
    encoding = encode(schema, OPENAI)
    assert not encoding.lossless or strict_subset.problems_of(encoding.schema) == []


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@settings(THOROUGH, max_examples=150)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=5))
def test_a_valid_value_survives_for_each_profile(profile: Profile, schema: Any, values: list[Any]) -> None:
    for value in values:
        check_round_trip(schema, value, profile)


@settings(THOROUGH, max_examples=200)
@given(SCHEMAS, VALUES)
def test_any_json_is_decoded_or_refused(schema: Any, value: Any) -> None:
    encoding = encode(schema, OPENAI)
    try:
        encoding.decode(value)
    except EncodingError:
        return


def values_for(schema: Any, definitions: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that fit a schema of the strict subset, as a constrained model would write them."""
    if "$ref" in schema:
        return values_for(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
    if "anyOf" in schema:
        parts = schema["anyOf"]
        if len(parts) == 2 and {"type": "null"} in parts:  # keywords next to anyOf apply to the value
            beside = {key: schema[key] for key in schema if key != "anyOf"}
            parts = [part if part == {"type": "null"} else {**beside, **part} for part in parts]
        options = [option for option in parts if option == {"type": "null"}] if depth > 6 else []
        return st.one_of([values_for(part, definitions, depth + 1) for part in options or parts])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        min_items, max_items = schema.get("minItems", 0), schema.get("maxItems", 2 if depth < 4 else 0)
        if max_items == 0:
            return st.just([])
        items = values_for(schema["items"], definitions, depth + 1)
        return st.lists(items, min_size=min_items, max_size=max(min_items, max_items))
    if schema["type"] == "object":
        return st.fixed_dictionaries(
            {key: values_for(p, definitions, depth + 1) for key, p in schema["properties"].items()}
        )
    if schema["type"] == "string" and JSON_TEXT in schema.get("description", ""):
        return json_texts(schema["description"])
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(-2, 2),
        "number": st.sampled_from([0, 2.5]),
        "string": st.sampled_from(["a", "b", "1", "null", "[1]", '{"a": 1}', "{"]),
    }[schema["type"]]


# Rules that a schema cannot express: keys of pairs are unique, and optional items of a tuple come last.
INEXPRESSIBLE = {
    "the key appears twice",
    "an earlier item is missing",
    "no item of this name is expected",  # the same, where a branch of a union has fewer items
}
JSON_TEXT = "written as JSON text in this string"


def json_texts(description: str) -> st.SearchStrategy[str]:
    """Return JSON texts of values with the JSON types that a description names."""
    kinds = set(description.split(f", {JSON_TEXT}")[0].rpartition("(")[2].split(" or "))
    wanted = VALUES if "any JSON value" in kinds else VALUES.filter(lambda value: kind_of(value) in kinds)
    return wanted.map(json.dumps)


def has_repeated_key(encoded: Any) -> bool:
    """Return True if the same key is written twice: in a list of pairs, or also outside it."""
    if isinstance(encoded, dict):
        lists = [item for name, item in encoded.items() if name.startswith(("additional_", "matching_"))]
        pairs = [key for item in lists for key in keys_of_pairs(item)]
        twice = len(pairs) > len(set(pairs)) or not encoded.keys().isdisjoint(pairs)
        return twice or any(map(has_repeated_key, encoded.values()))
    if not isinstance(encoded, list):
        return False
    keys = keys_of_pairs(encoded)
    return len(keys) > len(set(keys)) or any(map(has_repeated_key, encoded))


def keys_of_pairs(encoded: Any) -> list[str]:
    """Return the keys of a list of key-value pairs, as text."""
    items = encoded if isinstance(encoded, list) else []
    return [str(item["key"]) for item in items if isinstance(item, dict) and item.keys() == {"key", "value"}]


@THOROUGH
@given(SCHEMAS, st.data())
def test_every_reply_that_fits_the_sent_schema_is_decoded_to_one_value(
    schema: Any, data: st.DataObject
) -> None:
    encoding = encode(schema, OPENAI)
    assume(encoding.lossless)
    try:
        values = values_for(encoding.schema, encoding.schema.get("$defs", {}))
    except RecursionError:  # a type whose values would be infinite
        assume(False)
    encoded = data.draw(values)
    try:
        decoded = encoding.decode(encoded)
    except EncodingError as error:
        # for a repeated key, a union may report what is wrong with another branch instead
        reason = "" if has_repeated_key(encoded) else error.message.partition(", found ")[0]
    else:
        reason = ""
        assert not is_valid(schema, decoded) or json_equal(encoding.decode(encoding.encode(decoded)), decoded)
    assert reason in {"", *INEXPRESSIBLE}


@pytest.mark.parametrize(
    "other",
    [
        {"type": ["null", "object"]},
        {"type": ["null", "object"], "properties": {"a": {"type": "null"}}},
    ],
)
def test_a_tuple_with_a_gap_is_not_read_as_an_object_of_another_branch(other: Any) -> None:
    array = {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "null"}}
    encoding = encode({"anyOf": [array, other]}, OPENAI)
    with pytest.raises(EncodingError) as caught:
        encoding.decode({"value": {"item_0": None, "rest": [None]}})
    assert str(caught.value) == "$.value.rest: an earlier item is missing, found an array of 1"
