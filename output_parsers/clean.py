"""The clean path: exact JSON goes straight through pydantic-core, for the types on which that is exact.

pydantic's own reading is not exact everywhere: it puts decimals through a double, takes NaN and 1e400,
and lets the last of two equal keys win. So it is used in strict mode, only for types all of whose parts
are exact, with floats that must be finite, and only when the text has just as many keys as the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ForwardRef, Literal, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, ValidationError

from .errors import REFUSALS
from .late_pattern import late
from .node import Node, walk

__all__ = ["NOT_CLEAN", "clean_reader"]

NOT_CLEAN: Any = object()
_BEGINNINGS = frozenset('{["-0123456789tfn \n\r\t')
_KEY = late(r'"[ \t\r\n]*:')


def clean_reader(form: Any, node: Node[Any], *, field: str | None = None) -> Callable[[str], Any] | None:
    """A function that reads exact JSON, and gives NOT_CLEAN for all else; None when there can be none.

    ``field`` says that the value stands in an object under this one key.
    """
    if not all(part.exact for part in walk(node)) or _names_types(form):
        return None
    try:
        schema: Any = _finite(TypeAdapter(form).core_schema)
        if field is not None:
            fields = {field: {"type": "typed-dict-field", "schema": schema, "required": True}}
            schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        validate = SchemaValidator(schema).validate_json
    except (SchemaError, PydanticUserError, NameError, TypeError, AttributeError):
        return None  # a form of pydantic's schema that is not known here
    count = node.count_keys

    def read(text: str) -> Any:
        if text[:1] not in _BEGINNINGS:  # a fence or prose: an error of pydantic's costs more than this look
            return NOT_CLEAN
        try:
            value = validate(text, strict=True)
        except (ValidationError, *REFUSALS):
            return NOT_CLEAN
        keys = 0
        if field is not None:
            value, keys = value[field], 1
        keys += count(value)
        if text.count(":") == keys or len(_KEY.findall(text)) == keys:
            return value
        return NOT_CLEAN

    return read


def _names_types(form: Any) -> bool:
    """Whether a type is given by its name, for which pydantic would look in the wrong place."""
    if get_origin(form) is Literal:
        return False
    if get_origin(form) is Annotated:
        return _names_types(get_args(form)[0])
    return isinstance(form, (str, ForwardRef)) or any(map(_names_types, get_args(form)))


def _finite(schema: Any) -> CoreSchema | Any:
    """A copy of a core schema in which floats must be finite."""
    if isinstance(schema, dict):
        copy = {key: _finite(value) for key, value in schema.items()}
        if copy.get("type") == "float":
            copy["allow_inf_nan"] = False
        return copy
    if isinstance(schema, list):
        return [_finite(item) for item in schema]
    return tuple(map(_finite, schema)) if type(schema) is tuple else schema
