"""Finds what the references of a JSON Schema mean, and writes all drafts as the present one."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from ..result.reading import Json
from ..types.node import JsonSchema
from .profiles import Limits

ANNOTATIONS = frozenset(
    "title description default examples $comment deprecated readOnly writeOnly $schema $id id $anchor $defs "
    "definitions discriminator example nullable $vocabulary $dynamicAnchor $recursiveAnchor".split()
)
EXTERNAL = "x-external-reference"  # stands for a reference that leads out of the document
_MAPS = frozenset("properties patternProperties $defs definitions dependentSchemas dependencies".split())
_LISTS = frozenset("allOf anyOf oneOf prefixItems".split())
_SCHEMAS = frozenset(
    "items additionalItems additionalProperties contains propertyNames not if then else "
    "unevaluatedItems unevaluatedProperties contentSchema".split()
)
_NEWER_THAN_4 = frozenset("const contains propertyNames if then else examples $id".split())
_NEWER_THAN_7 = frozenset(
    "prefixItems dependentRequired dependentSchemas unevaluatedItems unevaluatedProperties minContains "
    "maxContains $defs $anchor $dynamicRef $recursiveRef".split()
)


class Document:
    """One JSON Schema, whose parts go by their JSON pointers (``#`` is the root)."""

    def __init__(self, raw: JsonSchema | bool, draft: int | None = None) -> None:
        self._raw = raw
        self.draft = draft or _draft(raw)
        self._known: dict[str, JsonSchema | bool] = {}

    @cached_property
    def _ids(self) -> dict[str, str]:
        """The pointers of what has a URI or an anchor of its own."""
        ids = {"": "#"}
        for pointer, base, anchor in self._identified(self._raw, "#", ""):
            ids.setdefault(f"{base}#{anchor}" if anchor else base, pointer)
        return ids

    def schema(self, pointer: str) -> JsonSchema | bool:
        """The schema at a pointer, in the words of draft 2020-12, its references written as pointers."""
        if pointer not in self._known:
            node, base = self._at(pointer)
            self._known[pointer] = self._modern(node, base)
        return self._known[pointer]

    def _at(self, pointer: str) -> tuple[Any, str]:
        """What stands at a pointer, and the URI that references in it start from."""
        node: Any = self._raw
        base = self._base(node, "")
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            node = node[int(key)] if isinstance(node, list) else node[key]
            base = self._base(node, base)
        return node, base

    def _base(self, node: Any, base: str) -> str:
        own = node.get("id" if self.draft <= 4 else "$id") if isinstance(node, dict) else None
        if not isinstance(own, str) or own.startswith("#"):
            return base
        return urldefrag(urljoin(base, own)).url

    def _identified(self, node: Any, pointer: str, base: str) -> Iterator[tuple[str, str, str]]:
        if not isinstance(node, dict):
            return
        within = self._base(node, base)
        if within != base:
            yield pointer, within, ""
        own = node.get("id" if self.draft <= 4 else "$id")
        anchors = [own[1:] if isinstance(own, str) and own.startswith("#") else None]
        for anchor in (*anchors, node.get("$anchor"), node.get("$dynamicAnchor")):
            if isinstance(anchor, str) and anchor:
                yield pointer, within, anchor
        for step, child in _below(node):
            yield from self._identified(child, f"{pointer}/{step}", within)

    def _target(self, reference: str, base: str) -> str | None:
        """The pointer that a reference means; None where it leads out of the document."""
        uri, fragment = urldefrag(urljoin(base, reference) if reference[:1] != "#" else base + reference)
        start = self._ids.get(uri)
        if start is None:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._ids.get(f"{uri}#{fragment}")
        pointer = start + fragment
        try:
            node, _ = self._at(pointer)
        except (KeyError, IndexError, ValueError, TypeError):
            return None
        return pointer if isinstance(node, (dict, bool)) else None

    def _modern(self, node: Any, base: str) -> Any:
        if not isinstance(node, dict):
            return node
        base = self._base(node, base)
        schema = {key: self._modern_part(key, value, base) for key, value in node.items() if self._means(key)}
        reference = node.get("$ref")
        if isinstance(reference, str):
            target = self._target(reference, base)
            meant = {EXTERNAL: reference} if target is None else {"$ref": target}
            if self.draft <= 7:
                return {key: value for key, value in schema.items() if key in ANNOTATIONS} | meant
            del schema["$ref"]
            return schema | meant
        if not isinstance(schema.get("required", []), list):  # draft 3 says it of the property itself
            del schema["required"]
        return _modern_arrays(_modern_bounds(schema))

    def _modern_part(self, key: str, value: Any, base: str) -> Any:
        if key in _MAPS and isinstance(value, dict):
            return {name: self._modern(part, base) for name, part in value.items()}
        if (key in _LISTS or key == "items") and isinstance(value, list):
            return [self._modern(part, base) for part in value]
        return self._modern(value, base) if key in _SCHEMAS else value

    def _means(self, key: str) -> bool:
        """Whether a keyword has a meaning in the draft of the document."""
        if self.draft <= 4 and key in _NEWER_THAN_4:
            return False
        return self.draft > 7 or key not in _NEWER_THAN_7 or key == "$defs"


def _draft(raw: JsonSchema | bool) -> int:
    said = raw.get("$schema") if isinstance(raw, dict) else None
    for draft in (3, 4, 6, 7):
        if isinstance(said, str) and f"draft-0{draft}/" in said:
            return draft
    return 2020


def _modern_bounds(schema: JsonSchema) -> JsonSchema:
    """Draft 4 says by a boolean that a bound is exclusive."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = schema.get(exclusive)
        if isinstance(said, bool):
            rest = {key: value for key, value in schema.items() if key != exclusive}
            if said and bound in rest:
                rest[exclusive] = rest.pop(bound)
            schema = rest
    return schema


def _modern_arrays(schema: JsonSchema) -> JsonSchema:
    """Tuples were lists under ``items``, with what follows them under ``additionalItems``."""
    rest = {key: value for key, value in schema.items() if key != "additionalItems"}
    if isinstance(schema.get("items"), list):
        rest["prefixItems"] = rest.pop("items")
        if "additionalItems" in schema:
            rest["items"] = schema["additionalItems"]
    return rest


def _below(node: JsonSchema) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            for name, part in value.items():
                yield f"{key}/{name.replace('~', '~0').replace('/', '~1')}", part
        elif isinstance(value, list) and (key in _LISTS or key == "items"):
            for index, part in enumerate(value):
                yield f"{key}/{index}", part
        elif key in _SCHEMAS:
            yield key, value


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
# what regular-expression engines that write as they go leave out: looking around, and looking back
_LOOKS = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k<|\\[bBpP]")


def breaks(keywords: Mapping[str, Any], value: Json) -> str | None:
    """What the first keyword that does not hold of a value asks for; None when all hold."""
    for keyword, bound in keywords.items():
        if keyword in _BOUNDS:
            holds, words = _BOUNDS[keyword]
            if not holds(_exact(value), _exact(bound)):
                return f"expected {words} {bound}"
        elif keyword in _SIZES:
            fits, words = _SIZES[keyword]
            if not fits(len(value), bound):
                return f"expected {words.format(bound)}"
        elif keyword == "multipleOf" and _exact(value) % _exact(bound):
            return f"expected a multiple of {bound}"
        elif keyword == "pattern" and not re.search(bound, value):
            return f"expected text that matches {bound}"
    return None


def is_integral(value: Json) -> bool:
    """Whether a number is whole, however it is written."""
    if isinstance(value, Decimal):  # whose // fails where the quotient has too many digits
        return bool(value == value.to_integral_value())
    return isinstance(value, int) or float(value).is_integer()


def sendable_pattern(pattern: str, *, whole: bool) -> bool:
    """Whether a pattern can be enforced while a text is written, and be checked here."""
    if _LOOKS.search(pattern) or (whole and not (pattern.startswith("^") and pattern.endswith("$"))):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _exact(number: Any) -> Decimal:
    return Decimal(str(number))


# An integer is a number that a schema may ask for by its own name.
KINDS = ("null", "boolean", "number", "string", "array", "object")


def kind_of(value: Json) -> str:
    """The kind of a JSON value. Raises TypeError for what is none."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    raise TypeError(f"no JSON value: {type(value).__name__}")


def same_json(one: Json, other: Json) -> bool:
    """Whether two JSON values are one; true is not 1, as it is in Python."""
    if kind_of(one) != kind_of(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    return bool(one == other)


def exceeded(schema: JsonSchema, limits: Limits) -> list[tuple[str, int, int]]:
    """The limits that a schema exceeds: the name of the limit, the limit, and what the schema has."""
    every = list(_schemas(schema))
    has = {
        "depth": _depth(schema, schema.get("$defs", {}), frozenset()) if limits.depth is not None else 0,
        "properties": sum(len(part.get("properties", {})) for part in every),
        "enum_values": sum(len(part.get("enum", ())) for part in every),
        "text": sum(map(_text, every)) + sum(map(len, schema.get("$defs", {}))),
        "optional": sum(_optional(part) for part in every),
        "unions": sum("anyOf" in part for part in every),
    }
    allowed = limits._asdict()
    return [
        (name, allowed[name], count)
        for name, count in has.items()
        if allowed[name] is not None and count > allowed[name]
    ]


def _schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(_subschemas(part))
        waiting.extend(part.get("$defs", {}).values())


def _subschemas(schema: JsonSchema) -> list[JsonSchema]:
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    below += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return below


def _depth(schema: JsonSchema, definitions: dict[str, JsonSchema], open_: frozenset[str]) -> int:
    """How many objects stand inside of one another; what refers to itself counts once."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return 0 if name in open_ else _depth(definitions[name], definitions, open_ | {name})
    below = max((_depth(part, definitions, open_) for part in _subschemas(schema)), default=0)
    return below + (schema.get("type") == "object")


def _text(schema: JsonSchema) -> int:
    values: list[Any] = [*schema.get("properties", {}), *schema.get("enum", ()), schema.get("const")]
    return sum(len(value) for value in values if isinstance(value, str))


def _optional(schema: JsonSchema) -> int:
    return len(set(schema.get("properties", {})) - set(schema.get("required", ())))


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


_TELLING = frozenset("properties patternProperties additionalProperties type enum const $ref items".split())


def order_of(kind: str) -> int:
    return ("object", "array", "string", "integer", "number", "boolean", "null").index(kind)


def kinds_of(said_types: str | list[str]) -> set[str]:
    """The types that a schema names; an unknown one is none."""
    named = {said_types} if isinstance(said_types, str) else set(said_types)
    if "any" in named:  # draft 3
        named |= set(KINDS)
    known = named & {*KINDS, "integer"}
    return known - {"integer"} if "number" in known else known


def closed(plain: JsonSchema) -> JsonSchema:
    """A schema in which unevaluatedProperties, where nothing else evaluates any, are additional ones."""
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
    rest = {key: value for key, value in plain.items() if key != "unevaluatedProperties"}
    return {**rest, "additionalProperties": False}


def refers(schema: JsonSchema | bool) -> bool:
    """Whether a schema holds together with what it refers to."""
    return isinstance(schema, dict) and ("$ref" in schema or any(map(refers, _together(schema))))


def _together(schema: JsonSchema) -> list[JsonSchema | bool]:
    """What must hold beside the rest of a schema: its allOf, and the only option of a choice."""
    choices = [schema[keyword] for keyword in ("anyOf", "oneOf") if len(schema.get(keyword, ())) == 1]
    return [*schema.get("allOf", ()), *(option for choice in choices for option in choice)]


def names_in(schema: JsonSchema | bool) -> str:
    if not isinstance(schema, dict):
        return ""
    own = [str(schema["$ref"]).rpartition("/")[2].lstrip("#")] if "$ref" in schema else []
    return "_".join(filter(None, [*own, *map(names_in, _together(schema))]))[:60]


def tells(option: JsonSchema) -> bool:
    """Whether an option of a choice says what a value looks like, and not only what must hold of it."""
    below = [part for key in ("allOf", "anyOf", "oneOf") for part in option.get(key, ())]
    return bool(_TELLING & option.keys()) or any(isinstance(part, dict) and tells(part) for part in below)
