"""Parsers for Python container types: lists, sets, tuples and dicts."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from ..json.reader import parse_json_string, read_exact
from ..json.result import JsonSyntaxError
from ..prose.choices import IN_A_SENTENCE, is_clear_list, split_items
from ..result.errors import UnsupportedTypeError
from ..result.reading import (
    MAX_FAILURES,
    Cursor,
    Json,
    Leniency,
    ValidationFailure,
    combine_failures,
    dump_json,
)
from .node import Definitions, JsonSchema, Node
from .scalars import TextNode
from .target import Target, type_name

Build = Callable[[Target], Node[object]]

_MAKERS: dict[object, Callable[[Iterable[Any]], object]] = {
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

_NO_ITEMS = (str, bytes, bytearray, collections.abc.Mapping)  # collections that are not lists of items


class ListNode(Node[Any]):
    """Reads a list, set, frozenset or tuple with any number of items of one type.

    Attributes:
        item: The node of the items.
        make: Creates the container from a list of items.
    """

    def __init__(self, item: Node[object], make: Callable[[Iterable[Any]], object], *, exact: bool) -> None:
        self.item = item
        self.make = make
        self.exact = exact
        self.kind = "an array"

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
        failures: list[ValidationFailure] = []
        for index, item in enumerate(data):
            try:
                items.append(self.item.read(item, cursor.child(index)))
            except ValidationFailure as failure:
                failures.append(failure)
                if len(failures) == MAX_FAILURES:  # the list holds something else; more messages do not help
                    break
        if failures:
            raise combine_failures(failures)
        try:
            return self.make(items)
        except TypeError as error:  # unhashable items
            raise cursor.failure(f"expected items that a set can hold: {error}", data) from error

    def read_text(self, text: str, cursor: Cursor) -> object:
        """Read a list in plain text, with one item per line or with commas between items."""
        items = split_items(text)
        if items is None:
            raise cursor.failure("expected an array", text)
        # any line can be an item of text, even a remark about the items; a number cannot
        is_guess = self.item.any_text and not is_clear_list(text)
        if is_guess and cursor.leniency is Leniency.SAFE:
            raise cursor.failure("expected an array; write the items as a JSON array", text)
        cursor.record("items in a text", text, items, guess=is_guess)
        before = len(cursor.coercions)
        value = self.read(items, cursor)
        # "Yes, I like red, and blue" has commas too, but they do not separate items
        if items[0] == text.split(",")[0].strip() and any(
            coercion.rule == IN_A_SENTENCE for coercion in cursor.coercions[before:]
        ):
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
        return sum(map(self.item.count_keys, value))


class TupleNode(Node[tuple[object, ...]]):
    """Reads a tuple with a fixed number of items, whose types may differ.

    Attributes:
        items: The nodes of the items, in order.
    """

    def __init__(self, items: tuple[Node[object], ...]) -> None:
        self.items = items
        self.exact = True
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
        return tuple(
            node.read(item, cursor.child(index))
            for index, (node, item) in enumerate(zip(self.items, data, strict=True))
        )

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
    target: Target, make: Callable[[Iterable[Any]], object], build: Build, *, exact: bool
) -> ListNode:
    item = target.child(target.args[0] if target.args else Any)
    if make in (set, frozenset):
        _check_hashable(item, "items", target)
    node = ListNode(build(item), make, exact=exact)
    node.part_descriptions = (item.description,)
    return node


_MAPPINGS = {dict, collections.OrderedDict, collections.abc.Mapping, collections.abc.MutableMapping}


class DictNode(Node[dict[Any, Any]]):
    """Reads a dict from a JSON object with arbitrary keys.

    Attributes:
        key: The node of the keys.
        value: The node of the values.
        make: Creates the mapping from a dict.
    """

    kind = "an object"

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

    def read(self, data: Json, cursor: Cursor) -> dict[Any, Any]:
        if isinstance(data, str):
            data = parse_json_string(data, "{", cursor)
        if not isinstance(data, dict):
            raise cursor.failure("expected an object", data)
        pairs: dict[object, object] = {}
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
        return pairs if self.make is dict else self.make(pairs)

    def read_key(self, key: str, cursor: Cursor) -> object:
        """Convert a key of a JSON object to the key type of the dict, such as ``"1"`` to 1.

        JSON keys are always strings, so reading a number from digits is not recorded as a coercion.
        """
        for data in _key_readings(key):
            scratch = Cursor(Leniency.SAFE, cursor.path)  # its coercions are checked and thrown away
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

    def write(self, value: object) -> Json:
        if not isinstance(value, collections.abc.Mapping):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        return {self._written_key(key): self.value.write(one) for key, one in value.items()}

    def _written_key(self, key: object) -> str:
        data = self.key.write(key)
        return data if isinstance(data, str) else dump_json(data)

    def count_keys(self, value: Any) -> int:
        return len(value) + sum(map(self.value.count_keys, value.values()))


_REPEATED_KEY = "expected each key once; another key is read as the same key"
_KEY_RULES = ("number as text", "text for a value that is not text", "member by its value")


def _key_readings(key: str) -> list[Json]:
    """List the values that a JSON object key may mean: ``"1"`` may mean the string or the number 1.

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
