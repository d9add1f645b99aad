"""Writes a value into a prompt as a reader would write it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

__all__ = ["render_value"]


def render_value(value: Any) -> str:
    """One rule for all values that a template shows.

    Text as it is; None as ``none``; booleans as ``true`` and ``false``; numbers in their shortest exact
    form; dates and times in ISO 8601; an enum member by its value when that is text, else by its name;
    lists, tuples and sets of such values with commas between them (sets in sorted order); records, dicts,
    and lists that hold any of these, as JSON; all else by ``str``.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if _is_record(value):
        return _as_json(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return _listed(value)
    return str(value)


def _is_record(value: Any) -> bool:
    if isinstance(value, (Mapping, BaseModel)) or hasattr(value, "_asdict"):
        return True
    if isinstance(value, type):
        return False
    return dataclasses.is_dataclass(value) or hasattr(value, "__attrs_attrs__") or _is_struct(value)


def _is_struct(value: Any) -> bool:
    return hasattr(type(value), "__struct_fields__")


def _listed(values: Iterable[Any]) -> str:
    items = list(values)
    if any(_is_record(item) or isinstance(item, (list, tuple, set, frozenset)) for item in items):
        return _as_json(items)
    shown = [render_value(item) for item in items]
    return ", ".join(sorted(shown) if isinstance(values, (set, frozenset)) else shown)


def _as_json(value: Any) -> str:
    return json.dumps(to_jsonable_python(value, fallback=_fields), ensure_ascii=False)


def _fields(value: Any) -> Any:
    if hasattr(value, "__attrs_attrs__"):
        return {attribute.name: getattr(value, attribute.name) for attribute in value.__attrs_attrs__}
    if _is_struct(value):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return str(value)
