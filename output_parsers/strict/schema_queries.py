"""Analyze JSON Schemas: merge constraints, check patterns and size limits.

``merge_constraints`` collects all constraints on a value in one flat schema::

    {"$ref": "#/$defs/Base", "allOf": [{"minimum": 3}, {"minimum": 5}]}      where Base is an integer
    ->  {"type": ["integer"], "minimum": 5}

The other functions are about JSON types, patterns, shapes and size limits.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from ..json_schema.document import ANNOTATIONS, SchemaDocument, is_multiple
from ..profiles import Limits
from ..result.reading import Json
from ..types.node import JsonSchema

# --- JSON values ---

# "integer" is missing, because 1 and 1.0 are the same number. Only a schema has the type "integer".
KINDS = ("null", "boolean", "number", "string", "array", "object")


def kind_of(value: Json) -> str:
    """Return the JSON type of a value, such as ``"array"`` for a list.

    Raises TypeError if it is not a JSON value.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):  # before the numbers, because bool is a subclass of int
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def json_equal(one: Json, other: Json) -> bool:
    """Compare two JSON values; unlike in Python, true is not equal to 1."""
    if kind_of(one) != kind_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(json_equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(json_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def is_integral(value: Json) -> bool:
    """Return True if a number is whole, whether it is written as 1, 1.0 or 1e0."""
    if isinstance(value, Decimal):  # Decimal's // raises if the quotient has too many digits
        return bool(value == value.to_integral_value())
    return isinstance(value, int) or float(value).is_integer()


_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "maximum": (operator.le, "at most"),
    "exclusiveMaximum": (operator.lt, "less than"),
}
_SIZES: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minLength": (operator.ge, "at least {} characters"),
    "maxLength": (operator.le, "at most {} characters"),
    "minItems": (operator.ge, "at least {} items"),
    "maxItems": (operator.le, "at most {} items"),
}


def violated_keyword(keywords: Mapping[str, Any], value: Json) -> str | None:
    """Return a message about the first JSON Schema keyword that a value violates; None for a valid value.

    An example is ``"expected at least 3"``.
    """
    for keyword, bound in keywords.items():
        if keyword in _BOUNDS:
            compare, words = _BOUNDS[keyword]
            if not compare(_exact(value), _exact(bound)):
                return f"expected {words} {bound}"
        elif keyword in _SIZES:
            compare, words = _SIZES[keyword]
            if not compare(len(value), bound):
                return f"expected {words.format(bound)}"
        elif keyword == "multipleOf" and not is_multiple(value, bound):
            return f"expected a multiple of {bound}"
        elif keyword == "pattern" and not re.search(bound, value):
            return f"expected text that matches {bound}"
    return None


def _exact(number: Json) -> Decimal:
    return Decimal(str(number))  # in binary, 0.3 is not a multiple of 0.1


# --- Patterns ---

# Lookaround and backreferences. Grammar engines do not support them.
_LOOKAROUND = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k<|\\[bBpP]")


def is_enforceable_pattern(pattern: str, *, whole: bool) -> bool:
    """Return True if a provider's strict mode can enforce the given regular expression.

    With ``whole`` the pattern must begin with ``^`` and end with ``$``.
    """
    if _LOOKAROUND.search(pattern) or (whole and not (pattern.startswith("^") and pattern.endswith("$"))):
        return False
    return is_regex(pattern)


def is_regex(pattern: str) -> bool:
    """Return True if a regular expression in a JSON Schema also compiles in Python.

    JSON Schema uses the regular expressions of JavaScript, and Python does not support all of them.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


# --- References and shapes ---

_IN_PLACE = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
_SHAPE_KEYWORDS = frozenset(
    "properties patternProperties additionalProperties type enum const $ref items".split()
)


def sole_reference(schema: JsonSchema | bool) -> str | None:
    """Return the ``$ref`` of a JSON Schema that has no other keywords; None for any other schema."""
    if not isinstance(schema, dict):
        return None
    keywords = schema.keys() - ANNOTATIONS
    if keywords == {"$ref"}:
        return str(schema["$ref"])
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keywords == {keyword} and len(schema[keyword]) == 1:
            return sole_reference(schema[keyword][0])
    return None


def contains_reference(schema: JsonSchema | bool) -> bool:
    """Return True if a JSON Schema contains a ``$ref`` at its top level or under allOf."""
    return isinstance(schema, dict) and ("$ref" in schema or any(map(contains_reference, _conjuncts(schema))))


def reference_name(schema: JsonSchema | bool) -> str:
    """Make a name for a JSON Schema from the names in its references.

    For example, references to ``Base`` and ``Named`` give ``"Base_Named"``.
    """
    if not isinstance(schema, dict):
        return ""
    own = [str(schema["$ref"]).rpartition("/")[2].lstrip("#")] if "$ref" in schema else []
    return "_".join(filter(None, [*own, *map(reference_name, _conjuncts(schema))]))[:60]


def _conjuncts(schema: JsonSchema) -> list[JsonSchema | bool]:
    """Return the schemas that a value must fit together, such as those under allOf.

    An anyOf or oneOf with several options is ignored.
    """
    choices = [schema[keyword] for keyword in ("anyOf", "oneOf") if len(schema.get(keyword, ())) == 1]
    return [*schema.get("allOf", ()), *(option for choice in choices for option in choice)]


def describes_shape(option: JsonSchema) -> bool:
    """Return True if an anyOf option describes a type, keys or values; False if it is only a condition.

    Other options, such as ``{"required": ["a"]}``, are only conditions.
    """
    nested = [part for key in ("allOf", "anyOf", "oneOf") for part in option.get(key, ())]
    return bool(_SHAPE_KEYWORDS & option.keys()) or any(
        isinstance(part, dict) and describes_shape(part) for part in nested
    )


def close_unevaluated(plain: JsonSchema) -> JsonSchema:
    """Replace ``unevaluatedProperties`` in a schema with ``additionalProperties`` if both mean the same."""
    others = {
        "additionalProperties",
        "if",
        "dependentSchemas",
        "dependencies",
        "$dynamicRef",
        "$recursiveRef",
    }
    if plain.get("unevaluatedProperties") is not False or others & plain.keys():
        return plain
    # the keywords in ``others`` may evaluate further properties, which must stay allowed
    rest = {key: value for key, value in plain.items() if key != "unevaluatedProperties"}
    return {**rest, "additionalProperties": False}


def kinds_of(types: str | list[str]) -> set[str]:
    """Return the JSON types under the ``type`` keyword of a JSON Schema, as a list of strings.

    Unknown types are left out, and "number" includes "integer".
    """
    names = {types} if isinstance(types, str) else set(types)
    if "any" in names:  # draft 3
        names |= set(KINDS)
    supported = names & {*KINDS, "integer"}
    return supported - {"integer"} if "number" in supported else supported


def kind_order(kind: str) -> int:
    """Return a sort key that orders JSON types: objects and arrays first, then all others."""
    return ("object", "array", "string", "integer", "number", "boolean", "null").index(kind)


# --- Merging ---

_TAKE_GREATEST = frozenset("minimum exclusiveMinimum minLength minItems minProperties minContains".split())
_TAKE_LEAST = frozenset("maximum exclusiveMaximum maxLength maxItems maxProperties maxContains".split())
_OBJECT_KEYWORDS = ("properties", "patternProperties", "additionalProperties")
_ARRAY_KEYWORDS = ("prefixItems", "items")


class MergedSchema(NamedTuple):
    """A JSON Schema after merging all schemas that it refers to.

    Attributes:
        plain: One schema without references, allOf, anyOf and oneOf.
        choices: The anyOf and oneOf that must hold as well, each as its options.
        unmerged: Keywords with several values that cannot be merged. They are checked when a value is read.
        never: True if no value can fit.
    """

    plain: JsonSchema
    choices: tuple[tuple[JsonSchema | bool, ...], ...] = ()
    unmerged: tuple[str, ...] = ()
    never: bool = False


def merge_constraints(schema: JsonSchema | bool, document: SchemaDocument) -> MergedSchema:
    """Merge a JSON Schema with all schemas that it refers to or lists under allOf.

    The titles, descriptions and defaults nearest to the schema win.
    """
    plain: JsonSchema = {}
    choices: list[tuple[JsonSchema | bool, ...]] = []
    unmerged: list[str] = []
    seen: set[str] = set()  # to stop at a schema that refers to itself through an allOf
    pending: list[JsonSchema | bool] = [schema]
    while pending:
        part = pending.pop(0)
        if part is False:
            return MergedSchema({}, never=True)
        if part is True:
            continue
        assert isinstance(part, dict)
        # a single schema cannot repeat, so its text is not needed
        if seen or pending or not _IN_PLACE.isdisjoint(part):
            text = canonical_json(part)
            document.work.spend(len(text))
            if text in seen:
                continue
            seen.add(text)
        own = dict(part)
        pending.extend(own.pop("allOf", ()))
        if "$ref" in own:
            pending.append(document.schema(own.pop("$ref")))
        for keyword in ("anyOf", "oneOf"):
            options: list[JsonSchema | bool] = own.pop(keyword, None) or []
            if len(options) == 1:  # not a choice
                pending.append(options[0])
            # an option that accepts everything makes a union void; oneOf is treated as anyOf
            elif options and True not in options and {} not in options:
                choices.append(tuple(options))
        merged = _merge_two(plain, own, unmerged)
        if merged is None:
            return MergedSchema({}, never=True)
        plain = merged
    return MergedSchema(plain, tuple(choices), tuple(unmerged))


def intersect(one: JsonSchema | bool, other: JsonSchema | bool) -> JsonSchema | bool:
    """Combine two JSON Schemas into one that accepts only values that fit both."""
    if one is False or other is False:
        return False
    members: dict[str, JsonSchema | bool] = {}
    for schema in (one, other):
        parts = schema["allOf"] if isinstance(schema, dict) and set(schema) == {"allOf"} else [schema]
        members |= {canonical_json(part): part for part in parts if part is not True and part != {}}
    if len(members) < 2:  # equal schemas count once, which keeps recursive ones from growing
        return next(iter(members.values()), True)
    return {"allOf": list(members.values())}


def canonical_json(schema: Json) -> str:
    """Convert a JSON Schema or another JSON value to text that is the same for equal ones."""
    return json.dumps(schema, sort_keys=True, default=str)


def _merge_two(one: JsonSchema, other: JsonSchema, unmerged: list[str]) -> JsonSchema | None:
    """Merge two JSON Schemas without references into one that requires both.

    Return None if no value fits both.
    """
    if not one or not other:
        return {**one, **other}
    schema = {**other, **one}
    for key in one.keys() & other.keys() - ANNOTATIONS:
        if key in _TAKE_GREATEST or key in _TAKE_LEAST:
            schema[key] = (max if key in _TAKE_GREATEST else min)(one[key], other[key])
        elif key == "required":
            schema[key] = list(dict.fromkeys([*one[key], *other[key]]))
        elif key == "propertyNames":
            schema[key] = intersect(one[key], other[key])
        elif (
            key not in (*_OBJECT_KEYWORDS, *_ARRAY_KEYWORDS, "type", "enum", "const")
            and one[key] != other[key]
        ):
            unmerged.append(key)
    types = _common_types(one, other)
    values = _common_values(one, other)
    if types == [] or values == []:
        return None
    schema |= {} if types is None else {"type": types}
    if values is not None:
        schema.pop("const", None)
        schema["enum"] = values
    return {**schema, **_merge_objects(one, other), **_merge_arrays(one, other)}


def _common_types(one: JsonSchema, other: JsonSchema) -> list[str] | None:
    lists = [_as_list(schema["type"]) for schema in (one, other) if "type" in schema]
    if len(lists) < 2:
        return lists[0] if lists else None
    common = [kind for kind in lists[0] if kind in lists[1]]
    # "integer" and "number" have the integers in common, though the names differ
    if "integer" not in common and "integer" in (*lists[0], *lists[1]) and all(map(_allows_numbers, lists)):
        common.append("integer")
    return common


def _allows_numbers(kinds: list[str]) -> bool:
    return not {"integer", "number"}.isdisjoint(kinds)


def _as_list(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _common_values(one: JsonSchema, other: JsonSchema) -> list[object] | None:
    """Return the values that two JSON Schemas both list under enum or const.

    Return None without an enum and a const.
    """
    lists = [schema["enum"] for schema in (one, other) if "enum" in schema]
    lists += [[schema["const"]] for schema in (one, other) if "const" in schema]
    if not lists:
        return None
    return [value for value in lists[0] if all(any(json_equal(value, v) for v in more) for more in lists[1:])]


def _merge_objects(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    if not all(any(key in schema for key in _OBJECT_KEYWORDS) for schema in (one, other)):
        return {}
    names = dict.fromkeys([*one.get("properties", {}), *other.get("properties", {})])
    patterns = dict.fromkeys([*one.get("patternProperties", {}), *other.get("patternProperties", {})])
    merged: JsonSchema = {
        "properties": {
            name: intersect(property_schema(one, name), property_schema(other, name)) for name in names
        },
        "patternProperties": {
            p: intersect(_pattern_schema(one, p), _pattern_schema(other, p)) for p in patterns
        },
    }
    # added only if it was present, because its presence makes all other properties "evaluated"
    if "additionalProperties" in one or "additionalProperties" in other:
        rest = [schema.get("additionalProperties", True) for schema in (one, other)]
        merged["additionalProperties"] = intersect(rest[0], rest[1])
    return merged


def property_schema(schema: Mapping[str, Any], name: str) -> JsonSchema | bool:
    """Return the JSON Schema that applies to one key of an object."""
    schemas: list[JsonSchema | bool] = []
    if name in schema.get("properties", {}):
        schemas.append(schema["properties"][name])
    for pattern, pattern_schema in schema.get("patternProperties", {}).items():
        if is_regex(pattern) and re.search(pattern, name):
            schemas.append(pattern_schema)
    if schemas:
        return _intersect_all(schemas)
    # a pattern that Python cannot compile may match this key or not, so nothing is known about the value
    may_match = not all(map(is_regex, schema.get("patternProperties", {})))
    return True if may_match else schema.get("additionalProperties", True)


def _pattern_schema(schema: JsonSchema, pattern: str) -> JsonSchema | bool:
    """Return the JSON Schema that ``patternProperties`` has for a given pattern.

    The values may have to fit more schemas, because other patterns may match the same keys.
    """
    pattern_schema: JsonSchema | bool = schema.get("patternProperties", {}).get(pattern, True)
    return pattern_schema


def _intersect_all(schemas: Sequence[JsonSchema | bool]) -> JsonSchema | bool:
    result: JsonSchema | bool = True
    for schema in schemas:
        result = intersect(result, schema)
    return result


def _merge_arrays(one: JsonSchema, other: JsonSchema) -> JsonSchema:
    if not all(any(key in schema for key in _ARRAY_KEYWORDS) for schema in (one, other)):
        return {}
    length = max(len(schema.get("prefixItems", ())) for schema in (one, other))
    merged: JsonSchema = {"items": intersect(one.get("items", True), other.get("items", True))}
    if length:
        merged["prefixItems"] = [
            intersect(_item_schema(one, i), _item_schema(other, i)) for i in range(length)
        ]
    return merged


def _item_schema(schema: JsonSchema, index: int) -> JsonSchema | bool:
    prefix = schema.get("prefixItems", ())
    item: JsonSchema | bool = prefix[index] if index < len(prefix) else schema.get("items", True)
    return item


# --- Size limits ---

_MAX_PARTS = 20_000  # that are followed to count the depth


def exceeded_limits(schema: JsonSchema, limits: Limits) -> list[tuple[str, int, int]]:
    """Return the size limits that a JSON Schema exceeds: the name, the limit and the actual size."""
    parts = list(_all_parts(schema))
    depth = 0
    if limits.depth is not None:
        counter = _DepthCounter(schema.get("$defs", {}))
        depth = max(counter.depth(schema), limits.depth + 1 if counter.gave_up else 0)
    sizes = {
        "depth": depth,
        "properties": sum(len(part.get("properties", {})) for part in parts),
        "enum_values": sum(len(part.get("enum", ())) for part in parts),
        "text": sum(map(_text_length, parts)) + sum(map(len, schema.get("$defs", {}))),
        "optional": sum(map(_count_optional, parts)),
        "unions": sum("anyOf" in part for part in parts),
    }
    allowed = limits._asdict()
    return [
        (name, allowed[name], size)
        for name, size in sizes.items()
        if allowed[name] is not None and size > allowed[name]
    ]


def _all_parts(schema: JsonSchema) -> Iterator[JsonSchema]:
    pending = [schema]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(_subschemas(part))
        pending.extend(part.get("$defs", {}).values())


def _subschemas(schema: JsonSchema) -> list[JsonSchema]:
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    parts += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return parts


class _DepthCounter:
    """Counts how deeply objects are nested in a JSON Schema; a recursive definition counts once.

    Attributes:
        gave_up: True if recursive definitions refer to each other in too many ways to follow all of them.
    """

    def __init__(self, definitions: dict[str, JsonSchema]) -> None:
        self.gave_up = False
        self._definitions = definitions
        self._open: list[str] = []  # the definitions around the current part
        self._depths: dict[str, int] = {}  # of the definitions without recursive ones inside
        self._outermost = 0  # the smallest index in ``_open`` that was referred to
        self._count = 0

    def depth(self, schema: JsonSchema) -> int:
        self._count += 1
        if self._count > _MAX_PARTS:
            self.gave_up = True
            return 0
        if "$ref" in schema:
            return self._definition_depth(schema["$ref"].rpartition("/")[2])
        inner_depth = max(map(self.depth, _subschemas(schema)), default=0)
        return inner_depth + (schema.get("type") == "object")

    def _definition_depth(self, name: str) -> int:
        if name in self._depths:
            return self._depths[name]
        if name in self._open:  # the depth of its values is not limited
            self._outermost = min(self._outermost, self._open.index(name))
            return 0
        outermost_before, self._outermost = self._outermost, len(self._open) + 1
        self._open.append(name)
        depth = self.depth(self._definitions[name])
        self._open.pop()
        # Without recursion it has the same depth everywhere, and is counted once: two references to each
        # definition in the next one would otherwise double the work each time.
        if self._outermost > len(self._open):
            self._depths[name] = depth
        self._outermost = min(self._outermost, outermost_before)
        return depth


def _text_length(schema: JsonSchema) -> int:
    values: list[object] = [*schema.get("properties", {}), *schema.get("enum", ()), schema.get("const")]
    return sum(len(value) for value in values if isinstance(value, str))


def _count_optional(schema: JsonSchema) -> int:
    return len(set(schema.get("properties", {})) - set(schema.get("required", ())))
