"""The ids of conversations: which types they may have, and how they are stored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, get_origin, get_type_hints
from uuid import UUID

from output_parsers.types.target import Target, type_name

from ..models.errors import MemoryIdError

_PLAIN = (str, int, UUID)
_MAX_LENGTH = 256  # characters
_EXPECTED = "a str, an int, a UUID, or a frozen record of them"


def memory_id_type_problem(kind: Any) -> str | None:
    """Return an error message if values of a class cannot be memory ids, else None.

    The message continues a sentence that begins with "it is a memory id, and".
    """
    cls = get_origin(kind) or kind
    if not isinstance(cls, type) or _is_plain(cls) or cls is NoneType:
        return None
    fields = _fields_of(cls)
    if fields is None:
        return f"{type_name(cls)} cannot be one; use {_EXPECTED}"
    if not _is_frozen(cls):
        return f"{cls.__name__} is not frozen, so an id could change; make it frozen, or use a NamedTuple"
    if not fields:
        return f"{cls.__name__} has no fields, so it does not name a conversation"
    if getattr(cls, "model_config", {}).get("extra") == "allow":
        return f"{cls.__name__} allows extra fields, which are not part of an id; forbid them"
    for name, hint in fields.items():
        target = Target.of(hint)
        if not (isinstance(target.type, type) and _is_plain(target.type)):
            return f"{cls.__name__}.{name} is {type_name(target.type)}; use str, int and UUID"
    return None


def memory_id_problem(memory_id: object) -> str | None:
    """Return an error message if a value does not name a conversation, else None.

    The message continues a sentence that begins with "the memory id".
    """
    values: Mapping[str, object] = {"": memory_id}
    if not _is_plain(type(memory_id)):
        fields = _values_of(memory_id)
        if not fields:
            kind = "None" if memory_id is None else type(memory_id).__name__
            return f"is {kind}; it must be {_EXPECTED}"
        values = fields
    for name, value in values.items():
        place = f" has the field {name}, which" if name else ""
        if not _is_plain(type(value)):
            kind = "None" if value is None else type(value).__name__
            return f"{place} is {kind}; it must be a str, an int or a UUID".lstrip()
        if not str(value).strip():
            advice = "pass the id of a conversation, because all users with an empty id would share one"
            return f"{place} is {value!r}; {advice}".lstrip()
    size = len(memory_id_text(memory_id))
    if size > _MAX_LENGTH:
        return f"has {size} characters; it may have at most {_MAX_LENGTH}"
    return None


def memory_id_text(memory_id: object) -> str:
    """Return the text under which the conversation with a memory id is stored.

    It is the text of a str, an int or a UUID, and the canonical JSON of a record. A str that begins like the
    JSON text of one is stored as JSON, too. Other values become their text.
    """
    if not isinstance(memory_id, str):
        data = memory_id_data(memory_id)
        return _to_json(data) if isinstance(data, dict) else str(data)
    text = str(memory_id)
    return _to_json(text) if text.startswith(("{", '"')) else text


def memory_id_data(memory_id: object) -> Any:
    """Convert a memory id to JSON data: a UUID to a text, a record to a dict. Other values are unchanged."""
    if isinstance(memory_id, UUID):
        return str(memory_id)
    fields = None if _is_plain(type(memory_id)) else _values_of(memory_id)
    if not fields:
        return memory_id
    return {name: str(value) if isinstance(value, UUID) else value for name, value in fields.items()}


def memory_id_from_data(data: object, hint: object) -> Any:
    """Convert JSON data to a memory id of a type. Raises MemoryIdError if it is none."""
    classes = list(_classes(hint))
    if isinstance(data, str) and UUID in classes and not any(issubclass(cls, str) for cls in classes):
        return UUID(data)
    if not isinstance(data, dict):
        return data
    for cls in classes:
        fields = _fields_of(cls)
        if fields is not None and fields.keys() == data.keys():
            values = {name: memory_id_from_data(data[name], one) for name, one in fields.items()}
            return _record(cls, values)
    raise MemoryIdError(f"the fields {', '.join(map(str, data))} are not those of a memory id of the method")


def _to_json(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _is_plain(cls: type) -> bool:
    return issubclass(cls, _PLAIN) and cls is not bool


def _classes(hint: object) -> Iterator[type]:
    target = Target.of(hint)
    if isinstance(target.type, type):
        yield target.type
    for arg in target.args:
        yield from _classes(arg)


def _fields_of(cls: type) -> dict[str, Any] | None:
    """Return the fields of a record class with their types; None for other classes."""
    names = _field_names(cls)
    if names is None:
        return None
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:  # a string annotation may name anything, for example a local of a function
        hints = {}
    return {name: hints.get(name, Any) for name in names}


def _field_names(cls: Any) -> list[str] | None:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return list(cls._fields)
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    names = getattr(cls, "model_fields", None) or getattr(cls, "__struct_fields__", None)
    return None if names is None else list(names)  # of pydantic and msgspec


def _is_frozen(cls: Any) -> bool:
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None:
        return bool(params.frozen)
    if issubclass(cls, tuple):
        return True
    if hasattr(cls, "__attrs_attrs__"):
        return bool(cls.__setattr__.__name__ == "_frozen_setattrs")
    config = getattr(cls, "__struct_config__", None)
    if config is not None:
        return bool(config.frozen)
    return bool(cls.model_config.get("frozen"))


def _values_of(record: object) -> dict[str, object] | None:
    names = _field_names(type(record))
    return None if names is None else {name: getattr(record, name) for name in names}


def _record(cls: Any, values: dict[str, Any]) -> Any:
    """Create an object of a record class from the values of its fields."""
    if hasattr(cls, "model_construct"):
        return cls.model_construct(**values)  # by the names of the fields, which may have aliases
    aliases = {one.name: one.alias for one in getattr(cls, "__attrs_attrs__", ())}
    try:
        return cls(**{aliases.get(name, name): value for name, value in values.items()})
    except Exception as error:  # __init__ and __post_init__ may raise anything
        raise MemoryIdError(f"{cls.__name__} cannot be made from {', '.join(values)}: {error}") from error
