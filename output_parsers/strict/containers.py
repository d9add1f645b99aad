"""How arrays are written: lists as they are, tuples as objects where a profile has no tuples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from ..result.reading import Cursor, Json, describe_value, dump_json
from ..types.node import JsonSchema
from ..types.records import plain_key
from .codec import MORE_THAN_ONE_WAY, NOTHING, Code, EncodingFault, Kind, Spot, keyed
from .scalars import AnyCode, NeverCode, NullableCode, closed_object
from .schema_queries import breaks


class ListCode(Code):
    """Any number of items of one kind."""

    def __init__(self, item: Code, keywords: Mapping[str, Any]) -> None:
        self.item = item
        self.keywords = keywords

    @property
    def parts(self) -> Sequence[Code]:
        return (self.item,)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("array",))

    def bare_schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), **self.keywords}

    def encode(self, value: Json, at: Cursor) -> Json:
        items = _array(value, at)
        broken = breaks(self.keywords, items)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {describe_value(value)}")
        return [self.item.encode(item, at.child(index)) for index, item in enumerate(items)]

    def undo(self, value: Json, at: Spot) -> Json:
        return _undone(value, at, lambda index: self.item)


class NativeTupleCode(ListCode):
    """Items each of its own kind, for a profile that has tuples; ``item`` is what follows them."""

    def __init__(self, first: Sequence[Code], rest: Code, keywords: Mapping[str, Any]) -> None:
        super().__init__(rest, keywords)
        self.first = tuple(first)

    @property
    def parts(self) -> Sequence[Code]:
        return (*self.first, self.item)

    def bare_schema(self) -> JsonSchema:
        rest = False if isinstance(self.item, NeverCode) else self.item.schema()
        prefix = [code.schema() for code in self.first]
        return {"type": "array", "prefixItems": prefix, "items": rest, **self.keywords}

    def encode(self, value: Json, at: Cursor) -> Json:
        items = _array(value, at)
        broken = breaks(self.keywords, items)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {describe_value(value)}")
        return [self._code(i).encode(item, at.child(i)) for i, item in enumerate(items)]

    def undo(self, value: Json, at: Spot) -> Json:
        return _undone(value, at, self._code)

    def _code(self, index: int) -> Code:
        return self.first[index] if index < len(self.first) else self.item


class TupleCode(Code):
    """Items each of its own kind, as an object with ``item_0`` …; those that may be left out are nullable.

    ``least`` is how many items there must be; ``rest`` what may follow, as a list under ``rest``.
    """

    plain = False

    def __init__(self, items: Sequence[Code], least: int, rest: Code) -> None:
        self.items = [code if index < least else NullableCode(code) for index, code in enumerate(items)]
        self.least = least
        self.rest = None if isinstance(rest, NeverCode) else ListCode(rest, {})
        self.keys = [f"item_{index}" for index in range(len(items))]

    @property
    def parts(self) -> Sequence[Code]:
        return (*self.items, *(() if self.rest is None else (self.rest,)))

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    def bare_schema(self) -> JsonSchema:
        properties = {key: code.schema() for key, code in zip(self.keys, self.items, strict=True)}
        return closed_object(properties | ({} if self.rest is None else {"rest": self.rest.schema()}))

    def encode(self, value: Json, at: Cursor) -> Json:
        items = _array(value, at)
        if len(items) < self.least or (self.rest is None and len(items) > len(self.items)):
            raise EncodingFault(at.path, f"expected {len(self.items)} items, found {describe_value(value)}")
        found: dict[str, Json] = {}
        for index, (key, code) in enumerate(zip(self.keys, self.items, strict=True)):
            found[key] = code.encode(items[index], at.child(index)) if index < len(items) else None
        if self.rest is not None:
            found["rest"] = self.rest.encode(items[len(self.items) :], at)
        return found

    def undo(self, value: Json, at: Spot) -> Json:
        found = at.opened(value, "{")
        keys = [*self.keys, *(() if self.rest is None else ("rest",))]
        if isinstance(found, list):
            at.left_plain(f"expected an object with {', '.join(keys)}", value)
            return [self._code(index).undo(item, at.child(index)) for index, item in enumerate(found)]
        if not isinstance(found, dict) or (keys and not keyed(found, keys, at.apart())):
            at.fails(f"expected an object with {', '.join(keys)}", value, Kind.FOREIGN)
            return value
        return self._items(keyed(found, keys, at, alone=True), at)

    def _items(self, given: dict[str, Json], at: Spot) -> Json:
        items: list[Json] = []
        hole = False
        for index, (key, code) in enumerate(zip(self.keys, self.items, strict=True)):
            below = at.under(key, at.plain.child(index))
            if isinstance(code, NullableCode) and given.get(key) is None:
                if key not in given:
                    below.left_plain("it is left out", NOTHING)
                hole = True
            elif key not in given:
                below.fails(f"the required key {key!r} is missing", NOTHING)
                items.append(None)
            elif hole:
                below.fails("an item before it is left out", given[key])
            else:
                items.append(code.undo(given[key], below))
        return items + self._rest(given, at, hole=hole)

    def _rest(self, given: dict[str, Json], at: Spot, *, hole: bool) -> list[Json]:
        if self.rest is None:
            return []
        below = at.under("rest")
        if "rest" not in given:
            below.left_plain("it is left out", NOTHING)
            return []
        found = below.opened(given["rest"], "[")
        if not isinstance(found, list) or (hole and found):
            below.fails("an item before it is left out" if hole else "expected an array", given["rest"])
            return []
        at_rest = [below.under(i, at.plain.child(len(self.items) + i)) for i in range(len(found))]
        return [self.rest.item.undo(item, spot) for item, spot in zip(found, at_rest, strict=True)]

    def _code(self, index: int) -> Code:
        if index < len(self.items):
            code = self.items[index]
            return code.bare if isinstance(code, NullableCode) else code
        return AnyCode() if self.rest is None else self.rest.item


def _undone(value: Json, at: Spot, code: Callable[[int], Code]) -> Json:
    found = at.opened(value, "[")
    if not isinstance(found, list):
        at.leaf("expected an array", value, heavy=True)
        return value
    return [code(index).undo(item, at.child(index)) for index, item in enumerate(found)]


def _array(value: Json, at: Cursor) -> list[Json]:
    if not isinstance(value, list):
        raise EncodingFault(at.path, f"expected an array, found {describe_value(value)}")
    return value


_PAIR = ("key", "value")


class PairsCode(Code):
    """An object whose keys are data, as an array of ``{"key": …, "value": …}``."""

    plain = False

    def __init__(self, key: Code, value: Code, keywords: Mapping[str, Any]) -> None:
        self.key = key
        self.value = value
        self.keywords = keywords

    @property
    def parts(self) -> Sequence[Code]:
        return (self.key, self.value)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("array",))

    def bare_schema(self) -> JsonSchema:
        pair = closed_object({"key": self.key.schema(), "value": self.value.schema()})
        return {"type": "array", "items": pair, **self.keywords}

    def encode(self, value: Json, at: Cursor) -> Json:
        if not isinstance(value, dict):
            raise EncodingFault(at.path, f"expected an object, found {describe_value(value)}")
        broken = breaks(self.keywords, value)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {describe_value(value)}")
        return [self.pair(key, item, at.child(key)) for key, item in value.items()]

    def pair(self, key: str, item: Json, at: Cursor) -> Json:
        """One key with its value."""
        return {"key": self.key.encode(key, at), "value": self.value.encode(item, at)}

    def undo(self, value: Json, at: Spot) -> Json:
        found = at.opened(value, "[")
        if isinstance(found, dict):
            return self._without(found, at)
        if not isinstance(found, list):
            at.fails("expected an array of keys and values", value, Kind.FOREIGN)
            return value
        items: dict[str, Json] = {}
        for index, pair in enumerate(found):
            here = at.under(index)
            given = keyed(pair, _PAIR, here.apart()) if isinstance(pair, dict) else {}
            if set(given) != set(_PAIR):
                here.fails("expected an object with key and value", pair)
                continue
            given = keyed(pair, _PAIR, here)
            key = self._key(given["key"], here.under("key"))
            if key is None:
                continue
            if key in items:
                here.under("key").fails("the key stands twice", key)
                continue
            items[key] = self.value.undo(given["value"], here.under("value", at.plain.child(key)))
        return items

    def _key(self, found: Json, at: Spot) -> str | None:
        if isinstance(found, (int, float, Decimal)) and not isinstance(found, bool):
            at.noted("number as text", found, dump_json(found))
            return dump_json(found)
        if not isinstance(found, str):
            at.fails("expected a key in a string", found)
            return None
        key = self.key.undo(found, at)
        return key if isinstance(key, str) else found

    def _without(self, found: dict[str, Json], at: Spot) -> Json:
        if {plain_key(key) for key in found} == set(_PAIR):  # a pair that is no list, or two keys of data
            at.fails(MORE_THAN_ONE_WAY, found, Kind.DOUBT)
            return found
        at.left_plain("expected an array of keys and values", found)
        return {key: self.value.undo(item, at.child(key)) for key, item in found.items()}


class Absence(Enum):
    """How it is written that a property is left out."""

    NEVER = "it is required"
    MISSING = "its key is missing"
    NULL = "it is null"


class Field(NamedTuple):
    """A property with a key of its own."""

    code: Code
    absence: Absence

    def left_out(self, item: Json) -> bool:
        """Whether what stands under the key says that nothing does."""
        return item is None and isinstance(self.code, NullableCode) and not self.code.keeps_null


class Extra(NamedTuple):
    """Properties with free keys: the name that their pairs stand under, and the pattern of their keys."""

    name: str
    pattern: str | None
    pairs: PairsCode


class ObjectCode(Code):
    """An object with known keys. ``extras`` hold what has other keys as pairs; ``open`` takes it as it is."""

    def __init__(self, fields: Mapping[str, Field], extras: Sequence[Extra], rest: Code | None) -> None:
        self.fields = dict(fields)
        self.extras = tuple(extras)
        self.rest = rest
        self.plain = not extras  # what is null where it is left out says so itself

    @property
    def parts(self) -> Sequence[Code]:
        rest = () if self.rest is None else (self.rest,)
        return (*(f.code for f in self.fields.values()), *(extra.pairs for extra in self.extras), *rest)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    @property
    def required(self) -> list[str]:
        """The keys that an encoded object always has."""
        own = [key for key, field in self.fields.items() if field.absence is not Absence.MISSING]
        return [*own, *(extra.name for extra in self.extras)]

    def bare_schema(self) -> JsonSchema:
        properties = {key: field.code.schema() for key, field in self.fields.items()}
        properties |= {extra.name: extra.pairs.schema() for extra in self.extras}
        schema = {**closed_object(properties), "required": self.required}
        if self.rest is not None:
            schema["additionalProperties"] = self.rest.schema() or True
        return schema

    def encode(self, value: Json, at: Cursor) -> Json:
        if not isinstance(value, dict):
            raise EncodingFault(at.path, f"expected an object, found {describe_value(value)}")
        found: dict[str, Json] = {}
        for key, (code, absence) in self.fields.items():
            if key in value:
                found[key] = code.encode(value[key], at.child(key))
            elif absence is Absence.NEVER:
                raise EncodingFault(at.child(key).path, "it is required, and left out")
            elif absence is not Absence.MISSING:
                found[key] = None
        others = {key: item for key, item in value.items() if key not in self.fields}
        return {**found, **self._encode_others(others, at)}

    def _encode_others(self, others: dict[str, Json], at: Cursor) -> dict[str, Json]:
        if not self.extras:
            return {key: self._open(at.child(key)).encode(item, at.child(key)) for key, item in others.items()}
        parts: dict[str, list[Json]] = {extra.name: [] for extra in self.extras}
        for key, item in others.items():
            name, pair = self._pair(key, item, at.child(key))
            parts[name].append(pair)
        return dict(parts)

    def _pair(self, key: str, item: Json, at: Cursor) -> tuple[str, Json]:
        """The pair of a free key, and the name of the list that it goes to."""
        last = EncodingFault(at.path, "no property of this name is expected")
        for name, pattern, pairs in self.extras:
            if pattern is None or re.search(pattern, key):
                try:
                    return name, pairs.pair(key, item, at)
                except EncodingFault as fault:
                    last = fault
        raise last

    def undo(self, value: Json, at: Spot) -> Json:
        given = at.opened(value, "{")
        if not isinstance(given, dict):
            at.leaf("expected an object", value, heavy=True)
            return value
        found: dict[str, Json] = {}
        parts: dict[str, Json] = {}
        for key, item in given.items():
            name = self._meant(key, given)
            if name in self._pairs:
                if name != key:
                    at.under(key).noted("key in another form", key, name)
                if name in parts:
                    at.under(key).fails(f"another key means {name!r} too", key)
                parts[name] = item
            elif name is None:
                found[key] = self._undone_other(key, item, at.child(key))
            else:
                below = at.child(key)
                if name != key:
                    below.leaf(f"expected the key {name!r}", key)
                if not self.fields[name].left_out(item):
                    found[key] = self.fields[name].code.undo(item, below)
        self._missing(given, parts, at)
        for name, item in parts.items():
            self._undo_pairs(name, item, found, at)
        return found

    def _meant(self, key: str, given: dict[str, Json]) -> str | None:
        """The name that a key means: its own, or one in another form that is not given by itself."""
        if key in self.fields or key in self._pairs:
            return key
        name = self._by_plain.get(plain_key(key))
        return None if name is None or name in given else name

    @cached_property
    def _pairs(self) -> dict[str, PairsCode]:
        return {extra.name: extra.pairs for extra in self.extras}

    @cached_property
    def _by_plain(self) -> dict[str, str | None]:
        names: dict[str, str | None] = {}
        for name in (*self.fields, *self._pairs):
            plain = plain_key(name)
            names[plain] = None if plain in names else name
        return names

    def _missing(self, given: dict[str, Json], parts: dict[str, Json], at: Spot) -> None:
        meant = {self._meant(key, given) for key in given}
        for key, field in self.fields.items():
            if key in meant or field.absence is Absence.MISSING:
                continue
            if field.absence is Absence.NEVER:
                at.child(key).leaf("it is required, and left out", NOTHING)
            else:
                at.child(key).left_plain("it is left out", NOTHING)
        for name in self._pairs.keys() - parts.keys():
            at.under(name).left_plain("it is left out", NOTHING)

    def _undone_other(self, key: str, item: Json, at: Spot) -> Json:
        """What stands under a key that is none of the object's own."""
        if self.rest is not None and not isinstance(self.rest, NeverCode):
            return self.rest.undo(item, at)
        for _, pattern, pairs in self.extras:
            if pattern is None or re.search(pattern, key):
                at.left_plain("no property of this name is expected", item)
                return pairs.value.undo(item, at)
        at.leaf("no property of this name is expected", key)
        return item

    def _undo_pairs(self, name: str, item: Json, found: dict[str, Json], at: Spot) -> None:
        below = at.under(name)
        undone = self._pairs[name].undo(item, below)
        if not isinstance(undone, dict):
            below.fails("expected an array of keys and values", item)
            return
        for key, value in undone.items():
            if key in found or key in self.fields:
                below.fails("the key stands twice", key)
            found.setdefault(key, value)

    def _open(self, at: Cursor) -> Code:
        if self.rest is None:
            raise EncodingFault(at.path, "no property of this name is expected")
        return self.rest
