"""The clean path: exact JSON goes straight through pydantic-core, for the types on which that is exact.

pydantic's own reading is not exact everywhere: it puts decimals through a double, takes NaN and 1e400,
and lets the last of two equal keys win. So it is strict, and used only for types all of whose parts
are exact, with floats that must be finite, and only when the text has just as many keys as the value.
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

NOT_EXACT: Any = object()
_BEGINNINGS = frozenset('{["-0123456789tfn \n\r\t')
_Read: TypeAlias = Callable[[str], Any]
_KEY = lazy_regex(r'"[ \t\r\n]*:')


def compile_fast_reader(form: Any, node: Node[Any], *, field: str | None = None) -> _Read | None:
    """A function that reads exact JSON, and gives NOT_EXACT for all else; None when there can be none.

    ``field`` says that the value stands in an object under this one key.
    """
    parts = list(walk(node))
    if not all(part.exact for part in parts):
        return None
    try:
        if has_plain_dataclass(node):
            schema: Any = core_schema_of(node)
        elif _names_types(form):
            return None
        else:
            schema = TypeAdapter(form).core_schema
        if field is not None:
            fields = {field: {"type": "typed-dict-field", "schema": schema, "required": True}}
            schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        validate = _validate(_exacting(schema), any(isinstance(part, FloatNode) for part in parts))
    except (SchemaError, PydanticUserError, NameError, TypeError, AttributeError):
        return None  # a form of pydantic's schema that is not known here
    return None if validate is None else _reader(validate, node, field)


def _reader(validate: _Read, node: Node[Any], field: str | None) -> _Read:
    outer = 0 if field is None else 1
    always, lists, below = _key_plan(node)
    always += outer

    def read(text: str) -> Any:
        if text[:1] not in _BEGINNINGS:  # a fence or prose: an error of pydantic's costs more than this look
            return NOT_EXACT
        try:
            value = validate(text)
        except (ValidationError, *USER_CODE_ERRORS):
            return NOT_EXACT
        if outer:
            value = value[field]
        keys = always
        for name, each in lists:
            keys += each * len(getattr(value, name))
        if below is not None:
            keys += below(value)
        if text.count(":") == keys or len(_KEY.findall(text)) == keys:
            return value
        return NOT_EXACT

    return read


def _validate(schema: Any, floats: bool) -> _Read | None:
    """pydantic-core's reading by just this schema; None where it would put another one in its place.

    It takes the validators that the models in a schema have already for theirs, and with them lax reading
    and floats that are not finite.
    """
    try:
        return SchemaValidator(schema, CoreConfig(strict=True), _use_prebuilt=False).validate_json
    except TypeError:  # an older pydantic-core, which cannot be told; but it can be strict with each text
        return None if floats else partial(SchemaValidator(schema).validate_json, strict=True)


class _KeyPlan(NamedTuple):
    """How many keys a value has: always, for each item of its lists, and those to be counted each time."""

    always: int
    lists: tuple[tuple[str, int], ...] = ()
    below: Callable[[Any], int] | None = None


def _key_plan(node: Node[Any]) -> _KeyPlan:
    """Counts once what ``count_keys`` would count for each value: to call it takes as long as to count."""
    anew = _KeyPlan(0, (), node.count_keys)
    if not isinstance(node, ObjectNode) or node.spec.extra == "allow":
        return anew
    if not all(field.required for field in node.spec.fields):
        return anew
    always, lists = len(node.nodes), []
    for name, part in node.nodes.items():
        fixed = part.fixed_keys()
        each = part.item.fixed_keys() if fixed is None and isinstance(part, ListNode) else None
        if fixed is None and each is None:
            return anew
        always += fixed or 0
        if each is not None:
            lists.append((name, each))
    return _KeyPlan(always, tuple(lists))


def _names_types(form: Any) -> bool:
    """Whether a type is given by its name, for which pydantic would look in the wrong place."""
    if get_origin(form) is Literal:
        return False
    if get_origin(form) is Annotated:
        return _names_types(get_args(form)[0])
    return isinstance(form, (str, ForwardRef)) or any(map(_names_types, get_args(form)))


def _exacting(schema: Any) -> Any:
    """A copy of a core schema in which floats must be finite and all reading is strict."""
    if isinstance(schema, list):
        return [_exacting(item) for item in schema]
    if type(schema) is tuple:
        return tuple(map(_exacting, schema))
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # the parts of a schema by their names, of which "type" may be one
        return {key: _exacting(value) for key, value in schema.items()}
    copy = {key: value if key == "default" else _exacting(value) for key, value in schema.items()}
    if kind == "float":
        copy["allow_inf_nan"] = False
    copy["strict"] = True  # in each part: what a whole says of it does not reach into all of them
    return copy
