"""Writes a value into a prompt as a reader would write it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any

from pydantic import BaseModel

__all__ = ["render_value"]

_LISTS = (list, tuple, set, frozenset)


def render_value(value: Any) -> str:
    """One rule for all values that a template shows.

    Text as it is; None as ``none``; booleans as ``true`` and ``false``; numbers in their shortest exact
    form; dates and times in ISO 8601; an enum member by its value when that is text, else by its name;
    lists, tuples and sets of such values with commas between them (sets in sorted order); records, dicts,
    and lists that hold any of these, as JSON; all else by ``str``. Inside JSON, numbers, booleans and null
    are JSON's own, and what JSON has no form for is the text that it is outside.
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
    if isinstance(value, _LISTS):
        return _listed(value)
    return str(value)


def _is_record(value: Any) -> bool:
    return not isinstance(value, type) and _fields(value) is not None


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What a record or mapping holds, by name; None for all else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump()
    if hasattr(value, "_asdict"):
        fields: Mapping[str, Any] = value._asdict()
        return fields
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "__attrs_attrs__"):
        names = [attribute.name for attribute in value.__attrs_attrs__]
    elif hasattr(type(value), "__struct_fields__"):  # msgspec
        names = list(value.__struct_fields__)
    else:
        return None
    return {name: getattr(value, name) for name in names}


def _listed(values: Iterable[Any]) -> str:
    items = list(values)
    if any(_is_record(item) or isinstance(item, _LISTS) for item in items):
        return _as_json(items)
    shown = [render_value(item) for item in items]
    return ", ".join(sorted(shown) if isinstance(values, (set, frozenset)) else shown)


def _as_json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON holds it; what JSON has no form for is the text that it is outside of JSON."""
    if value is None or (isinstance(value, (str, bool, int, float)) and not isinstance(value, Enum)):
        return value
    fields = None if isinstance(value, type) else _fields(value)
    if fields is not None:
        return {render_value(name): _plain(part) for name, part in fields.items()}
    if isinstance(value, _LISTS):
        return [_plain(item) for item in value]
    return render_value(value)
