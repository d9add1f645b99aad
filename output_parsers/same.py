"""Whether two values are one: equal, and of the same types all the way down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["difference", "same"]

_NOTHING = object()


def same(one: Any, other: Any) -> bool:
    """Stricter than ``==``, which holds True and 1 for equal, inside of lists and records too.

    Records are compared by their fields, whatever their classes say of equality; so are other objects whose
    classes say nothing of it, by their attributes.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return _same_members(one, other) and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (set, frozenset)):
        return _same_members(dict.fromkeys(one), dict.fromkeys(other))
    names = _names(type(one))
    if names is None:
        if any("__eq__" in vars(cls) for cls in type(one).__mro__[:-1]):  # all but object
            return bool(one == other) or bool(one != one and other != other)  # NaN equals nothing
        return hasattr(one, "__dict__") and same(one.__dict__, other.__dict__)
    more = getattr(one, "__pydantic_extra__", None), getattr(other, "__pydantic_extra__", None)
    return same(*more) and all(
        same(getattr(one, name, _NOTHING), getattr(other, name, _NOTHING)) for name in names
    )


def difference(one: Any, other: Any, path: str = "$") -> tuple[str, Any, Any]:
    """The path of the first part in which two values of one form are not the same, and both parts."""
    for step, part, counterpart in _parts(one, other):
        if not same(part, counterpart):
            return difference(part, counterpart, path + step)
    return path, one, other


def _parts(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    if type(one) is not type(other):
        return []
    if isinstance(one, (list, tuple)) and len(one) == len(other):
        return [(f"[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    if isinstance(one, dict) and one.keys() == other.keys():
        return [(f"[{key!r}]", value, other[key]) for key, value in one.items()]
    names = _names(type(one)) or ()
    return [(f".{name}", getattr(one, name, _NOTHING), getattr(other, name, _NOTHING)) for name in names]


def _same_members(one: Mapping[Any, None], other: Mapping[Any, None]) -> bool:
    """Whether two sets, or the keys of two dicts, hold the same."""
    if one.keys() != other.keys():
        return False
    known = {key: key for key in other}
    return all(same(key, known[key]) for key in one)


def _names(cls: Any) -> Sequence[str] | None:
    """The fields of a record class; None for all others."""
    for attribute in ("__pydantic_fields__", "__dataclass_fields__", "__struct_fields__"):
        names = getattr(cls, attribute, None)
        if names is not None:
            return tuple(names)
    known = getattr(cls, "__attrs_attrs__", None)
    return None if known is None else [field.name for field in known]
