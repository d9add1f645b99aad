"""lint: the parts of a type that the strict mode of a provider does not support, and how they are sent."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from aiservices import ChatModel
from output_parsers.lint import lint
from output_parsers.profiles import PROFILES


class Order(BaseModel):
    number: Annotated[str, Field(min_length=3)]
    amounts: dict[str, int]
    note: str = ""


class Tree(BaseModel):
    name: str
    children: list[Tree]


def main(model: ChatModel | str | None = None) -> None:
    """Print the findings of two types and of a JSON Schema. No model is called."""
    for name in PROFILES:
        print(name)
        for tp in (Order, Tree):
            for finding in lint(tp, name):
                print(f"  {finding}{'' if finding.lossless else ' (sent without strict)'}")
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"id": {"type": "integer", "not": {"const": 0}}},
        "required": ["id"],
        "additionalProperties": False,
    }
    print("a JSON Schema, for openai")
    for finding in lint(schema):
        print(f"  {finding}")


if __name__ == "__main__":
    main()
