"""Makes up JSON values that fit a JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from output_parsers.reading import Json

from .formats import FORMATS
from .source import Source

__all__ = ["PLAIN", "Texts", "json_for"]

_DEEPEST = 3  # levels below which the shortest way to an end is taken
_ENDLESS = 1_000
_TRIES = 20
_KINDS = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
}


class Texts(NamedTuple):
    """What a schema does not say: the form of keys and of texts, by its name in FORMATS; None is any text."""

    keys: str | None = None
    others: str | None = None


PLAIN = Texts()


def json_for(schema: Mapping[str, Any], source: Source, texts: Texts = PLAIN) -> Json:
    """A JSON value that fits the schema, by the choices of the source.

    It knows the keywords that say what a value is made of (draft 2020-12), and leaves those alone that only
    forbid, as ``not``: who needs to be sure reads the value.
    """
    return _Maker(schema, source, texts).value(schema, 0)


class _Maker:
    def __init__(self, root: Mapping[str, Any], source: Source, texts: Texts) -> None:
        self._root = root
        self._source = source
        self._texts = texts

    def value(self, schema: Any, depth: int) -> Json:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping):  # true: whatever there is
            schema = {}
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._source.one_of(schema["enum"])
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            rest = {key: said for key, said in schema.items() if key not in ("anyOf", "oneOf", "$defs")}
            return self.value(_both(self._chosen(options, depth), rest), depth)
        if "allOf" in schema:
            whole = {key: said for key, said in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                whole = _both(self._resolved(part), whole)
            return self.value(whole, depth)
        return self._of_kind(self._kind(schema, depth), schema, depth)

    def _resolved(self, schema: Any) -> Any:
        while isinstance(schema, Mapping) and "$ref" in schema:
            found: Any = self._root
            for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                found = found[step.replace("~1", "/").replace("~0", "~")] if step else found
            schema = _both(found, {key: said for key, said in schema.items() if key != "$ref"})
        return schema

    def _chosen(self, options: list[Any], depth: int) -> Any:
        if depth < _DEEPEST:
            return self._resolved(self._source.one_of(options))
        return self._resolved(min(options, key=lambda option: self._height(option, ())))

    def _kind(self, schema: Mapping[str, Any], depth: int) -> str:
        said = schema.get("type") or next((kind for key, kind in _KINDS.items() if key in schema), None)
        if said is None:
            return self._source.one_of(("string", "integer", "boolean", "null"))
        return said if isinstance(said, str) else self._source.one_of(said)

    def _of_kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> Json:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(schema, whole=kind == "integer")
        return None if kind == "null" else self._source.one_of((True, False))

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Json]:
        required = set(schema.get("required", ()))
        found = {
            key: self.value(below, depth + 1)
            for key, below in schema.get("properties", {}).items()
            if key in required or (depth < _DEEPEST and self._source.one_of((True, False)))
        }
        others = schema.get("additionalProperties", not found)
        least = schema.get("minProperties", 0) - len(found)
        if others is False or ("properties" in schema and least <= 0):
            return found
        size = len(found) + self._size(max(least, 0), schema.get("maxProperties"), depth)
        for _ in range(size + _TRIES):  # a key may come twice
            if len(found) == size:
                break
            found[self._key(schema)] = self.value(others, depth + 1)
        self._enough(len(found), schema.get("minProperties", 0))
        return found

    def _key(self, schema: Mapping[str, Any]) -> str:
        names = schema.get("propertyNames")
        if names:
            return str(self.value({"type": "string", **names}, _DEEPEST))
        return (
            self._source.text(1, 12) if self._texts.keys is None else FORMATS[self._texts.keys](self._source)
        )

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Json]:
        first = schema.get("prefixItems", [])
        found = [self.value(below, depth + 1) for below in first]
        rest = schema.get("items", not first)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if rest is False or (first and least <= len(first) and most in (None, len(first))):
            return found
        size = self._size(max(least - len(found), 0), None if most is None else most - len(found), depth)
        tries = size + _TRIES if schema.get("uniqueItems") else size
        seen: set[str] = set()
        while size > 0 and tries > 0:
            item, tries = self.value(rest, depth + 1), tries - 1
            text = json.dumps(item, sort_keys=True, default=str)
            if not (schema.get("uniqueItems") and text in seen):
                seen.add(text)
                found.append(item)
                size -= 1
        self._enough(len(found), least)
        return found

    def _enough(self, found: int, least: int) -> None:
        if found < least:
            self._source.reject()

    def _size(self, least: int, most: int | None, depth: int) -> int:
        return least if depth >= _DEEPEST else self._source.size(least, most)

    def _string(self, schema: Mapping[str, Any]) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if "pattern" in schema:
            said = ""
            for _ in range(_TRIES):
                said = self._source.matching(schema["pattern"])
                if least <= len(said) <= (len(said) if most is None else most):
                    return said
            self._source.reject()
            return said
        make = FORMATS.get(schema.get("format", self._texts.others))
        return self._source.text(least, most) if make is None else make(self._source)

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> int | float | Decimal:
        low, high = _bounds(schema)
        step = schema.get("multipleOf")
        if step is not None:
            factor = Decimal(str(step))
            least = None if low is None else math.ceil(Decimal(str(low)) / factor)
            most = None if high is None else math.floor(Decimal(str(high)) / factor)
            product = factor * self._source.integer(least, most)
            return int(product) if whole or product == int(product) else product
        if whole:
            return self._source.integer(
                None if low is None else math.ceil(low), None if high is None else math.floor(high)
            )
        return self._source.number(low, high)

    def _height(self, schema: Any, within: tuple[int, ...]) -> int:
        """How many levels the smallest value of a schema has at least."""
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping) or len(within) > 40:
            return 0 if not isinstance(schema, Mapping) else _ENDLESS
        key = id(schema.get("properties") or schema.get("anyOf") or schema.get("items") or schema)
        if key in within:
            return _ENDLESS
        inside = (*within, key)
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            return min(self._height(option, inside) for option in options)
        below = [
            schema.get("properties", {})[key]
            for key in schema.get("required", ())
            if key in schema.get("properties", {})
        ]
        below += schema.get("prefixItems", [])
        if schema.get("minItems", 0) and "items" in schema:
            below.append(schema["items"])
        return 1 + max((self._height(one, inside) for one in below), default=0)


def _both(one: Any, other: Mapping[str, Any]) -> Any:
    """A schema with what is said beside it; objects are put together."""
    if not isinstance(one, Mapping):
        return other or one
    joined = {**other, **one}
    if "properties" in one and "properties" in other:
        joined["properties"] = {**other["properties"], **one["properties"]}
        joined["required"] = [*other.get("required", ()), *one.get("required", ())]
    return joined


def _bounds(schema: Mapping[str, Any]) -> tuple[Any, Any]:
    """The least and the greatest number, both permitted."""
    whole = schema.get("type") == "integer"
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is not None:
        above = math.floor(above) + 1 if whole else math.nextafter(above, math.inf)
        low = above if low is None else max(low, above)
    if below is not None:
        below = math.ceil(below) - 1 if whole else math.nextafter(below, -math.inf)
        high = below if high is None else min(high, below)
    return low, high
