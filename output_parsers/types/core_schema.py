"""pydantic-core schemas for plain dataclasses, built from their nodes.

pydantic could build them from the class, but it resolves annotations that are strings in its own way, and it
honours aliases, validators and configurations that a standard dataclass may carry by accident. The nodes have
resolved every type already, so a schema built from them reads exactly what the nodes read.
"""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import Any, TypeAlias

from .choices import BoolNode, ChoiceNode
from .constraints import ConstrainedNode
from .containers import DictNode, ListNode, TupleNode
from .node import Node, walk
from .records import ObjectNode
from .scalars import FloatNode, IntNode, NoneNode, TextNode
from .unions import UnionNode

CoreSchema: TypeAlias = dict[str, Any]

_SCALARS: dict[type[Node[object]], str] = {
    TextNode: "str",
    IntNode: "int",
    FloatNode: "float",
    BoolNode: "bool",
    NoneNode: "none",
}
_SEQUENCES: dict[object, str] = {list: "list", set: "set", frozenset: "frozenset"}


def has_plain_dataclass(node: Node[object]) -> bool:
    """Return True if a type contains a standard dataclass that pydantic-core can create."""
    return any(isinstance(part, ObjectNode) and part.spec.plain_dataclass for part in walk(node))


def core_schema_of(node: Node[object]) -> CoreSchema:
    """Return a pydantic-core schema that reads the same values from exact JSON as a node.

    Raises TypeError for a type that has no such schema, for instance a recursive one.
    """
    scalar = _SCALARS.get(type(node))
    if scalar is not None:
        return {"type": scalar}
    if isinstance(node, ConstrainedNode) and type(node.inner) in _SCALARS:
        return node.core_schema  # the adapter of a constrained container knows nothing of its items
    if type(node) is ChoiceNode:
        return _choice_schema(node)
    if type(node) is ListNode:
        items = core_schema_of(node.item)
        if node.make is tuple:
            return {"type": "tuple", "items_schema": [items], "variadic_item_index": 0}
        return {"type": _SEQUENCES[node.make], "items_schema": items}
    if type(node) is TupleNode:
        return {"type": "tuple", "items_schema": [core_schema_of(item) for item in node.items]}
    if type(node) is DictNode:
        values = core_schema_of(node.value)
        return {"type": "dict", "keys_schema": core_schema_of(node.key), "values_schema": values}
    if type(node) is UnionNode:
        (option,) = (option for option in node.options if not isinstance(option, NoneNode))
        return {"type": "nullable", "schema": core_schema_of(option)}
    if type(node) is ObjectNode:
        return _record_schema(node)
    raise TypeError(f"no pydantic-core schema is built for {type(node).__name__}")


def _choice_schema(node: ChoiceNode[object]) -> CoreSchema:
    """Return the schema of an Enum or a Literal of texts."""
    values = [choice.value for choice in node.choices.choices]
    if not isinstance(values[0], Enum):
        return {"type": "literal", "expected": values}
    cls: Any = type(values[0])
    if cls._missing_.__func__ is not Enum._missing_.__func__ or type(cls) is not EnumMeta:  # type: ignore[attr-defined]  # a classmethod has it
        raise TypeError(f"pydantic-core would call _missing_ of {cls.__name__}, and the nodes do not")
    return {"type": "enum", "cls": cls, "members": values}


def _record_schema(node: ObjectNode) -> CoreSchema:
    """Return the schema of a plain dataclass, or that of a pydantic model without dataclasses inside."""
    spec = node.spec
    if spec.plain_dataclass:
        names = [field.name for field in spec.fields]
        fields = [
            {"type": "dataclass-field", "name": name, "schema": core_schema_of(node.nodes[name])}
            for name in names
        ]
        return {
            "type": "dataclass",
            "cls": spec.cls,
            "fields": names,
            "schema": {"type": "dataclass-args", "dataclass_name": node.name, "fields": fields},
            # without slots pydantic-core replaces ``__dict__`` as a whole, which such classes may not have
            "slots": hasattr(spec.cls, "__slots__"),
        }
    if spec.adapter is None or has_plain_dataclass(node):
        raise TypeError(f"pydantic resolved the dataclasses inside {node.name} itself")
    schema: Any = spec.adapter.core_schema
    return dict(schema)
