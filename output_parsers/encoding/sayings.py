"""What a schema says, as far as one look at it tells."""

from __future__ import annotations

from ..node import JsonSchema
from .kinds import KINDS

__all__ = ["closed", "kinds_of", "names_in", "order_of", "refers", "tells"]

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
