"""Open containers that stand for the value inside: an envelope, or the object that came without one."""

from __future__ import annotations

from typing import Any

from ..envelope import EnvelopeNode
from ..reading import Json, Place
from .frames import UNFIT, Frame, Slot
from .members import MemberFrame
from .shapes import Shapes
from .views import Tail

__all__ = ["EnvelopeFrame"]


class EnvelopeFrame(Frame):
    """``{"value": …}``, or the object without it: its first key tells."""

    def __init__(self, shapes: Shapes, node: EnvelopeNode[Any]) -> None:
        self._shapes = shapes
        self._node = node
        self._frame: Frame | None = None

    def _inside(self, key: str = "") -> Frame:
        if self._frame is None:
            inner = self._node.inner
            if key == self._node.field:
                self._frame = _BoxFrame(self._shapes.place, key, self._shapes.slot(inner))
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

    def view(self, size: int, tail: Tail) -> Any:
        return None if self._frame is None else self._frame.view(size, tail)


class _BoxFrame(MemberFrame):
    """An object of one key that stands for the value under it."""

    def __init__(self, place: Place, key: str, slot: Slot) -> None:
        super().__init__(place)
        self._key = key
        self._only = slot
        self._value: Any = UNFIT

    def key(self, key: str) -> None:
        self._unfit |= key != self._key
        self._slot = self._only if self._value is UNFIT and key == self._key else None

    def _add(self, value: Any, *, fits: bool) -> None:
        self._value = value
        self._unfit |= not fits

    def close(self) -> Any:
        return UNFIT if self._unfit else self._value

    @property
    def size(self) -> int:
        return int(self._value is not UNFIT)

    def peek(self, key: str, index: int) -> Slot | None:
        return self._only if key == self._key else None

    def view(self, size: int, tail: Tail) -> Any:
        return self._value if size else tail[1]
