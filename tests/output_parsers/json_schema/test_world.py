"""Small schemas with the features of those of JSONSchemaBench, in the drafts that have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from output_parsers import OutputParsingError
from output_parsers.json_schema.parser import close_objects, schema_parser
from output_parsers.profiles import ANTHROPIC, GEMINI, OPENAI
from output_parsers.strict import encode_parser

TEXT, WHOLE, NUMBER, FLAG, NULL = ({"type": t} for t in "string integer number boolean null".split())
OLD = {n: f"http://json-schema.org/draft-0{n}/schema#" for n in (3, 4, 6, 7)}
NEW = ("https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema")
AB = {"type": "object", "properties": {"a": TEXT, "b": WHOLE}}


class World(NamedTuple):
    """A schema, with values that are valid and values that are not."""

    schema: dict[str, Any]
    valid: list[Any]
    invalid: list[Any]


def obj(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}


def scalars() -> Iterator[World]:
    yield World({**WHOLE, "minimum": 3, "maximum": 5}, [3, 5], [2, 6, "x", 3.5])
    yield World({**NUMBER, "multipleOf": 0.01}, [0.07, 19.99, 100, 1.1], [0.005, 1e-3])
    yield World({**NUMBER, "multipleOf": 2.5}, [5, 7.5, -2.5], [1, 0.1])
    yield World({**NUMBER, "exclusiveMinimum": 0}, [0.1, 5], [0, -1])
    yield World({**NUMBER, "exclusiveMaximum": 1}, [0.1, 0], [1, 2])
    yield World({**TEXT, "minLength": 2, "maxLength": 3}, ["ab", "äöü", "😀😀"], ["a", "abcd"])
    for pattern, right, wrong in (
        ("^[A-Z]{2}$", "AB", "ab"),
        (r"^\d{3}-\d{4}$", "555-1234", "5551234"),
        ("^(a|b)+$", "abba", "c"),
        (r"^[\w.+-]+@[\w-]+\.\w+$", "a.b@c.de", "a.b"),
        ("x", "axb", "ab"),
        (r"^\S+$", "a", "a b"),
        (r"^\p{L}+$", "äö", "1"),
        ("^$|^#[0-9a-f]{6}$", "#00ff00", "#zz"),
    ):
        yield World({**TEXT, "pattern": pattern}, [right], [wrong])
    for name in "date-time date time email uri uuid ipv4 ipv6 hostname regex color phone custom".split():
        yield World({**TEXT, "format": name}, ["anything"], [[1]])
    yield World({"enum": ["a", 1, None, True, 1.5]}, ["a", 1, None, True, 1.5], ["b", 2, False])
    yield World({"enum": [{"a": 1, "b": 2}, [1, 2]]}, [{"b": 2, "a": 1}, [1, 2]], [{"a": 1}, [2, 1]])
    yield World({"const": {"a": [1, {"b": None}]}}, [{"a": [1, {"b": None}]}], [{"a": [1]}])
    yield World({"type": ["string", "null"]}, ["a", None], [[1]])
    yield World({"type": ["integer", "string", "array"]}, [1, "a", []], [{}])
    yield World({**TEXT, "enum": ["red", "green"], "default": "red"}, ["red"], ["blue"])
    yield World({**FLAG, "const": True}, [True], [False])
    yield World({}, [1, "a", None, {"a": []}], [])
    yield World({"description": "anything", "default": 5}, [1, "a"], [])
    yield World({"not": TEXT}, [1, None], ["a"])
    yield World({"not": {"enum": ["a", "b"]}}, ["c"], ["a"])
    yield World({"type": "integer", "format": "int64", "minimum": -(2**63)}, [2**62], [-(2**64)])


def arrays() -> Iterator[World]:
    yield World({"type": "array", "items": WHOLE}, [[], [1, 2]], [["x"], 5.5])
    yield World({"type": "array", "minItems": 1, "maxItems": 2}, [[1], ["a", 2]], [[], [1, 2, 3]])
    yield World(
        {"type": "array", "uniqueItems": True}, [[1, True, "1"], [[1], [2]]], [[1, 1], [{"a": 1}, {"a": 1}]]
    )
    yield World({"type": "array", "contains": {"minimum": 5}}, [[1, 6]], [[1], []])
    yield World(
        {"type": "array", "contains": WHOLE, "minContains": 2, "maxContains": 3}, [[1, 2, "a"]], [[1]]
    )
    yield World({"type": "array", "prefixItems": [TEXT, WHOLE]}, [["a", 1], ["a"], ["a", 1, 2]], [[[], 1]])
    yield World({"type": "array", "prefixItems": [TEXT], "items": False}, [["a"], []], [["a", 1]])
    yield World({"type": "array", "prefixItems": [TEXT], "items": WHOLE}, [["a", 1]], [["a", "b"]])
    for draft in (4, 6, 7):
        pair = {"$schema": OLD[draft], "type": "array", "items": [TEXT, WHOLE]}
        yield World(pair, [["a", 1], ["a", 1, None]], [[[], 1]])
        yield World({**pair, "additionalItems": False}, [["a", 1]], [["a", 1, 2]])
        yield World({**pair, "additionalItems": FLAG}, [["a", 1, True]], [["a", 1, []]])
    yield World({"type": "array", "items": {"type": "array", "items": NUMBER}}, [[[1, 2.5], []]], [[["x"]]])
    yield World(
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        [["a", "b"]],
        [["a", "a"], ["c"]],
    )
    yield World({"items": TEXT}, [["a"], {"x": 1}], [[[]]])
    yield World({"type": "array", "unevaluatedItems": False, "prefixItems": [TEXT]}, [["a"]], [["a", 1]])


def objects() -> Iterator[World]:
    yield World(obj(a=TEXT), [{}, {"a": "x"}, {"b": 1}], [{"a": []}])
    yield World(obj(("a",), a=TEXT, b=WHOLE), [{"a": "x"}, {"a": "x", "b": 1}], [{"b": 1}, {}])
    yield World({**obj(("a",), a=TEXT), "additionalProperties": False}, [{"a": "x"}], [{}, {"b": 1}])
    yield World({**obj(a=TEXT), "additionalProperties": WHOLE}, [{"a": "x", "n": 1}], [{"n": "x"}])
    yield World({"type": "object", "additionalProperties": NUMBER}, [{}, {"a": 1, "b": 2.5}], [{"a": "x"}])
    yield World(
        {"type": "object", "patternProperties": {"^S_": TEXT, "^I_": WHOLE}},
        [{"S_a": "x", "I_b": 1}],
        [{"I_b": "x"}],
    )
    yield World({"patternProperties": {"^x-": {}}, "additionalProperties": False}, [{"x-a": 1}], [{"a": 1}])
    yield World({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, [{"a": 1}], [{"A1": 1}])
    yield World({"type": "object", "propertyNames": {"enum": ["a", "b"]}}, [{"a": 1}], [{"c": 1}])
    yield World(
        {"type": "object", "minProperties": 1, "maxProperties": 2}, [{"a": 1}], [{}, {"a": 1, "b": 2, "c": 3}]
    )
    yield World({**AB, "dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": "x", "b": 1}], [{"a": "x"}])
    yield World({**AB, "dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": "x", "b": 1}], [{"a": "x"}])
    yield World({**AB, "unevaluatedProperties": False}, [{"a": "x"}], [{"c": 1}])
    yield World(
        {"allOf": [AB], "properties": {"c": NULL}, "unevaluatedProperties": False},
        [{"a": "x", "c": None}],
        [{"d": 1}],
    )
    yield World({**AB, "required": ["z"]}, [{"z": [1]}], [{"a": "x"}])
    yield World({"type": "object", "required": ["z"]}, [{"z": 1}], [{}])
    yield World({"type": "object", "properties": {}, "required": ["z"]}, [{"z": 1}], [{}])
    yield World(obj(a=obj(("b",), b=obj(("c",), c=WHOLE))), [{"a": {"b": {"c": 1}}}], [{"a": {"b": {}}}])
    yield World(
        obj(a={**TEXT, "default": "x"}, b={"type": ["integer", "null"], "default": None}),
        [{}, {"b": None}],
        [{"b": []}],
    )
    yield World(
        {"properties": {"$ref": TEXT, "$id": TEXT, "id": WHOLE, "type": TEXT, "enum": TEXT}},
        [{"$ref": "x", "id": 1}],
        [{"id": "x"}],
    )
    yield World(
        obj(**{"a b": TEXT, "ä": WHOLE, "a/b": FLAG, "a~b": NULL, "": TEXT}),
        [{"a b": "x", "ä": 1, "a/b": True, "": "y"}],
        [{"ä": "x"}],
    )
    yield World({"properties": {"a": True, "b": False}}, [{"a": 1}], [{"b": 1}])
    for draft in (4, 6, 7):
        yield World(
            {"$schema": OLD[draft], **AB, "dependencies": {"a": ["b"]}}, [{"a": "x", "b": 1}], [{"a": "x"}]
        )
        yield World(
            {"$schema": OLD[draft], **AB, "dependencies": {"a": {"required": ["b"]}}},
            [{"b": 1}],
            [{"a": "x"}],
        )
    yield World({"type": "object", "maxProperties": 0}, [{}], [{"a": 1}])


def combinations() -> Iterator[World]:
    for keyword in ("anyOf", "oneOf"):
        yield World({keyword: [TEXT, WHOLE]}, ["a", 1], [[1], None])
        yield World({keyword: [obj(("a",), a=TEXT), obj(("b",), b=WHOLE)]}, [{"a": "x"}, {"b": 1}], [{}])
        yield World({keyword: [{"const": "a"}, {"const": "b"}]}, ["a", "b"], ["c"])
        yield World({**AB, keyword: [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": "x"}, {"b": 1}], [{}])
        yield World({keyword: [{"type": "array", "items": TEXT}, TEXT]}, ["a", ["a"]], [{"a": 1}])
        tagged = [obj(("k",), k={"const": name}, **{name: TEXT}) for name in ("cat", "dog")]
        yield World({keyword: tagged}, [{"k": "cat", "cat": "x"}, {"k": "dog"}], [{"k": "cow"}, {}])
        yield World(
            obj(a={keyword: [{"$ref": "#/$defs/T"}, NULL]}) | {"$defs": {"T": TEXT}},
            [{"a": "x"}, {"a": None}],
            [{"a": [1]}],
        )
    yield World({"allOf": [obj(("a",), a=TEXT), obj(("b",), b=WHOLE)]}, [{"a": "x", "b": 1}], [{"a": "x"}])
    yield World({"allOf": [{"minimum": 1}, {"maximum": 3}], **WHOLE}, [1, 3], [0, 4])
    yield World({"oneOf": [{**WHOLE, "multipleOf": 2}, {**WHOLE, "multipleOf": 3}]}, [2, 3, 9], [6, 1])
    yield World({**AB, "not": {"required": ["a", "b"]}}, [{"a": "x"}, {"b": 1}, {}], [{"a": "x", "b": 1}])
    condition = {"if": {"properties": {"a": {"const": "x"}}, "required": ["a"]}, "then": {"required": ["b"]}}
    yield World({**AB, **condition}, [{"a": "y"}, {"a": "x", "b": 1}], [{"a": "x"}])
    yield World(
        {**AB, **condition, "else": {"maxProperties": 1}},
        [{"a": "x", "b": 1}, {"a": "y"}],
        [{"a": "y", "b": 2}],
    )
    yield World({"allOf": [{"anyOf": [TEXT, WHOLE]}, {"not": {"const": "a"}}]}, ["b", 1], ["a", [1]])
    yield World({"anyOf": [{"minLength": 3}, WHOLE], "type": ["string", "integer"]}, ["abc", 1], ["a"])
    yield World({"oneOf": [AB, NULL]}, [None, {"a": "x"}], [5.5])


def references() -> Iterator[World]:
    for draft in (4, 6, 7):
        base = {
            "$schema": OLD[draft],
            "definitions": {"T": {**WHOLE, "minimum": 3}, "U": {"$ref": "#/definitions/T"}},
        }
        yield World({**base, "properties": {"a": {"$ref": "#/definitions/T"}}}, [{"a": 3}], [{"a": 1}])
        yield World(
            {**base, "properties": {"a": {"$ref": "#/definitions/U", "maximum": 0}}}, [{"a": 5}], [{"a": 1}]
        )
        yield World({**base, "$ref": "#/definitions/T"}, [3], [1])
        key = "id" if draft == 4 else "$id"
        whole = {
            "$schema": OLD[draft],
            key: "http://example.com/root.json",
            **obj(next={"$ref": "#"}, n=WHOLE),
        }
        yield World(whole, [{"next": {"n": 1}}], [{"next": {"n": "x"}}])
        if draft == 4:  # strict mode does not find the anchor
            continue
        named = {
            "$schema": OLD[draft],
            "definitions": {"A": {key: "#part", **TEXT}},
            "items": {"$ref": "#part"},
        }
        yield World(named, [["x"]], [[[]]])
    for uri in NEW:
        base = {"$schema": uri, "$defs": {"T": {**WHOLE, "minimum": 3}}}
        yield World(
            {**base, "properties": {"a": {"$ref": "#/$defs/T", "maximum": 5}}},
            [{"a": 4}],
            [{"a": 6}, {"a": 1}],
        )
        yield World({**base, "items": {"$ref": "#/$defs/T"}}, [[3]], [[1]])
        yield World(
            {"$schema": uri, "$defs": {"A": {"$anchor": "x", **TEXT}}, "items": {"$ref": "#x"}},
            [["a"]],
            [[[]]],
        )
    yield World(
        {"$schema": NEW[1], "$defs": {"n": {"$dynamicAnchor": "n", **TEXT}}, "items": {"$dynamicRef": "#n"}},
        [["a"]],
        [[[]]],
    )
    tree = {**obj(("name",), name=TEXT, kids={"type": "array", "items": {"$ref": "#"}})}
    yield World(tree, [{"name": "a", "kids": [{"name": "b"}]}], [{"name": "a", "kids": [{}]}])
    linked = {
        "$defs": {"L": {"anyOf": [NULL, obj(v=WHOLE, next={"$ref": "#/$defs/L"})]}},
        "$ref": "#/$defs/L",
    }
    yield World(linked, [None, {"v": 1, "next": {"v": 2, "next": None}}], [{"v": "x"}])
    yield World({"x": {"T": TEXT}, "items": {"$ref": "#/x/T"}}, [["a"]], [[[]]])
    yield World({"properties": {"a": TEXT, "b": {"$ref": "#/properties/a"}}}, [{"b": "x"}], [{"b": []}])
    yield World({"$defs": {"a/b~c%d": TEXT}, "items": {"$ref": "#/$defs/a~1b~0c%25d"}}, [["x"]], [[[]]])
    yield World({"$defs": {"T": True}, "$ref": "#/$defs/T"}, [1, {"a": []}], [])
    yield World({"$defs": {"T": True}, "properties": {"a": {"$ref": "#/$defs/T"}}}, [{"a": [1]}], [])


def documents() -> Iterator[World]:
    draft_4 = {
        "$schema": OLD[4],
        **NUMBER,
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": False,
    }
    yield World(draft_4, [1, 9], [0, 10])
    yield World({"$schema": OLD[4], **TEXT, "const": "ignored before draft 6"}, ["a"], [[1]])
    yield World(
        {"$schema": OLD[7], "properties": {"a": {"$schema": OLD[7], **WHOLE}}}, [{"a": 1}], [{"a": "x"}]
    )
    yield World(
        {"properties": {"a": {"$schema": OLD[4], **WHOLE, "minimum": 1, "exclusiveMinimum": True}}},
        [{"a": 2}],
        [{"a": 1}],
    )
    yield World({"$schema": "http://json-schema.org/schema#", **WHOLE}, [1], ["x"])
    yield World(
        {"$schema": OLD[7], "properties": {"a": {"$id": "#/properties/a", **WHOLE}}}, [{"a": 1}], [{"a": "x"}]
    )
    yield World(
        {"$schema": OLD[4], "id": "http://x.org/s", "properties": {"id": {"id": "id", **WHOLE}}},
        [{"id": 1}],
        [{"id": "x"}],
    )
    three = {"$schema": OLD[3], "type": "object"}
    yield World({**three, "properties": {"a": {**TEXT, "required": True}}}, [{"a": "x"}], [{}])
    yield World(
        {**three, "properties": {"a": {"type": ["string", NULL]}}}, [{"a": "x"}, {"a": None}], [{"a": []}]
    )
    yield World(
        {**three, "properties": {"a": {"type": "any"}, "b": {"divisibleBy": 2}}},
        [{"a": [1], "b": 4}],
        [{"b": 3}],
    )
    yield World(
        {**three, "extends": {"properties": {"a": WHOLE}}, "properties": {"b": TEXT}},
        [{"a": 1, "b": "x"}],
        [{"a": "x"}],
    )
    yield World({**three, "properties": {"a": {"disallow": ["string", "null"]}}}, [{"a": 1}], [{"a": "x"}])
    yield World(
        {**three, "properties": {"a": TEXT, "b": {"format": "ip-address"}}, "dependencies": {"a": "b"}},
        [{"b": "1"}],
        [{"a": "x"}],
    )
    yield World(
        {
            **AB,
            "title": "T",
            "$comment": "c",
            "examples": [{"a": "x"}],
            "x-order": 1,
            "nullable": False,
            "xml": {},
        },
        [{"a": "x"}],
        [{"a": []}],
    )
    yield World(
        {**AB, "$id": "https://example.com/s", "readOnly": True, "deprecated": False},
        [{"b": 1}],
        [{"b": "x"}],
    )
    yield World({**TEXT, "contentEncoding": "base64", "contentMediaType": "image/png"}, ["aGk="], [[1]])
    yield World(
        {**AB, "discriminator": {"propertyName": "a"}, "externalDocs": {"url": "x"}},
        [{"a": "x"}],
        [{"a": []}],
    )


WORLDS = [*scalars(), *arrays(), *objects(), *combinations(), *references(), *documents()]


def problems_of(world: World) -> Iterator[str]:
    parser = schema_parser(world.schema, name="t")
    for value in world.valid:
        reading = parser.read(json.dumps(value))
        if (
            json.dumps(reading.value, sort_keys=True) != json.dumps(value, sort_keys=True)
            or reading.coercions
        ):
            yield f"{value} is read as {reading}"
    for value in world.invalid:
        try:  # it may have been converted to a valid value
            other = parser.parse(json.dumps(value))
        except OutputParsingError:
            continue
        if other == value and json.dumps(other) == json.dumps(value):
            yield f"{value} is accepted"
    for profile in (OPENAI, ANTHROPIC, GEMINI):
        encoded, encoding = encode_parser(schema_parser(world.schema, name="t"), profile)
        if not encoding.lossless:
            yield f"{profile.name} gives up: {encoding.findings}"
            continue
        for value in world.valid:
            try:
                text = encoded.write(value)
            except ValueError:  # closed objects do not write undeclared properties
                continue
            again = encoded.parse(text)
            if again != value and again != _without_nulls(value):
                yield f"{profile.name}: {value} comes back as {again}"


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}


def test_schemas_with_the_features_of_the_world_are_read_and_sent() -> None:
    assert len(WORLDS) >= 150
    problems = [f"{world.schema}: {problem}" for world in WORLDS for problem in problems_of(world)]
    assert problems == []


def test_closing_objects_changes_no_schema_so_that_it_is_invalid() -> None:
    for world in WORLDS:
        schema_parser(close_objects(world.schema), name="t")
