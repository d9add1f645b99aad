"""The frame that stands for a whole reply: it opens the container that the answer is."""

from __future__ import annotations

from typing import Any

from .envelope import EnvelopeNode
from .growing_strings import GrowingString
from .node import Node
from .partial_frames import SKIPPED, UNFIT, Frame
from .partial_members import BoxFrame
from .partial_shapes import Shapes, takes
from .reading import Json, Leniency, Misfit

__all__ = ["RootFrame"]


class RootFrame(Frame):
    """A reply whose answer is one object or array. ``fits`` says that it is closed and was read.

    An answer of which nothing could be shown, and that does not fit, makes way for another one.
    """

    def __init__(self, node: Node[Any], leniency: Leniency) -> None:
        self._node = node
        self._shapes = Shapes(leniency)
        self._shown: Any = None
        self.fits = False

    @property
    def more(self) -> bool:  # type: ignore[override]
        return not self.fits and not self._shown

    def suits(self, bracket: str) -> bool:
        """Whether the answer may begin with this bracket."""
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return takes(node, bracket)
        return bracket == "{" or takes(node.inner, bracket)

    def open(self, bracket: str) -> Frame:
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return self._shapes.open(node, bracket)
        if bracket == "{":
            return EnvelopeFrame(self._shapes, node)
        return self._shapes.open(node.inner, bracket)

    def adopt(self, child: Frame) -> None:
        value = child.close()
        if value is not UNFIT and child.unread:
            try:
                value = self._node.read(value, self._shapes.place)
            except (Misfit, RecursionError):
                value = UNFIT
        self.fits = value is not UNFIT and value is not SKIPPED
        self._shown = value if self.fits else child.view(None)

    def view(self, tail: Any) -> Any:
        return self._shown if tail is None else tail


class EnvelopeFrame(Frame):
    """``{"value": …}``, or the object without it: its first key tells."""

    closer = "}"

    def __init__(self, shapes: Shapes, node: EnvelopeNode[Any]) -> None:
        self._shapes = shapes
        self._node = node
        self._frame: Frame | None = None

    @property
    def unread(self) -> bool:  # type: ignore[override]
        return self._inside.unread

    @property
    def _inside(self) -> Frame:
        if self._frame is None:
            self._frame = self._shapes.open(self._node.inner, "{")
        return self._frame

    def key(self, key: str) -> None:
        if self._frame is None and key == self._node.field:
            inner = self._node.inner
            self._frame = BoxFrame(self._shapes.place, key, self._shapes.slot(inner))
        self._inside.key(key)

    def take(self, found: Json) -> None:
        self._inside.take(found)

    def open(self, bracket: str) -> Frame:
        return self._inside.open(bracket)

    def grow(self, text: GrowingString) -> None:
        self._inside.grow(text)

    def fail(self) -> None:
        self._inside.fail()

    def adopt(self, child: Frame) -> None:
        self._inside.adopt(child)

    def close(self) -> Any:
        return self._inside.close()

    def view(self, tail: Any) -> Any:
        return None if self._frame is None else self._frame.view(tail)
