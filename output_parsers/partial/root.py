"""Shows how a reply stands at one moment: from the containers that are open to a value or a view."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..envelope import EnvelopeNode
from ..node import Node
from ..reading import Json, Leniency
from .frames import Frame, Slot, settle, settled_size
from .growing_spine import Moment
from .growing_tokens import cut_string
from .kinds import takes
from .members import BoxFrame
from .shapes import Shapes
from .views import NO_TAIL, Size, Tail, TextSoFar

__all__ = ["Root"]


class Root:
    """The outermost part of a type, which says what a reply may begin with and how it is shown."""

    def __init__(self, node: Node[Any], leniency: Leniency) -> None:
        self._node = node
        self._shapes = Shapes(leniency)

    def suits(self, bracket: str) -> bool:
        """Whether the answer may begin with this bracket."""
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return takes(node, bracket)
        return bracket == "{" or takes(node.inner, bracket)

    def view(self, moment: Moment) -> Any:
        """What the reply shows at a moment; None: nothing. What is inside is found out on demand."""
        return self._view(moment, 0) if moment.spine else None

    def _view(self, moment: Moment, level: int) -> Any:
        container, count = moment.spine[level]
        frame = container.frame
        if frame is None:
            frame = container.read_with(self._open(container.bracket))
        if not frame.lazy:
            settle(container, count)
        known = len(container.sizes) > count
        size = container.sizes[count] if known else partial(settled_size, container, count)
        return frame.view(size, partial(self._tail, moment, level, frame))

    def _tail(self, moment: Moment, level: int, frame: Frame) -> Tail:
        container, count = moment.spine[level]
        index = 0 if frame.lazy else container.sizes[count]
        if level + 1 == len(moment.spine):
            key, shown = _being_written(moment, container.bracket)
            slot = None if shown is None else frame.peek(key, index)
            return (slot.name, shown) if slot is not None and slot.grows else NO_TAIL
        child = moment.spine[level + 1][0]
        slot = frame.peek(child.key, index)
        if slot is None:
            return NO_TAIL
        if child.frame is None:
            child.read_with(slot.open(child.bracket))
        return slot.name, self._view(moment, level + 1)

    def _open(self, bracket: str) -> Frame:
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return self._shapes.open(node, bracket)
        if bracket == "{":
            return _EnvelopeFrame(self._shapes, node)
        return self._shapes.open(node.inner, bracket)


def _being_written(moment: Moment, bracket: str) -> tuple[str, TextSoFar | str | None]:
    """The key of the string that is being written, and what it shows; None when there is no string."""
    if moment.pieces is not None:
        return moment.key, TextSoFar(moment.pieces, moment.shown)
    return cut_string(moment.rest, bracket)


class _EnvelopeFrame(Frame):
    """``{"value": …}``, or the object without it: its first key tells."""

    def __init__(self, shapes: Shapes, node: EnvelopeNode[Any]) -> None:
        self._shapes = shapes
        self._node = node
        self._frame: Frame | None = None

    def _inside(self, key: str = "") -> Frame:
        if self._frame is None:
            inner = self._node.inner
            if key == self._node.field:
                self._frame = BoxFrame(self._shapes.place, key, self._shapes.slot(inner))
            else:
                self._frame = self._shapes.open(inner, "{")
        return self._frame

    @property
    def unread(self) -> bool:  # type: ignore[override]
        return self._inside().unread

    def key(self, key: str) -> None:
        self._inside(key).key(key)

    def take(self, found: Json) -> None:
        self._inside().take(found)

    def fail(self, shown: str) -> None:
        self._inside().fail(shown)

    def open(self, bracket: str) -> Frame:
        return self._inside().open(bracket)

    def adopt(self, child: Frame) -> None:
        self._inside().adopt(child)

    def close(self) -> Any:
        return self._inside().close()

    @property
    def size(self) -> int:
        return 0 if self._frame is None else self._frame.size

    def peek(self, key: str, index: int) -> Slot | None:
        return self._inside(key).peek(key, index)

    def view(self, size: Size, tail: Callable[[], Tail]) -> Any:
        if self._frame is None:
            tail()  # its key decides
        return None if self._frame is None else self._frame.view(size, tail)
