"""Schemas from elsewhere that try to stop the process which reads replies with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from output_parsers import OutputParsingError
from output_parsers.json_schema.nodes import InvalidSchemaError
from output_parsers.json_schema.parser import schema_parser


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
