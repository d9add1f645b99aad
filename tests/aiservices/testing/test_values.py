"""Made-up values fit their schemas and types, with seeded choices and with Hypothesis."""

from __future__ import annotations

import random
import re
from typing import Any, Protocol

import pytest
from equivalence.return_types import CASES
from hypothesis import HealthCheck, given, settings, strategies as st
from jsonschema import Draft202012Validator

from aiservices import create
from aiservices.testing import FakeChatModel, strategy_of
from aiservices.testing.hypothesis_values import HypothesisChoices
from aiservices.testing.values import SeededChoices, json_value_for, text_matching
from output_parsers import parser_for
from output_parsers.result.reading import strict_equal

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FORMS = st.sampled_from(CASES).map(lambda case: case.form)
SCHEMAS: list[dict[str, Any]] = [
    {"type": "integer", "minimum": 3, "maximum": 3},
    {"type": "integer", "exclusiveMinimum": -2, "exclusiveMaximum": 2},
    {"type": "integer", "maximum": -5},
    {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 20},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    {"type": "number", "multipleOf": 0.25},
    {"type": ["integer", "null"]},
    {"type": "string", "minLength": 4, "maxLength": 4},
    {"type": "string", "minLength": 300},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{1,3}(x|y)?$"},
    {"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 3},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "minItems": 3},
    {"type": "array", "maxItems": 0},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"type": "object", "additionalProperties": False, "properties": {}},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}},
    {"anyOf": [{"type": "null"}, {"type": "boolean"}], "description": "either"},
    {"oneOf": [{"const": 1}, {"const": "one"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
               {"properties": {"b": {"const": 2}}, "required": ["b"]}]},
    {"$ref": "#/$defs/Tree", "$defs": {"Tree": {
        "type": "object",
        "properties": {"label": {"type": "string"},
                       "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["label", "kids"],
    }}},
    {"$ref": "#/$defs/Sum", "$defs": {"Sum": {"anyOf": [
        {"type": "object", "properties": {"left": {"$ref": "#/$defs/Sum"}, "right": {"$ref": "#/$defs/Sum"}},
         "required": ["left", "right"]},
        {"type": "integer"},
    ]}}},
    {},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_seeded_values_fit_the_schema(schema: dict[str, Any]) -> None:
    validator = Draft202012Validator(schema)
    for seed in range(40):
        value = json_value_for(schema, SeededChoices(str(seed)))
        assert list(validator.iter_errors(plain(value))) == [], value


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_hypothesis_values_fit_the_schema(schema: dict[str, Any]) -> None:
    validator = Draft202012Validator(schema)

    @QUICK
    @given(st.data())
    def check(data: st.DataObject) -> None:
        value = json_value_for(schema, HypothesisChoices(data.draw))
        assert list(validator.iter_errors(plain(value))) == [], value

    check()


def plain(value: Any) -> Any:
    """Return the value with Decimals converted to floats, for the schema validator."""
    return float(value) if type(value).__name__ == "Decimal" else value


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Z]{3}$", r"^\d{4}-\d\d$", r"[^a-z]+", r"^(\w+)=\1$", r"^a*?b+c?.$", r"^(?:x|yy|[0-9a-f]{2})+$",
        r"^\S+@\S+\.com$", r"^[\w.]+$", r"(?i)^abc$", r"^\D\W\s$", "",
    ],
)  # fmt: skip
def test_a_text_for_a_pattern_matches_it(pattern: str) -> None:
    for seed in range(60):
        text = text_matching(pattern, random.Random(seed))
        assert re.search(pattern, text), text


@settings(QUICK, max_examples=150)
@given(FORMS.flatmap(lambda form: st.tuples(st.just(form), strategy_of(form))))
def test_values_of_every_type_are_written_and_read_back(made: tuple[Any, Any]) -> None:
    form, value = made
    parser: Any = parser_for(form)
    assert strict_equal(parser.parse(parser.write(value)), value)


def test_hypothesis_finds_edge_cases_of_a_type() -> None:
    match: set[int] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(strategy_of(int))
    def look(number: int) -> None:
        match.add(number)

    look()
    assert 0 in match
    assert min(match) < 0
    assert max(match) > 2**31


def test_hypothesis_chooses_the_answers_of_a_fake_model() -> None:
    class Counter(Protocol):
        def words(self, text: str) -> list[int]: ...

    seen: list[list[int]] = []

    @settings(max_examples=40, deadline=None, database=None, derandomize=True)
    @given(st.data())
    def look(data: st.DataObject) -> None:
        seen.append(create(Counter, FakeChatModel(draw=data.draw), retry=None).words("x"))

    look()
    assert [] in seen
    assert any(len(one) > 2 for one in seen)


def test_a_failing_test_is_shrunk_to_the_smallest_answer() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> int: ...

    smallest: list[int] = []

    @settings(max_examples=200, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)
    @given(st.data())
    def look(data: st.DataObject) -> None:
        number = create(Counter, FakeChatModel(draw=data.draw), retry=None).count("x")
        smallest.append(number)
        assert number < 17

    with pytest.raises(AssertionError):
        look()
    assert smallest[-1] == 17


def depth_of(value: Any) -> int:
    return 1 + max(map(depth_of, value.values()), default=0) if isinstance(value, dict) else 0


def test_values_of_recursive_types_end() -> None:
    assert max(depth_of(json_value_for(SCHEMAS[-2], SeededChoices(str(seed)))) for seed in range(200)) <= 5
