"""Shows how a reply stands at one moment: from the containers that are open to a value or a view."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

from ..envelope import EnvelopeNode
from ..node import Node
from ..reading import Leniency
from .enveloped import EnvelopeFrame
from .frames import Frame, Slot, settle
from .growing_spine import Moment
from .growing_tokens import cut_string
from .kinds import takes
from .late_views import LateList, LateObject
from .members import ListFrame, ObjectFrame
from .pieces import TextSoFar
from .shapes import Shapes
from .views import NO_TAIL, Tail

__all__ = ["Root"]

_Level: TypeAlias = tuple[Frame, int, Any]  # how much of it is shown, and its name in what is around it


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
        """What the reply shows at a moment; None: nothing. What it shows is built when it is looked into."""
        if not moment.spine:
            return None
        container, _ = moment.spine[0]
        frame = container.frame or container.read_with(self._open(container.bracket))
        if type(frame) is ObjectFrame:
            return LateObject(partial(self._built, moment))
        return LateList(partial(self._built, moment)) if type(frame) is ListFrame else self._built(moment)

    def _built(self, moment: Moment) -> Any:
        levels = self._levels(moment)
        tail = _being_written(moment, levels[-1]) if len(levels) == len(moment.spine) else NO_TAIL
        for frame, size, name in reversed(levels):
            tail = (name, frame.view(size, tail))
        return tail[1]

    def _levels(self, moment: Moment) -> list[_Level]:
        """The open containers, from the outermost one down to where nothing more is shown."""
        levels: list[_Level] = []
        slot: Slot | None = None
        for container, count in moment.spine:
            if levels:
                around, size, _ = levels[-1]
                slot = around.peek(container.key, size)
                if slot is None:
                    break
            frame = container.frame
            if frame is None:
                bracket = container.bracket
                frame = container.read_with(self._open(bracket) if slot is None else slot.open(bracket))
            if len(container.sizes) <= count:
                settle(container, count)
            levels.append((frame, container.sizes[count], None if slot is None else slot.name))
        return levels

    def _open(self, bracket: str) -> Frame:
        node = self._node
        if not isinstance(node, EnvelopeNode):
            return self._shapes.open(node, bracket)
        if bracket == "{":
            return EnvelopeFrame(self._shapes, node)
        return self._shapes.open(node.inner, bracket)


def _being_written(moment: Moment, level: _Level) -> Tail:
    """What is shown of the string that is being written in the innermost open container."""
    shown: TextSoFar | str | None
    if moment.text is not None:
        key, shown = moment.key, moment.text
    elif moment.cut is not None:
        key, shown = cut_string(moment.cut)
    else:
        return NO_TAIL
    frame, size, _ = level
    slot = None if shown is None else frame.peek(key, size)
    return (slot.name, shown) if slot is not None and slot.grows else NO_TAIL
