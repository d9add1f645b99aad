"""The schema of a tool's arguments: closed where a server did not say whether it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["closed"]

# What may bring further properties with it, so that an object beside it cannot be closed.
_OPENING = frozenset(
    "additionalProperties unevaluatedProperties patternProperties propertyNames anyOf oneOf not if "
    "dependentSchemas $ref $dynamicRef".split()
)
_OF_SCHEMAS = ("properties", "$defs", "definitions")


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in which objects with known properties have no others.

    Servers seldom say so, and strict modes would have the model write a list of further properties.
    """
    return dict(schema) if _combines(schema) else _closed(schema)


def _combines(schema: Any) -> bool:
    """Whether anything in a schema is put together of others, each of which sees properties of all."""
    if isinstance(schema, Mapping):
        return "allOf" in schema or any(map(_combines, schema.values()))
    return isinstance(schema, list) and any(map(_combines, schema))


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    inside = dict(schema)
    for key in _OF_SCHEMAS:
        if isinstance(inside.get(key), Mapping):
            inside[key] = {name: _part(part) for name, part in inside[key].items()}
    if "items" in inside:
        inside["items"] = _part(inside["items"])
    if isinstance(inside.get("anyOf"), list):
        inside["anyOf"] = [_part(part) for part in inside["anyOf"]]
    if inside.get("type") == "object" and "properties" in inside and not inside.keys() & _OPENING:
        inside["additionalProperties"] = False
    return inside


def _part(schema: Any) -> Any:
    return _closed(schema) if isinstance(schema, Mapping) else schema
