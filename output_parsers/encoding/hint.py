"""The form of an encoded schema in few words, in the manner of TypeScript."""

from __future__ import annotations

import json
from typing import Any

from ..node import JsonSchema

__all__ = ["hint_of"]

_ANY = "any JSON"


def hint_of(schema: JsonSchema) -> str:
    """A short description of a schema for a prompt; what refers to itself goes by its name."""
    return _hint(schema, schema.get("$defs", {}), frozenset())


def _hint(schema: Any, definitions: dict[str, JsonSchema], within: frozenset[str]) -> str:
    if not isinstance(schema, dict) or not schema:
        return _ANY
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if name in within else _hint(definitions[name], definitions, within | {name})
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_hint(option, definitions, within) for option in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if schema.get("type") == "object":
        return _object_hint(schema, definitions, within)
    if schema.get("type") == "array":
        first = [_hint(item, definitions, within) for item in schema.get("prefixItems", ())]
        rest = schema.get("items", True)
        more = [] if rest is False else [_hint(rest, definitions, within), "..."]
        return f"[{', '.join([*first, *more])}]"
    return str(schema.get("type", _ANY))


def _object_hint(schema: JsonSchema, definitions: dict[str, JsonSchema], within: frozenset[str]) -> str:
    required = schema.get("required", ())
    parts = [
        f'"{key}"{"" if key in required else "?"}: {_hint(below, definitions, within)}'
        for key, below in schema.get("properties", {}).items()
    ]
    rest = schema.get("additionalProperties", False)
    if rest is not False:
        parts.append(f"string: {_hint(rest, definitions, within)}, ...")
    return "{" + ", ".join(parts) + "}"
