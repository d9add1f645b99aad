"""Says of the nodes of a type what a growing text may show of them."""

from __future__ import annotations

from typing import Any

from ..choices import BoolNode, ChoiceNode, FlagNode
from ..constraints import ConstrainedNode
from ..mappings import DictNode
from ..node import Node, Shared
from ..objects import ObjectNode
from ..scalars import AnyNode, DecimalNode, FloatNode, IntNode, NoneNode, NumberNode, StringFormNode, TextNode
from ..sequences import ListNode, TupleNode
from ..temporal import TemporalNode
from ..unions import UnionNode
from ..wrapped import RootNode

__all__ = ["as_is", "changed_fields", "changes_whole", "grows", "knows", "takes", "target_of"]

_NO_CONTAINER = (TextNode, NumberNode, NoneNode, StringFormNode, ChoiceNode)
_NO_ARRAY = (ObjectNode, DictNode, TemporalNode)
_NO_OBJECT = (ListNode, TupleNode, FlagNode)
# Members of a union that give way to text wherever JSON has a string.
_NO_STRING = (NoneNode, IntNode, FloatNode, DecimalNode, BoolNode, ObjectNode, DictNode, ListNode, TupleNode)
_ENVELOPES = ("value", "items")  # keys that stand around a list rather than in one of its items
_AS_IS: dict[type, type] = {TextNode: str, AnyNode: str, IntNode: int, BoolNode: bool}
_CHANGES_TEXT = ("str_strip_whitespace", "str_to_lower", "str_to_upper")


def as_is(node: Node[Any]) -> type | None:
    """The type of JSON that a node reads as just what it is; None when there is none."""
    return _AS_IS.get(type(target_of(node)))


def grows(node: Node[Any]) -> bool:
    """Whether a string of this type means, while it is written, what its beginning says."""
    if isinstance(node, Shared):
        return grows(node.target)
    if isinstance(node, UnionNode):
        return any(isinstance(target_of(option), TextNode) for option in node.options) and all(
            isinstance(target_of(option), (TextNode, *_NO_STRING)) for option in node.options
        )
    return isinstance(node, (TextNode, AnyNode))


def takes(node: Node[Any], bracket: str) -> bool:
    """Whether a container that begins with this bracket may be of this type."""
    node = target_of(node)
    if isinstance(node, (RootNode, ConstrainedNode)):
        return takes(node.parts[0], bracket)
    if isinstance(node, UnionNode):
        return any(takes(option, bracket) for option in node.options)
    return not isinstance(node, (*_NO_CONTAINER, *(_NO_OBJECT if bracket == "{" else _NO_ARRAY)))


def target_of(node: Node[Any]) -> Node[Any]:
    """The node itself, where another one stands for it in a recursive type."""
    while isinstance(node, Shared):
        node = node.target
    return node


def changes_whole(node: ObjectNode) -> bool:
    """Whether the class may make other text of what its fields read."""
    config: Any = getattr(node.spec.cls, "model_config", None) or {}
    return node.spec.reshapes or any(config.get(name) for name in _CHANGES_TEXT)


def changed_fields(node: ObjectNode) -> frozenset[str]:
    """The fields that a validator of their class sees, and may change."""
    decorators = getattr(node.spec.cls, "__pydantic_decorators__", None)
    validators = decorators.field_validators.values() if decorators else ()
    named = {name for validator in validators for name in validator.info.fields}
    return frozenset(node.nodes if "*" in named else named)


def knows(node: Node[Any], key: str) -> bool:
    """Whether an object of this type may well have the key."""
    node = target_of(node)
    if isinstance(node, UnionNode):
        return any(knows(option, key) for option in node.options)
    if isinstance(node, ObjectNode):
        return node.field_of(key)[0] is not None
    return takes(node, "{") and key not in _ENVELOPES
