"""How objects are written: closed, with what is left out as null and what has a free key as pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ..node import JsonSchema
from ..objects import plain_key
from ..reading import Json, Place, show
from .boxes import NullableCode, closed_object
from .code import Code
from .finding import EncodingFault
from .leaves import NeverCode
from .pairs import PairsCode
from .undo import NOTHING, Spot

__all__ = ["Absence", "Extra", "Field", "ObjectCode"]


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

    def encode(self, value: Json, at: Place) -> Json:
        if not isinstance(value, dict):
            raise EncodingFault(at.path, f"expected an object, found {show(value)}")
        found: dict[str, Json] = {}
        for key, (code, absence) in self.fields.items():
            if key in value:
                found[key] = code.encode(value[key], at.at(key))
            elif absence is Absence.NEVER:
                raise EncodingFault(at.at(key).path, "it is required, and left out")
            elif absence is not Absence.MISSING:
                found[key] = None
        others = {key: item for key, item in value.items() if key not in self.fields}
        return {**found, **self._encode_others(others, at)}

    def _encode_others(self, others: dict[str, Json], at: Place) -> dict[str, Json]:
        if not self.extras:
            return {key: self._open(at.at(key)).encode(item, at.at(key)) for key, item in others.items()}
        parts: dict[str, list[Json]] = {extra.name: [] for extra in self.extras}
        for key, item in others.items():
            name, pair = self._pair(key, item, at.at(key))
            parts[name].append(pair)
        return dict(parts)

    def _pair(self, key: str, item: Json, at: Place) -> tuple[str, Json]:
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
                found[key] = self._undone_other(key, item, at.at(key))
            else:
                below = at.at(key)
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
                at.at(key).leaf("it is required, and left out", NOTHING)
            else:
                at.at(key).left_plain("it is left out", NOTHING)
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

    def _open(self, at: Place) -> Code:
        if self.rest is None:
            raise EncodingFault(at.path, "no property of this name is expected")
        return self.rest
