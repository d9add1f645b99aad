"""Create parsers from JSON Schemas, including schemas inside OpenAI functions or Anthropic tools."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

from ..json.scanner import read_exact
from ..parser.type_parser import TypeParser
from ..result.errors import USER_CODE_ERRORS, shorten
from ..result.reading import Ambiguity, Cursor, Json, JsonSyntaxError, ValidationFailure
from ..types.constraints import ConstrainedNode
from ..types.node import Definitions, JsonNodes, JsonSchema, Node
from ..types.target import Target
from .document import (
    ASSERTIONS,
    DATA,
    MAPS,
    InvalidSchemaError,
    followed,
    moved_references,
    plain_document,
    with_numeric_bounds,
)
from .nodes import (
    SchemaCheck,
    SchemaTree,
    any_adapter,
    check_keywords,
    plain_json,
    valid_or_aligned,
    without_optional_nulls,
)

_MAX_MESSAGE = 160  # the maximum length of a message from another package
_ROOT = "Root"  # the name of a schema in the definitions of another one


class SchemaNode(ConstrainedNode):
    """Reads JSON data and makes it valid under a JSON Schema, converting values if necessary.

    Valid data is returned unchanged. Other data is aligned with the schema, then validated.
    """

    def __init__(self, tree: SchemaTree, check: SchemaCheck, schema: JsonSchema) -> None:
        super().__init__(tree.root, any_adapter(), {})
        self.exact = False  # pydantic does not know the requirements of the schema
        self._check = check
        self._schema = schema
        self._hint_is_complete = tree.hint_is_complete

    def schema(self, definitions: Definitions) -> JsonSchema:
        """Return the JSON Schema for the provider; its objects allow no undeclared properties.

        Its references are adjusted. Its objects are closed, so that a model does not invent properties;
        replies with further properties are valid if the user's schema allows them. A property that may
        be null or missing has the default null, so that a model may write null for it.
        """
        prepared = _prepared(close_objects(self._schema), self._check)
        inside = {key: value for key, value in prepared.items() if key != "$schema"}
        references = self._check.references
        if not references or self._check.has_ids or "$id" in inside:
            return inside
        if all(reference.startswith("#/$defs/") for reference in references):
            definitions.schemas.update(inside.pop("$defs"))
            return inside
        definitions.schemas[_ROOT] = moved_references(inside, f"#/$defs/{_ROOT}")
        return {"$ref": f"#/$defs/{_ROOT}"}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        if self._hint_is_complete:
            return self.inner.hint(enclosing)
        return json.dumps(self._schema, ensure_ascii=False, separators=(",", ":"))

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return self  # its values are JSON, and it does not run user code

    def read(self, data: Json, cursor: Cursor) -> object:
        try:
            return valid_or_aligned(self._check, super().read, data, cursor)
        except Ambiguity:
            raise
        except ValidationFailure:
            # strict modes require every property, but a oneOf of "required" counts those that are present
            fewer = without_optional_nulls(self.inner, data, set())
            plain = None if fewer is data else plain_json(fewer, cursor)
            if plain is None or not self._check.is_valid(plain):
                raise
            cursor.record("null for a property that may be left out", data, plain)
            return plain

    def read_text(self, text: str, cursor: Cursor) -> object:
        try:
            plain = plain_json(read_exact(text.strip()), cursor)
        except (JsonSyntaxError, ValidationFailure):
            return super().read_text(text, cursor)
        return plain if self._check.is_valid(plain) else super().read_text(text, cursor)

    def check(self, value: object, cursor: Cursor) -> object:
        problems = self._check.problems(value, cursor)
        if problems:
            raise ValidationFailure(*problems)
        return value


class JsonSchemaParser(TypeParser[Any]):
    """Converts a model's reply to JSON data that is valid under a JSON Schema."""

    def __init__(self, node: SchemaNode, schema: JsonSchema, name: str) -> None:
        super().__init__(Target(Any, alias=name), node)
        self._schema = schema

    @cached_property
    def plain_text(self) -> bool:
        return False  # the user passed a schema, so it is sent even if it describes a string


def schema_parser(schema: Mapping[str, object], *, name: str | None = None) -> TypeParser[Any]:
    """Return a parser that reads replies as JSON data that is valid under a JSON Schema.

    The values are dict, list, str, int, float, bool and None.

    ``$schema`` decides the draft; the default is 2020-12. A valid reply is returned unchanged. Another reply
    is aligned as with a Python type (keys and enum members in another spelling, numbers as text), and the
    result is validated with the package jsonschema. Formats are not enforced, and defaults are not filled in.
    ``name`` defaults to the title of the schema.

    Raises InvalidSchemaError if the schema is invalid, has more than 10,000 parts, or is nested deeper than
    100 levels.
    """
    title = schema.get("title") if isinstance(schema, Mapping) else None
    schema_name = name or (title if isinstance(title, str) else "")
    name = schema_name or "value"
    with _only_our_errors(name):
        plain_schema = plain_document(schema, name)
        check = SchemaCheck(plain_schema, name)
        tree = SchemaTree(plain_schema, check, schema_name)
        return JsonSchemaParser(SchemaNode(tree, check, plain_schema), _inlined(plain_schema, check), name)


def check_schema(schema: Mapping[str, object], name: str) -> None:
    """Raise InvalidSchemaError if a JSON Schema is invalid; the message contains ``name``."""
    with _only_our_errors(name):
        SchemaCheck(plain_document(schema, name), name)


@contextmanager
def _only_our_errors(name: str) -> Generator[None]:
    """Raise InvalidSchemaError for an exception that a malformed JSON Schema causes in another package."""
    try:
        yield
    except InvalidSchemaError:
        raise
    except RecursionError as error:
        raise InvalidSchemaError(name, "#", "it is nested too deeply") from error
    except (ValueError, *USER_CODE_ERRORS) as error:
        reason = shorten(f"{type(error).__name__}: {error}", _MAX_MESSAGE)
        raise InvalidSchemaError(name, "#", f"it cannot be used: {reason}") from error


class NamedSchema(NamedTuple):
    """A JSON Schema with a name and a description, as in a tool definition.

    Attributes:
        name: The name; "" for a JSON Schema without a title.
        description: The description, if there is one.
        schema: The JSON Schema.
        strict: The value of ``"strict"``; None if it is not given.
    """

    name: str
    description: str | None
    schema: Mapping[str, object]
    strict: bool | None = None


_SCHEMA_KEYS = {"parameters": "function", "input_schema": "tool", "schema": "response format"}
_DEFINITION_KEYS = frozenset(("name", "description", "strict", "cache_control", *_SCHEMA_KEYS))
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


def named_schema(definition: Mapping[str, object], *, strict_keywords: bool = False) -> NamedSchema:
    """Extract the JSON Schema from a dict: a plain schema, a tool definition or a response format.

    These dicts are read, with the name and the description of the schema:

    - ``{"name": …, "description": …, "parameters": {…}}``, an OpenAI function. It may have
      ``"type": "function"``, or be under the key ``"function"`` of a dict with this type.
    - ``{"name": …, "description": …, "input_schema": {…}}``, an Anthropic tool.
    - ``{"name": …, "schema": {…}}``, an OpenAI response format. It may have ``"type": "json_schema"``, or
      be under the key ``"json_schema"`` of a dict with this type.
    - Any other dict is a JSON Schema, whose name is its title.

    A misspelt keyword, which JSON Schema ignores, is a warning.

    Raises ValueError for a definition without a name or a schema, and for an empty dict. Raises
    InvalidSchemaError for a misspelt keyword with ``strict_keywords``.
    """
    if not definition:
        raise ValueError("the dict is empty; pass a JSON Schema, or Any for any JSON")
    kind = definition.get("type")
    if not _is_definition(definition, kind):
        title = definition.get("title")
        title = title if isinstance(title, str) else ""
        check_keywords(definition, title or "value", strict=strict_keywords)
        return NamedSchema(title, _description(definition), definition)
    return _defined_schema(definition, kind, strict_keywords=strict_keywords)


def _defined_schema(definition: Mapping[str, object], kind: object, *, strict_keywords: bool) -> NamedSchema:
    """Extract the JSON Schema of a tool definition or a response format."""
    inner = definition.get(kind, definition) if kind in ("function", "json_schema") else definition
    members: Mapping[str, object] = inner if isinstance(inner, Mapping) else {}
    keys = [key for key in _SCHEMA_KEYS if members.get(key) is not None]
    if len(keys) > 1:
        raise ValueError(f"the dict has {' and '.join(map(repr, keys))}; it must have one of them")
    default_key = "schema" if kind == "json_schema" else "parameters"
    key = keys[0] if keys else default_key
    noun, name, strict = _SCHEMA_KEYS[key], members.get("name"), members.get("strict")
    if not isinstance(name, str) or not name:
        raise ValueError(f'a {noun} needs a "name"')
    # OpenAI permits functions without parameters
    schema = members[key] if keys else _NO_PARAMETERS if key == "parameters" else None
    if not isinstance(schema, Mapping):
        raise ValueError(f'the "{key}" of the {noun} {name!r} must be a JSON Schema')
    check_keywords(schema, name, strict=strict_keywords)
    return NamedSchema(name, _description(members), schema, strict if isinstance(strict, bool) else None)


def _is_definition(definition: Mapping[str, object], kind: object) -> bool:
    if isinstance(kind, str) and kind in ("function", "json_schema", "custom"):
        return True
    has_schema = any(isinstance(definition.get(key), Mapping) for key in _SCHEMA_KEYS)
    return (has_schema or isinstance(definition.get("name"), str)) and definition.keys() <= _DEFINITION_KEYS


def _description(schema: Mapping[str, object]) -> str | None:
    description = schema.get("description")
    return description if isinstance(description, str) else None


def _inlined(schema: JsonSchema, check: SchemaCheck) -> JsonSchema:
    """Replace a ``$ref`` at the root of a JSON Schema with the schema that it refers to."""
    inlined = schema if check.has_ids else followed(schema, schema)
    return inlined if isinstance(inlined, dict) else schema


# --- Forbidding undeclared properties ---

_PROPERTY_KEYWORDS = frozenset(
    "properties patternProperties additionalProperties unevaluatedProperties propertyNames".split()
)
_IN_PLACE_KEYWORDS = frozenset(
    "allOf anyOf oneOf not if then else dependencies dependentSchemas $ref $dynamicRef $recursiveRef".split()
)


def close_objects(schema: Mapping[str, object]) -> JsonSchema:
    """Return a copy of a JSON Schema in which objects allow only the properties that they declare.

    Most schemas leave ``additionalProperties`` out. In providers' strict modes, each object without it would
    need a field for further properties. Objects that say anything about other properties are not changed. If
    several parts of the schema declare properties of the same object, nothing is changed. Properties that are
    required and not declared are declared, with any value, because a model cannot give them otherwise.
    """
    # a part that is closed would forbid what the other parts declare
    return dict(schema) if _has_shared_object(schema) else _closed(schema)


def _has_shared_object(part: object) -> bool:
    """Return True if several subschemas declare properties of the same object, as under allOf."""
    if isinstance(part, list):
        return any(map(_has_shared_object, part))
    if not isinstance(part, Mapping):
        return False
    declarations = [bool(part.keys() & _PROPERTY_KEYWORDS), *map(_declares_properties, part.get("allOf", ()))]
    for key in _IN_PLACE_KEYWORDS & part.keys() - {"allOf"}:
        value = list(part[key].values()) if isinstance(part[key], Mapping) and key in MAPS else part[key]
        options = value if isinstance(value, list) else [value]
        declarations.append(isinstance(value, str) or any(map(_declares_properties, options)))
    return sum(declarations) > 1 or any(
        any(map(_has_shared_object, value.values()))
        if key in MAPS and isinstance(value, Mapping)
        else key not in DATA and _has_shared_object(value)
        for key, value in part.items()
    )


def _declares_properties(part: object) -> bool:
    return isinstance(part, Mapping) and bool(part.keys() & (_PROPERTY_KEYWORDS | _IN_PLACE_KEYWORDS))


def _closed(schema: Mapping[str, object]) -> JsonSchema:
    closed: JsonSchema = dict(schema)
    for key, value in schema.items():
        if key in MAPS and isinstance(value, Mapping):
            closed[key] = {name: _closed_part(part) for name, part in value.items()}
        elif key in ("items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf"):
            closed[key] = list(map(_closed_part, value)) if isinstance(value, list) else _closed_part(value)
    if "properties" in closed and closed.keys() & _PROPERTY_KEYWORDS == {"properties"}:
        closed["additionalProperties"] = False
    undeclared = _undeclared(closed)
    if undeclared:
        closed["properties"] = {**closed.get("properties", {}), **undeclared}
    return closed


def _undeclared(schema: JsonSchema) -> JsonSchema:
    """Return schemas that accept any value for the properties that are required and not declared."""
    properties, required = schema.get("properties", {}), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return {}
    if not properties and schema.get("type") != "object":
        return {}
    return {name: {} for name in required if isinstance(name, str) and name not in properties}


def _prepared(part: object, check: SchemaCheck) -> Any:
    """Copy a JSON Schema with the bounds of new drafts, and the default null of properties that accept null.

    Strict modes require every property, so a model writes null for a missing property. With this default,
    the null is kept.
    """
    if isinstance(part, list):
        return [_prepared(item, check) for item in part]
    if not isinstance(part, dict):
        return part
    changed = {
        key: {name: _prepared(item, check) for name, item in value.items()}
        if key in MAPS and isinstance(value, dict)
        else value
        if key in DATA
        else _prepared(value, check)
        for key, value in part.items()
    }
    properties, required = part.get("properties", {}), part.get("required")
    for key, value in properties.items():
        is_required = isinstance(required, list) and key in required
        if not is_required and _needs_null_default(value, check):
            changed["properties"][key]["default"] = None
    return with_numeric_bounds(changed)


def _needs_null_default(part: object, check: SchemaCheck) -> bool:
    if not isinstance(part, dict) or "default" in part or part.keys().isdisjoint(ASSERTIONS):
        return False
    # a copy has no address, to which the references in it may be relative
    return not check.has_ids and check.of(part).is_valid(None)


def _closed_part(part: object) -> object:
    return _closed(part) if isinstance(part, Mapping) else part  # true and false are schemas too
