"""Parsers for Python container types and unions.

The containers are lists, sets, tuples and dicts. The parser for a union such as ``int | str`` chooses the
type with the fewest conversions.
"""

from __future__ import annotations

import collections
import collections.abc
import re
import types
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cached_property
from itertools import chain, combinations, product, starmap
from typing import Any, NamedTuple, Union

from typing_extensions import is_typeddict

from ..json.scanner import parse_json_string, read_exact
from ..lazy_regex import lazy_regex
from ..prose.choices import CASE_OR_PUNCTUATION, IN_A_SENTENCE
from ..prose.lists import ends_with_total, is_label_of_total, split_items
from ..result.errors import USER_CODE_ERRORS, Problem, UnsupportedTypeError
from ..result.reading import (
    MAX_FAILURES,
    Ambiguity,
    Coercion,
    Cursor,
    Json,
    JsonSyntaxError,
    Leniency,
    ValidationFailure,
    combine_failures,
    dump_json,
    strict_equal,
)
from .choices import ChoiceNode
from .constraints import unwrapped
from .node import (
    ArrayParts,
    CoreSchema,
    Definitions,
    JsonLeafNode,
    JsonNodes,
    JsonSchema,
    Node,
    ObjectParts,
    RecursiveNode,
    Storage,
    json_node_of,
    walk,
)
from .records import ObjectNode, RootModelNode, without_table
from .scalars import (
    AnyNode,
    FloatNode,
    IntNode,
    NoneNode,
    TemporalNode,
    TextNode,
    refuse_fillers,
    refuse_mixed_units,
    refuse_placeholders,
    text_or_formats_schema,
)
from .target import Target, type_name
from .validation import JsonReader, json_validator, readable_by_pydantic, runs_validators

Build = Callable[[Target], Node[object]]

_MAKERS: dict[object, Callable[[Iterable[object]], object]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}

_SEQUENCES: dict[object, str] = {list: "list", set: "set", frozenset: "frozenset"}  # by pydantic-core's names
_NO_ITEMS = (str, bytes, bytearray, collections.abc.Mapping)  # collections other than lists of items


class ListNode(Node[Any]):
    """Reads a list, set, frozenset or tuple with any number of items of one type.

    Attributes:
        item: The node of the items.
        make: Creates the container from a list of items.
    """

    kind = "an array"
    json_types = frozenset((list,))

    def __init__(
        self, item: Node[object], make: Callable[[Iterable[object]], object], *, exact: bool
    ) -> None:
        self.item = item
        self.make = make
        self.exact = exact

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self.item,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        (items,) = self.part_schemas(definitions)
        return {"type": "array", "items": items}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f"[{', '.join(self.part_hints(enclosing))}, ...]"

    def read(self, data: Json, cursor: Cursor) -> object:
        if isinstance(data, str):
            data = parse_json_string(data, "[", cursor)
        if not isinstance(data, list):
            raise cursor.failure("expected an array", data)
        items = []
        before = len(cursor.coercions)
        failures: list[ValidationFailure] = []
        identity_type = self.item.identity_type
        for index, item in enumerate(data):
            if type(item) is identity_type:
                items.append(item)
                continue
            try:
                items.append(self.item.read(item, cursor.child(index)))
            except ValidationFailure as failure:
                failures.append(failure)
                if len(failures) == MAX_FAILURES:  # the items have another type; more messages do not help
                    break
        if failures:
            raise combine_failures(failures)
        if may_be_text(self.item):
            refuse_fillers(items, cursor)
        if len(cursor.coercions) > before:
            refuse_mixed_units(cursor, before, items)
        return self._make(items, cursor)

    def _make(self, items: list[object], cursor: Cursor) -> object:
        try:
            return self.make(items)
        except TypeError as error:  # unhashable items
            raise cursor.failure(f"expected items that a set can hold: {error}", items) from error

    def array_parts(self) -> ArrayParts:
        return ArrayParts((), self.item, self._make)

    def core_schema(self) -> CoreSchema:
        items = self.item.core_schema()
        if self.make is tuple:
            return {"type": "tuple", "items_schema": [items], "variadic_item_index": 0}
        return {"type": _SEQUENCES[self.make], "items_schema": items}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("list", (("", self.item.storage(enclosing)),))

    def parts_of(self, data: Json) -> dict[object, Node[object]]:
        return dict.fromkeys(range(len(data)), self.item) if isinstance(data, list) else {}

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return ListNode(json_node_of(self.item, built), list, exact=False)

    def read_text(self, text: str, cursor: Cursor) -> object:
        """Read a list in plain text: one item per line, commas between items, or records in a table."""
        records = self.item.read_records(text, cursor) if isinstance(self.item, ObjectNode) else None
        if records is not None:
            return self.read(records, cursor)
        items = split_items(text, frozenset(re.findall(r"[^\W\d_]+", cursor.declaration.casefold())))
        if items is None or ends_with_total(items.items, cursor.declaration):
            raise cursor.failure("expected an array", text)
        # any line can be an item of text, even a remark about the items; a number cannot
        is_guess = self.item.any_text and not items.is_clear
        if is_guess and cursor.leniency is Leniency.SAFE:
            raise cursor.failure("expected an array; write the items as a JSON array", text)
        cursor.record("items in a text", text, items.items, guess=is_guess)
        before = len(cursor.coercions)
        value = self.read(items.items, cursor)
        # "Yes, I like red, and blue" has commas too, but they do not separate items
        rules = [coercion.rule for coercion in cursor.coercions[before:]]
        if items.has_commas and IN_A_SENTENCE in rules:
            raise cursor.failure("expected an array; its commas may be those of a sentence", text)
        return value

    def write(self, value: object) -> Json:
        if not isinstance(value, collections.abc.Collection) or isinstance(value, _NO_ITEMS):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return [self.item.write(item) for item in value]

    def fixed_keys(self) -> int | None:
        return 0 if self._keys_per_item == 0 else None

    @cached_property
    def _keys_per_item(self) -> int | None:
        return self.item.fixed_keys()

    def count_keys(self, value: Any) -> int:
        if self._keys_per_item is not None:
            return self._keys_per_item * len(value)
        if type(self.item) is AnyNode and isinstance(value, (list, tuple)):
            return self.item.count_keys(value)  # of all items, which is faster than one by one
        if isinstance(self.item, UnionNode):
            return self.item.count_keys_of_all(value)
        return sum(map(self.item.count_keys, value))


def may_be_text(node: Node[object]) -> bool:
    """Return True for the node of any text, perhaps with constraints or in a union."""
    node = unwrapped(node)
    if isinstance(node, UnionNode):
        return any(map(may_be_text, node.options))
    return isinstance(node, TextNode)


def is_list_of_texts(node: Node[object]) -> bool:
    """Return True for the node of a list, set or tuple of texts."""
    return isinstance(node, ListNode) and node.item.identity_type is str


class TupleNode(Node[tuple[object, ...]]):
    """Reads a tuple with a fixed number of items, whose types may differ.

    Attributes:
        items: The nodes of the items, in order.
    """

    exact = True
    json_types = frozenset((list,))

    def __init__(self, items: tuple[Node[object], ...]) -> None:
        self.items = items
        self.kind = f"an array of exactly {len(items)}"

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return self.items

    def schema(self, definitions: Definitions) -> JsonSchema:
        items = self.part_schemas(definitions)
        schema: JsonSchema = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        return {**schema, "prefixItems": items, "items": False} if items else schema

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f"[{', '.join(self.part_hints(enclosing))}]"

    def read(self, data: Json, cursor: Cursor) -> tuple[object, ...]:
        if isinstance(data, str):
            data = parse_json_string(data, "[", cursor)
        if not isinstance(data, list) or len(data) != len(self.items):
            raise cursor.failure(f"expected {self.kind}", data)
        before = len(cursor.coercions)
        values = tuple(
            node.read(item, cursor.child(index))
            for index, (node, item) in enumerate(zip(self.items, data, strict=True))
        )
        if any(map(may_be_text, self.items)):
            refuse_fillers(values, cursor)
        if len(cursor.coercions) > before:
            is_of_one_type = len(set(map(type, self.items))) == 1
            refuse_mixed_units(cursor, before, values if is_of_one_type else (), is_table=True)
        return values

    def array_parts(self) -> ArrayParts:
        def make(items: list[object], cursor: Cursor) -> tuple[object, ...]:
            if len(items) != len(self.items):
                raise cursor.failure(f"expected {self.kind}", items)
            return tuple(items)

        return ArrayParts(self.items, None, make)

    def core_schema(self) -> CoreSchema:
        return {"type": "tuple", "items_schema": [item.core_schema() for item in self.items]}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        kinds = {item.storage(enclosing) for item in self.items}
        return Storage("list", (("", kinds.pop()),)) if len(kinds) == 1 else Storage("json")

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return TupleNode(tuple(json_node_of(item, built) for item in self.items))

    def write(self, value: object) -> Json:
        if not isinstance(value, tuple) or len(value) != len(self.items):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return [node.write(item) for node, item in zip(self.items, value, strict=True)]

    def count_keys(self, value: Any) -> int:
        return sum(node.count_keys(item) for node, item in zip(self.items, value, strict=True))


def sequence_node(target: Target, build: Build) -> Node[object] | None:
    """Return the parser for a list, set or tuple type, or None for other types.

    Without type arguments the items can be any JSON.
    """
    origin, args = target.origin, target.args
    if origin is tuple:
        if not args and target.type is not tuple:  # tuple[()], the type of the empty tuple
            return TupleNode(())
        if not args or args[-1] is ...:
            return _list_node(target, tuple, build, exact=True)
        items = [target.child(arg) for arg in args]
        node = TupleNode(tuple(map(build, items)))
        node.part_descriptions = tuple(item.description for item in items)
        return node
    make = _MAKERS.get(origin)
    if make is None:
        return None
    return _list_node(target, make, build, exact=origin in (list, set, frozenset))


def _check_hashable(part: Target, role: str, target: Target) -> None:
    """Raise UnsupportedTypeError if the keys of a dict type, or items of a set type, can never be hashed."""
    if isinstance(part.origin, type) and part.origin.__hash__ is None:
        reason = f"its {role} cannot be {type_name(part.type)}, which is not hashable"
        raise UnsupportedTypeError(type_name(target.type), target.path, ["containers"], reason)


def _list_node(
    target: Target, make: Callable[[Iterable[object]], object], build: Build, *, exact: bool
) -> ListNode:
    item = target.child(target.args[0] if target.args else Any)
    if make in (set, frozenset):
        _check_hashable(item, "items", target)
    node = ListNode(build(item), make, exact=exact)
    node.part_descriptions = (item.description,)
    return node


_MAPPINGS = {dict, collections.OrderedDict, collections.abc.Mapping, collections.abc.MutableMapping}


# A line with a name and its number, and names that mean something else.
_COUNT_LINE = lazy_regex(
    r"(?:[-*•]\s+)?[*_`\"]*(?P<key>[^\W\d][\w -]{0,40}?)[*_`\"]*\s?:[*_]*\s+(?P<value>[+-]?\d[\d.,]{0,20})"
)
_NOT_COUNTED = lazy_regex(
    r"\b(?:errors?|status|code|confidence|notes?|examples?|line|step|page|input|output|total|sum|subtotal|result|answer|count"
    r"|question|port|retry|max\w*|min\w*|not?|without|type|version|id|key|value)\b",
    re.IGNORECASE,
)


class DictNode(Node[dict[Any, Any]]):
    """Reads a dict from a JSON object with arbitrary keys.

    Attributes:
        key: The node of the keys.
        value: The node of the values.
        make: Creates the mapping from a dict.
    """

    kind = "an object"
    json_types = frozenset((dict,))

    def __init__(self, key: Node[object], value: Node[object], make: Callable[[Any], Any]) -> None:
        self.key = key
        self.value = value
        self.make = make
        self.exact = isinstance(key, TextNode) and make is dict

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self.key, self.value)

    def schema(self, definitions: Definitions) -> JsonSchema:
        keys, values = self.part_schemas(definitions)
        names: JsonSchema = {}
        # JSON keys are strings, so the members of an enum of keys are written as strings too
        if "enum" in keys or "const" in keys:
            members = keys.get("enum") or [keys["const"]]
            names["enum"] = [v if isinstance(v, str) else dump_json(v) for v in members]
        if "description" in keys:
            names = {**(names or {"type": "string"}), "description": keys["description"]}
        schema: JsonSchema = {"type": "object", "additionalProperties": values}
        return {**schema, "propertyNames": names} if names else schema

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f"{{{': '.join(self.part_hints(enclosing))}, ...}}"

    def read_text(self, text: str, cursor: Cursor) -> dict[object, object]:
        """Read a dict of numbers that is written as lines of a key and a number: ``- apples: 3``."""
        lines = without_table([line.strip() for line in text.strip().splitlines() if line.strip()])
        matches = [_COUNT_LINE.fullmatch(line) for line in lines]
        pairs = {match["key"]: match["value"] for match in matches if match is not None}
        is_clear = len(pairs) == len(lines) > 1 and not any(map(_NOT_COUNTED.search, pairs))
        is_clear = is_clear and not any(is_label_of_total(key, "") for key in pairs)
        if not is_clear or self.value.json_types is None or not self.value.json_types <= {int, Decimal}:
            raise cursor.failure(f"expected {self.kind}", text)
        cursor.record_dropped("lines of keys and values")
        return self.read(pairs, cursor)

    def read(self, data: Json, cursor: Cursor) -> dict[object, object]:
        if isinstance(data, str):
            data = parse_json_string(data, "{", cursor)
        if not isinstance(data, dict):
            raise cursor.failure("expected an object", data)
        pairs: dict[object, object] = {}
        before = len(cursor.coercions)
        failures: list[ValidationFailure] = []
        for key, value in data.items():
            value_cursor = cursor.child(key)
            try:
                name = self.read_key(key, value_cursor)
                if name in pairs:  # such as "1" and "+1" for an int: taking either would be a guess
                    raise value_cursor.failure(_REPEATED_KEY, key)
                pairs[name] = self.value.read(value, value_cursor)
            except ValidationFailure as failure:
                failures.append(failure)
                if len(failures) == MAX_FAILURES:
                    break
        if failures:
            raise combine_failures(failures)
        if self.value.identity_type is str:
            refuse_placeholders(pairs, cursor)
        if may_be_text(self.key):
            refuse_fillers(list(pairs), cursor)
        if len(cursor.coercions) > before:
            refuse_mixed_units(cursor, before, list(pairs.values()), is_table=True)
        return pairs if self.make is dict else self.make(pairs)

    def read_key(self, key: str, cursor: Cursor) -> object:
        """Convert a key of a JSON object to the key type of the dict, such as ``"1"`` to 1.

        JSON keys are always strings, so reading a number from digits is not recorded as a coercion.
        """
        if type(self.key) is TextNode:
            return key
        for data in _key_readings(key):
            scratch = Cursor(Leniency.SAFE, cursor.path)  # its coercions are checked and discarded
            try:
                name = self.key.read(data, scratch)
            except ValidationFailure:
                continue
            if any(coercion.rule not in _KEY_RULES for coercion in scratch.coercions):
                continue
            try:
                hash(name)
            except TypeError as error:
                raise cursor.failure(f"expected a key that a dict can hold: {error}", key) from error
            return name
        raise cursor.failure(f"expected a key that is {self.key.kind}", key)

    def parts_of(self, data: Json) -> dict[object, Node[object]]:
        return dict.fromkeys(data, self.value) if isinstance(data, dict) else {}

    def object_parts(self) -> ObjectParts:
        return ObjectParts(self.value, self.read_key, self.make)

    def core_schema(self) -> CoreSchema:
        keys, values = self.key.core_schema(), self.value.core_schema()
        return {"type": "dict", "keys_schema": keys, "values_schema": values}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("map", (("", self.value.storage(enclosing)),))

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return _JsonDictNode(json_node_of(self.key, built), json_node_of(self.value, built), dict)

    def write(self, value: object) -> Json:
        if not isinstance(value, collections.abc.Mapping):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return {self._written_key(key): self.value.write(one) for key, one in value.items()}

    def _written_key(self, key: object) -> str:
        data = self.key.write(key)
        return data if isinstance(data, str) else dump_json(data)

    def count_keys(self, value: Any) -> int:
        if self.value.fixed_keys() == 0:
            return len(value)
        if type(self.value) is AnyNode:
            return self.value.count_keys(value)  # of all values
        return len(value) + sum(map(self.value.count_keys, value.values()))


class _JsonDictNode(DictNode):
    """Reads an object with arbitrary keys, and returns it as JSON that pydantic reads."""

    def read_key(self, key: str, cursor: Cursor) -> object:
        name = super().read_key(key, cursor)
        return name if isinstance(name, str) else dump_json(name)


_REPEATED_KEY = "expected each key once; another key is read as the same key"
_KEY_RULES = (
    "number as text",
    "text for a value that is not text",
    "member by its value",
    CASE_OR_PUNCTUATION,
)


def _key_readings(key: str) -> list[Json]:
    """Return the possible meanings of a JSON key: ``"1"`` may be the string or the number 1.

    It is always text, and for ``1`` or ``true`` also a number or a boolean.
    """
    try:
        scalar = read_exact(key)
    except JsonSyntaxError:
        return [key]
    return [key] if isinstance(scalar, (str, list, dict)) else [key, scalar]


def mapping_node(target: Target, build: Callable[[Target], Node[object]]) -> Node[object] | None:
    """Return the parser for a dict type, or None for other types.

    A dict type without type arguments maps strings to any JSON.
    """
    if target.origin not in _MAPPINGS:
        return None
    key, value = target.args or (str, Any)
    make = collections.OrderedDict if target.origin is collections.OrderedDict else dict
    parts = target.child(key), target.child(value)
    _check_hashable(parts[0], "keys", target)
    node = DictNode(build(parts[0]), build(parts[1]), make)
    node.part_descriptions = (parts[0].description, parts[1].description)
    return node


# --- Unions ---


_MAX_KINDS = 20  # of values in a message
# A union with this many levels is a definition in the JSON Schema if it repeats: a schema in which each level
# repeats the one below grows exponentially. Unions with fewer levels stay in place, which models read better.
_DEFINED_NESTING = 3
_HINT_LEVELS = 4  # of unions in unions that a hint for the prompt writes in full


class _Fit(NamedTuple):
    """The result of reading data as one member of a union: a value, and the conversions needed."""

    option: Node[object]
    value: object
    coercions: list[Coercion]


# A whole reply that means null even if text is allowed. Other words, and a JSON string, are text.
_NO_TEXT = frozenset(("n/a", "null", "none"))


class UnionNode(Node[object]):
    """Reads a value of a union type such as ``int | str``.

    Attributes:
        options: The nodes of the members, in the order of their declaration.

    If a member has validators, pydantic reads the ``target``: it chooses the member by the results of the
    validators, and runs each of them once.
    """

    def __init__(
        self, options: tuple[Node[object], ...], tag: str | None, target: Target | None = None
    ) -> None:
        self.options = options
        typed_dicts = [
            part for part in options if isinstance(part, ObjectNode) and is_typeddict(part.spec.cls)
        ]
        if len(typed_dicts) > 1:
            for part in typed_dicts:
                part.class_is_hidden = True
        self._declared_tag = tag
        self._target = target

    @cached_property
    def exact(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        # pydantic tries the members in its own order, which does not matter if at most one of them fits
        is_optional = (len(self._not_null), len(self.options)) == (1, 2)
        return is_optional or all(starmap(_is_choice_certain, combinations(self._not_null, 2)))

    @cached_property
    def _not_null(self) -> list[Node[object]]:
        return [option for option in self.options if not isinstance(option, NoneNode)]

    # These are cached because unions inside unions would compute them again and again.
    @cached_property
    def kind(self) -> str:  # type: ignore[override]  # a property in place of an attribute
        kinds = self._kinds
        if len(kinds) > _MAX_KINDS:
            kinds = (*kinds[:_MAX_KINDS], f"{len(kinds) - _MAX_KINDS} other types")
        return " or ".join(kinds)

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        kinds = [
            option._kinds if isinstance(option, UnionNode) else (option.kind,) for option in self.options
        ]
        return tuple(dict.fromkeys(chain.from_iterable(kinds)))

    @cached_property
    def prose(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return all(option.prose for option in self.options)

    @cached_property
    def any_text(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return any(option.any_text for option in self.options)

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return self.options

    def schema(self, definitions: Definitions) -> JsonSchema:
        if self._nesting < _DEFINED_NESTING:
            return self._schema(definitions)
        return definitions.define(self, "Union", self._schema)

    def _schema(self, definitions: Definitions) -> JsonSchema:
        return {"anyOf": self.part_schemas(definitions)}

    @cached_property
    def _nesting(self) -> int:
        """The number of levels of unions, including this one: 2 for ``list[int | str] | None``."""
        return _nesting_in(self, {})

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        # deeper levels are only named, because the text could be several times as long with every level
        if sum(isinstance(node, UnionNode) for node in enclosing) >= _HINT_LEVELS and self._nesting > 1:
            return self.kind
        return " | ".join(self.part_hints(enclosing))

    @cached_property
    def _json_reader(self) -> JsonReader | None:
        if self._target is None or not runs_validators(self) or not readable_by_pydantic(self):
            return None
        validator = json_validator(self._target)
        return None if validator is None else JsonReader(self, validator, self._target.name)

    def read(self, data: Json, cursor: Cursor) -> object:
        if self._json_reader is not None:
            return self._json_reader.read(data, cursor)
        repeats = self._contains_unions if isinstance(data, (dict, list)) else self._has_unions
        return self._read_once(self._read, data, cursor) if repeats else self._read(data, cursor)

    @cached_property
    def _contains_unions(self) -> bool:
        """True if a member of this union contains a union, at any depth."""
        return any(isinstance(part, UnionNode) for option in self.options for part in walk(option))

    @cached_property
    def _has_unions(self) -> bool:
        """True if a member of this union is itself a union, directly or inside a wrapping parser."""
        return any(isinstance(unwrapped(option), UnionNode) for option in self.options)

    def _read_once(self, read: Callable[[Json, Cursor], object], data: Json, cursor: Cursor) -> object:
        """Read a value, or return the cached result if the same value was read before.

        Without this a recursive union would be read once per member, on every level: exponential time.
        """
        key = (id(self), read.__name__, cursor.path, id(data))
        if key not in cursor.union_cache:
            cursor.union_cache[key] = (data, _outcome(read, data, cursor))
        _, outcome = cursor.union_cache[key]
        if isinstance(outcome, ValidationFailure):
            raise outcome.with_traceback(None)
        value, coercions = outcome
        cursor.coercions.extend(coercions)
        return value

    def _read(self, data: Json, cursor: Cursor) -> object:
        options = self.options_by_tag(data, cursor) or self.options
        likely: tuple[Node[object], ...] = ()
        if len(options) == len(self.options):
            likely = self._options_by_type.get(type(data), ())
            if isinstance(data, dict) and len(likely) > 1:
                likely = tuple(option for option in likely if _may_have_keys(option, data))
        return self._best(options, data, cursor, lambda option: option.read(data, cursor), likely)

    @cached_property
    def _options_by_type(self) -> dict[type, tuple[Node[object], ...]]:
        """The members that may read a value of each JSON type without a conversion."""
        return {
            kind: tuple(one for one in self.options if one.json_types is None or kind in one.json_types)
            for kind in (str, int, Decimal, bool, type(None), list, dict)
        }

    def read_text(self, text: str, cursor: Cursor) -> object:
        if self._json_reader is not None:
            return self._json_reader.read_text(text, cursor)
        return (
            self._read_once(self._read_text, text, cursor)
            if self._has_unions
            else self._read_text(text, cursor)
        )

    def _read_text(self, text: str, cursor: Cursor) -> object:
        if self._lacks_opening_bracket(text):
            raise cursor.failure(f"expected {self.kind}; the opening bracket is missing", text)
        if self.any_text and text.strip().casefold() in _NO_TEXT:
            for option in self.options:
                if isinstance(option, NoneNode):
                    option.read_text(text, cursor)
                    return None
        return self._best(self.options, text, cursor, lambda option: option.read_text(text, cursor))

    def _lacks_opening_bracket(self, text: str) -> bool:
        """Return True if text may be the end of a list or an object of which the beginning was lost."""
        if self.any_text or "[" in text or "{" in text:
            return False
        kinds = {kind for bracket, kind in (("]", list), ("}", dict)) if bracket in text}
        return bool(kinds) and any(kinds & (option.json_types or set()) for option in self.options)

    def _best(
        self,
        options: tuple[Node[object], ...],
        data: Json,
        cursor: Cursor,
        read: Callable[[Node[object]], object],
        likely: tuple[Node[object], ...] = (),
    ) -> object:
        """Try each member of a union type, and return the value that needs the fewest conversions.

        The ``likely`` members are tried first. If one of them needs no conversion, the others are not tried.
        """
        before = len(cursor.coercions)
        fits: list[_Fit] = []
        failures: list[ValidationFailure] = []
        ambiguities: list[tuple[int, Ambiguity]] = []  # each with the number of coercions before it
        unlikely = tuple(option for option in options if option not in likely) if likely else options
        for position, option in enumerate(chain(likely, unlikely)):
            if position == len(likely) and any(not fit.coercions for fit in fits):
                break
            try:
                value = read(option)
            except Ambiguity as error:
                ambiguities.append((len(cursor.coercions) - before, error))
            except ValidationFailure as failure:
                failures.append(failure)
            else:
                fits.append(_Fit(option, value, cursor.coercions[before:]))
            del cursor.coercions[before:]  # the next member starts from the same state
        _check_ambiguities(ambiguities, fits)
        if not fits:
            raise self._nearest(failures, cursor)
        if len(fits) > 1 and likely:
            fits.sort(key=lambda fit: options.index(fit.option))
        best = _choose(fits, data, cursor) if len(fits) > 1 else fits[0]
        cursor.coercions.extend(best.coercions)
        return best.value

    def _nearest(self, failures: list[ValidationFailure], cursor: Cursor) -> ValidationFailure:
        """Return the error of the union member that fits the data best, although not fully.

        Its problems lie deepest inside the data. Among several such members it has the fewest problems.
        """
        depth = {id(m): max(p.path.count(".") + p.path.count("[") for p in m.problems) for m in failures}
        own_depth = cursor.path.count(".") + cursor.path.count("[")
        deeper = [failure for failure in failures if depth[id(failure)] > own_depth]
        if deeper:
            return min(deeper, key=lambda failure: len(failure.problems))
        data = failures[-1].problems[0].found
        return ValidationFailure(Problem(cursor.path, f"expected {self.kind}", data))

    def options_by_tag(self, data: Json, cursor: Cursor) -> tuple[Node[object], ...] | None:
        """Return the union member that the discriminator field (tag) of a JSON object names, or None."""
        if not isinstance(data, dict):
            return None
        for key in self._tag_keys:
            if key not in data:
                continue
            tag = data[key]
            exact = self._options_by_tag[key].get(tag, ()) if isinstance(tag, str) else ()
            if len(exact) == 1:
                return tuple(exact)
            chosen = []
            for option in self.options:
                node = _as_object(option)
                if node is None or not _can_read(_tag_node(node, key), data[key], cursor):
                    continue
                chosen.append(option)
            if len(chosen) == 1:
                return tuple(chosen)
        return None

    @cached_property
    def _options_by_tag(self) -> dict[str, dict[str, list[Node[object]]]]:
        """The members by the exact text of each tag, because reading it as a choice takes long."""
        by_tag: dict[str, dict[str, list[Node[object]]]] = {key: {} for key in self._tag_keys}
        for key, option in product(by_tag, self.options):
            record = _as_object(option)
            tag = None if record is None else _tag_node(record, key)
            choices = None if tag is None else _bare(tag)
            for text in choices.texts if isinstance(choices, ChoiceNode) else ():
                by_tag[key].setdefault(text, []).append(option)
        return by_tag

    @cached_property
    def _tag_keys(self) -> list[str]:
        return self.tag_keys()

    def tag_keys(self) -> list[str]:
        """Return the keys, such as ``type``, whose values in a JSON object may identify a union member.

        They are the discriminator, or the Literal fields that all members share.
        """
        if self._declared_tag is not None:
            return [self._declared_tag]
        objects = [node for option in self.options if (node := _as_object(option)) is not None]
        if len(objects) < 2:
            return []
        keys = [field.keys[0] for field in objects[0].spec.fields]
        return [key for key in keys if all(_tag_node(node, key) is not None for node in objects)]

    def write(self, value: object) -> Json:
        for option in self.options:
            try:
                data = option.write(value)
                again = option.read(data, Cursor())
            except (ValidationFailure, ValueError, *USER_CODE_ERRORS):
                continue
            if _equivalent(again, value):
                return data
        # a validator or the class may change the value again
        fitting = [option for option in self.options if type(value) is _value_class(option)]
        if not fitting and len(self._not_null) == 1 and runs_validators(self._not_null[0]):
            fitting = self._not_null
        if len(fitting) == 1:
            return fitting[0].write(value)
        raise ValueError(f"expected {self.kind}, found {value!r}")

    def core_schema(self) -> CoreSchema:
        schemas = [option.core_schema() for option in self._not_null]
        schema = schemas[0] if len(schemas) == 1 else {"type": "union", "choices": schemas}
        if TextNode in map(type, self._not_null) and any(map(_is_format, self._not_null)):
            formats = [option for option in self._not_null if not isinstance(option, TextNode)]
            kinds = [option.format for option in formats if isinstance(option, TemporalNode)]
            schema = text_or_formats_schema([option.core_schema() for option in formats], kinds)
        return schema if len(schemas) == len(self.options) else {"type": "nullable", "schema": schema}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        inside = (*enclosing, self)
        kinds = set() if self in enclosing else {option.storage(inside) for option in self.options}
        kinds.discard(Storage("null"))
        if kinds == {Storage("int"), Storage("float")}:
            return Storage("float")
        return kinds.pop() if len(kinds) == 1 else Storage("json")

    def fixed_keys(self) -> int | None:
        return 0 if all(option.fixed_keys() == 0 for option in self.options) else None

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return _JsonUnionNode(
            tuple(json_node_of(option, built) for option in self.options), self._declared_tag
        )

    def count_keys_of_all(self, values: collections.abc.Iterable[object]) -> int:
        """Return how many keys the JSON of all the values has. It runs for each reply, so it calls little."""
        total, counts = 0, self._counts_by_class
        for value in values:
            count = counts.get(type(value), self.count_keys)
            total += count if isinstance(count, int) else count(value)
        return total

    @cached_property
    def _counts_by_class(self) -> dict[object, int | Callable[[Any], int]]:
        """The number of keys of a class's values, or a function that counts them; not for all classes."""
        counts: dict[object, int | Callable[[Any], int]] = {type(None): 0}
        classes = [cls for cls, _ in self._options_with_keys]
        if len(set(classes)) == len(classes):
            for cls, option in self._options_with_keys:
                fixed = option.fixed_keys()
                counts[cls] = option.count_keys if fixed is None else fixed
        return counts

    def count_keys(self, value: object) -> int:
        if value is None:
            return 0
        for python_type, option in self._options_with_keys:
            if python_type is None or isinstance(value, python_type):
                return option.count_keys(value)
        return 0

    @cached_property
    def _options_with_keys(self) -> list[tuple[Any, Node[object]]]:
        """The members whose values have keys, each with the class of its values; None for a single member."""
        if len(self._not_null) == 1:
            return [(None, self._not_null[0])]
        return [(_value_class(option), option) for option in self._not_null if option.fixed_keys() != 0]


class _JsonUnionNode(UnionNode):
    """Reads a value of a union type, and returns it as the JSON from which pydantic chooses the member."""

    def _read(self, data: Json, cursor: Cursor) -> object:
        before = len(cursor.coercions)
        value = super()._read(data, cursor)
        # A Decimal is written as text, which may be another member of the union. A number is equivalent if
        # pydantic, which reads it as a float, does not round it.
        has_text = any(option.json_types is None or str in option.json_types for option in self.options)
        is_number = has_text and isinstance(data, Decimal) and len(cursor.coercions) == before
        return float(data) if is_number and data == Decimal(repr(float(data))) else value


def _outcome(
    read: Callable[[Json, Cursor], object], data: Json, cursor: Cursor
) -> ValidationFailure | tuple[object, list[Coercion]]:
    """Try to read a value; return it with its conversions, or the validation failure."""
    before = len(cursor.coercions)
    try:
        value = read(data, cursor)
    except ValidationFailure as failure:
        return failure
    coercions = cursor.coercions[before:]
    del cursor.coercions[before:]
    return value, coercions


def _may_have_keys(node: Node[object], data: dict[str, Json]) -> bool:
    """Return True unless a record lacks a required key of the data, or does not know one of the keys."""
    record = _as_object(node)
    if record is None or type(record) is not ObjectNode:
        return True
    has_required = all(
        any(key in data for key in field.keys) for field in record.spec.fields if field.required
    )
    return has_required and (record.spec.extra == "allow" or record.declared_keys >= data.keys())


def _is_choice_certain(one: Node[object], other: Node[object]) -> bool:
    """Return True if pydantic-core certainly chooses the right one of two members of a union.

    No exact JSON may fit both of them, apart from an empty list or object. The keys must be counted alike if
    the class of a value does not show which member it is of.
    """
    # of int and float, pydantic-core chooses the int for a number without a fraction, as _choose does
    if {type(one), type(other)} == {IntNode, FloatNode}:
        return True
    if (type(one) is TextNode and _is_format(other)) or (type(other) is TextNode and _is_format(one)):
        return True
    if not _are_disjoint(one, other):
        return False
    if not (_is_counted_once(one) and _is_counted_once(other)):
        return False
    same_class = _value_class(one) is _value_class(other) is not object
    return not same_class or one.fixed_keys() == other.fixed_keys() is not None or _are_flat_dicts(one, other)


def _is_format(node: Node[object]) -> bool:
    """Return True for a type written as text, of which only the exact texts are read in a union with text."""
    is_format = isinstance(node, (TemporalNode, ChoiceNode))
    return is_format and node.exact and node.json_types == frozenset((str,))


def _are_disjoint(one: Node[object], other: Node[object]) -> bool:
    """Return True if no exact JSON fits two nodes, apart from an empty list or object.

    They read different JSON types or choices, lists or dicts of such values, or records of which one requires
    a field that the other reads differently or does not know.
    """
    kinds, others = one.json_types, other.json_types
    if kinds is None or others is None:
        return False
    if kinds.isdisjoint(others):
        return True
    return type(one) is type(other) and _read_other_values(one, other)


def _read_other_values(one: Node[object], other: Any) -> bool:
    """Return True if no exact JSON fits two nodes of the same class, apart from an empty list or object."""
    match one:
        case ChoiceNode():
            return one.texts.isdisjoint(other.texts)
        case TemporalNode():
            return bool(one.format != other.format)
        case ListNode():
            return one.make is other.make and _are_disjoint(one.item, other.item)
        case DictNode():
            is_alike = one.make is other.make and type(one.key) is type(other.key) is TextNode
            return is_alike and _are_disjoint(one.value, other.value)
        case ObjectNode():
            return _requires_other_field(one, other) or _requires_other_field(other, one)
    return False


def _requires_other_field(record: ObjectNode, other: ObjectNode) -> bool:
    """Return True if a record requires a field that another record lacks, or declares with other choices."""
    fields = {field.keys: other.nodes[field.name] for field in other.spec.fields}
    return any(
        other.declared_keys.isdisjoint(field.keys)
        or (field.keys in fields and _are_different_scalars(record.nodes[field.name], fields[field.keys]))
        for field in record.spec.fields
        if field.required
    )


def _are_different_scalars(one: Node[object], other: Node[object]) -> bool:
    # not of records, which may contain themselves
    return isinstance(one, ChoiceNode) and _are_disjoint(one, other)


def _is_counted_once(node: Node[object]) -> bool:
    """Return True if trying a member of a union counts no keys when pydantic-core chooses another one.

    Some records count their keys while they are created, before the rest of the member is validated.
    """
    return not any(
        part.counts_own_keys for part in walk(node) if isinstance(part, ObjectNode) and part is not node
    )


def _are_flat_dicts(*nodes: Node[object]) -> bool:
    return all(isinstance(node, DictNode) and node.value.fixed_keys() == 0 for node in nodes)


def _value_class(node: Node[object]) -> object:
    """Return the class of the values that a node reads from exact JSON."""
    node = unwrapped(node)
    if isinstance(node, RootModelNode):
        return node.cls
    if isinstance(node, ObjectNode):
        return dict if is_typeddict(node.spec.cls) else node.spec.cls
    if isinstance(node, (DictNode, TupleNode)):
        return dict if isinstance(node, DictNode) else tuple
    return node.make if isinstance(node, ListNode) else object


def _nesting_in(node: Node[object], depths: dict[Node[object], int]) -> int:
    """Return how many levels of unions a type has; ``depths`` has the results so far."""
    if isinstance(node, UnionNode) and "_nesting" in vars(node):
        return node._nesting
    if node not in depths:
        depths[node] = 0  # for a recursive type, which contains this node again
        # the target of a RecursiveNode contains this node, too
        parts = () if isinstance(node, RecursiveNode) else node.parts
        inner = max((_nesting_in(part, depths) for part in parts), default=0)
        depths[node] = inner + isinstance(node, UnionNode)
    return depths[node]


def _check_ambiguities(ambiguities: list[tuple[int, Ambiguity]], fits: list[_Fit]) -> None:
    """Raise the Ambiguity of a member that needs as few coercions as any other."""
    for count, ambiguity in ambiguities:
        if all(count <= len(fit.coercions) for fit in fits):
            raise ambiguity


def _prefer_int(fits: list[_Fit], data: int) -> tuple[_Fit, list[_Fit]]:
    """Leave out floats, which may lose digits of an integer; also return the fit to prefer."""
    first = next((fit for fit in fits if type(fit.value) is int and fit.value == data), fits[0])
    return first, [fit for fit in fits if fit is first or not isinstance(fit.value, float)]


def _choose(fits: list[_Fit], data: Json, cursor: Cursor) -> _Fit:
    """Choose the union member that can read the data with the fewest conversions.

    Text and Any lose against more specific members. Raises Ambiguity if two members remain that have
    different values.
    """
    fewest = min(len(fit.coercions) for fit in fits)
    best = [fit for fit in fits if len(fit.coercions) == fewest]
    specific = [fit for fit in best if not isinstance(_bare(fit.option), (TextNode, AnyNode))] or best
    first = specific[0]
    if type(data) is int:
        first, specific = _prefer_int(specific, data)
    if not all(_equivalent(first.value, fit.value) for fit in specific):
        kinds = " and ".join(dict.fromkeys(type(fit.value).__name__ for fit in specific))
        raise Ambiguity(Problem(cursor.path, f"it can be read in more than one way: as {kinds}"))
    return next((fit for fit in specific if type(fit.value) is type(data)), first)


def _equivalent(one: object, other: object) -> bool:
    """Return True if two values are equal and have the same type, or are equal numbers such as 1 and 1.0."""
    return strict_equal(one, other) or (_is_number(one) and _is_number(other) and bool(one == other))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _bare(node: Node[object]) -> Node[object]:
    return node.inner if isinstance(node, JsonLeafNode) else node


def _as_object(node: Node[object]) -> ObjectNode | None:
    while isinstance(node, RecursiveNode):
        node = node.target
    return node if isinstance(node, ObjectNode) else None


def _tag_node(node: ObjectNode, key: str) -> Node[object] | None:
    for field in node.spec.fields:
        if key in field.keys and isinstance(_bare(node.nodes[field.name]), ChoiceNode):
            return node.nodes[field.name]
    return None


# Tags are read with the usual leniency, so that "Dog" selects the member with the tag "dog".
def _can_read(node: Node[object] | None, value: Json, cursor: Cursor) -> bool:
    if node is None:
        return False
    try:
        node.read(value, Cursor(cursor.leniency, cursor.path))
    except ValidationFailure:
        return False
    return True


def union_node(target: Target, build: Build) -> Node[object] | None:
    """Return the parser for a union type, including Optional, or None for other types."""
    if target.origin not in (Union, types.UnionType):
        return None
    discriminators = (getattr(item, "discriminator", None) for item in target.metadata)
    tag = next((tag for tag in discriminators if isinstance(tag, str)), None)
    options = [target.child(arg) for arg in target.args]
    node = UnionNode(tuple(map(build, options)), tag, target)
    node.part_descriptions = tuple(option.description for option in options)
    return node
