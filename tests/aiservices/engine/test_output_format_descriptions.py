"""Each strategy tells the model everything that the declaration of a type says."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import attrs
import msgspec
import pydantic.dataclasses
import pytest
from annotated_types import Ge
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from aiservices import Capabilities, ScriptedChatModel, create, preview, user_message
from output_parsers import Description

T = TypeVar("T", covariant=True)


class Desk(Enum):
    """A desk of the office."""

    BILLS = "bills"
    """invoices and payments"""
    PARCELS = "parcels"
    """delivery"""


class Person(BaseModel):
    """Who wrote the letter."""

    name: str = Field(description="as signed")


Amounts = dict[Annotated[str, "a currency"], Annotated[int, Description("in cents")]]
Reference = Annotated[int, "an order"] | Annotated[str, "a parcel"] | None


def of_pydantic() -> Any:
    class Letter(BaseModel):
        """A letter to the office."""

        desk: Desk = Field(description="who answers it")
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: int = Field(ge=1)
        reference: Reference

    return Letter


def of_pydantic_dataclasses() -> Any:
    @pydantic.dataclasses.dataclass
    class Letter:
        """A letter to the office."""

        desk: Annotated[Desk, Field(description="who answers it")]
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: Annotated[int, Field(ge=1)]
        reference: Reference

    return Letter


def of_dataclasses() -> Any:
    @dataclass
    class Letter:
        """A letter to the office."""

        desk: Desk = field(metadata={"description": "who answers it"})
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: Annotated[int, Ge(1)]
        reference: Reference

    return Letter


def of_typing() -> Any:
    class Letter(TypedDict):
        """A letter to the office."""

        desk: Annotated[Desk, ..., "who answers it"]
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: Annotated[int, Ge(1)]
        reference: Reference

    return Letter


def of_named_tuples() -> Any:
    class Letter(NamedTuple):
        """A letter to the office."""

        desk: Desk
        """who answers it"""
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: Annotated[int, Ge(1)]
        reference: Reference

    return Letter


def of_attrs() -> Any:
    @attrs.define
    class Letter:
        """A letter to the office."""

        desk: Desk = attrs.field(metadata={"description": "who answers it"})
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: int = attrs.field(validator=attrs.validators.ge(1))
        reference: Reference

    return Letter


def of_msgspec() -> Any:
    class Letter(msgspec.Struct):
        """A letter to the office."""

        desk: Annotated[Desk, msgspec.Meta(description="who answers it")]
        writers: list[Annotated[Person, "one writer"]]
        amounts: Amounts
        pages: Annotated[int, msgspec.Meta(ge=1)]
        reference: Reference

    return Letter


class Office(Protocol[T]):
    @user_message("Sort this letter.")
    def sort(self) -> T: ...


HINT = """{
  // A letter to the office.
  "desk": "bills" | "parcels" (A desk of the office; "bills": invoices and payments; "parcels": delivery),\
  // who answers it
  "writers": [{
    // Who wrote the letter.
    "name": string,  // as signed
  } (one writer), ...],
  "amounts": {string (a currency): integer (in cents), ...},
  "pages": integer (at least 1),
  "reference": integer (an order) | string (a parcel) | null,
}"""
DESK = {
    "type": "string",
    "enum": ["bills", "parcels"],
    "description": "who answers it (A desk of the office; bills: invoices and payments; parcels: delivery)",
}
WRITERS = {
    "type": "array",
    "items": {
        "type": "object",
        "title": "Person",
        "properties": {"name": {"type": "string", "description": "as signed"}},
        "required": ["name"],
        "additionalProperties": False,
        "description": "one writer (Who wrote the letter.)",
    },
}
REFERENCE = {
    "anyOf": [
        {"type": "integer", "description": "an order"},
        {"type": "string", "description": "a parcel"},
        {"type": "null"},
    ]
}
SCHEMA = {
    "type": "object",
    "title": "Letter",
    "properties": {
        "desk": DESK,
        "writers": WRITERS,
        "amounts": {
            "type": "object",
            "additionalProperties": {"type": "integer", "description": "in cents"},
            "propertyNames": {"type": "string", "description": "a currency"},
        },
        "pages": {"type": "integer", "minimum": 1},
        "reference": REFERENCE,
    },
    "required": ["desk", "writers", "amounts", "pages", "reference"],
    "additionalProperties": False,
    "description": "A letter to the office.",
}
PAIR = {
    "type": "object",
    "properties": {
        "key": {"type": "string", "description": "a currency"},
        "value": {"type": "integer", "description": "in cents"},
    },
    "required": ["key", "value"],
    "additionalProperties": False,
}
STRICT_SCHEMA = {
    **SCHEMA,
    "properties": {
        "desk": DESK,
        "writers": WRITERS,
        "amounts": {
            "type": "array",
            "items": PAIR,
            "description": "as a list of keys and values, each key once",
        },
        "pages": {"type": "integer", "minimum": 1},
        "reference": REFERENCE,
    },
}
KINDS = [
    of_pydantic,
    of_pydantic_dataclasses,
    of_dataclasses,
    of_typing,
    of_named_tuples,
    of_attrs,
    of_msgspec,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("strategy", "capabilities", "instructions", "schema"),
    [
        ("prompt", Capabilities(), f"Reply with JSON only, in this form:\n{HINT}", None),
        ("json_mode", Capabilities(json_mode=True), f"Reply with JSON only: {HINT}", None),
        ("grammar", Capabilities(constrained=True), f"Reply with JSON only: {HINT}", SCHEMA),
        ("json_schema", Capabilities(json_schema=True), "", SCHEMA),
        ("json_schema", Capabilities(json_schema=True, strict_schema=True), "", STRICT_SCHEMA),
        ("output_tool", Capabilities(tools=True), "", SCHEMA),
    ],
    ids=["prompt", "json_mode", "grammar", "json_schema", "strict_schema", "output_tool"],
)
def test_all_descriptions_reach_the_model(
    kind: Any, strategy: str, capabilities: Capabilities, instructions: str, schema: dict[str, Any] | None
) -> None:
    interface: Any = Office
    office = create(interface[kind()], ScriptedChatModel([], capabilities=capabilities), strategy=strategy)
    request = preview(office.sort)
    assert request.messages[-1].text == "\n\n".join(filter(None, ["Sort this letter.", instructions]))
    assert request.schema == schema
