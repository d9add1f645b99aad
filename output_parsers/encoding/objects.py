"""How objects are written: closed, with what is left out as null and what has a free key as pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from ..node import JsonSchema
from ..reading import Json, Place, show
from .boxes import NullableCode, closed_object
from .checks import breaks
from .code import Code
from .finding import EncodingFault
from .leaves import NeverCode

__all__ = ["Absence", "Extra", "Field", "ObjectCode", "PairsCode"]


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

    def decode(self, value: Json, at: Place) -> Json:
        if not isinstance(value, list):
            raise EncodingFault(at.path, f"expected an array of keys and values, found {show(value)}")
        found: dict[str, Json] = {}
        for index, pair in enumerate(value):
            here = at.at(index)
            if not isinstance(pair, dict) or set(pair) != {"key", "value"}:
                raise EncodingFault(here.path, f"expected an object with key and value, found {show(pair)}")
            key = self.key.decode(pair["key"], here.at("key"))
            if key in found:
                raise EncodingFault(here.at("key").path, f"the key stands twice, found {show(key)}")
            found[key] = self.value.decode(pair["value"], here.at("value"))
        return found


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
            return {key: self._open(at, key).encode(item, at.at(key)) for key, item in others.items()}
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

    def decode(self, value: Json, at: Place) -> Json:
        if not isinstance(value, dict):
            raise EncodingFault(at.path, f"expected an object, found {show(value)}")
        missing = [key for key in self.required if key not in value]
        if missing:
            raise EncodingFault(at.path, f"expected the key {missing[0]!r}, found {show(value)}")
        found: dict[str, Json] = {}
        pairs = {extra.name: extra.pairs for extra in self.extras}
        for key, item in value.items():
            if key in self.fields:
                if not self.fields[key].left_out(item):
                    found[key] = self.fields[key].code.decode(item, at.at(key))
            elif key not in pairs:
                found[key] = self._open(at, key).decode(item, at.at(key))
        for name, code in pairs.items():
            for key, item in code.decode(value[name], at.at(name)).items():
                if key in found or key in self.fields:
                    raise EncodingFault(at.at(name).path, f"the key stands twice, found {show(key)}")
                found[key] = item
        return found

    def _open(self, at: Place, key: str) -> Code:
        if self.rest is None or isinstance(self.rest, NeverCode):
            raise EncodingFault(at.at(key).path, "no property of this name is expected")
        return self.rest
