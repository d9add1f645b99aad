"""Reads whatever else pydantic knows: URLs, network addresses, types with validators of their own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.functional_validators import BeforeValidator, PlainValidator, WrapValidator

from ..result.errors import USER_CODE_ERRORS, Problem, UnsupportedTypeError
from ..result.reading import Cursor, Json, ValidationFailure, describe_value, dump_json
from .node import Definitions, JsonSchema, Node
from .scalars import FloatNode
from .target import Target, type_name


class ForeignNode(Node[Any]):
    """A type that pydantic reads; JSON goes to it in strict mode, so that it converts nothing in silence.

    ``converts`` says that validators of the user's see the value first: where strict mode refuses what they
    make of it, pydantic may convert it, and the step is recorded.
    """

    prose = True

    def __init__(self, name: str, adapter: TypeAdapter[Any], *, converts: bool = False) -> None:
        self._adapter = adapter
        self._converts = converts
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

    def read(self, found: Json, at: Cursor) -> Any:
        plain = python_of(found, at)
        try:
            return self._adapter.validate_json(dump_json(found), strict=True)
        except ValidationError as error:
            if not self._converts:
                raise ValidationFailure(*problems_of(error, at)) from error
        except USER_CODE_ERRORS as error:
            raise at.failure(f"{self._name} refuses the value: {error}", found) from error
        try:  # what a validator makes of JSON is no longer JSON, which strict mode would have it be
            value = self._adapter.validate_python(plain)
        except ValidationError as error:
            raise ValidationFailure(*problems_of(error, at)) from error
        at.record("converted by its validators", found, value)
        return value

    def read_text(self, text: str, at: Cursor) -> Any:
        return self.read(text.strip(), at)


def foreign_node(target: Target) -> Node[Any] | None:
    """The node of a type that pydantic can validate; None when it cannot."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(target.annotated)
        return ForeignNode(type_name(target.form), adapter, converts=validates_first(target))
    except ImportError as error:  # EmailStr without its package
        raise UnsupportedTypeError(type_name(target.form), target.path, ["pydantic"], str(error)) from error
    except (PydanticUserError, TypeError, NotImplementedError, AttributeError):
        return None


def validates_first(target: Target) -> bool:
    """Whether a validator of the user's sees the value before anything else does."""
    first = (BeforeValidator, PlainValidator, WrapValidator)
    return any(isinstance(item, first) for item in target.metadata)


def python_of(found: Json, at: Cursor) -> Any:
    """A JSON value as json.loads would give it, but for numbers with more digits than a float holds.

    Raises Misfit for a number beyond a float, which pydantic would take for infinity.
    """
    if isinstance(found, dict):
        return {key: python_of(value, at.child(key)) for key, value in found.items()}
    if isinstance(found, list):
        return [python_of(value, at.child(index)) for index, value in enumerate(found)]
    if isinstance(found, Decimal):
        number = FloatNode().convert(found, at)
        return number if Decimal(str(number)) == found else found
    return found


def problems_of(error: ValidationError, at: Cursor) -> list[Problem]:
    """What pydantic says is wrong, as problems below a place."""
    problems = []
    for fault in error.errors(include_url=False, include_context=False):
        place = at
        for step in fault["loc"]:
            place = place.child(step)
        message = fault["msg"]
        if not message[:2].isupper():  # "URL scheme …" stays as it is
            message = message[:1].lower() + message[1:]
        problems.append(Problem(place.path, message, describe_value(fault["input"])))
    return problems
