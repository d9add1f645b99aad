"""The kinds of JSON values, and when two values are one."""

from __future__ import annotations

from decimal import Decimal

from ..reading import Json

__all__ = ["KINDS", "kind_of", "same_json"]

# An integer is a number that a schema may ask for by its own name.
KINDS = ("null", "boolean", "number", "string", "array", "object")


def kind_of(value: Json) -> str:
    """The kind of a JSON value. Raises TypeError for what is none."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    raise TypeError(f"no JSON value: {type(value).__name__}")


def same_json(one: Json, other: Json) -> bool:
    """Whether two JSON values are one; true is not 1, as it is in Python."""
    if kind_of(one) != kind_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    return bool(one == other)
