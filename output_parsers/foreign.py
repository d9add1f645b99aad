"""Reads whatever else pydantic knows: URLs, network addresses, types with validators of their own."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.functional_validators import BeforeValidator, PlainValidator, WrapValidator

from .errors import Problem
from .node import Definitions, JsonSchema, Node
from .reading import Json, Misfit, Place, show
from .target import Target, type_name

__all__ = ["ForeignNode", "foreign_node", "problems_of", "validates_first"]


class ForeignNode(Node[Any]):
    """A type that pydantic reads; JSON goes to it in strict mode, so that it converts nothing in silence."""

    prose = True

    def __init__(self, name: str, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter
        self._name = name
        self.kind = f"a value for {name}"
        schema = adapter.json_schema()
        self._definitions = schema.pop("$defs", {})
        schema.pop("title", None)
        self._schema = schema

    def schema(self, definitions: Definitions) -> JsonSchema:
        definitions.schemas.update(self._definitions)
        return dict(self._schema)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        form = self._schema.get("format") or self._schema.get("type") or "value"
        return (
            f'"{self._name} ({form})"' if self._schema.get("type") == "string" else f"{self._name} ({form})"
        )

    def read(self, found: Json, at: Place) -> Any:
        text = json.dumps(found, default=_plain_number)
        try:
            return self._adapter.validate_json(text, strict=True)
        except ValidationError as error:
            raise Misfit(*problems_of(error, at)) from error

    def read_text(self, text: str, at: Place) -> Any:
        return self.read(text.strip(), at)


def foreign_node(target: Target) -> Node[Any] | None:
    """The node of a type that pydantic can validate; None when it cannot."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(target.annotated)
        return ForeignNode(type_name(target.form), adapter)
    except (PydanticUserError, TypeError, NotImplementedError, AttributeError):
        return None


def validates_first(target: Target) -> bool:
    """Whether a validator of the user's sees the value before anything else does."""
    first = (BeforeValidator, PlainValidator, WrapValidator)
    return any(isinstance(item, first) for item in target.metadata)


def problems_of(error: ValidationError, at: Place) -> list[Problem]:
    """What pydantic says is wrong, as problems below a place."""
    problems = []
    for fault in error.errors(include_url=False, include_context=False):
        place = at
        for step in fault["loc"]:
            place = place.at(step)
        message = fault["msg"][:1].lower() + fault["msg"][1:]
        problems.append(Problem(place.path, message, show(fault["input"])))
    return problems


def _plain_number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")
