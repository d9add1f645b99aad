"""Everything that a declaration says about its parts is in the JSON Schema and in the hint."""

from enum import Enum, Flag, auto
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import Doc

from output_parsers import Description, parser_for
from output_parsers.json_schema.parser import schema_parser
from output_parsers.text import EnumOutputParser, PydanticOutputParser

T = TypeVar("T")


Reference = Annotated[int, "an id"] | Annotated[str, "a name"] | None


class Desk(Enum):
    """A desk of the office."""

    BILLS = "bills"
    """invoices and payments"""
    PARCELS = "parcels"


class Right(Flag):
    """What a user may do."""

    READ = auto()
    """see the file"""
    WRITE = auto()


class Box(BaseModel, Generic[T]):
    """A box with a label."""

    content: T


class Steps(RootModel[list[str]]):
    """The steps of a recipe."""


class Plain(BaseModel):
    text: str


@pytest.mark.parametrize(
    ("tp", "hint", "schema"),
    [
        (
            Desk,
            '"bills" | "parcels" (A desk of the office; "bills": invoices and payments)',
            {
                "type": "string",
                "enum": ["bills", "parcels"],
                "description": "A desk of the office; bills: invoices and payments",
            },
        ),
        (
            Literal[Desk.BILLS, Desk.PARCELS],
            '"BILLS" | "PARCELS" ("BILLS": invoices and payments)',
            {
                "type": "string",
                "enum": ["BILLS", "PARCELS"],
                "description": "BILLS: invoices and payments",
            },
        ),
        (
            Right,
            '["READ" | "WRITE" ("READ": see the file), ...] (What a user may do.)',
            {
                "type": "array",
                "items": {
                    "type": "string",
                    "enum": ["READ", "WRITE"],
                    "description": "READ: see the file",
                },
                "description": "What a user may do.",
            },
        ),
        (
            Annotated[int, Description("in metres")],
            "integer (in metres)",
            {"type": "integer", "description": "in metres"},
        ),
        (
            list[Annotated[str, Field(description="four words")]],
            "[string (four words), ...]",
            {"type": "array", "items": {"type": "string", "description": "four words"}},
        ),
        (
            tuple[Annotated[int, Doc("the year")], int],
            "[integer (the year), integer]",
            {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "integer", "description": "the year"}, {"type": "integer"}],
                "items": False,
            },
        ),
        (
            dict[Annotated[str, "a city"], Annotated[float, "in degrees"]],
            "{string (a city): number (in degrees), ...}",
            {
                "type": "object",
                "additionalProperties": {"type": "number", "description": "in degrees"},
                "propertyNames": {"type": "string", "description": "a city"},
            },
        ),
        (
            Reference,
            "integer (an id) | string (a name) | null",
            {
                "anyOf": [
                    {"type": "integer", "description": "an id"},
                    {"type": "string", "description": "a name"},
                    {"type": "null"},
                ]
            },
        ),
        (
            Box[int],
            '{\n  // A box with a label.\n  "content": integer,\n}',
            {
                "type": "object",
                "title": "Box[int]",
                "properties": {"content": {"type": "integer"}},
                "required": ["content"],
                "additionalProperties": False,
                "description": "A box with a label.",
            },
        ),
        (
            Steps,
            "[string, ...] (The steps of a recipe.)",
            {"type": "array", "items": {"type": "string"}, "description": "The steps of a recipe."},
        ),
    ],
)
def test_descriptions_are_in_the_hint_and_in_the_schema(tp: Any, hint: str, schema: dict[str, Any]) -> None:
    assert parser_for(tp).hint == hint
    assert parser_for(tp).schema == schema


def test_the_instructions_of_the_text_parsers_have_the_descriptions() -> None:
    assert EnumOutputParser(Desk).format_instructions() == (
        "Reply with the value only, in this form: "
        '"bills" | "parcels" (A desk of the office; "bills": invoices and payments)'
    )
    assert PydanticOutputParser(Box[int]).format_instructions() == (
        'Reply with JSON only, in this form:\n{\n  // A box with a label.\n  "content": integer,\n}'
    )


def test_the_outermost_description_wins_and_an_explicit_one_wins_over_a_string() -> None:
    assert parser_for(Annotated[Annotated[int, "inner"], "outer"]).hint == "integer (outer)"
    assert parser_for(Annotated[int, Description("explicit"), "a remark"]).hint == "integer (explicit)"


def test_a_record_without_a_docstring_of_its_own_has_no_remark_in_its_hint() -> None:
    class Derived(Box[str]):
        pass

    assert parser_for(Plain).hint == '{"text": string}'
    assert parser_for(Derived).hint == '{"content": string}'


def test_the_hint_of_a_json_schema_has_the_descriptions_of_items_values_and_alternatives() -> None:
    described = {"type": "integer", "description": "in metres"}
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": described},
            "by_name": {"type": "object", "additionalProperties": described},
            "either": {"anyOf": [described, {"type": "string"}]},
        },
        "required": ["items", "by_name", "either"],
        "additionalProperties": False,
    }
    assert schema_parser(schema).hint == (
        "{\n"
        '  "items": [integer (in metres), ...],\n'
        '  "by_name": {string: integer (in metres), ...},\n'
        '  "either": integer (in metres) | string,\n'
        "}"
    )
