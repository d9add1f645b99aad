"""The frames of a reply that is a list: they find where each item begins and ends."""

from __future__ import annotations

from typing import Any

from .node import Node, Shared
from .objects import ObjectNode
from .partial_frames import Frame, skip
from .partial_shapes import takes
from .unions import UnionNode

__all__ = ["ItemsRoot"]

_USUAL_KEYS = ("value", "items")  # around a list whose items may be objects with any keys


class ItemsRoot(Frame):
    """A reply that holds a list of items, bare or under one key, or items one after the other (``lines``).

    ``spans`` says where each complete item begins and ends; ``closed`` that the list is; ``fault`` why what
    stands around the list is not understood.
    """

    spanned = True

    def __init__(self, node: Node[Any]) -> None:
        self._node = node
        self._start = 0
        self.spans: list[tuple[int, int]] = []
        self.closed = False
        self.lines = False
        self.fault = ""

    @property
    def more(self) -> bool:  # type: ignore[override]
        return not self.closed

    def suits(self, bracket: str) -> bool:
        """A list may begin with either bracket; behind a first line, only another one is due."""
        return bracket == "{" or not self.lines

    def open(self, bracket: str) -> Frame:
        return _ItemsFrame(self.spans) if bracket == "[" else _AroundFrame(self, self._node)

    def adopt(self, child: Frame) -> None:
        is_item = isinstance(child, _AroundFrame) and child.is_item
        self.lines = self.lines or is_item
        self.closed = not is_item

    def began(self, position: int) -> None:
        self._start = position

    def ended(self, position: int) -> None:
        if self.lines:
            self.spans.append((self._start, position))


class _ItemsFrame(Frame):
    """The list itself; its items are read from their text."""

    closer = "]"
    spanned = True

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        self._spans = spans
        self._start = 0

    def began(self, position: int) -> None:
        self._start = position

    def ended(self, position: int) -> None:
        self._spans.append((self._start, position))


class _AroundFrame(Frame):
    """An object that holds the list under its one key, or that is an item itself."""

    closer = "}"

    def __init__(self, root: ItemsRoot, node: Node[Any]) -> None:
        self._root = root
        self._node = node
        self._key: str | None = None
        self._first = False  # the last key is the first
        self.is_item = True  # until a list stands under a key that no item has

    def key(self, key: str) -> None:
        if not self.is_item:
            self._root.fault = f"the object around the list has another key, {key!r}"
        self._first = self._key is None
        self._key = key

    def open(self, bracket: str) -> Frame:
        around = bracket == "[" and self._first and not self._root.lines
        if not around or _knows(self._node, self._key or ""):
            return skip(bracket)
        self.is_item = False
        return _ItemsFrame(self._root.spans)


def _knows(node: Node[Any], key: str) -> bool:
    """Whether an item of this type may have the key."""
    while isinstance(node, Shared):
        node = node.target
    if isinstance(node, UnionNode):
        return any(_knows(option, key) for option in node.options)
    if isinstance(node, ObjectNode):
        return node.field_of(key)[0] is not None
    return takes(node, "{") and key not in _USUAL_KEYS
