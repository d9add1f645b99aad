"""Says which keys may come back as null: those of which a schema says that null is their default."""

from __future__ import annotations

from typing import Any

from output_parsers.strict.schema_queries import json_equal


def null_by_default(schema: Any) -> set[str]:
    """The properties of which a schema says that null and being left out are one."""
    if isinstance(schema, list):
        return set().union(*map(null_by_default, schema))
    if not isinstance(schema, dict):
        return set()
    known = schema.get("properties")
    named = known.items() if isinstance(known, dict) else ()
    own = {name for name, part in named if isinstance(part, dict) and part.get("default", 0) is None}
    return own.union(*map(null_by_default, schema.values()))


def same_but_for(names: set[str], back: Any, value: Any) -> bool:
    """Whether two values are one, though these keys may have come back as null where they were left out."""
    if isinstance(back, dict) and isinstance(value, dict):
        more = back.keys() - value.keys()
        same = value.keys() <= back.keys() and all(name in names and back[name] is None for name in more)
        return same and all(same_but_for(names, back[key], value[key]) for key in value)
    if isinstance(back, list) and isinstance(value, list):
        return len(back) == len(value) and all(
            same_but_for(names, one, other) for one, other in zip(back, value, strict=True)
        )
    return json_equal(back, value)
