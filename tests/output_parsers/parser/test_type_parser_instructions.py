"""The format instructions of each type, word for word."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, Field, RootModel

from output_parsers import Description, parser_for


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    name: Annotated[str, Description("as on\n the label")]
    price: float


class Order(BaseModel):
    items: list[Item]
    day: date
    color: Color | None = None
    state: Literal["open", "closed"] = Field("open", description="now")


@dataclass
class Node:
    label: str
    kids: list[Node] = field(default_factory=list)


class Wide(TypedDict):
    a_rather_long_name_of_a_key: int
    another_rather_long_name_of_a_key: int
    yet_another_rather_long_name_of_a_key: NotRequired[int]


@dataclass
class Person:
    name: str
    boss: Annotated[Person | None, Description("if any")] = None
    team: list[Annotated[Person, Description("a colleague")]] = field(default_factory=list)


class Tree(RootModel[dict[str, "Tree"]]):
    pass


@pytest.mark.parametrize(
    ("tp", "instructions"),
    [
        (str, ""),
        (Annotated[str, Field(max_length=3)], ""),
        (int, "Reply with the value only, in this form: integer"),
        (bool, "Reply with the value only, in this form: true | false"),
        (Color, 'Reply with the value only, in this form: "red" | "blue"'),
        (date, 'Reply with the value only, in this form: "YYYY-MM-DD"'),
        (int | None, "Reply with the value only, in this form: integer | null"),
        (list[int], "Reply with JSON only, in this form:\n[integer, ...]"),
        (dict[str, int], "Reply with JSON only, in this form:\n{string: integer, ...}"),
        (list[int] | int, "Reply with JSON only, in one of these forms:\n[integer, ...] | integer"),
        (Any, "Reply with JSON only, in one of these forms:\nany JSON"),
        (
            Item,
            "Reply with JSON only, in this form:\n"
            "{\n"
            '  "name": string,  // as on the label\n'
            '  "price": number,\n'
            "}",
        ),
        (
            Order,
            "Reply with JSON only, in this form:\n"
            "{\n"
            '  "items": [{\n'
            '    "name": string,  // as on the label\n'
            '    "price": number,\n'
            "  }, ...],\n"
            '  "day": "YYYY-MM-DD",\n'
            '  "color"?: "red" | "blue" | null,\n'
            '  "state"?: "open" | "closed",  // now\n'
            "}",
        ),
        (Node, 'Reply with JSON only, in this form:\n{"label": string, "kids"?: [Node, ...]}'),
        (
            Wide,
            "Reply with JSON only, in this form:\n"
            "{\n"
            '  "a_rather_long_name_of_a_key": integer,\n'
            '  "another_rather_long_name_of_a_key": integer,\n'
            '  "yet_another_rather_long_name_of_a_key"?: integer,\n'
            "}",
        ),
        (
            Person,
            "Reply with JSON only, in this form:\n"
            "{\n"
            '  "name": string,\n'
            '  "boss"?: Person | null,  // if any\n'
            '  "team"?: [Person (a colleague), ...],\n'
            "}",
        ),
        (Tree, "Reply with JSON only, in this form:\n{string: Tree, ...}"),
    ],
)
def test_the_instructions_describe_the_type(tp: Any, instructions: str) -> None:
    assert parser_for(tp).format_instructions() == instructions


def test_the_instructions_of_an_envelope_ask_for_the_envelope() -> None:
    assert parser_for(int).with_envelope("answer").format_instructions() == (
        'Reply with JSON only, in this form:\n{"answer": integer}'
    )
    assert parser_for(str).with_envelope().format_instructions() == (
        'Reply with JSON only, in this form:\n{"value": string}'
    )
