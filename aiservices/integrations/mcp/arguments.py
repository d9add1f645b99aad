"""Convert the schema of a tool's arguments, as MCP servers write it, to one that all providers accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic_core import to_json

from output_parsers.json_schema.document import DATA, MAPS, followed
from output_parsers.json_schema.parser import close_objects
from output_parsers.result.reading import Json
from output_parsers.types.node import JsonSchema

if TYPE_CHECKING:
    from mcp_types import Tool as ServerTool

# The key in _meta under which the client keeps a schema that the package mcp would not accept.
ORIGINAL_SCHEMA = "aiservices/original-schema"
_MAX_SCHEMA = 1_000_000  # bytes
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_MAX_OPTIONS = 100  # in one anyOf; limits the expansion of nested references
_MAX_COMBINED = 1  # levels of nested alternatives
# Providers refuse these at the root. The server checks the arguments anyway.
_CONDITIONS = frozenset(
    (*_COMBINATIONS, "not", "if", "then", "else", "enum", "const", "additionalProperties")
)


def arguments_schema(tool: ServerTool) -> JsonSchema:
    """Return the schema of a tool's arguments as an object that declares all of its properties.

    Raises ValueError if the arguments are not an object, or the tool cannot be called in this way.
    """
    schema: object = tool.input_schema
    if tool.meta and ORIGINAL_SCHEMA in tool.meta:
        schema = tool.meta[ORIGINAL_SCHEMA]
    if not isinstance(schema, Mapping):
        raise ValueError("it has no name, or no schema of its arguments")
    if len(to_json(schema)) > _MAX_SCHEMA:
        raise ValueError(f"the schema of its arguments has more than {_MAX_SCHEMA:,} bytes")
    if tool.execution is not None and tool.execution.task_support == "required":
        raise ValueError("it must be called as a task, which McpTools does not do")
    try:
        whole = _cleaned(schema)
        root = _resolved(whole, whole)
        kinds = root.get("type", "object")
        if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
            raise ValueError(f"its arguments are of the type {kinds}, not an object")
        if any(key in root for key in _COMBINATIONS):
            root = _combined(root, whole)
        definitions = {key: whole[key] for key in ("$defs", "definitions") if key in whole}
        # OpenAI's API refuses an object without properties.
        return {"properties": {}, **close_objects({**definitions, **root, "type": "object"})}
    except RecursionError as error:
        raise ValueError("the schema of its arguments is nested too deeply") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("the schema of its arguments is not a valid JSON Schema") from error


def _cleaned(part: Json) -> Json:
    """Copy a schema without null for keywords and with types in lower case, as JSON Schema writes them."""
    if isinstance(part, list):
        return [_cleaned(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    members = {key: _cleaned_member(key, value) for key, value in part.items()}
    cleaned = {key: value for key, value in members.items() if value is not None or key in DATA}
    if isinstance(cleaned.get("items"), list):  # a tuple of draft 7, for example of zod
        cleaned["prefixItems"] = cleaned.pop("items")
        if "additionalItems" in cleaned:
            cleaned["items"] = cleaned.pop("additionalItems")
    return cleaned


def _cleaned_member(key: str, value: Json) -> object:
    if key in DATA:
        return value
    if key == "required" and not isinstance(value, list):
        return None
    if key in MAPS and isinstance(value, Mapping):
        return {name: {} if item is None else _cleaned(item) for name, item in value.items()}
    if key == "type":
        kinds = [kind.lower() for kind in ([value] if isinstance(value, str) else value or ())]
        return kinds[0] if len(kinds) == 1 else kinds or None
    return _cleaned(value)


def _resolved(part: object, root: JsonSchema) -> JsonSchema:
    """Replace a local reference with the schema that it refers to."""
    schema = followed(root, part)
    return (
        {key: value for key, value in schema.items() if key != "$ref"} if isinstance(schema, Mapping) else {}
    )


def _combined(schema: JsonSchema, root: JsonSchema, depth: int = 0) -> JsonSchema:
    """Return one object with the properties of all alternatives; those required by each are required."""
    properties: dict[str, object] = dict(schema.get("properties", {}))
    required = set(schema.get("required", ()))
    for key in _COMBINATIONS:
        options = [_resolved(part, root) for part in schema.get(key, ())]
        if len(options) > _MAX_OPTIONS:
            raise ValueError(f"its arguments have more than {_MAX_OPTIONS} alternatives")
        if depth < _MAX_COMBINED:
            options = [_combined(one, root, depth + 1) for one in options]
        for name, value in [pair for one in options for pair in one.get("properties", {}).items()]:
            properties[name] = _either(properties.get(name, value), value)
        demands = [set(one.get("required", ())) for one in options] or [set()]
        required |= set.union(*demands) if key == "allOf" else set.intersection(*demands)
    other_keys = {key: value for key, value in schema.items() if key not in _CONDITIONS}
    return {**other_keys, "properties": properties, "required": sorted(required)}


def _either(first: object, second: object) -> object:
    if first == second:
        return first
    options = first["anyOf"] if isinstance(first, dict) and [*first] == ["anyOf"] else [first]
    return {"anyOf": options if second in options else [*options, second]}
