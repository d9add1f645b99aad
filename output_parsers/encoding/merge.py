"""Makes one plain schema of all that must hold at once: a schema, what it refers to, and its allOf."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..node import JsonSchema
from .document import ANNOTATIONS, Document
from .kinds import same_json

__all__ = ["Whole", "both", "canonical", "gathered", "is_regex", "of_key", "stands_for"]

_GREATEST = frozenset("minimum exclusiveMinimum minLength minItems minProperties minContains".split())
_LEAST = frozenset("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains".split())
_TOGETHER = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_OBJECTS = ("properties", "patternProperties", "additionalProperties")
_ARRAYS = ("prefixItems", "items")


class Whole(NamedTuple):
    """What holds of a value: one schema without references and allOf, and the choices beside it.

    ``passed_over`` names what could not be made one; each of it must be checked when a value is read.
    """

    plain: JsonSchema
    choices: tuple[tuple[JsonSchema | bool, ...], ...] = ()
    passed_over: tuple[str, ...] = ()
    never: bool = False


def stands_for(schema: JsonSchema | bool) -> str | None:
    """The pointer of what a schema refers to, if it says nothing else of a value."""
    if not isinstance(schema, dict):
        return None
    said = schema.keys() - ANNOTATIONS
    if said == {"$ref"}:
        return str(schema["$ref"])
    for keyword in ("allOf", "anyOf", "oneOf"):
        if said == {keyword} and len(schema[keyword]) == 1:
            return stands_for(schema[keyword][0])
    return None


def canonical(schema: JsonSchema | bool) -> str:
    """A text that is the same for equal schemas."""
    return json.dumps(schema, sort_keys=True, default=str)


def both(one: JsonSchema | bool, other: JsonSchema | bool) -> JsonSchema | bool:
    """The schema of what fits two schemas."""
    if one is False or other is False:
        return False
    members: dict[str, JsonSchema | bool] = {}
    for schema in (one, other):
        inside = schema["allOf"] if isinstance(schema, dict) and set(schema) == {"allOf"} else [schema]
        members |= {canonical(part): part for part in inside if part is not True and part != {}}
    if len(members) < 2:
        return next(iter(members.values()), True)
    return {"allOf": list(members.values())}


def gathered(schema: JsonSchema | bool, document: Document) -> Whole:
    """All that holds of a value of this schema. What is farther from it gives way in names and words."""
    plain: JsonSchema = {}
    choices: list[tuple[JsonSchema | bool, ...]] = []
    passed: list[str] = []
    seen: set[str] = set()
    waiting: list[JsonSchema | bool] = [schema]
    while waiting:
        part = waiting.pop(0)
        if part is False:
            return Whole({}, never=True)
        if part is True:
            continue
        assert isinstance(part, dict)
        if seen or waiting or not _TOGETHER.isdisjoint(part):
            text = canonical(part)
            if text in seen:
                continue
            seen.add(text)
        own = dict(part)
        waiting.extend(own.pop("allOf", ()))
        if "$ref" in own:
            waiting.append(document.schema(own.pop("$ref")))
        for keyword in ("anyOf", "oneOf"):
            options = own.pop(keyword, None)
            if options is not None and len(options) == 1:
                waiting.append(options[0])
            elif options is not None and not any(option in (True, {}) for option in options):
                choices.append(tuple(options))
        merged = _merged(plain, own, passed)
        if merged is None:
            return Whole({}, never=True)
        plain = merged
    return Whole(plain, tuple(choices), tuple(passed))


def _merged(one: JsonSchema, other: JsonSchema, passed: list[str]) -> JsonSchema | None:
    """Two schemas in one; None when nothing fits both."""
    if not one or not other:
        return {**one, **other}
    schema = {**other, **one}
    for key in one.keys() & other.keys() - ANNOTATIONS:
        if key in _GREATEST or key in _LEAST:
            schema[key] = (max if key in _GREATEST else min)(one[key], other[key])
        elif key == "required":
            schema[key] = list(dict.fromkeys([*one[key], *other[key]]))
        elif key == "propertyNames":
            schema[key] = both(one[key], other[key])
        elif key not in (*_OBJECTS, *_ARRAYS, "type", "enum", "const") and one[key] != other[key]:
            passed.append(key)
    types = _types(one, other)
    values = _values(one, other)
    if types == [] or values == []:
        return None
    schema |= {} if types is None else {"type": types}
    if values is not None:
        schema.pop("const", None)
        schema["enum"] = values
    return {**schema, **_merged_objects(one, other), **_merged_arrays(one, other)}


def _types(one: JsonSchema, other: JsonSchema) -> list[str] | None:
    said = [_listed(schema["type"]) for schema in (one, other) if "type" in schema]
    if len(said) < 2:
        return said[0] if said else None
    found = [kind for kind in said[0] if kind in said[1]]
    if "integer" not in found and "integer" in (*said[0], *said[1]) and _numeric(*said):
        found.append("integer")
    return found


def _numeric(one: list[str], other: list[str]) -> bool:
    return not {"integer", "number"}.isdisjoint(one) and not {"integer", "number"}.isdisjoint(other)


def _listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _values(one: JsonSchema, other: JsonSchema) -> list[Any] | None:
    """The values that all enums and consts permit; None where there are none of these."""
    said = [schema["enum"] for schema in (one, other) if "enum" in schema]
    said += [[schema["const"]] for schema in (one, other) if "const" in schema]
    if not said:
        return None
    return [value for value in said[0] if all(any(same_json(value, v) for v in more) for more in said[1:])]


def _merged_objects(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    if not all(any(key in schema for key in _OBJECTS) for schema in (one, other)):
        return {}
    names = dict.fromkeys([*one.get("properties", {}), *other.get("properties", {})])
    patterns = dict.fromkeys([*one.get("patternProperties", {}), *other.get("patternProperties", {})])
    merged: JsonSchema = {
        "properties": {name: both(of_key(one, name), of_key(other, name)) for name in names},
        "patternProperties": {p: both(_of_pattern(one, p), _of_pattern(other, p)) for p in patterns},
    }
    if (
        "additionalProperties" in one or "additionalProperties" in other
    ):  # to say it is to evaluate all others
        rest = [schema.get("additionalProperties", True) for schema in (one, other)]
        merged["additionalProperties"] = both(rest[0], rest[1])
    return merged


def of_key(schema: Mapping[str, Any], name: str) -> JsonSchema | bool:
    """What a schema of an object says of the value under a key."""
    found: list[JsonSchema | bool] = []
    if name in schema.get("properties", {}):
        found.append(schema["properties"][name])
    for pattern, below in schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            found.append(below)
    if found:
        return _all(found)
    unknown = not all(map(is_regex, schema.get("patternProperties", {})))  # it may match this key or not
    return True if unknown else schema.get("additionalProperties", True)


def _of_pattern(schema: JsonSchema, pattern: str) -> JsonSchema | bool:
    """What holds at least of the keys that match a pattern: other patterns may match them as well."""
    known: JsonSchema | bool = schema.get("patternProperties", {}).get(pattern, True)
    return known


def is_regex(pattern: str) -> bool:
    """Whether Python knows a pattern, which is written for JavaScript."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _matches(pattern: str, name: str) -> bool:
    return is_regex(pattern) and re.search(pattern, name) is not None


def _all(schemas: Sequence[JsonSchema | bool]) -> JsonSchema | bool:
    whole: JsonSchema | bool = True
    for schema in schemas:
        whole = both(whole, schema)
    return whole


def _merged_arrays(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    if not all(any(key in schema for key in _ARRAYS) for schema in (one, other)):
        return {}
    length = max(len(schema.get("prefixItems", ())) for schema in (one, other))
    merged: JsonSchema = {"items": both(one.get("items", True), other.get("items", True))}
    if length:
        merged["prefixItems"] = [both(_of_index(one, i), _of_index(other, i)) for i in range(length)]
    return merged


def _of_index(schema: JsonSchema, index: int) -> JsonSchema | bool:
    prefix = schema.get("prefixItems", ())
    found: JsonSchema | bool = prefix[index] if index < len(prefix) else schema.get("items", True)
    return found
