"""The containers of a growing text that are open: each reads its members as they are closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .growing_strings import GrowingString
from .json_text import JsonFault, put
from .node import Node
from .partial_views import ListStore, ObjectStore, PartialList, PartialObject, TextSoFar
from .reading import Json, Misfit, Place

__all__ = ["SKIPPED", "UNFIT", "Frame", "JsonFrame", "ListFrame", "MemberFrame", "ObjectFrame", "skip"]

UNFIT: Any = object()  # what a container gives that does not fit its type
SKIPPED: Any = object()  # what a container gives that nobody asked for


class Frame(ABC):
    """One open container. The scanner tells it what it holds, in the order of the text.

    ``closer`` is the bracket that ends it; ``spanned`` says that it wants to know where its values begin
    and end; ``unread`` that what it gives is JSON, which the container around it has yet to read.
    """

    closer = ""
    spanned = False
    unread = False

    def key(self, key: str) -> None:
        """A key, whose value comes next."""

    @abstractmethod
    def take(self, found: Json) -> None:
        """A JSON value that is closed."""

    @abstractmethod
    def open(self, bracket: str) -> Frame:
        """The frame for a container that begins here."""

    def grow(self, text: GrowingString) -> None:
        """A string that has begun; ``take`` or ``fail`` follows when it is closed."""

    def fail(self) -> None:
        """The string or the word that was to come here cannot be read."""

    @abstractmethod
    def adopt(self, child: Frame) -> None:
        """A container that ``open`` gave is closed."""

    def close(self) -> Any:
        """The value, now that the container is closed; UNFIT, SKIPPED."""
        return SKIPPED

    def view(self, tail: Any) -> Any:
        """What is shown of it now, ``tail`` being what is shown of the container open in it; None: nothing."""
        return None

    def began(self, position: int) -> None:
        """Where a value begins in the whole text."""

    def ended(self, position: int) -> None:
        """Where it ends."""


class _SkipFrame(Frame):
    """A container that is of no interest."""

    def __init__(self, closer: str) -> None:
        self.closer = closer

    def take(self, found: Json) -> None:
        pass

    def open(self, bracket: str) -> Frame:
        return skip(bracket)

    def adopt(self, child: Frame) -> None:
        pass


_SKIP = {"{": _SkipFrame("}"), "[": _SkipFrame("]")}


def skip(bracket: str) -> Frame:
    """The frame for a container that is only to be passed over."""
    return _SKIP[bracket]


class JsonFrame(Frame):
    """A container that is read as a whole when it is closed; nothing of it is shown before."""

    unread = True

    def __init__(self, bracket: str) -> None:
        self.closer = "}" if bracket == "{" else "]"
        self.fields: dict[str, Json] = {}
        self._items: list[Json] = []
        self._key = ""
        self._unfit = False

    def key(self, key: str) -> None:
        self._key = key

    def take(self, found: Json) -> None:
        if self.closer == "]":
            self._items.append(found)
            return
        try:
            put(self.fields, self._key, found, 0)
        except JsonFault:
            self._unfit = True

    def open(self, bracket: str) -> Frame:
        return JsonFrame(bracket)

    def fail(self) -> None:
        self._unfit = True

    def adopt(self, child: Frame) -> None:
        found = child.close()
        if found is UNFIT:
            self._unfit = True
        else:
            self.take(found)

    def close(self) -> Json:
        if self._unfit:
            return UNFIT
        return self.fields if self.closer == "}" else self._items


class Slot:
    """Where the next value goes: the node that reads it, how a container in it is read, whether text grows."""

    __slots__ = ("exact", "grows", "name", "node", "open")

    def __init__(
        self, node: Node[Any], opens: Callable[[str], Frame], *, grows: bool, name: Any = None, exact: bool = True
    ) -> None:
        self.node = node
        self.open = opens
        self.grows = grows
        self.name = name
        self.exact = exact


class MemberFrame(Frame):
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
        self._key: str | None = None  # the last key, where it has no slot
        self._inexact: set[Any] = set()

    def key(self, key: str) -> None:
        slot = self._slot_of(key)
        self._key = None
        if slot is None:
            self._key = key
            self._unfit |= self._extra == "forbid"
        elif slot.name in self._store.places:
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
        if self._slot is not None:
            self._store.add(self._slot.name, value)
            if not fits:
                self._store.unfit.add(self._slot.name)

    def close(self) -> Any:
        if self._unfit:
            return UNFIT
        values = dict(zip(self._store.places, self._store.values, strict=True))
        try:
            return self._make(values, self._others)
        except (Misfit, RecursionError):
            return UNFIT

    def view(self, tail: Any) -> PartialObject:
        return PartialObject(self._store, self._slot.name if self._slot else None, self._tail(tail))


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
