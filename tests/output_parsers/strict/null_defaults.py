"""Find the properties of a JSON Schema whose default is null.

Such a property may be decoded as null although it was left out.
"""

from __future__ import annotations

from typing import Any

from output_parsers.strict.schema_queries import json_equal


def null_by_default(schema: Any) -> set[str]:
    """Return the properties of a JSON Schema whose default is null."""
    if isinstance(schema, list):
        return set().union(*map(null_by_default, schema))
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties")
    items = properties.items() if isinstance(properties, dict) else ()
    own = {name for name, part in items if isinstance(part, dict) and part.get("default", 0) is None}
    return own.union(*map(null_by_default, schema.values()))


def equal_except_nulls(names: set[str], decoded: Any, value: Any) -> bool:
    """Return True if two values are equal except for properties that may be null instead of missing."""
    if isinstance(decoded, dict) and isinstance(value, dict):
        more = decoded.keys() - value.keys()
        same = value.keys() <= decoded.keys() and all(
            name in names and decoded[name] is None for name in more
        )
        return same and all(equal_except_nulls(names, decoded[key], value[key]) for key in value)
    if isinstance(decoded, list) and isinstance(value, list):
        return len(decoded) == len(value) and all(
            equal_except_nulls(names, one, other) for one, other in zip(decoded, value, strict=True)
        )
    return json_equal(decoded, value)
