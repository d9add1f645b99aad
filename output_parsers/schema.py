"""The JSON Schema of a whole type, and its form in words for a prompt."""

from __future__ import annotations

from typing import Any

from .node import Definitions, JsonSchema, Node

__all__ = ["described", "is_strict", "schema_of"]


def schema_of(node: Node[Any]) -> JsonSchema:
    """The JSON Schema (draft 2020-12) of a type. Its root is never a reference, as providers demand.

    What stands in the type twice, or in itself, is written once under ``$defs``.
    """
    first = Definitions()
    root = node.schema(first)
    if not first.repeated and not first.schemas:
        return root
    definitions = Definitions(frozenset(first.repeated))
    root = node.schema(definitions)
    if set(root) == {"$ref"}:
        root = dict(definitions.schemas[root["$ref"].rpartition("/")[2]])
    return {**root, "$defs": definitions.schemas}


def described(schema: JsonSchema, description: str | None) -> JsonSchema:
    """A schema with a description; a reference is wrapped, for strict modes permit it no neighbours."""
    if not description:
        return schema
    if "$ref" in schema:
        return {"anyOf": [schema], "description": description}
    inner = schema.get("description")
    both = f"{description} ({inner})" if inner and inner != description else description
    return {**schema, "description": both}


_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf description title $ref $defs "
    "pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems maxItems".split()
)
_STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())


def is_strict(schema: JsonSchema) -> bool:
    """Whether a schema lies in the subset that OpenAI's strict mode enforces.

    Every object closed with all its properties required, and no keyword outside the list in OpenAI's
    guide "Structured model outputs", section "Supported schemas".
    """
    return schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    if schema.get("format", "date") not in _STRICT_FORMATS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    below = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_strict, [*below, schema["items"]] if "items" in schema else below))
