"""What OpenAI's guide "Structured model outputs" forbids in a strict schema, checked from the guide alone."""

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


def faults(schema: Any) -> list[str]:
    """What is wrong with a schema, each with its place; empty when strict mode takes it."""
    found = list(_faults(schema, "#"))
    if not isinstance(schema, dict):
        return found
    if schema.get("type") != "object":
        found.append("#: the root is no object")
    if "anyOf" in schema:
        found.append("#: the root is an anyOf")
    definitions = schema.get("$defs", {})
    found += [
        f"#: {reference} leads nowhere"
        for reference in _references(schema)
        if _name(reference) not in definitions
    ]
    return found + _too_much(schema)


def _faults(schema: Any, at: str) -> Iterator[str]:
    if not isinstance(schema, dict) or not schema:
        yield f"{at}: it is {schema!r}"
        return
    for name, part in schema.get("$defs", {}).items():
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            yield f"{at}: the name {name!r} holds what providers do not take"
        yield from _faults(part, f"{at}/$defs/{name}")
    if "$defs" in schema and at != "#":
        yield f"{at}: $defs are not at the root"
    if "$ref" in schema:
        if set(schema) != {"$ref"}:
            yield f"{at}: a $ref has neighbours"
    elif "anyOf" in schema:
        if unknown := set(schema) - {"anyOf", "description", "title", "$defs"}:
            yield f"{at}: beside anyOf stand {sorted(unknown)}"
        for index, option in enumerate(schema["anyOf"]):
            yield from _faults(option, f"{at}/anyOf/{index}")
    else:
        yield from _typed_faults(schema, at)


def _typed_faults(schema: dict[str, Any], at: str) -> Iterator[str]:
    kind = schema.get("type")
    if kind not in TYPES:
        yield f"{at}: its type is {kind!r}"
        return
    if unknown := set(schema) - ANYWHERE - BY_TYPE[kind]:
        yield f"{at}: a {kind} with {sorted(unknown)}"
    if "format" in schema and schema["format"] not in FORMATS:
        yield f"{at}: the format {schema['format']!r}"
    if kind == "array":
        if "items" not in schema:
            yield f"{at}: an array without items"
        else:
            yield from _faults(schema["items"], f"{at}/items")
    if kind == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            yield f"{at}: additionalProperties is {schema.get('additionalProperties')!r}"
        if sorted(schema.get("required", [])) != sorted(properties):
            yield f"{at}: not all properties are required"
        for key, part in properties.items():
            yield from _faults(part, f"{at}/properties/{key}")
    if any(isinstance(value, (dict, list)) for value in schema.get("enum", [])):
        yield f"{at}: an enum of objects or arrays"


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


def _too_much(schema: dict[str, Any]) -> list[str]:
    """5000 properties, 10 levels, 1000 enum values, 120000 characters of names, 15000 in an enum of 250."""
    parts = list(_parts(schema))
    enums = [part["enum"] for part in parts if "enum" in part]
    texts = [key for part in parts for key in part.get("properties", {})]
    texts += [value for enum in enums for value in enum if isinstance(value, str)]
    found = []
    if (count := sum(len(part.get("properties", {})) for part in parts)) > 5000:
        found.append(f"#: {count} properties")
    if (count := sum(map(len, enums))) > 1000:
        found.append(f"#: {count} enum values")
    if (count := sum(map(len, [*texts, *schema.get("$defs", {})]))) > 120_000:
        found.append(f"#: {count} characters")
    for enum in enums:
        length = sum(len(value) for value in enum if isinstance(value, str))
        if len(enum) > 250 and length > 15_000:
            found.append(f"#: an enum of {length} characters")
    if (count := _levels(schema, schema.get("$defs", {}), ())) > 10:
        found.append(f"#: {count} levels of objects")
    return found


def _levels(schema: dict[str, Any], definitions: dict[str, Any], within: tuple[str, ...]) -> int:
    if "$ref" in schema:
        name = _name(schema["$ref"])
        return 0 if name in within else _levels(definitions[name], definitions, (*within, name))
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    below += [schema["items"]] if isinstance(schema.get("items"), dict) else []
    own = 1 if schema.get("type") == "object" else 0
    return own + max((_levels(part, definitions, within) for part in below), default=0)
