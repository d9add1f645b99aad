"""The schema of a type with the defaults of its fields, which tell what it means to leave one out."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..node import Definitions, JsonSchema, Node
from ..objects import ObjectNode

__all__ = ["schema_with_defaults"]

_NONE = object()


def schema_with_defaults(node: Node[Any]) -> JsonSchema:
    """The JSON Schema of a whole type as ``schema_of`` gives it, with ``default`` where a field has one."""
    first = _Definitions()
    root = node.schema(first)
    if not first.repeated and not first.schemas:
        return root
    definitions = _Definitions(frozenset(first.repeated))
    root = node.schema(definitions)
    if set(root) == {"$ref"}:
        root = dict(definitions.schemas[root["$ref"].rpartition("/")[2]])
    return {**root, "$defs": definitions.schemas}


class _Definitions(Definitions):
    """Named schemas, those of records with their defaults."""

    def place(self, node: Node[Any], name: str, build: Any) -> JsonSchema:
        if not isinstance(node, ObjectNode):
            return super().place(node, name, build)

        def with_defaults(definitions: Definitions) -> JsonSchema:
            schema: JsonSchema = build(definitions)
            return _with_defaults(schema, node)

        return super().place(node, name, with_defaults)


def _with_defaults(schema: JsonSchema, node: ObjectNode) -> JsonSchema:
    properties = dict(schema["properties"])
    for field in node.spec.fields:
        default = _NONE if field.required else _default(node.spec.cls, field.name)
        if default is not _NONE:
            below = properties[field.keys[0]]
            below = {"anyOf": [below]} if "$ref" in below else below
            properties[field.keys[0]] = {**below, "default": default}
    return {**schema, "properties": properties}


def _default(cls: Any, name: str) -> Any:
    """The default of a field as JSON; none where it is made anew each time, or is no plain JSON."""
    found: Any = _NONE
    fields = getattr(cls, "__pydantic_fields__", None)
    if fields is not None and name in fields:
        found = fields[name].default
    elif dataclasses.is_dataclass(cls):
        found = next((field.default for field in dataclasses.fields(cls) if field.name == name), _NONE)
    elif hasattr(cls, "_field_defaults"):
        found = cls._field_defaults.get(name, _NONE)
    elif hasattr(cls, "__attrs_attrs__"):
        found = next((a.default for a in cls.__attrs_attrs__ if a.name == name), _NONE)
    elif hasattr(cls, "__struct_fields__"):
        names = cls.__struct_fields__[len(cls.__struct_fields__) - len(cls.__struct_defaults__) :]
        found = dict(zip(names, cls.__struct_defaults__, strict=True)).get(name, _NONE)
    return found if found is None or type(found) in (bool, int, float, str) else _NONE
