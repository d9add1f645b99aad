"""The fast path: read exact JSON with pydantic-core alone, for types where that gives the same value.

pydantic on its own is not exact. It rounds decimals to doubles, accepts NaN and 1e400, and lets the last of
two equal keys win. So it is used in strict mode, only for types all of whose parts are ``exact``, with finite
floats, and its value counts only if the text has as many keys as the value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ForwardRef, Literal, NamedTuple, TypeAlias, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import CoreConfig, SchemaError, SchemaValidator, ValidationError

from ..result.errors import USER_CODE_ERRORS
from ..result.lazy_regex import lazy_regex
from ..types.containers import ListNode
from ..types.core_schema import core_schema_of, has_plain_dataclass
from ..types.node import Node, walk
from ..types.records import ObjectNode
from ..types.scalars import FloatNode

NOT_EXACT: Any = object()  # returned for a text that the fast path cannot read
_FIRST_CHARACTERS = frozenset('{["-0123456789tfn \n\r\t')
_Reader: TypeAlias = Callable[[str], Any]
_KEY_END = lazy_regex(r'"[ \t\r\n]*:')


def compile_fast_reader(output_type: Any, node: Node[Any], *, field: str | None = None) -> _Reader | None:
    """Return a function that reads exact JSON and returns NOT_EXACT for any other text.

    ``field`` is the key of the envelope around the value, if it has one. Return None if the type has no such
    function.
    """
    parts = list(walk(node))
    if not all(part.exact for part in parts):
        return None
    try:
        if has_plain_dataclass(node):
            schema: Any = core_schema_of(node)
        elif _contains_type_name(output_type):
            return None
        else:
            schema = TypeAdapter(output_type).core_schema
        if field is not None:
            fields = {field: {"type": "typed-dict-field", "schema": schema, "required": True}}
            schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        has_floats = any(isinstance(part, FloatNode) for part in parts)
        validate = _compile_validator(_strict_schema(schema), has_floats=has_floats)
    except (SchemaError, PydanticUserError, NameError, TypeError, AttributeError):
        return None  # pydantic cannot build this type, or uses a schema of an unknown shape
    return None if validate is None else _reader_with_key_count(validate, node, field)


def _reader_with_key_count(validate: _Reader, node: Node[Any], field: str | None) -> _Reader:
    """Wrap a validator so that it rejects texts in which a key is unknown or appears twice."""
    always, per_item, count_others = _plan_key_count(node)
    if field is not None:
        always += 1

    # It runs for every reply of a clean call, hence the local names and the loops without helpers.
    def read(text: str) -> Any:
        if text[:1] not in _FIRST_CHARACTERS:  # a fence or prose: cheaper to see here than by an exception
            return NOT_EXACT
        try:
            value = validate(text)
        except (ValidationError, *USER_CODE_ERRORS):
            return NOT_EXACT
        if field is not None:
            value = value[field]
        keys = always
        for name, keys_per_item in per_item:
            keys += keys_per_item * len(getattr(value, name))
        if count_others is not None:
            keys += count_others(value)
        # If strings contain colons too, count only the colons that end a key.
        if text.count(":") == keys or len(_KEY_END.findall(text)) == keys:
            return value
        return NOT_EXACT

    return read


def _compile_validator(schema: Any, *, has_floats: bool) -> _Reader | None:
    """Return pydantic-core's function that reads JSON with exactly this schema; None if there is none.

    By default pydantic-core replaces the schema of a model with the validator that the model class already
    has, which reads leniently and accepts floats that are not finite.
    """
    try:
        return SchemaValidator(schema, CoreConfig(strict=True), _use_prebuilt=False).validate_json
    except TypeError:  # older versions lack the argument, but can read each text in strict mode
        return None if has_floats else partial(SchemaValidator(schema).validate_json, strict=True)


class _KeyCountPlan(NamedTuple):
    """How to count the keys in the JSON text of a value.

    Attributes:
        always: The number of keys that every value has.
        per_item: The names of list fields, each with the number of keys of one item.
        count_others: A function that counts further keys in a value, or None.
    """

    always: int
    per_item: tuple[tuple[str, int], ...] = ()
    count_others: Callable[[Any], int] | None = None


def _plan_key_count(node: Node[Any]) -> _KeyCountPlan:
    """Plan how to count the keys of a value, with as little work for each value as possible."""
    count_each_time = _KeyCountPlan(0, (), node.count_keys)
    if not isinstance(node, ObjectNode) or node.spec.extra == "allow":
        return count_each_time
    if not all(field.required for field in node.spec.fields):
        return count_each_time
    always, per_item = len(node.nodes), []
    for name, part in node.nodes.items():
        fixed = part.fixed_keys()
        per = part.item.fixed_keys() if fixed is None and isinstance(part, ListNode) else None
        if fixed is None and per is None:
            return count_each_time
        always += fixed or 0
        if per is not None:
            per_item.append((name, per))
    return _KeyCountPlan(always, tuple(per_item))


def _contains_type_name(output_type: object) -> bool:
    """Return True if a type is given as a string, which pydantic would look up in the wrong module."""
    if get_origin(output_type) is Literal:
        return False
    if get_origin(output_type) is Annotated:
        return _contains_type_name(get_args(output_type)[0])
    return isinstance(output_type, (str, ForwardRef)) or any(map(_contains_type_name, get_args(output_type)))


def _strict_schema(schema: object) -> Any:
    """Return a copy of a core schema in which every part is strict and every float is finite."""
    if isinstance(schema, list):
        return [_strict_schema(item) for item in schema]
    if type(schema) is tuple:
        return tuple(map(_strict_schema, schema))
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # a dict of parts by name, where "type" may be the name of a part
        return {key: _strict_schema(value) for key, value in schema.items()}
    copy = {key: value if key == "default" else _strict_schema(value) for key, value in schema.items()}
    if kind == "float":
        copy["allow_inf_nan"] = False
    copy["strict"] = True  # in each part, because the setting of the whole does not reach all of them
    return copy
