"""Parse valid JSON with pydantic-core alone, which is faster than the tolerant parsers.

It is used only for types for which it gives the same value as the nodes do. pydantic on its own is not exact:
it rounds decimals to doubles, accepts NaN and 1e400, and lets the last of two equal keys win. The fast path
therefore uses strict mode, requires that all parts of the type are ``exact`` and all floats are finite, and
accepts a value only if the text has as many keys as the value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, EnumMeta
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import CoreConfig, SchemaError, SchemaValidator, from_json
from typing_extensions import is_typeddict

from ..backslashes import has_lost_backslash
from ..lazy_regex import lazy_regex
from ..result.errors import USER_CODE_ERRORS
from ..result.reading import Cursor
from ..types.choices import BoolNode, ChoiceNode
from ..types.constraints import ConstrainedNode
from ..types.containers import DictNode, ListNode, TupleNode, UnionNode
from ..types.node import Node, walk
from ..types.records import ObjectNode
from ..types.scalars import EXACT_FORMATS, AnyNode, FloatNode, IntNode, NoneNode, TemporalNode, TextNode
from ..types.validation import (
    MAKES_RECORD,
    OWN_FUNCTION,
    contains_type_name,
    failures_of_validators,
    has_user_code,
    shape_schema,
)

NOT_EXACT: Any = object()  # returned for a text that the fast path cannot read
_FIRST_CHARACTERS = frozenset('{["-0123456789tfn \n\r\t')
_Reader: TypeAlias = Callable[[str], Any]
_KEY_END = lazy_regex(r'"[ \t\r\n]*:')


def compile_fast_reader(output_type: Any, node: Node[object], *, field: str | None = None) -> _Reader | None:
    """Compile a fast parser that converts valid JSON to values of one type, without repairs.

    It returns NOT_EXACT for other text.

    ``field`` is the key of the envelope around the value, if it has one. Return None if the type does not
    support it.
    """
    parts = list(walk(node))
    if not all(part.exact for part in parts):
        return None
    try:
        if has_own_schema(node):
            schema: Any = core_schema_of(node)
        elif contains_type_name(output_type):
            return None
        else:
            schema = TypeAdapter(output_type).core_schema
        if field is not None:
            fields = {field: {"type": "typed-dict-field", "schema": schema, "required": True}}
            schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        if has_user_code(schema):
            return _reader_with_validators(schema, node, field)
        has_floats = any(isinstance(part, FloatNode) for part in parts)
        validate = _compile_validator(_strict_schema(schema), has_floats=has_floats)
        if validate is not None and _has_wide_dataclass(parts):
            validate = _compile_wide_validator(_strict_schema(schema))
    except (SchemaError, PydanticUserError, NameError, TypeError, AttributeError, RecursionError):
        return None  # pydantic cannot build this type, or uses a schema of an unknown shape
    return None if validate is None else _reader_with_key_count(validate, node, field)


def _reader_with_key_count(validate: Callable[..., Any], node: Node[object], field: str | None) -> _Reader:
    """Return a function that validates JSON text, and that rejects unknown and repeated keys."""
    always, per_item, count_others = _plan_key_count(node)
    if field is not None:
        always += 1
    counts_itself = any(isinstance(part, ObjectNode) and part.counts_own_keys for part in walk(node))

    # It runs for every reply that is exact JSON, so it uses local variables and loops without helpers.
    def read(text: str) -> Any:
        if text[:1] not in _FIRST_CHARACTERS:  # a fence or prose: cheaper to see here than by an exception
            return NOT_EXACT
        if "\\" in text and has_lost_backslash(text):
            return NOT_EXACT
        counter = [always] if counts_itself else None  # each record that ``make`` creates adds its keys
        try:
            value = validate(text, context=counter)
        except (ValueError, *USER_CODE_ERRORS):  # a ValidationError is a ValueError
            return NOT_EXACT
        if field is not None:
            value = value[field]
        keys = always if counter is None else counter[0]
        for name, keys_per_item in per_item:
            keys += keys_per_item * len(getattr(value, name))
        if count_others is not None:
            try:
                keys += count_others(value)
            except ValueError:
                return NOT_EXACT
        # If strings contain colons too, count only the colons that end a key.
        if text.count(":") == keys or len(_KEY_END.findall(text)) == keys:
            return value
        return NOT_EXACT

    return read


def _reader_with_validators(schema: Any, node: Node[object], field: str | None) -> _Reader:
    """Return a function that validates JSON text with the validators of users.

    They run only if the text has the types of the schema, so that they run once. If they refuse the value,
    the function raises ValidationFailure.
    """
    shape = SchemaValidator(shape_schema(schema), CoreConfig(strict=True))
    validator = SchemaValidator(schema)
    name = getattr(node, "name", node.kind)

    def read(text: str) -> Any:
        if text[:1] not in _FIRST_CHARACTERS or has_lost_backslash(text):
            return NOT_EXACT
        try:
            keys = AnyNode().count_keys(shape.validate_json(text))
        except (ValueError, *USER_CODE_ERRORS):
            return NOT_EXACT
        if text.count(":") != keys and len(_KEY_END.findall(text)) != keys:
            return NOT_EXACT
        with failures_of_validators(name, Cursor(), text, fits=True):
            value = validator.validate_json(text, context=[0])
        return value if field is None else value[field]

    return read


def _compile_validator(schema: Any, *, has_floats: bool) -> Callable[..., Any] | None:
    """Compile a pydantic-core schema into a function that validates JSON text in strict mode.

    Return None if the installed pydantic-core version cannot do this for floats.

    By default pydantic-core replaces the schema of a model with the validator that the model class already
    has, which reads leniently and accepts floats that are not finite.
    """
    try:
        return SchemaValidator(schema, CoreConfig(strict=True), _use_prebuilt=False).validate_json
    except TypeError:  # older versions lack the argument, but can read each text in strict mode
        return None if has_floats else partial(SchemaValidator(schema).validate_json, strict=True)


# The nodes whose strict pydantic-core schemas read the same from the Python values of JSON as from the text.
_SAME_IN_PYTHON = (TextNode, IntNode, FloatNode, BoolNode, NoneNode, DictNode, ListNode, UnionNode)
_WIDE = 64  # fields


def _has_wide_dataclass(parts: list[Node[object]]) -> bool:
    """Return True if a type has a dataclass with many fields, and can be read from Python values."""
    records = [part for part in parts if isinstance(part, ObjectNode)]
    return (
        any(len(record.spec.fields) > _WIDE for record in records)
        and all(record.spec.plain_dataclass for record in records)
        and all(type(part) in _SAME_IN_PYTHON for part in parts if not isinstance(part, ObjectNode))
    )


def _compile_wide_validator(schema: Any) -> Callable[..., Any]:
    """Compile a validator for dataclasses with many fields.

    pydantic-core takes quadratic time for the fields of a dataclass in JSON text, and linear time in a dict.
    """

    def lax(part: Any) -> Any:
        if isinstance(part, list):
            return [lax(item) for item in part]
        if not isinstance(part, dict):
            return part
        copy = {key: lax(value) for key, value in part.items()}
        return {**copy, "strict": False} if part.get("type") == "dataclass" else copy  # a dict is no instance

    validate = SchemaValidator(lax(schema), _use_prebuilt=False).validate_python
    return lambda text, context: validate(from_json(text), context=context)


class _KeyCountPlan(NamedTuple):
    """How the JSON keys of a value are counted, to detect repeated and unknown keys.

    Attributes:
        always: The number of keys that every value has.
        per_item: The names of list fields, each with the number of keys of one item.
        count_others: A function that counts further keys in a value, or None.
    """

    always: int
    per_item: tuple[tuple[str, int], ...] = ()
    count_others: Callable[[Any], int] | None = None


def _plan_key_count(node: Node[object]) -> _KeyCountPlan:
    """Choose how to count the JSON keys of a value, to detect repeated and unknown keys."""
    if node.fixed_keys() is not None:
        return _KeyCountPlan(node.fixed_keys() or 0)
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


def _strict_schema(schema: object) -> object:
    """Return a copy of a pydantic-core schema that is strict and accepts only finite floats."""
    if isinstance(schema, list):
        return [_strict_schema(item) for item in schema]
    if type(schema) is tuple:
        return tuple(map(_strict_schema, schema))
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # a dict of parts by name, where "type" may be the name of a part
        return {key: _strict_schema(value) for key, value in schema.items()}
    if kind in _TEMPORAL_FORMATS:
        if not schema.keys() <= {"type", "microseconds_precision", "metadata"}:
            raise TypeError(f"a {kind} has constraints")
        return _temporal_schema(_TEMPORAL_FORMATS[kind])
    copy = {key: value if key == "default" else _strict_schema(value) for key, value in schema.items()}
    if kind == "float":
        copy["allow_inf_nan"] = False
    copy["strict"] = True  # in each part, because the setting of the whole does not reach all of them
    return copy


CoreSchema: TypeAlias = dict[str, Any]

_SCALARS: dict[type[Node[object]], str] = {
    TextNode: "str",
    IntNode: "int",
    FloatNode: "float",
    BoolNode: "bool",
    NoneNode: "none",
    AnyNode: "any",
}
_TEMPORAL_FORMATS = {"date": "date", "time": "time", "datetime": "date-time"}  # by pydantic-core's names
_SEQUENCES: dict[object, str] = {list: "list", set: "set", frozenset: "frozenset"}


def has_own_schema(node: Node[object]) -> bool:
    """Return True if a type contains a record class, such as a dataclass, that is not a pydantic model."""
    return any(isinstance(part, ObjectNode) and part.spec.adapter is None for part in walk(node))


def core_schema_of(node: Node[object]) -> CoreSchema:
    """Return a pydantic-core schema that accepts the same valid JSON as this library's parser for a type.

    Raises TypeError for a type that has no such schema, for instance a recursive type.
    """
    scalar = _SCALARS.get(type(node))
    if scalar is not None:
        return {"type": scalar}
    if isinstance(node, ConstrainedNode) and type(node.inner) in _SCALARS:
        return node.core_schema  # the adapter of a constrained container knows nothing of its items
    if type(node) is ChoiceNode:
        return _choice_schema(node)
    if type(node) is ListNode:
        items = core_schema_of(node.item)
        if node.make is tuple:
            return {"type": "tuple", "items_schema": [items], "variadic_item_index": 0}
        return {"type": _SEQUENCES[node.make], "items_schema": items}
    if type(node) is TupleNode:
        return {"type": "tuple", "items_schema": [core_schema_of(item) for item in node.items]}
    if type(node) is DictNode:
        values = core_schema_of(node.value)
        return {"type": "dict", "keys_schema": core_schema_of(node.key), "values_schema": values}
    if type(node) is TemporalNode:
        return _temporal_schema(node.format)
    if type(node) is UnionNode:
        options = [option for option in node.options if not isinstance(option, NoneNode)]
        schemas = list(map(core_schema_of, options))
        schema = schemas[0] if len(schemas) == 1 else {"type": "union", "choices": schemas}
        return schema if len(options) == len(node.options) else {"type": "nullable", "schema": schema}
    if type(node) is ObjectNode:
        return _record_schema(node)
    raise TypeError(f"no pydantic-core schema is built for {type(node).__name__}")


def _temporal_schema(format: str) -> CoreSchema:
    """Return the pydantic-core schema of a date or time in the usual ISO 8601 format.

    pydantic's own schemas also accept other formats and numbers, and have another class for time zones.
    """
    exact = EXACT_FORMATS[format]
    text = {"type": "str", "pattern": f"^(?:{exact.pattern})$", "strict": True}
    parse = {"type": "no-info", "function": exact.parse}
    return {"type": "function-after", "function": parse, "schema": text, "metadata": OWN_FUNCTION}


def _choice_schema(node: ChoiceNode[object]) -> CoreSchema:
    """Return the pydantic-core schema of an Enum or of a Literal of strings."""
    values = [choice.value for choice in node.choices.choices]
    if not isinstance(values[0], Enum):
        return {"type": "literal", "expected": values}
    cls: Any = type(values[0])
    if cls._missing_.__func__ is not Enum._missing_.__func__ or type(cls) is not EnumMeta:  # type: ignore[attr-defined]  # a classmethod has it
        raise TypeError(f"pydantic-core would call _missing_ of {cls.__name__}, and the nodes do not")
    return {"type": "enum", "cls": cls, "members": values}


def _record_schema(node: ObjectNode) -> CoreSchema:
    """Return the pydantic-core schema of a record class, such as a pydantic model or a dataclass.

    The model must not contain plain dataclasses, because pydantic has already resolved them itself.
    """
    spec = node.spec
    if spec.plain_dataclass:
        names = [field.name for field in spec.fields]
        fields = [
            {"type": "dataclass-field", "name": name, "schema": core_schema_of(node.nodes[name])}
            for name in names
        ]
        return {
            "type": "dataclass",
            "cls": spec.cls,
            "fields": names,
            "schema": {"type": "dataclass-args", "dataclass_name": node.name, "fields": fields},
            # without slots pydantic-core replaces ``__dict__`` as a whole, which such classes may not have
            "slots": hasattr(spec.cls, "__slots__"),
        }
    if spec.adapter is None:
        return _made_record_schema(node)
    if has_own_schema(node):
        raise TypeError(f"pydantic resolved the records inside {node.name} itself")
    schema: Any = spec.adapter.core_schema
    return dict(schema)


def _made_record_schema(node: ObjectNode) -> CoreSchema:
    """Return the pydantic-core schema of a non-pydantic record class, such as a NamedTuple."""
    spec = node.spec
    schemas = {field.name: core_schema_of(node.nodes[field.name]) for field in spec.fields}
    if spec.arguments is not None and not node.counts_own_keys:
        arguments = [
            {
                "name": spec.arguments[field.name],
                "mode": "keyword_only",
                "alias": field.keys[0],
                "schema": schemas[field.name],
            }
            for field in spec.fields
        ]
        arguments_schema = {"type": "arguments", "arguments_schema": arguments}
        return {"type": "call", "function": spec.cls, "arguments_schema": arguments_schema}
    fields = {
        field.name: {
            "type": "typed-dict-field",
            "schema": schemas[field.name],
            "required": field.required,
            "validation_alias": field.keys[0],
        }
        for field in spec.fields
    }
    values_schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
    if is_typeddict(spec.cls) and not node.counts_own_keys:
        return values_schema
    return {
        "type": "function-after",
        "function": _make_function(node),
        "schema": values_schema,
        "metadata": MAKES_RECORD,
    }


def _make_function(node: ObjectNode) -> CoreSchema:
    """Return the pydantic-core schema for the function that creates a record from its fields."""
    make = node.spec.make
    if not node.counts_own_keys:
        return {"type": "no-info", "function": make}
    required = {field.name for field in node.spec.fields if field.required}
    always, others = 0, []
    for name, part in node.nodes.items():
        fixed = part.fixed_keys()
        if fixed is not None and name in required:
            always += fixed
        elif fixed != 0:  # 0 also if the part counts its own keys
            others.append((name, part))

    def count_and_make(values: dict[str, Any], info: Any) -> object:
        keys = always + len(values)
        for name, part in others:
            if name in values:
                keys += part.count_keys(values[name])
        info.context[0] += keys
        return make(values)

    return {"type": "with-info", "function": count_and_make}
