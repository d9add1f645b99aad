"""How arrays are written: lists as they are, tuples as objects where a profile has no tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..node import JsonSchema
from ..reading import Json, Place, show
from .boxes import NullableCode, closed_object
from .checks import breaks
from .code import Code
from .finding import EncodingFault
from .leaves import AnyCode, NeverCode
from .undo import NOTHING, Kind, Spot, keyed

__all__ = ["ListCode", "NativeTupleCode", "TupleCode"]


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

    def encode(self, value: Json, at: Place) -> Json:
        items = _array(value, at)
        broken = breaks(self.keywords, items)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {show(value)}")
        return [self.item.encode(item, at.at(index)) for index, item in enumerate(items)]

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

    def encode(self, value: Json, at: Place) -> Json:
        items = _array(value, at)
        broken = breaks(self.keywords, items)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {show(value)}")
        return [self._code(i).encode(item, at.at(i)) for i, item in enumerate(items)]

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

    def encode(self, value: Json, at: Place) -> Json:
        items = _array(value, at)
        if len(items) < self.least or (self.rest is None and len(items) > len(self.items)):
            raise EncodingFault(at.path, f"expected {len(self.items)} items, found {show(value)}")
        found: dict[str, Json] = {}
        for index, (key, code) in enumerate(zip(self.keys, self.items, strict=True)):
            found[key] = code.encode(items[index], at.at(index)) if index < len(items) else None
        if self.rest is not None:
            found["rest"] = self.rest.encode(items[len(self.items) :], at)
        return found

    def undo(self, value: Json, at: Spot) -> Json:
        found = at.opened(value, "{")
        keys = [*self.keys, *(() if self.rest is None else ("rest",))]
        if isinstance(found, list):
            at.left_plain(f"expected an object with {', '.join(keys)}", value)
            return [self._code(index).undo(item, at.at(index)) for index, item in enumerate(found)]
        if not isinstance(found, dict) or (keys and not keyed(found, keys, at.apart())):
            at.fails(f"expected an object with {', '.join(keys)}", value, Kind.FOREIGN)
            return value
        return self._items(keyed(found, keys, at, alone=True), at)

    def _items(self, given: dict[str, Json], at: Spot) -> Json:
        items: list[Json] = []
        hole = False
        for index, (key, code) in enumerate(zip(self.keys, self.items, strict=True)):
            below = at.under(key, at.plain.at(index))
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
        at_rest = [below.under(i, at.plain.at(len(self.items) + i)) for i in range(len(found))]
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
    return [code(index).undo(item, at.at(index)) for index, item in enumerate(found)]


def _array(value: Json, at: Place) -> list[Json]:
    if not isinstance(value, list):
        raise EncodingFault(at.path, f"expected an array, found {show(value)}")
    return value
