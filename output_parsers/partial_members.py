"""Open containers that read and show their members one by one: objects and lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .growing_strings import GrowingString
from .node import Node
from .partial_frames import SKIPPED, UNFIT, Frame, JsonFrame, skip
from .partial_views import ListStore, ObjectStore, PartialList, PartialObject, TextSoFar
from .reading import Json, Misfit, Place

__all__ = ["BoxFrame", "ListFrame", "MemberFrame", "ObjectFrame", "Slot"]


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value goes: the node that reads it, the frame for a container in it, whether its text grows.

    ``exact`` says that the key is the field's very name; ``hidden`` that the value is shown only with the
    whole object, for the class may change it.
    """

    node: Node[Any]
    open: Callable[[str], Frame]
    grows: bool
    name: Any = None
    exact: bool = True
    hidden: bool = False


class MemberFrame(Frame, ABC):
    """A container whose members are read and shown one by one."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._slot: Slot | None = None
        self._text: GrowingString | None = None
        self._unfit = False

    @abstractmethod
    def _add(self, value: Any, *, fits: bool) -> None:
        """Show a value in the slot, for good."""

    def take(self, found: Json) -> None:
        slot = self._slot
        if slot is None:
            return
        try:
            value = slot.node.read(found, self._place)
        except (Misfit, RecursionError):
            self.fail()
            return
        if self._place.ledger:
            self._place.ledger.clear()
        if self._place.known:
            self._place.known.clear()
        self._text = None
        self._add(value, fits=True)

    def open(self, bracket: str) -> Frame:
        return skip(bracket) if self._slot is None else self._slot.open(bracket)

    def grow(self, text: GrowingString) -> None:
        if self._slot is not None and self._slot.grows:
            self._text = text

    def fail(self) -> None:
        if self._slot is None:
            return
        self._unfit = True
        if self._text is not None:
            self._add(TextSoFar(self._text.shown).join(), fits=False)
            self._text = None

    def adopt(self, child: Frame) -> None:
        value = child.close()
        if value is SKIPPED:
            return
        if value is UNFIT:
            self._unfit = True
            shown = child.view(None)
            if shown is not None:
                self._add(shown, fits=False)
        elif child.unread:
            self.take(value)
        else:
            self._add(value, fits=True)

    def _tail(self, tail: Any) -> Any:
        return tail if self._text is None else TextSoFar(self._text.shown)


class ObjectFrame(MemberFrame):
    """An open object: a record, a dict or any object.

    ``slot_of`` gives the slot of a key, None where there is none; ``make`` the value of the members, by
    name, and of the keys that have no slot, and raises Misfit.
    """

    closer = "}"

    def __init__(
        self,
        place: Place,
        store: ObjectStore,
        slot_of: Callable[[str], Slot | None],
        make: Callable[[dict[Any, Any], dict[str, Json]], Any],
        *,
        extra: str = "ignore",
    ) -> None:
        super().__init__(place)
        self._store = store
        self._slot_of = slot_of
        self._make = make
        self._extra = extra
        self._others: dict[str, Json] = {}
        self._hidden: dict[Any, Any] = {}
        self._key: str | None = None  # the last key, where it has no slot
        self._inexact: set[Any] = set()

    def key(self, key: str) -> None:
        slot = self._slot_of(key)
        self._key = None
        if slot is None:
            self._key = key
            self._unfit |= self._extra == "forbid"
        elif slot.name in self._store.places or slot.name in self._hidden:
            # its first value stays; the whole reading prefers a field's very name to another form of it
            self._unfit |= slot.exact and slot.name in self._inexact
            slot = None
        elif not slot.exact:
            self._inexact.add(slot.name)
        self._slot = slot

    def take(self, found: Json) -> None:
        if self._key is not None and self._extra == "allow":
            self._others[self._key] = found
        else:
            super().take(found)

    def open(self, bracket: str) -> Frame:
        if self._key is not None and self._extra == "allow":
            return JsonFrame(bracket)
        return super().open(bracket)

    def fail(self) -> None:
        super().fail()
        self._unfit = True

    def _add(self, value: Any, *, fits: bool) -> None:
        slot = self._slot
        if slot is None:
            return
        if slot.hidden:
            self._hidden[slot.name] = value
            return
        if not fits:
            self._store.unfit.add(slot.name)
        self._store.add(slot.name, value)

    def close(self) -> Any:
        if self._unfit:
            return UNFIT
        values = dict(zip(self._store.places, self._store.values, strict=True))
        try:
            return self._make({**values, **self._hidden}, self._others)
        except (Misfit, RecursionError):
            return UNFIT

    def view(self, tail: Any) -> PartialObject:
        slot = self._slot
        if slot is None or slot.hidden:
            return PartialObject(self._store)
        return PartialObject(self._store, slot.name, self._tail(tail))


class ListFrame(MemberFrame):
    """An open array. ``slots`` are those of its first items, ``rest`` that of all others, None for none."""

    closer = "]"

    def __init__(
        self, place: Place, slots: tuple[Slot, ...], rest: Slot | None, make: Callable[[list[Any]], Any]
    ) -> None:
        super().__init__(place)
        self._slots = slots
        self._rest = rest
        self._make = make
        self._store = ListStore()
        self._count = 0
        self._next()

    def _next(self) -> None:
        self._slot = self._slots[self._count] if self._count < len(self._slots) else self._rest
        self._count += 1

    def take(self, found: Json) -> None:
        if self._slot is None:
            self._unfit = True
        super().take(found)
        self._next()

    def fail(self) -> None:
        super().fail()
        self._unfit = True

    def adopt(self, child: Frame) -> None:
        super().adopt(child)
        self._unfit |= self._slot is None
        if not child.unread:
            self._next()

    def _add(self, value: Any, *, fits: bool) -> None:
        if not fits:
            self._store.unfit.add(len(self._store.items))
        self._store.items.append(value)

    def close(self) -> Any:
        if self._unfit:
            return UNFIT
        try:
            return self._make(list(self._store.items))
        except (Misfit, RecursionError):
            return UNFIT

    def view(self, tail: Any) -> PartialList:
        return PartialList(self._store, self._tail(tail))


class BoxFrame(MemberFrame):
    """An object of one key that stands for the value under it."""

    closer = "}"

    def __init__(self, place: Place, key: str, slot: Slot) -> None:
        super().__init__(place)
        self._key = key
        self._only = slot
        self._value: Any = UNFIT

    def key(self, key: str) -> None:
        first = self._value is UNFIT and key == self._key
        self._unfit |= key != self._key
        self._slot = self._only if first else None

    def _add(self, value: Any, *, fits: bool) -> None:
        self._value = value

    def close(self) -> Any:
        return UNFIT if self._unfit else self._value

    def view(self, tail: Any) -> Any:
        return self._tail(tail) if self._value is UNFIT else self._value
