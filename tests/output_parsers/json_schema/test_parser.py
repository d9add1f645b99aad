"""A JSON Schema is a type: valid data is unchanged, nearly valid data is aligned, other data is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from jsonschema import Draft202012Validator

from output_parsers import Leniency, OutputParsingError, PartialReader, TypeParser, UnsupportedTypeError
from output_parsers.json_schema.document import InvalidSchemaError
from output_parsers.json_schema.parser import close_objects, named_schema, schema_parser
from output_parsers.profiles import ANTHROPIC, GEMINI, OPENAI
from output_parsers.prose.fillers import is_value
from output_parsers.strict import encode_parser
from output_parsers.types.node import schema_of

PERSON: dict[str, Any] = {
    "title": "Person",
    "description": "Somebody.",
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "description": "given name"},
        "age": {"type": "integer", "minimum": 0},
        "mood": {"enum": ["glad", "dark-blue", None]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "home": {"$ref": "#/$defs/Place"},
        "born": {"type": "string", "format": "date"},
        "height": {"type": ["number", "null"]},
        "children": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["first_name", "age"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}
PET: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, member: {"type": "integer"}},
            "required": ["kind", member],
        }
        for kind, member in (("cat", "lives"), ("dog", "tricks"))
    ]
}


def same(one: Any, other: Any) -> bool:
    """Return True if two values are equal and of the same types; 1 is not 1.0 or True."""
    return repr(one) == repr(other) if not isinstance(one, (dict, list)) else _same_parts(one, other)


def _same_parts(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or len(one) != len(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return all(map(same, one, other))


def problems(schema: Mapping[str, Any], text: str) -> list[str]:
    with pytest.raises(OutputParsingError) as error:
        schema_parser(schema).parse(text)
    return [str(problem) for problem in error.value.problems]


def steps(schema: Mapping[str, Any], text: str) -> tuple[Any, list[str]]:
    reading = schema_parser(schema).read(text)
    return reading.value, [str(step) for step in reading.coercions]


def test_importing_the_package_loads_neither_this_module_nor_jsonschema() -> None:
    program = (
        "import sys, output_parsers, output_parsers.streaming\n"
        "late = ('output_parsers.json_schema.parser', 'jsonschema', 'referencing')\n"
        "assert not [name for name in late if name in sys.modules]\n"
        "import output_parsers.json_schema\n"
        "assert 'jsonschema' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_schema_is_the_one_of_the_user() -> None:
    parser = schema_parser(PERSON)
    assert isinstance(parser, TypeParser)
    assert parser.schema == PERSON
    assert parser.name == "Person"
    assert schema_parser(PERSON, name="Guest").name == "Guest"
    assert schema_parser({"type": "string"}).name == "value"
    assert schema_parser({"type": "string"}).schema == {"type": "string"}


def test_a_schema_that_is_changed_afterwards_does_not_change_its_parser() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    parser = schema_parser(schema)
    schema["properties"] = {}
    assert parser.schema == {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_any_mapping_is_accepted_as_a_schema() -> None:
    parser = schema_parser(MappingProxyType({"enum": ("a", "b"), "title": "Letter"}))
    assert parser.schema == {"enum": ["a", "b"], "title": "Letter"}
    assert parser.parse("B") == "b"


def test_a_reference_at_the_root_is_replaced_by_its_target() -> None:
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"next": {}}}}}
    assert schema_parser(schema).schema == {
        "type": "object",
        "properties": {"next": {}},
        "$defs": {"Node": {"type": "object", "properties": {"next": {}}}},
    }


def test_the_instructions_show_the_hint() -> None:
    assert schema_parser(PERSON).format_instructions() == (
        "Reply with JSON only, in this form:\n"
        "{\n"
        '  "first_name": string,  // given name\n'
        '  "age": integer (at least 0),\n'
        '  "mood"?: "glad" | "dark-blue" | null,\n'
        '  "tags"?: [string, ...] (at least 1 item),\n'
        '  "home"?: {"city": string},\n'
        '  "born"?: string (date),\n'
        '  "height"?: number | null,\n'
        '  "children"?: [Person, ...],\n'
        "}"
    )


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "integer"}, "integer"),
        ({"enum": ["a", 1, True]}, '"a" | 1 | true'),
        ({"const": None}, "null"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{string: number, ...}"),
        ({"type": "string", "maxLength": 5}, "string (at most 5 characters)"),
        ({"properties": {"a": {"type": "boolean"}}}, '{"a"?: true | false}'),
        ({"allOf": [{"type": "integer"}]}, '{"allOf":[{"type":"integer"}]}'),
        ({"type": "array", "uniqueItems": True}, '{"type":"array","uniqueItems":true}'),
        ({"enum": [[1]]}, '{"enum":[[1]]}'),
        ({"type": ["string", "integer"], "maxLength": 3}, "string (at most 3 characters) | integer"),
    ],
)
def test_the_hint_is_short_or_the_whole_schema(schema: dict[str, Any], hint: str) -> None:
    assert schema_parser(schema).hint == hint


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (PERSON, '{"first_name": "Ann", "age": 3}', {"first_name": "Ann", "age": 3}),
        ({"type": "integer"}, "12345678901234567890123", 12345678901234567890123),
        ({"type": "number"}, "12345678901234567890123", 12345678901234567890123),
        ({}, "12345678901234567890.0", 12345678901234567890),
        ({"type": "number"}, "1", 1),
        ({"type": "number"}, "1.0", 1.0),
        ({"type": "string"}, '"42"', "42"),
        ({"type": "string"}, "hello", "hello"),
        ({"type": "string", "format": "date"}, '"2020-01-01"', "2020-01-01"),
        ({"type": "string", "format": "date"}, '"soon"', "soon"),
        ({"type": ["integer", "string"]}, '"42"', "42"),
        ({"enum": [1, "1"]}, '"1"', "1"),
        ({"enum": ["a", "A"]}, '"A"', "A"),
        ({"enum": [{"a": 1}, [2]]}, '{"a": 1}', {"a": 1}),
        ({"const": None}, "null", None),
        ({"type": "integer"}, "3.0", 3.0),
        ({"type": "array", "items": {"type": ["integer", "string"]}}, "[0.0]", [0.0]),
        ({"enum": [False, True, "true"]}, "true", True),
        ({"enum": [False, True, "true"]}, '"true"', "true"),
        ({"not": {"type": "string"}}, "[1, 2.5, null]", [1, 2.5, None]),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, '[1, "a"]', [1, "a"]),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, '{"x1": 1}', {"x1": 1}),
        ({"properties": {"a": {"type": "integer"}}}, '{"A": "kept"}', {"A": "kept"}),
        ({"$id": "urn:a", "items": {"$ref": "#/$defs/b"}, "$defs": {"b": {"type": "integer"}}}, "[1]", [1]),
        ({"items": {"$ref": "#b"}, "$defs": {"c": {"$anchor": "b", "type": "integer"}}}, "[1]", [1]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1}, "2", 2),
    ],
)
def test_valid_data_is_returned_unchanged(schema: dict[str, Any], text: str, value: Any) -> None:
    reading = schema_parser(schema).read(text, Leniency.NONE)
    assert same(reading.value, value)
    assert reading.coercions == ()


@pytest.mark.parametrize(
    ("schema", "text", "value", "message"),
    [
        (
            PERSON,
            '{"firstName": "Ann", "AGE": "42", "mood": "GLAD", "home": {"City": "Rome"}}',
            {"first_name": "Ann", "age": 42, "mood": "glad", "home": {"city": "Rome"}},
            [
                '$.firstName: key in another form: "firstName" → "first_name"',
                '$.AGE: key in another form: "AGE" → "age"',
                '$.AGE: number as text: "42" → 42',
                '$.mood: case or punctuation: "GLAD" → "glad"',
                '$.home.City: key in another form: "City" → "city"',
            ],
        ),
        ({"type": "integer"}, '"42"', 42, ['$: number as text: "42" → 42']),
        ({"type": "integer"}, "3.0", 3, ["$: whole number written with a fraction: 3.0 → 3"]),
        ({"type": "number"}, '"42"', 42, ['$: number as text: "42" → 42']),
        ({"type": "number"}, '"4.5"', 4.5, ['$: number as text: "4.5" → 4.5']),
        ({"type": "string"}, "42", "42", ['$: number as text: 42 → "42"']),
        ({"type": "boolean"}, '"Yes"', True, ['$: case or punctuation: "Yes" → "true"']),
        ({"enum": ["a", None]}, '"A."', "a", ['$: case or punctuation: "A." → "a"']),
        ({"enum": [1, 2]}, '"2"', 2, ['$: text for a value that is not text: "2" → "2"']),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}},
            '{"A": 1, "B": 2}',
            {"a": 1, "B": 2},
            ['$.A: key in another form: "A" → "a"'],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            '{"a": "1"}',
            {"a": 1},
            ['$.a: number as text: "1" → 1'],
        ),
        (
            {"type": "array", "items": {"type": "integer"}},
            '"[1, 2]"',
            [1, 2],
            ['$: JSON inside a string: "[1, 2]" → an array of 2'],
        ),
        (
            {"allOf": [{"type": "array", "items": {"type": "integer"}}]},
            '["1"]',
            [1],
            ['$[0]: number as text: "1" → 1'],
        ),
        (
            PET,
            '{"kind": "Dog", "tricks": "3"}',
            {"kind": "dog", "tricks": 3},
            ['$.kind: case or punctuation: "Dog" → "dog"', '$.tricks: number as text: "3" → 3'],
        ),
    ],
)
def test_nearly_valid_data_is_aligned_and_every_coercion_recorded(
    schema: dict[str, Any], text: str, value: Any, message: list[str]
) -> None:
    result, taken = steps(schema, text)
    assert same(result, value)
    assert taken == message


def test_nothing_is_aligned_without_leniency() -> None:
    with pytest.raises(OutputParsingError) as error:
        schema_parser(PERSON).parse('{"firstName": "Ann", "age": 3}', Leniency.NONE)
    (problem,) = error.value.problems
    assert str(problem) == (
        '$.firstName: key in another form is not permitted with Leniency.NONE, found "firstName"'
    )


def test_text_around_the_json_is_dropped() -> None:
    text = 'Here you are:\n```json\n{"first_name": "Ann", "age": 3}\n```\nAnything else?'
    assert steps(PERSON, text) == ({"first_name": "Ann", "age": 3}, ["$: text around the JSON left out"])


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (
            PERSON,
            '{"first_name": "Ann", "age": -3, "tags": [], "x": 1, "mood": "sad", "home": {}, "height": "x"}',
            [
                "$.x: Person has no field of this name",
                "$.age: expected at least 0, found -3",
                '$.mood: expected one of "glad", "dark-blue", null, found "sad"',
                "$.tags: expected at least 1 item, found an array of 0",
                "$.home.city: the required field 'city' is missing",
                '$.height: expected a number or null, found "x"',
            ],
        ),
        (PERSON, "none at all", ['$: expected an object (Person), found "none at all"']),
        (PERSON, "", ['$: expected an object (Person); the reply is empty, found ""']),
        ({"type": "integer", "multipleOf": 5}, "7", ["$: expected a multiple of 5, found 7"]),
        ({"not": {"type": "integer"}}, "1", ["$: the schema excludes this value, found 1"]),
        ({"not": {}}, "[]", ["$: the schema excludes this value, found an array of 0"]),
        ({"properties": {"a": False}}, '{"a": 1}', ["$: no value is allowed here, found 1"]),
        ({"uniqueItems": True}, "[1, 1]", ["$: expected no item twice, found an array of 2"]),
        ({"enum": [{"a": 1}, [2]]}, "[3]", ['$: expected one of {"a": 1}, [2], found an array of 1']),
        ({"const": [1]}, "[3]", ["$: expected [1], found an array of 1"]),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            "1",
            ["$: it fits more than one alternative, and must fit exactly one, found 1"],
        ),
        (
            {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]},
            "{}",
            ["$: it fits none of the alternatives, found an empty object"],
        ),
        (
            {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}]}, {}]},
            '["a"]',
            ["$: expected an integer or null, found an array of 1"],
        ),
        (
            {"allOf": [{"anyOf": [{"items": {"type": "integer"}}, {"type": "null"}]}, {}]},
            '["a"]',
            ['$[0]: expected an integer, found "a"'],
        ),
        (
            {
                "allOf": [
                    {"additionalProperties": False, "patternProperties": {"^x": {}}},
                    {"required": ["y"]},
                ]
            },
            '{"x1": 1, "z": 2}',
            ["$.z: the schema has no field of this name, found 2", "$.y: the required field 'y' is missing"],
        ),
        ({"type": ["integer", "null"], "minimum": 5}, "3", ["$: expected at least 5, found 3"]),
        ({"type": ["integer", "null"], "minimum": 5}, '"x"', ['$: expected an integer or null, found "x"']),
        (
            {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]},
            "3",
            ["$: expected at least 5, found 3"],
        ),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, '"c"', ['$: expected "a" or "b", found "c"']),
        (PET, '{"kind": "dog", "lives": 3}', ["$.tricks: the required field 'tricks' is missing"]),
        (
            {"dependentRequired": {"a": ["b"]}},
            '{"a": 1}',
            ["$: 'b' is a dependency of 'a', found an object with a"],
        ),
        ({"type": "number"}, "1e999", ["$: expected a number that a float can hold, found 1E+999"]),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {}}},
            '{"A": 1, "-a": 2}',
            ["$[\"-a\"]: another key refers to 'a' too"],
        ),
    ],
)
def test_invalid_data_is_refused_with_a_short_message(
    schema: dict[str, Any], text: str, message: list[str]
) -> None:
    assert problems(schema, text) == message


def test_a_value_nested_too_deeply_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    deep = '{"a":' * 400 + "{}" + "}" * 400
    limit = sys.getrecursionlimit()  # other packages may have raised it
    sys.setrecursionlimit(1_000)
    try:
        assert problems(schema, deep) == ["$: it is nested too deeply"]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    ("schema", "pointer", "reason"),
    [
        ({"required": "a"}, "#/required", "'a' is not of type 'array'"),
        (
            {"properties": {"a/b": {"pattern": "("}}},
            "#/properties/a~1b/pattern",
            "the pattern '(' cannot be used: unclosed group",
        ),
        ({"$ref": "#"}, "#", "it refers only to itself"),
        ({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}}, "#", "it refers only to itself"),
        (
            {"properties": {"a": {"$ref": "#/$defs/b"}}},
            "#/properties/a/$ref",
            "'#/$defs/b' is not in the schema, and other documents are not downloaded",
        ),
        (
            {"not": {"$ref": "https://example.invalid/a.json"}},
            "#/not/$ref",
            "'https://example.invalid/a.json' is not in the schema, and other documents are not downloaded",
        ),
        ({"title": "a", "items": {"$ref": "#/title"}}, "#/items/$ref", "'#/title' is not a schema"),
    ],
)
def test_an_invalid_schema_is_reported_when_the_parser_is_created(
    schema: dict[str, Any], pointer: str, reason: str
) -> None:
    with pytest.raises(UnsupportedTypeError) as error:
        schema_parser(schema, name="Thing")
    assert type(error.value) is InvalidSchemaError
    assert error.value.path == pointer
    assert str(error.value) == f"the JSON Schema 'Thing' is invalid at {pointer}: {reason}"


def test_only_a_mapping_is_accepted_as_a_schema() -> None:
    with pytest.raises(InvalidSchemaError) as error:
        schema_parser([1])  # type: ignore[arg-type]
    assert str(error.value) == "the JSON Schema 'value' is invalid at #: a mapping is expected, not list"


def test_references_have_the_same_target_inside_an_envelope() -> None:
    inner = schema_parser(
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}}
    )
    assert inner.with_envelope("items").schema == {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        "required": ["items"],
        "additionalProperties": False,
        "$defs": {"a": {"type": "integer"}},
    }
    tree = schema_parser(
        {"type": "array", "items": {"$ref": "#"}, "examples": [{"$ref": "#"}]}
    ).with_envelope()
    assert tree.schema == {
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/Root"}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {
            "Root": {"type": "array", "items": {"$ref": "#/$defs/Root"}, "examples": [{"$ref": "#"}]},
        },
    }
    assert tree.parse('{"value": [[], [[]]]}') == [[], [[]]]
    plain = schema_parser({"type": "integer", "$schema": "http://json-schema.org/draft-07/schema#"})
    assert (plain.with_envelope().schema or {})["properties"] == {"value": {"type": "integer"}}
    assert plain.with_envelope().parse('{"value": "7"}') == 7


def test_the_snapshots_of_a_stream_are_plain_json_that_only_grows() -> None:
    reader = PartialReader(schema_parser(PERSON))
    shown = []
    chunks = [
        '{"firstName": "A',
        'nn", "ag',
        'e": 4',
        '2, "tags": ["x", "y',
        '"], "children": [{"first',
        '_name": "B',
    ]
    for chunk in [*chunks, 'o", "age": 1}', "]}"]:
        reader.feed(chunk)
        shown.append(reader.snapshot().to_python())
    assert shown == [
        {"first_name": "A"},
        {"first_name": "Ann"},
        {"first_name": "Ann"},
        {"first_name": "Ann", "age": 42, "tags": ["x", "y"]},
        {"first_name": "Ann", "age": 42, "tags": ["x", "y"], "children": [{}]},
        {"first_name": "Ann", "age": 42, "tags": ["x", "y"], "children": [{"first_name": "B"}]},
        {"first_name": "Ann", "age": 42, "tags": ["x", "y"], "children": [{"first_name": "Bo", "age": 1}]},
        {"first_name": "Ann", "age": 42, "tags": ["x", "y"], "children": [{"first_name": "Bo", "age": 1}]},
    ]
    assert reader.finish().value == shown[-1]


def test_a_stream_with_an_unrestricted_schema_has_snapshots_too() -> None:
    reader = PartialReader(schema_parser({"not": {"type": "null"}}))
    reader.feed('{"a": [1, {"b": "te')
    assert reader.snapshot().to_python() == {"a": [1, {"b": "te"}]}


WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


TOLD = {"name": "weather", "description": "Tells it."}


@pytest.mark.parametrize(
    "definition",
    [
        {**TOLD, "parameters": WEATHER},
        {"type": "function", "function": {**TOLD, "parameters": WEATHER}},
        {"type": "function", **TOLD, "parameters": WEATHER},
        {**TOLD, "input_schema": WEATHER},
        {"type": "custom", **TOLD, "input_schema": WEATHER, "cache_control": {"type": "ephemeral"}},
        {**TOLD, "schema": WEATHER},
        {"type": "json_schema", "json_schema": {**TOLD, "schema": WEATHER}},
        {"type": "json_schema", **TOLD, "schema": WEATHER},
    ],
)
def test_a_definition_of_a_provider_has_a_name_a_description_and_a_schema(definition: dict[str, Any]) -> None:
    assert named_schema(definition) == ("weather", "Tells it.", WEATHER, None)


def test_a_definition_says_whether_its_schema_is_strict() -> None:
    assert named_schema({"name": "P", "schema": WEATHER, "strict": True}) == ("P", None, WEATHER, True)
    assert named_schema({"name": "P", "parameters": WEATHER, "strict": False}).strict is False


def test_a_function_without_parameters_expects_an_empty_object() -> None:
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    assert named_schema({"name": "now"}) == ("now", None, empty, None)
    assert named_schema({"type": "function", "function": {"name": "now", "parameters": None}}).schema == empty
    assert schema_parser(empty).parse("{}") == {}
    assert problems(empty, '{"a": 1}') == ["$.a: the object has no field of this name"]


def test_a_bare_schema_is_named_by_its_title() -> None:
    assert named_schema(PERSON) == ("Person", "Somebody.", PERSON, None)
    assert named_schema(WEATHER) == ("", None, WEATHER, None)
    named = {"type": "object", "name": "an unknown keyword", "parameters": {"type": "string"}}
    assert named_schema(named) == ("", None, named, None)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"type": "function", "parameters": WEATHER}, 'a function needs a "name"'),
        ({"type": "function", "function": "weather"}, 'a function needs a "name"'),
        ({"parameters": WEATHER}, 'a function needs a "name"'),
        ({"input_schema": WEATHER}, 'a tool needs a "name"'),
        ({"schema": WEATHER}, 'a response format needs a "name"'),
        ({"type": "json_schema", "json_schema": {"schema": WEATHER}}, 'a response format needs a "name"'),
        (
            {"type": "function", "name": "weather", "parameters": [1]},
            "the \"parameters\" of the function 'weather' must be a JSON Schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "P"}},
            "the \"schema\" of the response format 'P' must be a JSON Schema",
        ),
        (
            {"name": "P", "schema": WEATHER, "parameters": WEATHER},
            "the dict has 'parameters' and 'schema'; it must have one of them",
        ),
        ({}, "the dict is empty; pass a JSON Schema, or Any for any JSON"),
    ],
)
def test_an_invalid_definition_is_reported(definition: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        named_schema(definition)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "object", "propertys": {"a": {"type": "string"}}},
            "the JSON Schema 'value' is invalid at #: 'propertys' is not a keyword of JSON Schema; "
            "did you mean 'properties'?",
        ),
        (
            {"properties": {"a/b": {"anyOf": [{"type": "null"}, {"type": "number", "mininum": 1}]}}},
            "the JSON Schema 'value' is invalid at #/properties/a~1b/anyOf/1: 'mininum' is not a keyword of "
            "JSON Schema; did you mean 'minimum'?",
        ),
        (
            {"type": "array", "items": {"typ": "string"}},
            "the JSON Schema 'value' is invalid at #/items: 'typ' is not a keyword of JSON Schema; "
            "did you mean 'type'?",
        ),
        (
            {"type": "array", "items": {"ref": "#"}},
            "the JSON Schema 'value' is invalid at #/items: 'ref' is not a keyword of JSON Schema; "
            "did you mean '$ref'?",
        ),
        (
            {"title": "Person", "fields": {"a": {"type": "string"}}},
            "the JSON Schema 'Person' is invalid at #: it has no keyword of JSON Schema such as 'type' or "
            "'properties', only 'fields'",
        ),
    ],
)
def test_a_misspelt_schema_is_invalid(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchemaError, match=f"^{re.escape(message)}$"):
        named_schema(schema, strict_keywords=True)


def test_a_misspelt_keyword_is_a_warning() -> None:
    schema = {"type": "string", "minLenght": 3}
    message = (
        "the JSON Schema 'value' at #: 'minLenght' is not a keyword of JSON Schema; did you mean 'minLength'?"
    )
    with pytest.warns(UserWarning, match="minLenght") as caught:
        assert named_schema(schema).schema == schema
    assert [str(warning.message) for warning in caught] == [message]


def test_annotations_and_properties_of_any_name_are_not_misspelt_keywords() -> None:
    schema = {
        "type": "object",
        "properties": {"propertys": {"type": "string", "example": "x", "x-type": 1}, "typ": {"unit": "m"}},
        "dependentRequired": {"typ": ["propertys"]},
        "default": {"typ": 1},
        "nullable": True,
        "readonly": True,
        "note": "a text is not a schema for not",
        "ref": "a/table",
        "cost": 5,
        "maxlength": "long",
        "_format": "date",
        "x-type": "string",
    }
    assert named_schema(schema).schema == schema


OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}
FREE = {"type": "object", "additionalProperties": {"type": "integer"}}


def test_objects_with_listed_properties_are_closed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": OPEN},
            "one": {"anyOf": [OPEN, {"type": "null"}]},
            "both": {"allOf": [{"$ref": "#/$defs/part"}], "description": "a lone reference"},
            "free": FREE,
            "any": True,
            "open": {**OPEN, "additionalProperties": True},
        },
        "anyOf": [{"required": ["one"]}, {"required": ["any"]}],
        "$defs": {"part": OPEN},
    }
    assert close_objects(schema) == {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": CLOSED},
            "one": {"anyOf": [CLOSED, {"type": "null"}]},
            "both": {"allOf": [{"$ref": "#/$defs/part"}], "description": "a lone reference"},
            "free": FREE,
            "any": True,
            "open": {**OPEN, "additionalProperties": True},
        },
        "anyOf": [{"required": ["one"]}, {"required": ["any"]}],
        "$defs": {"part": CLOSED},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "shared",
    [
        {"allOf": [{"$ref": "#/$defs/Base"}, OPEN]},
        {"$ref": "#/$defs/Base", "properties": {"b": True}},
        {**OPEN, "anyOf": [{"type": "object", "properties": {"b": True}}, {"required": ["a"]}]},
        {**OPEN, "dependentSchemas": {"a": {"properties": {"b": True}}}},
        {**OPEN, "if": {"required": ["a"]}, "then": {"properties": {"b": True}}},
    ],
)
def test_objects_whose_properties_are_declared_in_several_parts_stay_open(shared: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"x": shared}, "$defs": {"Base": OPEN}}
    assert close_objects(schema) == schema


# For schemas and values of all shapes.

QUICK = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).filter(is_value)
KEYS = st.sampled_from(["name", "Name", "first_name", "firstName", "kind", "1"])
# Beyond 2**53 the text of a whole float names another whole number than the float is.
FLOATS = st.floats(-(2.0**53), 2.0**53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | WORDS, inner, max_size=3),
    max_leaves=6,
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "A", "1", "true", "null", "x y"])
)
LEAVES = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean", "null"]).map(lambda kind: {"type": kind}),
    st.lists(SCALARS, min_size=1, max_size=3, unique_by=lambda value: json.dumps(value)).map(
        lambda values: {"enum": values}
    ),
    SCALARS.map(lambda value: {"const": value}),
    st.just({"type": ["integer", "string", "null"]}),
    st.just({"type": "integer", "minimum": 0}),
    st.just({"type": "string", "maxLength": 3}),
    st.just({"$ref": "#/$defs/shared"}),
    st.just({}),
)


def objects(parts: dict[str, Any], required: bool, others: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": parts, "additionalProperties": others}
    return {**schema, "required": sorted(parts)[:2]} if required else schema


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda part: {"type": "array", "items": part}),
        st.builds(objects, st.dictionaries(KEYS, inner, max_size=3), st.booleans(), st.booleans() | inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda forms: {"anyOf": forms}),
        st.lists(inner, min_size=1, max_size=2).map(lambda forms: {"oneOf": forms}),
        st.lists(inner, min_size=1, max_size=2).map(lambda forms: {"allOf": forms}),
    )


SHARED = {"type": "object", "properties": {"next": {"$ref": "#/$defs/shared"}, "kind": {"enum": ["a", "b"]}}}
SCHEMAS = st.recursive(LEAVES, compound, max_leaves=5).map(lambda s: {**s, "$defs": {"shared": SHARED}})


def instances(schema: Any) -> st.SearchStrategy[Any]:
    """Generate values that are mostly valid by a JSON Schema."""
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    forms = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if forms:
        return st.one_of(*map(instances, forms))
    if "$ref" in schema:
        return st.sampled_from([{}, {"kind": "a"}, {"next": {"kind": "b"}}, {"KIND": "A"}])
    match schema.get("type"):
        case "object":
            named = {key: instances(part) for key, part in schema["properties"].items()}
            needed = {key: named.pop(key) for key in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=named)
        case "array":
            return st.lists(instances(schema["items"]), max_size=3)
        case "string":
            return WORDS
        case "integer":
            return st.integers()
        case "number":
            return st.integers() | FLOATS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return JSON


@st.composite
def schemas_and_values(draw: Any) -> tuple[dict[str, Any], Any]:
    schema = draw(SCHEMAS)
    return schema, draw(instances(schema) | JSON)


DRESSES = ["{}", "```json\n{}\n```", "Here you are:\n\n```\n{}\n```\nAnything else?"]


def outcome(read: Callable[[], Any]) -> Any:
    """Return the value that is read from a text, or the problems of reading it."""
    try:
        return read()
    except OutputParsingError as error:
        return list(map(str, error.problems))


@QUICK
@given(schemas_and_values(), st.sampled_from(DRESSES))
def test_a_valid_value_is_read_back_and_never_another_one(
    drawn: tuple[dict[str, Any], Any], wrapper: str
) -> None:
    schema, value = drawn
    valid = Draft202012Validator(schema).is_valid
    parser = schema_parser(schema)
    assume(wrapper == "{}" or not parser.node.any_text)  # a text is its own dress
    reading = outcome(lambda: parser.read(wrapper.replace("{}", json.dumps(value))))
    if isinstance(reading, list):  # in prose, another JSON may fit too
        assert not valid(value) or wrapper != "{}"
        return
    assert valid(reading.value)
    if valid(value):
        assert reading.value == value
        assert wrapper != "{}" or all("fraction" in step.rule for step in reading.coercions)
    else:
        assert reading.coercions
        assert not same(reading.value, value)


@QUICK
@given(schemas_and_values())
def test_without_leniency_exactly_the_valid_values_are_read(drawn: tuple[dict[str, Any], Any]) -> None:
    schema, value = drawn
    result = outcome(lambda: schema_parser(schema).read(json.dumps(value), Leniency.NONE))
    if Draft202012Validator(schema).is_valid(value):
        assert same(result.value, value)
        assert result.coercions == ()
    else:  # the reply null without quotes may be the member "null" of an enum
        assert isinstance(result, list) or result.value == json.dumps(value)


@QUICK
@given(schemas_and_values())
def test_a_streamed_reply_ends_with_the_value_of_the_whole_reply(drawn: tuple[dict[str, Any], Any]) -> None:
    schema, value = drawn
    parser, text = schema_parser(schema), json.dumps(value)
    reader = PartialReader(parser)
    for start in range(0, len(text), 3):
        reader.feed(text[start : start + 3])
        json.dumps(reader.snapshot().to_python())
    assert outcome(reader.finish) == outcome(lambda: parser.read(text))


@pytest.mark.parametrize("text", ['{"of":["a"]}', '{"of":[],"m":{"x":1.5,"y":[1]},"z":null}'])
def test_the_value_of_a_schema_is_written_as_the_same_json(text: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "of": {"type": "array", "items": {"type": "string"}},
            "m": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["of"],
    }
    parser = schema_parser(schema, name="pick")
    assert json.loads(parser.write(parser.parse(text))) == json.loads(text)


DRAFTS = {
    "http://json-schema.org/draft-04/schema#": ("id", "definitions"),
    "http://json-schema.org/draft-07/schema#": ("$id", "definitions"),
    "https://json-schema.org/draft/2020-12/schema": ("$id", "$defs"),
}


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize(
    "reference", ["sub/item.json#/{}/word", "sub/item.json#/{}/alias", "http://e.com/sub/item.json#/{}/alias"]
)
def test_references_are_relative_to_the_address_of_the_part_around_them(draft: str, reference: str) -> None:
    key, definitions = DRAFTS[draft]
    item = {
        key: "sub/item.json",
        definitions: {"word": {"type": "string"}, "alias": {"$ref": f"#/{definitions}/word"}},
        "type": "object",
        "properties": {
            "name": {"$ref": f"#/{definitions}/word"},
            "size": {"anyOf": [{"$ref": f"#/{definitions}/alias"}, {"type": "integer"}]},
        },
    }
    schema = {
        "$schema": draft,
        key: "http://e.com/root.json",
        "type": "object",
        "properties": {"a": {"$ref": reference.format(definitions)}, "b": {"$ref": "sub/item.json"}},
        definitions: {"item": item},
    }
    parser = schema_parser(schema, name="Thing")
    for encoded in (parser, *(encode_parser(parser, profile)[0] for profile in (OPENAI, ANTHROPIC, GEMINI))):
        value = {"a": "x", "b": {"name": "y", "size": 3}}
        assert encoded.parse(json.dumps(value)) == value
        for wrong in ({"a": 1}, {"b": {"name": [1]}}):
            with pytest.raises(OutputParsingError):
                encoded.parse(json.dumps(wrong), Leniency.NONE)


def test_types_under_a_keyword_that_is_not_known_do_not_matter() -> None:
    part = {"properties": {"on": {"type": "date"}}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "links": [{"targetSchema": part}]}
    parser = encode_parser(schema_parser(schema, name="Linked"), OPENAI)[0]
    assert parser.parse('{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(("exclusive", "sent"), [(True, {"exclusiveMinimum": 3}), (False, {"minimum": 3})])
def test_bounds_of_draft_4_are_sent_as_those_of_new_drafts(exclusive: bool, sent: dict[str, int]) -> None:
    part = {"type": "number", "minimum": 3, "exclusiveMinimum": exclusive}
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", **_object(n=part)}
    parser = schema_parser(schema, name="Bound")
    for one in (schema_of(parser.node), encode_parser(parser, OPENAI)[0].schema or {}):
        assert one["properties"]["n"] == {"type": "number", **sent}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}
