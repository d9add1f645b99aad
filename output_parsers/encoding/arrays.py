"""How arrays are written: lists as they are, tuples as objects where a profile has no tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..node import JsonSchema
from ..reading import Json, Place, show
from .boxes import NullableCode, closed_object
from .checks import breaks
from .code import Code
from .finding import EncodingFault
from .leaves import NeverCode

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

    def decode(self, value: Json, at: Place) -> Json:
        items = _array(value, at)
        return [self.item.decode(item, at.at(index)) for index, item in enumerate(items)]


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

    def decode(self, value: Json, at: Place) -> Json:
        items = _array(value, at)
        return [self._code(i).decode(item, at.at(i)) for i, item in enumerate(items)]

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

    def decode(self, value: Json, at: Place) -> Json:
        keys = [*self.keys, *(() if self.rest is None else ("rest",))]
        if not isinstance(value, dict) or set(value) != set(keys):
            raise EncodingFault(at.path, f"expected an object with {', '.join(keys)}, found {show(value)}")
        given = [
            (index, code)
            for index, code in enumerate(self.items)
            if not (isinstance(code, NullableCode) and value[self.keys[index]] is None)
        ]
        rest = [] if self.rest is None else self.rest.decode(value["rest"], at.at("rest"))
        if len(given) < (len(self.items) if rest else given[-1][0] + 1 if given else 0):
            raise EncodingFault(at.path, "an item is left out, and one after it is not")
        return [code.decode(value[self.keys[i]], at.at(self.keys[i])) for i, code in given] + rest


def _array(value: Json, at: Place) -> list[Json]:
    if not isinstance(value, list):
        raise EncodingFault(at.path, f"expected an array, found {show(value)}")
    return value
