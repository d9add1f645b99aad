"""Check JSON Schemas against OpenAI's guide "Structured model outputs".

The check does not use the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
BY_TYPE = {
    "string": {"pattern", "format"},
    "number": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "integer": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
    "boolean": set(),
    "null": set(),
}
ANYWHERE = {"type", "enum", "const", "description", "title", "$defs"}


def problems_of(schema: Any) -> list[str]:
    """Return the problems of a JSON Schema in strict mode, with the path of each problem.

    The result is empty if strict mode accepts the schema.
    """
    problems = list(_problems(schema, "#"))
    if not isinstance(schema, dict):
        return problems
    if schema.get("type") != "object":
        problems.append("#: the root is not an object")
    if "anyOf" in schema:
        problems.append("#: the root is an anyOf")
    definitions = schema.get("$defs", {})
    problems += [
        f"#: {reference} leads nowhere"
        for reference in _references(schema)
        if _name(reference) not in definitions
    ]
    return problems + _exceeded_limits(schema)


def _problems(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, dict) or not schema:
        yield f"{path}: it is {schema!r}"
        return
    for name, part in schema.get("$defs", {}).items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            yield f"{path}: the name {name!r} has characters that providers reject"
        yield from _problems(part, f"{path}/$defs/{name}")
    if "$defs" in schema and path != "#":
        yield f"{path}: $defs is not at the root"
    if "$ref" in schema:
        if set(schema) != {"$ref"}:
            yield f"{path}: a $ref has keywords beside it"
    elif "anyOf" in schema:
        if unknown := set(schema) - {"anyOf", "description", "title", "$defs"}:
            yield f"{path}: beside anyOf: {sorted(unknown)}"
        for index, option in enumerate(schema["anyOf"]):
            yield from _problems(option, f"{path}/anyOf/{index}")
    else:
        yield from _typed_problems(schema, path)


def _typed_problems(schema: dict[str, Any], path: str) -> Iterator[str]:
    kind = schema.get("type")
    if kind not in TYPES:
        yield f"{path}: its type is {kind!r}"
        return
    if unknown := set(schema) - ANYWHERE - BY_TYPE[kind]:
        yield f"{path}: a {kind} with {sorted(unknown)}"
    if "format" in schema and schema["format"] not in FORMATS:
        yield f"{path}: the format {schema['format']!r}"
    if kind == "array":
        if "items" not in schema:
            yield f"{path}: an array without items"
        else:
            yield from _problems(schema["items"], f"{path}/items")
    if kind == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            yield f"{path}: additionalProperties is {schema.get('additionalProperties')!r}"
        if sorted(schema.get("required", [])) != sorted(properties):
            yield f"{path}: not all properties are required"
        for key, part in properties.items():
            yield from _problems(part, f"{path}/properties/{key}")
    if any(isinstance(value, (dict, list)) for value in schema.get("enum", [])):
        yield f"{path}: an enum of objects or arrays"


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    below = [
        *schema.get("properties", {}).values(),
        *schema.get("anyOf", []),
        *schema.get("$defs", {}).values(),
    ]
    for part in [*below, *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]:
        yield from _parts(part)


def _references(schema: dict[str, Any]) -> list[str]:
    return [part["$ref"] for part in _parts(schema) if "$ref" in part]


def _name(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _exceeded_limits(schema: dict[str, Any]) -> list[str]:
    """Check the published limits on properties, levels, enum values and characters."""
    parts = list(_parts(schema))
    enums = [part["enum"] for part in parts if "enum" in part]
    texts = [key for part in parts for key in part.get("properties", {})]
    texts += [value for enum in enums for value in enum if isinstance(value, str)]
    problems = []
    if (count := sum(len(part.get("properties", {})) for part in parts)) > 5000:
        problems.append(f"#: {count} properties")
    if (count := sum(map(len, enums))) > 1000:
        problems.append(f"#: {count} enum values")
    if (count := sum(map(len, [*texts, *schema.get("$defs", {})]))) > 120_000:
        problems.append(f"#: {count} characters")
    for enum in enums:
        length = sum(len(value) for value in enum if isinstance(value, str))
        if len(enum) > 250 and length > 15_000:
            problems.append(f"#: an enum of {length} characters")
    if (count := _levels(schema, schema.get("$defs", {}), ())) > 10:
        problems.append(f"#: {count} levels of objects")
    return problems


def _levels(schema: dict[str, Any], definitions: dict[str, Any], entered: tuple[str, ...]) -> int:
    if "$ref" in schema:
        name = _name(schema["$ref"])
        return 0 if name in entered else _levels(definitions[name], definitions, (*entered, name))
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    below += [schema["items"]] if isinstance(schema.get("items"), dict) else []
    own = 1 if schema.get("type") == "object" else 0
    return own + max((_levels(part, definitions, entered) for part in below), default=0)
