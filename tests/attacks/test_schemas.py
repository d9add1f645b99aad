"""Schemas from elsewhere that try to stop the process which reads replies with them."""

from __future__ import annotations

import gc
import json
import time
from typing import Any

import pytest

from output_parsers import ItemReader, OutputParsingError, PartialReader
from output_parsers.json_schema.document import InvalidSchemaError
from output_parsers.json_schema.parser import check_schema, schema_parser
from output_parsers.profiles import ANTHROPIC, GEMINI, LLAMA_CPP, OPENAI, Profile
from output_parsers.strict import encode


def _with_pattern(pattern: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}


def _accepts(pattern: str, text: str) -> bool:
    try:
        schema_parser(_with_pattern(pattern)).parse(json.dumps({"a": text}))
    except OutputParsingError:
        return False
    return True


@pytest.mark.parametrize(
    "schema",
    [
        _with_pattern("^(a+)+$"),
        _with_pattern("^(a|a)*$"),
        {"type": "object", "patternProperties": {"^(a+)+$": {"type": "integer"}}},
        {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"$defs": {"x": {"default": {"pattern": "^(a+)+$"}}}, "$ref": "#/$defs/x/default"},
    ],
)
def test_a_pattern_that_backtracks_is_matched_in_linear_time(schema: dict[str, Any]) -> None:
    text = "a" * 50_000 + "!"  # Python's re does not finish with 40 characters
    for reply in (json.dumps({"a": text}), json.dumps({text: "x"}), json.dumps(text)):
        try:
            schema_parser(schema).parse(reply)
        except OutputParsingError:
            continue


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"^(?=(a|a)*b).*$", "look-around, including look-ahead and look-behind, is not supported"),
        (r"^(a*)*\1b$", "backreferences are not supported"),
        (r"(", "unclosed group"),
        (r"[+--]", "it has '--' between brackets; write '\\-' for a minus sign"),
    ],
)
def test_a_pattern_without_linear_time_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        schema_parser(_with_pattern(pattern), name="Answer")
    problem = f"the pattern {pattern!r} cannot be used: {reason}"
    assert str(caught.value) == f"the JSON Schema 'Answer' is invalid at #/properties/a/pattern: {problem}"


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"\d{2}", "x12y", "x1y"),
        (r"^\p{L}+$", "Žižek", "a1"),
        (r"^a\/b$", "a/b", "ab"),
        (r"^[\w-\.]+$", "a-b.c", "a+b"),
        (r"^[\d\/\-]+$", "1/2-3", "1x"),
        (r"^[[]$", "[", "x"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^[a~~b]+$", "a~b", "c"),
        (r"^[^]]$", "x", "]"),
        (r"^{x}$", "{x}", "x"),
        (r"^\<a\>$", "<a>", "a"),
        (r"^\cJ$", "\n", "J"),
        (r"^[\b]$", "\b", "b"),
        (r"^(?<year>\d{4})$", "2024", "24"),
        (r"^\u00e9\x41$", "éA", "eA"),
        (r"^a$", "a", "a\n"),
    ],
)
def test_patterns_as_people_write_them_are_searched_for(pattern: str, fitting: str, other: str) -> None:
    assert _accepts(pattern, fitting)
    assert not _accepts(pattern, other)


def test_equal_alternatives_at_each_level_are_read_once() -> None:
    definitions: dict[str, Any] = {
        f"d{index}": {"anyOf": [{"$ref": f"#/$defs/d{index + 1}"}] * 2} for index in range(40)
    }
    schema = {"$defs": definitions | {"d40": {"type": "integer"}}, "$ref": "#/$defs/d0"}
    with pytest.raises(OutputParsingError) as caught:
        schema_parser(schema).parse('"x"')
    assert len(str(caught.value)) < 1_000
    assert schema_parser(schema).parse("3") == 3


def _chain(keyword: str, *alternatives: dict[str, Any], array: bool = False) -> dict[str, Any]:
    """Return a JSON Schema with 20 definitions, each of which refers to the next one.

    ``alternatives`` are the keywords next to each reference; several of them double the references.
    """
    definitions: dict[str, Any] = {"d20": {"type": "integer"}}
    for index in range(20):
        following = {"$ref": f"#/$defs/d{index + 1}"}
        part = {"type": "array", "items": following} if array else following
        definitions[f"d{index}"] = {keyword: [part | alternative for alternative in alternatives]}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


def _read_time(schema: dict[str, Any], reply: str) -> float:
    """Return the process time of reading a reply, and check that the error messages are short."""
    parser = schema_parser(schema)
    messages: list[str] = []
    gc.disable()
    try:
        start = time.process_time()
        for _ in range(3):
            try:
                parser.parse(reply)
            except OutputParsingError as error:
                messages.append(str(error))
        seconds = time.process_time() - start
        assert len("".join(messages)) < 6_000
        return seconds
    finally:
        gc.enable()


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("is_array", [False, True])
@pytest.mark.parametrize("value", ['"x"', "3", "[3]", "The answer is x"])
def test_two_references_at_each_level_cost_little_more_than_one(
    keyword: str, is_array: bool, value: str
) -> None:
    reply = "[" * 20 + value + "]" * 20 if is_array else value
    one = _chain(keyword, {}, array=is_array)
    two = _chain(keyword, {}, {"title": "other"}, array=is_array)
    # 20 levels of unions inside unions are validated 20 times; 2 ** 20 would take minutes
    assert _read_time(two, reply) < 1000 * _read_time(one, reply) + 0.1


def _object_chain(*alternatives: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of 20 nested objects, each of which has the given alternatives."""
    definitions: dict[str, Any] = {"d20": last}
    for index in range(20):
        part = {
            "type": "object",
            "properties": {"a": {"$ref": f"#/$defs/d{index + 1}"}},
            "required": ["a"],
            "additionalProperties": False,
        }
        definitions[f"d{index}"] = {"anyOf": [part | alternative for alternative in alternatives]}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize("profile", [OPENAI, ANTHROPIC, GEMINI, LLAMA_CPP])
@pytest.mark.parametrize("last", [{"type": "integer"}, {"anyOf": [{"$ref": "#/$defs/d0"}, {"type": "null"}]}])
def test_two_references_at_each_level_are_encoded_for_strict_mode_once(
    profile: Profile, last: dict[str, Any]
) -> None:
    def encode_time(*alternatives: dict[str, Any]) -> float:
        start = time.process_time()
        encode(_object_chain(*alternatives, last=last), profile)
        return time.process_time() - start

    encode_time({})  # compiles regular expressions
    # 2 ** 20 objects would take minutes
    assert encode_time({}, {"title": "other"}) < 100 * encode_time({}) + 0.1


def test_the_hint_of_a_schema_with_two_references_at_each_level_is_its_text() -> None:
    schema = _chain("anyOf", {}, {"title": "other"})
    assert json.dumps(schema, separators=(",", ":")) in schema_parser(schema).format_instructions()


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_unevaluated_parts_of_too_many_schemas_are_refused(keyword: str) -> None:
    schema = _chain("allOf", {}, {"title": "other"}) | {keyword: False}
    with pytest.raises(InvalidSchemaError) as caught:
        schema_parser(schema, name="Answer")
    reason = "'unevaluatedProperties' and 'unevaluatedItems' apply to more than 10,000 parts"
    assert str(caught.value) == f"the JSON Schema 'Answer' is invalid at #: {reason}"


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"not": {"$ref": "#"}}, "#"),
        ({"properties": {"a": {"if": {"$ref": "#/properties/a"}}}}, "#/properties/a"),
        ({"$defs": {"a": {"allOf": [{"type": "integer"}, {"$ref": "#/$defs/a"}]}}}, "#/$defs/a"),
        ({"type": "array", "oneOf": [{}, {"dependentSchemas": {"x": {"$ref": "#"}}}]}, "#"),
    ],
)
def test_a_reference_that_does_not_get_deeper_into_the_value_is_refused(
    schema: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        schema_parser(schema, name="Answer")
    assert str(caught.value) == f"the JSON Schema 'Answer' is invalid at {pointer}: it refers only to itself"


def test_a_reference_is_validated_again_where_it_leads_elsewhere() -> None:
    tree = {
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }
    strict = {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
    }
    schema = {
        "$id": "https://example.com/root",
        "$defs": {"tree": tree, "strict": strict},
        "type": "object",
        "properties": {"any": {"$ref": "tree"}, "strict": {"$ref": "strict"}},
    }
    parser = schema_parser(schema)
    node = '{"children": [{"other": 1}]}'
    assert parser.parse(f'{{"any": {node}}}') == {"any": {"children": [{"other": 1}]}}
    with pytest.raises(OutputParsingError):
        parser.parse(f'{{"any": {node}, "strict": {node}}}')


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (_nested(100), "it is nested deeper than 100 levels"),
        (_nested(100_000), "it is nested deeper than 100 levels"),
        (
            {"anyOf": [{"const": number} for number in range(10_000)]},
            "it has more than 10,000 objects and arrays",
        ),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any], reason: str) -> None:
    for check in (lambda: schema_parser(schema, name="Answer"), lambda: check_schema(schema, "Answer")):
        with pytest.raises(InvalidSchemaError) as caught:
            check()
        assert str(caught.value) == f"the JSON Schema 'Answer' is invalid at #: {reason}"


def test_a_schema_may_have_many_levels_and_parts() -> None:
    assert schema_parser(_nested(20)).parse("[" * 20 + "3" + "]" * 20)
    names = [f"field{number}" for number in range(2_000)]
    parser = schema_parser({"type": "object", "properties": {name: {"type": "integer"} for name in names}})
    assert parser.parse('{"field7": "3"}') == {"field7": 3}


def test_a_message_names_some_of_many_alternatives() -> None:
    schema = {"anyOf": [{"const": number} for number in range(200)]}
    with pytest.raises(OutputParsingError) as caught:
        schema_parser(schema).parse('"x"')
    assert "180 other types" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_two_references_at_each_level_can_be_streamed() -> None:
    reader = PartialReader(schema_parser(_chain("anyOf", {}, {"title": "other"}, array=True)))
    reader.feed("[" * 20)
    reader.feed("3" + "]" * 20)
    assert reader.finish().value == json.loads("[" * 20 + "3" + "]" * 20)
    items = ItemReader(schema_parser(_chain("anyOf", {}, {"title": "other"})))
    assert items.feed("[1, 2]") == [1, 2]
    assert items.finish() == []
