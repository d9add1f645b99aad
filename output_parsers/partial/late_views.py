"""Views that are built when somebody looks into them: most snapshots of a stream pass unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .views import PartialList, PartialObject

__all__ = ["LateList", "LateObject"]


class LateObject(PartialObject):
    """A view of an object; ``look`` builds the one that it is to be."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], PartialObject]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_OBJECTS:
            return super().__getattr__(name)
        built = self._look()
        self._store, self._count, self._name, self._tail = (
            built._store,
            built._count,
            built._name,
            built._tail,
        )
        return getattr(self, name)


class LateList(PartialList):
    """A view of a list; ``look`` builds the one that it is to be."""

    __slots__ = ("_look",)

    def __init__(self, look: Callable[[], PartialList]) -> None:
        self._look = look

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_LISTS:
            raise AttributeError(name)
        built = self._look()
        self._store, self._count, self._tail = built._store, built._count, built._tail
        return getattr(self, name)


_OF_OBJECTS = frozenset(PartialObject.__slots__)
_OF_LISTS = frozenset(PartialList.__slots__)
