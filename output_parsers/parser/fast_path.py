"""Parse valid JSON with pydantic-core alone, which is faster than the tolerant parsers.

It is used only for types for which it gives the same value as the nodes do. pydantic on its own is not exact:
it rounds decimals to doubles, accepts NaN and 1e400, and lets the last of two equal keys win. The fast path
therefore uses strict mode, requires that all parts of the type are ``exact`` and all floats are finite, and
accepts a value only if the text has as many keys as the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

from pydantic import PydanticUserError, TypeAdapter
from pydantic_core import CoreConfig, SchemaError, SchemaValidator, from_json

from ..backslashes import has_lost_backslash
from ..lazy_regex import lazy_regex
from ..prose.fillers import FILLERS, may_have_filler, may_have_placeholder
from ..result.errors import USER_CODE_ERRORS
from ..result.reading import Cursor
from ..types.constraints import unwrapped
from ..types.containers import DictNode, ListNode, TupleNode, UnionNode, is_list_of_texts, may_be_text
from ..types.node import Node, walk
from ..types.records import ObjectNode, has_own_schema
from ..types.scalars import EXACT_FORMATS, AnyNode, FloatNode, text_or_formats_schema
from ..types.validation import (
    ValidationContext,
    contains_type_name,
    failures_of_validators,
    has_user_code,
    shape_schema,
    validation_context,
)

NOT_EXACT: Any = object()  # returned for a text that the fast path cannot read
_FIRST_CHARACTERS = frozenset('{["-0123456789tfn \n\r\t')
FastReader: TypeAlias = Callable[[str], Any]
_Texts: TypeAlias = Callable[[Any], Iterable[str]]
_KEY_END = lazy_regex(r'"[ \t\r\n]*:')
_QUOTE_AND_COLON = lazy_regex(r'\\"[ \t\r\n]*:')  # in a string
_GAP_BEFORE_COLON = lazy_regex(r":(?<=[ \t\r\n]:)")  # the colon comes first, because it is searched fast
_STRING = lazy_regex(r'"(?:[^"\\]++|\\.)*+"[ \t\r\n]*(:?)')


def never_exact(text: str) -> object:
    """Return NOT_EXACT: the reader of types that the fast path does not support."""
    return NOT_EXACT


def compile_fast_reader(
    output_type: Any, node: Node[object], *, field: str | None = None
) -> FastReader | None:
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
            schema: object = node.core_schema()
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


def _reader_with_key_count(validate: Callable[..., Any], node: Node[object], field: str | None) -> FastReader:
    """Return a function that validates JSON text, and that rejects unknown and repeated keys."""
    if any(isinstance(part, ObjectNode) and part.counts_own_keys for part in walk(node)):
        return _reader_with_counter(validate, node, field)
    always, count = _plan_checked_count(node)
    if field is not None:
        always += 1
    first_characters = _FIRST_CHARACTERS

    # It runs for every reply that is exact JSON, so it uses local variables and loops without helpers.
    def read(text: str) -> object:
        if not text or text[0] not in first_characters:  # cheaper for a fence or prose than an exception
            return NOT_EXACT
        if "\\" in text and has_lost_backslash(text):
            return NOT_EXACT
        if "<" in text and may_have_placeholder(text):
            return NOT_EXACT
        try:
            value = validate(text)
            if field is not None:
                value = value[field]
            keys = always if count is None else always + count(value)
        except (ValueError, *USER_CODE_ERRORS):  # a ValidationError is a ValueError
            return NOT_EXACT
        return value if text.count(":") == keys or _has_keys(text, keys) else NOT_EXACT

    return read


def _reader_with_counter(validate: Callable[..., Any], node: Node[object], field: str | None) -> FastReader:
    """Return a function that validates JSON text whose records add their keys when ``make`` creates them."""
    always, count = _plan_checked_count(node)
    if field is not None:
        always += 1

    def read(text: str) -> object:
        if text[:1] not in _FIRST_CHARACTERS or has_lost_backslash(text) or _has_placeholder(text):
            return NOT_EXACT
        counter = ValidationContext()
        counter.json_keys = always
        try:
            value = validate(text, context=counter)
            if field is not None:
                value = value[field]
            keys = counter.json_keys + (0 if count is None else count(value))
        except (ValueError, *USER_CODE_ERRORS):
            return NOT_EXACT
        return value if text.count(":") == keys or _has_keys(text, keys) else NOT_EXACT

    return read


def _reader_with_validators(schema: Any, node: Node[object], field: str | None) -> FastReader:
    """Return a function that validates JSON text with the validators of users.

    They run only if the text has the types of the schema, so that they run once. If they refuse the value,
    the function raises ValidationFailure.
    """
    shape = SchemaValidator(shape_schema(schema), CoreConfig(strict=True))
    validator = SchemaValidator(schema)
    name = getattr(node, "name", node.kind)
    has_texts = any(map(_plan_own_texts, walk(node)))

    def read(text: str) -> object:
        if text[:1] not in _FIRST_CHARACTERS or has_lost_backslash(text) or _has_placeholder(text):
            return NOT_EXACT
        if has_texts and may_have_filler(text):
            return NOT_EXACT
        try:
            keys = AnyNode().count_keys(shape.validate_json(text))
        except (ValueError, *USER_CODE_ERRORS):
            return NOT_EXACT
        if text.count(":") != keys and not _has_keys(text, keys):
            return NOT_EXACT
        with failures_of_validators(name, Cursor(), text, fits=True):
            value = validator.validate_json(text, context=validation_context())
        return value if field is None else value[field]

    return read


def _has_placeholder(text: str) -> bool:
    return "<" in text and may_have_placeholder(text)


def _plan_checked_count(node: Node[object]) -> tuple[int, Callable[[Any], int] | None]:
    """Choose how to count the keys of a value, as _plan_key_count does.

    The result is one too small for a value with an item or a key such as ``...``, so that its JSON is read in
    the other way, which refuses it.
    """
    always, count = _plan_key_count(node)
    are_items = FILLERS.isdisjoint  # True counts as 1; it is called directly, because each call takes time
    if is_list_of_texts(node):
        return always - 1, are_items
    texts_in = _plan_texts(node, {})
    if texts_in is None:
        return always, count
    if count is None:
        return always - 1, lambda value: are_items(texts_in(value))
    return always - 1, lambda value: are_items(texts_in(value)) + count(value)


def _plan_texts(node: Node[object], plans: dict[Node[object], _Texts | None]) -> _Texts | None:
    """Return a function that returns the texts in all lists and keys in a value; None without such texts.

    ``plans`` has the functions so far. A value of a recursive type inside another one is not searched.
    """
    node = unwrapped(node)
    if node not in plans:
        plans[node] = None
        if is_list_of_texts(node):
            plans[node] = iter
        else:
            parts = {part: texts_in for part in node.parts if (texts_in := _plan_texts(part, plans))}
            own, inner = _plan_own_texts(node), _texts_of_parts(node, parts) if parts else None
            if own is not None and inner is not None:
                plans[node] = partial(_texts_of_both, own, inner)
            else:
                plans[node] = own or inner
    return plans[node]


def _texts_of_both(own: _Texts, inner: _Texts, value: Any) -> Iterable[Any]:
    return chain(own(value), inner(value))


def _plan_own_texts(node: Node[object]) -> _Texts | None:
    """Return a function that returns the texts among the items or the keys of a value, not of its parts."""
    if isinstance(node, DictNode):
        return iter if may_be_text(node.key) else None
    if isinstance(node, (ListNode, TupleNode)) and any(map(may_be_text, node.parts)):
        return lambda items: [item for item in items if type(item) is str]
    return None


def _texts_of_parts(node: Node[object], parts: dict[Node[object], _Texts]) -> _Texts | None:
    """Return a function that returns the texts in the lists and keys in the parts of a value."""
    first = next(iter(parts.values()))
    if isinstance(node, ListNode):
        return lambda items: chain.from_iterable(map(first, items))
    if isinstance(node, DictNode):
        return lambda pairs: chain.from_iterable(map(first, pairs.values()))
    if isinstance(node, TupleNode):
        positions = [(index, parts[part]) for index, part in enumerate(node.items) if part in parts]
        return lambda items: chain.from_iterable([texts_in(items[index]) for index, texts_in in positions])
    if isinstance(node, UnionNode):
        by_class = {_class_of(unwrapped(option)): texts_in for option, texts_in in parts.items()}
        if len(by_class) < len(parts):  # the class of a value does not show which texts it has
            return lambda value: FILLERS
        return lambda value: by_class[type(value)](value) if type(value) in by_class else ()
    return _texts_of_fields(node, parts) if isinstance(node, ObjectNode) else None


def _texts_of_fields(node: ObjectNode, parts: dict[Node[object], _Texts]) -> _Texts:
    """Return a function that returns the texts in the lists and keys in the fields of a record."""
    fields = [(name, parts[part]) for name, part in node.nodes.items() if part in parts]
    if issubclass(node.spec.cls, dict):
        return lambda record: chain.from_iterable(
            [texts_in(record[name]) for name, texts_in in fields if name in record]
        )
    if len(fields) == 1 and fields[0][1] is iter:
        return attrgetter(fields[0][0])
    return lambda record: chain.from_iterable([texts_in(getattr(record, name)) for name, texts_in in fields])


def _class_of(node: Node[object]) -> object:
    if isinstance(node, TupleNode):
        return tuple
    return node.spec.cls if isinstance(node, ObjectNode) else getattr(node, "make", None)


def _has_keys(text: str, keys: int) -> bool:
    """Return True if JSON has a number of keys; its strings may contain colons."""
    is_simple = "\\" not in text or '\\\\"' not in text
    # no fewer than ``keys`` are keys, and at most these; the others are in strings
    if is_simple and text.count('":') - text.count('\\":') == keys and not _GAP_BEFORE_COLON.search(text):
        return True
    found = len(_KEY_END.findall(text))
    if is_simple:
        found -= len(_QUOTE_AND_COLON.findall(text))
    if found == keys:
        return True
    # strings that begin with a colon, or end with a backslash
    return _STRING.findall(text).count(":") == keys


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


# Their strict schemas read the same from Python values of JSON as from the text, and so do those
# of the nodes with a ``core_type``.
_SAME_IN_PYTHON = (DictNode, ListNode, UnionNode)
_WIDE = 64  # fields


def _has_wide_dataclass(parts: list[Node[object]]) -> bool:
    """Return True if a type has a dataclass with many fields, and can be read from Python values."""
    records = [part for part in parts if isinstance(part, ObjectNode)]
    return (
        any(len(record.spec.fields) > _WIDE for record in records)
        and all(record.spec.plain_dataclass for record in records)
        and all(part.core_type or type(part) in (*_SAME_IN_PYTHON, ObjectNode) for part in parts)
    )


def _compile_wide_validator(schema: object) -> Callable[..., object]:
    """Compile a validator for dataclasses with many fields.

    pydantic-core takes quadratic time for the fields of a dataclass in JSON text, and linear time in a dict.
    """

    def lax(part: object) -> Any:
        if isinstance(part, list):
            return [lax(item) for item in part]
        if not isinstance(part, dict):
            return part
        copy = {key: lax(value) for key, value in part.items()}
        return {**copy, "strict": False} if part.get("type") == "dataclass" else copy  # dicts are accepted

    validate = SchemaValidator(lax(schema), _use_prebuilt=False).validate_python
    return lambda text, context=None: validate(from_json(text), context=context)


def _plan_key_count(node: Node[object]) -> tuple[int, Callable[[Any], int] | None]:
    """Choose how to count the JSON keys of a value, to detect repeated and unknown keys.

    Return the number of keys that every value has, and a function that counts the others, or None.
    """
    fixed = node.fixed_keys()
    if fixed is not None:
        return fixed, None
    if not isinstance(node, ObjectNode) or node.spec.extra == "allow":
        return 0, node.count_keys
    if not all(field.required for field in node.spec.fields):
        return 0, node.count_keys
    always = len(node.nodes) + sum(part.fixed_keys() or 0 for part in node.nodes.values())
    counted = []
    for name, part in node.nodes.items():
        if part.fixed_keys() is None:
            keys_of_item = part.item.fixed_keys() if isinstance(part, ListNode) else None
            if keys_of_item is None:
                return 0, node.count_keys
            counted.append((name, keys_of_item))
    if len(counted) > 1:
        return always, lambda value: sum([keys * len(getattr(value, name)) for name, keys in counted])
    ((only, each),) = counted  # at least one, because the number is not fixed
    return always, lambda value: each * len(getattr(value, only))


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
        return EXACT_FORMATS[_TEMPORAL_FORMATS[kind]].core_schema()
    copy = {key: value if key == "default" else _strict_schema(value) for key, value in schema.items()}
    if kind == "float":
        copy["allow_inf_nan"] = False
    if kind == "union":
        return {**copy, **_with_text_last(schema["choices"], copy["choices"])}
    copy["strict"] = True  # in each part, because the setting of the whole does not reach all of them
    return copy


def _with_text_last(choices: Any, strict_choices: Any) -> dict[str, object]:
    """Return the members of a union, in which text comes after other types that are written as text.

    pydantic-core would choose text rather than an enum, and text or a date by their order.
    """
    kinds = [choice["type"] if isinstance(choice, dict) else "" for choice in choices]
    if "str" not in kinds or _NOT_TEXT.issuperset(kinds):
        return {"choices": strict_choices}
    formats = [choice for kind, choice in zip(kinds, strict_choices, strict=True) if kind != "str"]
    return text_or_formats_schema(
        formats, [_TEMPORAL_FORMATS[kind] for kind in kinds if kind in _TEMPORAL_FORMATS]
    )


_NOT_TEXT = frozenset(("str", "int", "float", "bool", "list", "set", "tuple", "dict", "model", "typed-dict"))
_TEMPORAL_FORMATS = {"date": "date", "time": "time", "datetime": "date-time"}  # by pydantic-core's names
