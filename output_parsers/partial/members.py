"""Open containers that read and show their members one by one: objects and lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..clean import NOT_CLEAN
from ..reading import Json, Misfit, Place
from .frames import SKIPPED, UNFIT, Frame, JsonFrame, Slot, skip
from .growing_spine import Container, clean_text
from .views import NO_TAIL, ListStore, ObjectStore, PartialList, PartialObject, Tail

__all__ = ["ListFrame", "MemberFrame", "ObjectFrame"]


class MemberFrame(Frame, ABC):
    """A container whose members are read and shown one by one, each in the slot that is its own."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._slot: Slot | None = None
        self._unfit = False

    @abstractmethod
    def _add(self, value: Any, *, fits: bool) -> None:
        """Show a value in the slot, for good."""

    def take(self, found: Json) -> None:
        slot = self._slot
        if slot is None:
            return
        if type(found) is slot.as_is:
            self._add(found, fits=True)
            return
        place = self._place
        try:
            value = slot.node.read(found, place)
        except (Misfit, RecursionError):
            self._unfit = True
            if slot.grows and isinstance(found, str):  # so it was shown while it was being written
                self._add(found, fits=False)
            return
        if place.ledger:
            place.ledger.clear()
        if place.known:
            place.known.clear()
        self._add(value, fits=True)

    def fail(self, shown: str) -> None:
        self._unfit = True
        if self._slot is not None and self._slot.grows:
            self._add(shown, fits=False)

    def open(self, bracket: str) -> Frame:
        return skip() if self._slot is None else self._slot.open(bracket)

    def read_whole(self, container: Container) -> bool:
        slot = self._slot
        if slot is None or slot.clean is None:
            return False
        text = clean_text(container)
        value = NOT_CLEAN if text is None else slot.clean(text)
        if value is not NOT_CLEAN:
            self._add(value, fits=True)
        return value is not NOT_CLEAN

    def adopt(self, child: Frame) -> None:
        value = child.close()
        if value is SKIPPED:
            return
        if value is UNFIT:
            self._unfit = True
            shown = child.view(child.size, NO_TAIL)
            if shown is not None:
                self._add(shown, fits=False)
        elif child.unread:
            self.take(value)
        else:
            self._add(value, fits=True)


class ObjectFrame(MemberFrame):
    """An object: a record, a dict, or one with any members.

    ``slot_of`` gives the slot of a key, None where there is none; ``make`` the value of the members, by
    name, and of the keys that have no slot, and raises Misfit.
    """

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

    def take_run(self, run: list[tuple[str, Json]]) -> None:
        store, slot_of = self._store, self._slot_of
        for key, found in run:
            slot = slot_of(key)
            if (
                slot is not None  # the usual member, for which the two steps below do no more than this
                and type(found) is slot.as_is
                and slot.exact
                and not slot.hidden
                and slot.name not in store.places
            ):
                store.add(slot.name, found)
            else:
                self.key(key)
                self.take(found)

    def take(self, found: Json) -> None:
        if self._key is not None and self._extra == "allow":
            self._others[self._key] = found
        else:
            super().take(found)

    def open(self, bracket: str) -> Frame:
        if self._key is not None and self._extra == "allow":
            return JsonFrame(bracket)
        return super().open(bracket)

    def adopt(self, child: Frame) -> None:
        if self._key is not None and child.unread:
            found = child.close()
            self._unfit |= found is UNFIT
            self._others[self._key] = found
        else:
            super().adopt(child)

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
        values.update(self._hidden)
        try:
            return self._make(values, self._others)
        except (Misfit, RecursionError):
            return UNFIT

    @property
    def size(self) -> int:
        return len(self._store.values)

    def peek(self, key: str, index: int) -> Slot | None:
        slot = self._slot_of(key)
        return None if slot is None or slot.hidden else slot

    def view(self, size: int, tail: Tail) -> PartialObject:
        return PartialObject(self._store, size, tail)


class ListFrame(MemberFrame):
    """An array. ``slots`` are those of its first items, ``rest`` that of all others, None for none."""

    def __init__(
        self, place: Place, slots: tuple[Slot, ...], rest: Slot | None, make: Callable[[list[Any]], Any]
    ) -> None:
        super().__init__(place)
        self._slots = slots
        self._rest = rest
        self._make = make
        self._store = ListStore()
        self._count = 0  # of the items that were told

    def key(self, key: str) -> None:
        self._slot = self.peek(key, self._count)
        self._unfit |= self._slot is None
        self._count += 1

    def _add(self, value: Any, *, fits: bool) -> None:
        if not fits:
            self._store.unfit.add(len(self._store.items))
        self._store.items.append(value)

    def close(self) -> Any:
        if self._unfit:
            return UNFIT
        try:
            return self._make(self._store.items[:])
        except (Misfit, RecursionError):
            return UNFIT

    @property
    def size(self) -> int:
        return len(self._store.items)

    def peek(self, key: str, index: int) -> Slot | None:
        return self._slots[index] if index < len(self._slots) else self._rest

    def view(self, size: int, tail: Tail) -> PartialList:
        return PartialList(self._store, size, tail)
