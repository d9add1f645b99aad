"""The parser for types that only pydantic can read, such as URLs and network addresses.

The conversions between JSON data and pydantic's input and errors are here too.
"""

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


class PydanticNode(Node[object]):
    """Reads a value with pydantic in strict mode, so that pydantic converts nothing silently.

    ``converts`` is True if a user-written validator runs first. pydantic may then convert the result if
    strict mode rejects it, and the conversion is recorded.
    """

    prose = True

    def __init__(self, name: str, adapter: TypeAdapter[object], *, converts: bool = False) -> None:
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

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        hint = f"{self._name} ({self._schema.get('format') or self._schema.get('type') or 'value'})"
        return f'"{hint}"' if self._schema.get("type") == "string" else hint

    def read(self, data: Json, cursor: Cursor) -> object:
        plain = to_python(data, cursor)
        try:
            return self._adapter.validate_json(dump_json(data), strict=True)
        except ValidationError as error:
            if not self._converts:
                raise ValidationFailure(*problems_of(error, cursor)) from error
        except USER_CODE_ERRORS as error:
            raise cursor.failure(f"{self._name} refuses the value: {error}", data) from error
        try:  # a validator may return Python objects, which strict JSON mode rejects
            value = self._adapter.validate_python(plain)
        except ValidationError as error:
            raise ValidationFailure(*problems_of(error, cursor)) from error
        cursor.record("converted by its validators", data, value)
        return value

    def read_text(self, text: str, cursor: Cursor) -> object:
        return self.read(text.strip(), cursor)


_NOT_JSON = ("is-subclass", "is-instance")  # pydantic's schemas of types such as type[int]


def pydantic_node(target: Target) -> Node[object] | None:
    """Return the parser for a type that pydantic can validate, or None for other types."""
    try:
        adapter: TypeAdapter[object] = TypeAdapter(target.annotated)
        if adapter.core_schema["type"] in _NOT_JSON:
            return None
        return PydanticNode(type_name(target.type), adapter, converts=has_before_validator(target))
    except ImportError as error:  # EmailStr without its package
        raise UnsupportedTypeError(type_name(target.type), target.path, ["pydantic"], str(error)) from error
    except (PydanticUserError, TypeError, NotImplementedError, AttributeError):
        return None  # pydantic does not know the type; the caller reports it as unsupported


def has_before_validator(target: Target) -> bool:
    """Return True if a type has a validator that runs before pydantic reads the value."""
    first = (BeforeValidator, PlainValidator, WrapValidator)
    return any(isinstance(item, first) for item in target.metadata)


def to_python(data: Json, cursor: Cursor) -> Any:
    """Convert parsed JSON to the plain Python values that ``json.loads`` returns.

    Numbers that are too precise for a float stay decimals. Raises ValidationFailure for a number beyond the
    range of a float, which pydantic would read as infinity.
    """
    if isinstance(data, dict):
        return {key: to_python(value, cursor.child(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [to_python(value, cursor.child(index)) for index, value in enumerate(data)]
    if isinstance(data, Decimal):
        number = FloatNode().convert(data, cursor)
        return number if Decimal(str(number)) == data else data
    return data


def problems_of(error: ValidationError, cursor: Cursor) -> list[Problem]:
    """Convert a pydantic ValidationError to Problem objects, one for each error.

    Their paths begin at the path of ``cursor``.
    """
    problems = []
    for details in error.errors(include_url=False, include_context=False):
        part = cursor
        for step in details["loc"]:
            part = part.child(step)
        message = details["msg"]
        if not message[:2].isupper():  # "URL scheme …" stays as it is
            message = message[:1].lower() + message[1:]
        problems.append(Problem(part.path, message, describe_value(details["input"])))
    return problems
