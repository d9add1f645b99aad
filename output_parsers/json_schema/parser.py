"""Reads replies by a JSON Schema that is given as a dict: a type without a class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ..json.reader import read_exact
from ..json.result import JsonSyntaxError
from ..parser.type_parser import TypeParser
from ..result.reading import Cursor, Json, ValidationFailure
from ..types.constraints import ConstrainedNode
from ..types.node import Definitions, JsonSchema, Node
from ..types.target import Target
from .nodes import (
    DATA,
    MAPS,
    InvalidSchemaError,
    SchemaCheck,
    SchemaTree,
    any_adapter,
    plain_json,
    valid_or_aligned,
)

_ROOT = "Root"  # the name of a schema inside of another one
_OF_FUNCTIONS = frozenset(("name", "description", "parameters", "strict", "type"))


class SchemaNode(ConstrainedNode):
    """A whole JSON Schema: what is valid as it stands is the value; all else is aligned, then checked."""

    def __init__(self, tree: SchemaTree, check: SchemaCheck, schema: JsonSchema) -> None:
        super().__init__(tree.root, any_adapter(), {})
        self.exact = False  # pydantic does not know what the schema demands
        self._check = check
        self._schema = schema
        self._said = tree.said

    def schema(self, definitions: Definitions) -> JsonSchema:
        """The schema inside of another one, its references leading where they did."""
        inside = {key: value for key, value in self._schema.items() if key != "$schema"}
        references = self._check.references
        if not references or self._check.has_ids or "$id" in inside:
            return inside
        if all(reference.startswith("#/$defs/") for reference in references):
            definitions.schemas.update(inside.pop("$defs"))
            return inside
        definitions.schemas[_ROOT] = _moved(inside)
        return {"$ref": f"#/$defs/{_ROOT}"}

    def hint(self, enclosing: tuple[Node[Any], ...] = ()) -> str:
        if self._said:
            return self.inner.hint(enclosing)
        return json.dumps(self._schema, ensure_ascii=False, separators=(",", ":"))

    def read(self, data: Json, cursor: Cursor) -> Any:
        return valid_or_aligned(self._check, super().read, data, cursor)

    def read_text(self, text: str, cursor: Cursor) -> Any:
        try:
            plain = plain_json(read_exact(text.strip()), cursor)
        except (JsonSyntaxError, ValidationFailure):
            return super().read_text(text, cursor)
        return plain if self._check.is_valid(plain) else super().read_text(text, cursor)

    def check(self, value: Any, cursor: Cursor) -> Any:
        problems = self._check.problems(value, cursor)
        if problems:
            raise ValidationFailure(*problems)
        return value


class JsonSchemaParser(TypeParser[Any]):
    """Text from a model → plain JSON that is valid by a JSON Schema."""

    def __init__(self, node: SchemaNode, schema: JsonSchema, name: str) -> None:
        super().__init__(Target(Any, alias=name), node)
        self._user_schema = schema

    @cached_property
    def plain_text(self) -> bool:
        return False  # a schema was asked for, so it is shown, be it that of a string

    @cached_property
    def _schema(self) -> JsonSchema:
        return self._user_schema


def schema_parser(schema: Mapping[str, Any], *, name: str | None = None) -> TypeParser[Any]:
    """The parser of plain JSON (dict, list, str, int, float, bool, None) by a JSON Schema.

    The draft is that of ``$schema``, 2020-12 without one. A reply that is valid is read as it stands; one
    that is not is aligned as with any other type (keys and enum members in another form, numbers as text),
    and what comes of it is checked by the package jsonschema. Formats are not enforced, and defaults not
    filled in. ``name`` is by default the schema's title. Raises InvalidSchemaError when the schema is broken.
    """
    title = schema.get("title") if isinstance(schema, Mapping) else None
    said = name or (title if isinstance(title, str) else "")
    name = said or "value"
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError(name, "#", f"a mapping is expected, not {type(schema).__name__}")
    try:
        given: JsonSchema = _plain(schema)
        check = SchemaCheck(given, name)
        tree = SchemaTree(given, check, said)
        return JsonSchemaParser(SchemaNode(tree, check, given), _inlined(given, tree), name)
    except RecursionError as error:
        raise InvalidSchemaError(name, "#", "it is nested too deeply") from error


def is_function(schema: Mapping[str, Any]) -> bool:
    """Whether a dict describes a function in one of OpenAI's forms, and is not a JSON Schema itself."""
    if schema.get("type") == "function":
        return True
    parameters = schema.get("parameters", {})
    return (
        isinstance(schema.get("name"), str)
        and isinstance(parameters, Mapping)
        and schema.keys() <= _OF_FUNCTIONS - {"type"}
    )


def function_schema(function: Mapping[str, Any]) -> tuple[str, str | None, Mapping[str, Any]]:
    """The name, the description and the JSON Schema of the parameters of a function as OpenAI describes it.

    It is ``{"name", "description", "parameters"}``, alone, under ``"function"``, or beside
    ``"type": "function"``. A bare JSON Schema goes by its title ("value" without one) and description.
    Raises ValueError for a function without a name, or whose parameters are no schema.
    """
    if not is_function(function):
        title = function.get("title")
        return title if isinstance(title, str) and title else "value", _said(function), function
    inner = function.get("function", function)
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ValueError('a function needs a "name"')
    parameters = inner.get("parameters")
    if parameters is None:  # OpenAI: a function without parameters
        parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, Mapping):
        raise ValueError(f'the "parameters" of the function {name!r} are no JSON Schema')
    return name, _said(inner), parameters


def _said(schema: Mapping[str, Any]) -> str | None:
    description = schema.get("description")
    return description if isinstance(description, str) else None


def _plain(part: Any) -> Any:
    """A copy as jsonschema takes it, of dicts and lists; it stays as it is when the original is changed."""
    if isinstance(part, Mapping):
        return {key: _plain(value) for key, value in part.items()}
    return [_plain(item) for item in part] if isinstance(part, (list, tuple)) else part


def _inlined(schema: JsonSchema, tree: SchemaTree) -> JsonSchema:
    """The schema with no reference at its root, as providers demand."""
    while isinstance(schema.get("$ref"), str):
        target = tree.target(schema["$ref"])
        if not isinstance(target, dict):
            return schema
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _moved(part: Any) -> Any:
    """A schema whose references into itself lead into its place among the definitions of another one."""
    if isinstance(part, list):
        return [_moved(item) for item in part]
    if not isinstance(part, dict):
        return part
    moved: JsonSchema = {}
    for key, value in part.items():
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            moved[key] = f"#/$defs/{_ROOT}{value[1:]}"
        elif key in MAPS and isinstance(value, dict):
            moved[key] = {name: _moved(inside) for name, inside in value.items()}
        else:
            moved[key] = value if key in DATA else _moved(value)
    return moved
