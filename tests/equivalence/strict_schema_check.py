"""Checks a schema for strict mode as OpenAI does, with the same messages.

Written independently of the library, from what OpenAI publishes: the guide "Structured model outputs"
(sections "Supported schemas" and "JSON mode"), the guide "Function calling", the reference "Create chat
completion", and error messages with status 400 that users have reported. In case of doubt a request is
rejected: what passes here also passes there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["RequestRejected", "check_schema", "is_name"]

Schema = Mapping[str, Any]

MAX_LEVELS = 10
MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
LONG_ENUM, MAX_TEXT_OF_LONG_ENUM = 250, 15_000
MAX_TEXT = 120_000

_EVERYWHERE = frozenset(("type", "description", "title", "enum", "const"))
_OF_TYPE = {
    "string": frozenset(("pattern", "format")),
    "number": frozenset(("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")),
    "integer": frozenset(("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")),
    "boolean": frozenset[str](),
    "null": frozenset[str](),
    "array": frozenset(("items", "minItems", "maxItems")),
    "object": frozenset(("properties", "required", "additionalProperties")),
}
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
_LOOKAROUND = re.compile(r"(?<!\\)\(\?<?[=!]")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECTIONS = ("$defs", "definitions")


class RequestRejected(ValueError):
    """A request is rejected with status 400. ``param`` names the part of the request."""

    def __init__(self, message: str, param: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def is_name(name: object) -> bool:
    """Return True if a schema or a tool may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_schema(schema: Any) -> None:
    """Raise RequestRejected if strict mode does not support a schema."""
    _SchemaCheck(schema).check()


class _SchemaCheck:
    """Checks one schema. ``at`` is the path of keys from its root."""

    def __init__(self, root: Any) -> None:
        self.root = root

    def check(self) -> None:
        root = self.root
        kind = root.get("type") if isinstance(root, dict) else None
        if kind != "object":
            raise RequestRejected(
                f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
            )
        self._part(root, ())
        self._limits()

    def _part(self, part: Any, at: tuple[str, ...]) -> None:
        if not isinstance(part, dict):
            raise _rejection(at, f"{part!r} is not of type 'object'.")
        if "$ref" in part:
            self._reference(part, at)
            return
        for section in _SECTIONS:
            if section in part and at:
                raise _rejection(at, f"'{section}' is not permitted.")
            for name, definition in part.get(section, {}).items():
                if not is_name(name):
                    raise _rejection((*at, section), f"{name!r} is not a valid name.")
                self._part(definition, (*at, section, name))
        if "anyOf" in part:
            self._union(part, at)
            return
        kinds = self._kinds(part, at)
        allowed = _EVERYWHERE.union(*(_OF_TYPE[kind] for kind in kinds), () if at else _SECTIONS)
        for keyword in part:
            if keyword not in allowed:
                raise _rejection(at, f"'{keyword}' is not permitted.")
        for word in ("description", "title"):
            if not isinstance(part.get(word, ""), str):
                raise _rejection(at, f"'{word}' must be a string.")
        self._choices(part, kinds, at)
        self._keywords(part, kinds, at)

    def _reference(self, part: Schema, at: tuple[str, ...]) -> None:
        others = set(part) - {"$ref"}
        if others:
            raise _rejection(at, f"$ref cannot have keywords {others!r}.")
        resolve(self.root, part["$ref"], at)

    def _union(self, part: Schema, at: tuple[str, ...]) -> None:
        if not at:
            raise _rejection(at, "'anyOf' is not permitted at the root.")
        for keyword in part:
            if keyword not in ("anyOf", "description", "title"):
                raise _rejection(at, f"'{keyword}' is not permitted beside 'anyOf'.")
        branches = part["anyOf"]
        if not isinstance(branches, list) or not branches:
            raise _rejection(at, f"{branches!r} should be a non-empty array.")
        for index, branch in enumerate(branches):
            self._part(branch, (*at, "anyOf", str(index)))

    def _kinds(self, part: Schema, at: tuple[str, ...]) -> list[str]:
        if "type" not in part:
            raise _rejection(at, "schema must have a 'type' key.")
        kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
        if not kinds or len(set(map(str, kinds))) != len(kinds):
            raise _rejection(at, f"{part['type']!r} is not valid under any of the given schemas.")
        for kind in kinds:
            if kind not in _OF_TYPE:
                raise _rejection(at, f"{kind!r} is not valid under any of the given schemas.")
        return list(kinds)

    def _choices(self, part: Schema, kinds: Sequence[str], at: tuple[str, ...]) -> None:
        values = part.get("enum", [])
        if "enum" in part and (not isinstance(values, list) or not values):
            raise _rejection(at, f"{values!r} should be a non-empty array.")
        if len({(type(value), str(value)) for value in values}) != len(values):
            raise _rejection(at, f"{values!r} has non-unique elements.")
        for value in [*values, *([part["const"]] if "const" in part else [])]:
            if not any(_is(value, kind) for kind in kinds):
                raise _rejection(at, f"enum value {value!r} does not validate against {part['type']!r}.")

    def _keywords(self, part: Schema, kinds: Sequence[str], at: tuple[str, ...]) -> None:
        for keyword in _OF_TYPE["number"]:
            if keyword in part and not _is(part[keyword], "number"):
                raise _rejection(at, f"'{keyword}' must be a number.")
        for keyword in ("minItems", "maxItems"):
            if keyword in part and not (_is(part[keyword], "integer") and part[keyword] >= 0):
                raise _rejection(at, f"'{keyword}' must be a non-negative integer.")
        if "format" in part and part["format"] not in _FORMATS:
            raise _rejection(at, f"'{part['format']}' is not a valid format.")
        if "pattern" in part:
            self._pattern(part["pattern"], at)
        if "array" in kinds:
            if "items" not in part:
                raise _rejection(at, "array schema missing items.")
            self._part(part["items"], (*at, "items"))
        if "object" in kinds:
            self._object(part, at)

    def _pattern(self, pattern: object, at: tuple[str, ...]) -> None:
        path = ".".join(("$", *at, "pattern"))
        if not isinstance(pattern, str):
            raise _rejection(at, f"{pattern!r} is not of type 'string'.")
        if _LOOKAROUND.search(pattern):
            raise RequestRejected(f"Invalid JSON schema: regex lookaround is not supported. Found at {path}.")
        try:
            re.compile(pattern)
        except re.error as error:
            raise _rejection(at, f"{pattern!r} is not a valid regex.") from error

    def _object(self, part: Schema, at: tuple[str, ...]) -> None:
        if part.get("additionalProperties") is not False:
            raise _rejection(at, "'additionalProperties' is required to be supplied and to be false.")
        properties, required = part.get("properties", {}), part.get("required", [])
        if not isinstance(properties, dict):
            raise _rejection(at, f"{properties!r} is not of type 'object'.")
        if not isinstance(required, list) or ("required" not in part and properties):
            raise _rejection(at, _EVERY_KEY)
        for name in properties:
            if name not in required:
                raise _rejection(at, f"{_EVERY_KEY} Missing '{name}'.")
        for name in required:
            if name not in properties:
                raise _rejection(at, f"{_EVERY_KEY} Extra required key '{name}' supplied.")
        if len(set(required)) != len(required):
            raise _rejection(at, f"{required!r} has non-unique elements.")
        for name, below in properties.items():
            self._part(below, (*at, "properties", name))

    def _limits(self) -> None:
        parts = list(_parts(self.root))
        text = sum(map(_text_of, parts))
        text += sum(len(name) for section in _SECTIONS for name in self.root.get(section, {}))
        enums = [part["enum"] for part in parts if "enum" in part]
        for what, count, most in (
            ("object properties", sum(len(part.get("properties", {})) for part in parts), MAX_PROPERTIES),
            ("enum values", sum(map(len, enums)), MAX_ENUM_VALUES),
            ("characters of names, enum values and const values", text, MAX_TEXT),
            ("levels of nesting", _levels(self.root, self.root, frozenset()), MAX_LEVELS),
        ):
            if count > most:
                raise RequestRejected(f"{count} {what}, when the maximum is {most}.")
        for values in enums:
            text = sum(len(value) for value in values if isinstance(value, str))
            if len(values) > LONG_ENUM and text > MAX_TEXT_OF_LONG_ENUM:
                raise RequestRejected(
                    f"{text} characters in an enum, when the maximum is {MAX_TEXT_OF_LONG_ENUM}."
                )


_EVERY_KEY = "'required' is required to be supplied and to be an array including every key in properties."


def _rejection(at: Sequence[str], message: str) -> RequestRejected:
    return RequestRejected(f"In context={tuple(at)!r}, {message}")


def resolve(root: Schema, reference: object, at: Sequence[str] = ()) -> Any:
    """Return the target of a reference within a schema. Raises RequestRejected if there is none."""
    target: Any = root
    steps = str(reference).split("/")
    if steps[0] != "#":
        raise _rejection(at, f"reference can only point to definitions within the schema, not {reference!r}.")
    for step in steps[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, dict) or step not in target:
            raise _rejection(at, f"reference {reference!r} leads nowhere.")
        target = target[step]
    return target


def _is(value: object, kind: str) -> bool:
    if kind in ("number", "integer"):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return not isinstance(value, bool) and (whole or (kind == "number" and isinstance(value, float)))
    if kind == "null":
        return value is None
    return isinstance(value, {"string": str, "boolean": bool, "array": list, "object": dict}[kind])


def _below(part: Schema) -> list[Any]:
    return [*part.get("properties", {}).values(), *part.get("anyOf", ()), *filter(None, [part.get("items")])]


def _parts(part: Schema) -> Iterator[Schema]:
    yield part
    for below in (*_below(part), *(b for section in _SECTIONS for b in part.get(section, {}).values())):
        yield from _parts(below)


def _text_of(part: Schema) -> int:
    words = [*part.get("properties", {}), *part.get("enum", ()), part.get("const")]
    return sum(len(word) for word in words if isinstance(word, str))


def _levels(part: Schema, root: Schema, entered: frozenset[str]) -> int:
    """Count the levels of nested objects. A recursive reference is followed once."""
    if "$ref" in part:
        name = part["$ref"]
        return 0 if name in entered or name == "#" else _levels(resolve(root, name), root, entered | {name})
    below = max((_levels(each, root, entered) for each in _below(part)), default=0)
    return below + (part.get("type") == "object")
