"""The schema of a whole type defines repeated classes once, and its root is never a reference."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from output_parsers import Description, ParserRegistry, parser_for
from output_parsers.types.node import is_strict

T = TypeVar("T")


class Size(enum.Enum):
    S = "s"
    """below ten"""
    L = "l"


class Address(BaseModel):
    """Where one lives."""

    city: str
    zip: str | None = Field(default=None, pattern="^[0-9]+$")


class Customer(BaseModel):
    name: str = Field(description="in full")
    home: Address
    work: Address | None = Field(default=None, description="if any")
    size: Size
    scores: dict[str, float] = {}


ADDRESS = {
    "type": "object",
    "title": "Address",
    "properties": {
        "city": {"type": "string"},
        "zip": {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, {"type": "null"}]},
    },
    "required": ["city"],
    "additionalProperties": False,
    "description": "Where one lives.",
}


def test_the_schema_of_a_record_has_all_keywords() -> None:
    assert parser_for(Customer).schema == {
        "type": "object",
        "title": "Customer",
        "properties": {
            "name": {"type": "string", "description": "in full"},
            "home": {"$ref": "#/$defs/Address"},
            "work": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}], "description": "if any"},
            "size": {"type": "string", "enum": ["s", "l"], "description": "s: below ten"},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["name", "home", "size"],
        "additionalProperties": False,
        "$defs": {"Address": ADDRESS},
    }


def test_a_class_that_is_used_once_is_written_in_place() -> None:
    assert parser_for(list[Address]).schema == {"type": "array", "items": ADDRESS}


@dataclass
class Node:
    label: str
    kids: list[Node] = field(default_factory=list)


NODE = {
    "type": "object",
    "title": "Node",
    "properties": {
        "label": {"type": "string"},
        "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["label"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("tp", "schema"),
    [
        (Node, {**NODE, "$defs": {"Node": NODE}}),
        (list[Node], {"type": "array", "items": {"$ref": "#/$defs/Node"}, "$defs": {"Node": NODE}}),
        (
            Node | None,
            {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "$defs": {"Node": NODE}},
        ),
    ],
)
def test_a_recursive_type_refers_to_a_definition_at_the_root(tp: Any, schema: dict[str, Any]) -> None:
    assert parser_for(tp).schema == schema


def test_a_reference_with_a_description_is_wrapped() -> None:
    @dataclass
    class Two:
        one: Annotated[Address, Description("the first")]
        other: Address

    schema = ParserRegistry().parser_for(Two, namespace={"Address": Address}).schema
    assert schema is not None
    assert schema["properties"] == {
        "one": {"anyOf": [{"$ref": "#/$defs/Address"}], "description": "the first"},
        "other": {"$ref": "#/$defs/Address"},
    }


class Box(BaseModel, Generic[T]):
    content: T


class Boxes(BaseModel):
    a: Box[int]
    b: Box[int]
    c: Box[str]
    d: Box[str]


def test_names_of_definitions_have_only_characters_that_providers_accept() -> None:
    schema = parser_for(Boxes).schema
    assert schema is not None
    assert list(schema["$defs"]) == ["Box_int", "Box_str"]
    assert schema["properties"]["d"] == {"$ref": "#/$defs/Box_str"}


@dataclass
class Cell(Generic[T]):
    content: T


@dataclass
class Cells:
    a: Cell[int]
    b: Cell[int]
    c: Cell[str]
    d: Cell[str]


def test_definitions_with_the_same_name_get_different_numbers() -> None:
    schema = parser_for(Cells).schema
    assert schema is not None
    assert schema["properties"] == {
        "a": {"$ref": "#/$defs/Cell"},
        "b": {"$ref": "#/$defs/Cell"},
        "c": {"$ref": "#/$defs/Cell2"},
        "d": {"$ref": "#/$defs/Cell2"},
    }
    assert schema["$defs"]["Cell2"]["properties"] == {"content": {"type": "string"}}


def test_the_node_of_a_type_is_built_once_however_often_it_is_used() -> None:
    inner: Any = int
    for level in range(30):  # taken apart twice on each level, it would not end
        inner = type(
            f"Level{level}",
            (BaseModel,),
            {"__annotations__": {"a": inner, "b": inner}, "__module__": __name__},
        )
    schema = parser_for(inner).schema
    assert schema is not None
    assert len(schema["$defs"]) == 29


def union_of_itself(levels: int) -> Any:
    tp: Any = int
    for _ in range(levels):
        tp = list[tp] | dict[str, tp] | tp
    return tp


def test_a_union_of_few_levels_stays_in_place() -> None:
    schema = parser_for(tuple[list[int | str] | None, list[int | str] | None]).schema
    assert schema is not None
    assert "$defs" not in schema


def test_the_schema_and_the_hint_of_a_union_do_not_multiply_with_each_level() -> None:
    four, five, six = (parser_for(union_of_itself(levels)) for levels in (4, 5, 6))
    lengths = [len(json.dumps(parser.schema)) for parser in (four, five, six)]
    # one more definition for each level, which is a little longer than the one before
    assert lengths[2] - lengths[1] < 1.2 * (lengths[1] - lengths[0])
    assert len(six.format_instructions()) < 3 * len(five.format_instructions())


@pytest.mark.parametrize("data", [[[[1]]], {"a": [{"b": 2}]}, [{"a": [[[3]]]}], 4])
def test_a_schema_with_defined_unions_accepts_what_the_type_reads(data: Any) -> None:
    parser = parser_for(union_of_itself(5))
    Draft202012Validator(parser.schema).validate(data)
    assert parser.parse(json.dumps(data)) == data


def test_a_schema_with_defined_unions_rejects_what_the_type_rejects() -> None:
    schema = parser_for(union_of_itself(5)).schema
    for data in ("a", [["a"]], {"a": {"b": "c"}}, [[[[[[7]]]]]]):
        assert not Draft202012Validator(schema).is_valid(data)


@pytest.mark.parametrize(
    ("tp", "schema"),
    [
        (Annotated[int, Description("in metres")], {"type": "integer", "description": "in metres"}),
        (
            Annotated[int, Field(description="outer"), Description("nearest")],
            {"type": "integer", "description": "nearest"},
        ),
        (
            Annotated[Size, Description("how big")],
            {"type": "string", "enum": ["s", "l"], "description": "how big (s: below ten)"},
        ),
    ],
)
def test_the_root_has_a_description_too(tp: Any, schema: dict[str, Any]) -> None:
    assert parser_for(tp).schema == schema


@pytest.mark.parametrize("tp", [str, Annotated[str, Field(max_length=3)]])
def test_plain_text_has_no_schema(tp: Any) -> None:
    assert parser_for(tp).schema is None


class Closed(BaseModel):
    a: int
    b: Literal["x", "y"] | None


class Open(BaseModel):
    a: int
    b: int = 1


class Mapped(BaseModel):
    a: dict[str, int]


@pytest.mark.parametrize(
    ("tp", "strict"),
    [
        (Closed, True),
        (Open, False),
        (Mapped, False),
        (list[Closed], False),
        (int, False),
    ],
)
def test_a_schema_is_strict_if_every_object_is_closed_and_requires_all_properties(
    tp: Any, strict: bool
) -> None:
    assert is_strict(parser_for(tp).schema or {}) is strict


@pytest.mark.parametrize(
    ("tp", "strict"),
    [
        (int, True),
        (list[Closed], True),
        (Closed | int, True),
        (Any, False),
        (tuple[int, str], False),
        (Annotated[list[int], Field(max_length=3)], True),
        (Annotated[str, Field(max_length=3)], False),
        (list[Open], False),
    ],
)
def test_an_envelope_is_strict_if_its_value_is(tp: Any, strict: bool) -> None:
    assert is_strict(parser_for(tp).with_envelope().schema or {}) is strict


def test_an_unknown_format_is_not_strict() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "format": "path"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert not is_strict(schema)
