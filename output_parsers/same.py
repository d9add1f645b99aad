"""Whether two values are one: equal, and of the same types all the way down."""

from __future__ import annotations

from typing import Any

__all__ = ["same"]


def same(one: Any, other: Any) -> bool:
    """Stricter than ``==``, which holds True and 1 for equal, inside of lists and records too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (set, frozenset)):
        return {(type(item), item) for item in one} == {(type(item), item) for item in other}
    parts = getattr(one, "__dict__", None)
    if parts:
        return bool(one == other) and same(parts, other.__dict__)
    return bool(one == other)
