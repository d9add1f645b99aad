"""Measures an encoded schema by the limits of a profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..node import JsonSchema
from ..profiles import Limits

__all__ = ["exceeded"]


def exceeded(schema: JsonSchema, limits: Limits) -> list[tuple[str, int, int]]:
    """The limits that a schema exceeds: the name of the limit, the limit, and what the schema has."""
    every = list(_schemas(schema))
    has = {
        "depth": _depth(schema, schema.get("$defs", {}), frozenset()) if limits.depth is not None else 0,
        "properties": sum(len(part.get("properties", {})) for part in every),
        "enum_values": sum(len(part.get("enum", ())) for part in every),
        "text": sum(map(_text, every)) + sum(map(len, schema.get("$defs", {}))),
        "optional": sum(_optional(part) for part in every),
        "unions": sum("anyOf" in part for part in every),
    }
    allowed = limits._asdict()
    return [
        (name, allowed[name], count)
        for name, count in has.items()
        if allowed[name] is not None and count > allowed[name]
    ]


def _schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(_below(part))
        waiting.extend(part.get("$defs", {}).values())


def _below(schema: JsonSchema) -> list[JsonSchema]:
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return below


def _depth(schema: JsonSchema, definitions: dict[str, JsonSchema], open_: frozenset[str]) -> int:
    """How many objects stand inside of one another; what refers to itself counts once."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return 0 if name in open_ else _depth(definitions[name], definitions, open_ | {name})
    below = max((_depth(part, definitions, open_) for part in _below(schema)), default=0)
    return below + (schema.get("type") == "object")


def _text(schema: JsonSchema) -> int:
    values: list[Any] = [*schema.get("properties", {}), *schema.get("enum", ()), schema.get("const")]
    return sum(len(value) for value in values if isinstance(value, str))


def _optional(schema: JsonSchema) -> int:
    return len(set(schema.get("properties", {})) - set(schema.get("required", ())))
