"""How an object is written whose keys are data: as a list of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ..node import JsonSchema
from ..objects import plain_key
from ..reading import Json, Place, show, written
from .boxes import closed_object
from .checks import breaks
from .code import Code
from .finding import EncodingFault
from .undo import MORE_THAN_ONE_WAY, Kind, Spot, keyed

__all__ = ["PairsCode"]

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

    def encode(self, value: Json, at: Place) -> Json:
        if not isinstance(value, dict):
            raise EncodingFault(at.path, f"expected an object, found {show(value)}")
        broken = breaks(self.keywords, value)
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {show(value)}")
        return [self.pair(key, item, at.at(key)) for key, item in value.items()]

    def pair(self, key: str, item: Json, at: Place) -> Json:
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
            items[key] = self.value.undo(given["value"], here.under("value", at.plain.at(key)))
        return items

    def _key(self, found: Json, at: Spot) -> str | None:
        if isinstance(found, (int, float, Decimal)) and not isinstance(found, bool):
            at.noted("number as text", found, written(found))
            return written(found)
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
        return {key: self.value.undo(item, at.at(key)) for key, item in found.items()}
