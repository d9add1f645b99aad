"""The containers of a growing text, with what is closed in them, and how they stand at one moment."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from ..json.result import JsonSyntaxError, add_field
from ..parser.fast_path import NOT_EXACT
from ..result.reading import Cursor, Json, ValidationFailure
from ..types.node import Node
from .tokens import TextSoFar
from .views import NO_TAIL, ListStore, ObjectStore, PartialList, PartialObject, Tail


class Member(NamedTuple):
    """A closed member that stands by itself. ``unfit``: its string cannot be read, and was shown so far."""

    key: str
    value: Json
    unfit: bool


class Container:
    """An object or array: ``parts`` are its closed members in the order of the text, and are only added to.

    A part is a run of members without anything odd in them, as text; one member; or one container. ``key``
    is the key that it stands under; ``start`` and ``end`` say where in the whole text it stands. ``frame``
    reads it, once somebody looks; ``sizes`` says how much was shown of it after so many parts.
    """

    __slots__ = ("bracket", "closer", "end", "frame", "key", "parts", "sizes", "start")

    def __init__(self, bracket: str, key: str, start: int) -> None:
        self.bracket = bracket
        self.closer = "}" if bracket == "{" else "]"
        self.key = key
        self.start = start
        self.end = -1
        self.parts: list[Part] = []
        self.frame: Frame | None = None
        self.sizes: list[int] = []

    def read_with(self, frame: Frame) -> Frame:
        """Give it the frame that reads it."""
        self.frame = frame
        self.sizes = [frame.size]
        return frame


Part: TypeAlias = str | Member | Container


def clean_text(container: Container) -> str | None:
    """The JSON text of a closed container; None when there is something odd in it."""
    members = []
    for part in container.parts:
        if isinstance(part, str):
            members.append(part.rstrip(" \t\r\n,"))
            continue
        inside = clean_text(part) if isinstance(part, Container) else None
        if inside is None:
            return None
        members.append(f"{json.dumps(part.key)}:{inside}" if container.bracket == "{" else inside)
    return f"{container.bracket}{','.join(members)}{container.closer}"


class Moment(NamedTuple):
    """The containers that are open, each with the number of its parts, and the member being written.

    That member is the string ``text`` under ``key``, or it is still in ``cut``, a match of CUT_MEMBER.
    """

    spine: list[tuple[Container, int]]
    key: str = ""
    text: TextSoFar | None = None
    cut: re.Match[str] | None = None


UNFIT: Any = object()  # what a container gives that does not fit its type
SKIPPED: Any = object()  # what a container gives that nobody asked for


class Slot(NamedTuple):
    """Where a value goes: the node that reads it, the frame for a container in it, whether its text grows.

    ``as_is`` is the type of JSON that the node gives just as it is; ``clean`` reads the exact text of a
    container, or gives NOT_EXACT, and is None where it always would. ``exact`` says that the key is the
    field's very name; ``hidden`` that the value is shown only with the whole object, for the class may
    change it.
    """

    node: Node[Any]
    as_is: type | None
    clean: Callable[[str], Any] | None
    open: Callable[[str], Frame]
    grows: bool
    name: Any = None
    exact: bool = True
    hidden: bool = False


class Frame:
    """Reads one container, told its members in the order of the text; this one ignores them.

    ``unread`` says that what it gives is JSON, which the container around it has yet to read.
    """

    unread = False

    def key(self, key: str) -> None:
        """The key of the member that comes next."""

    def take(self, found: Json) -> None:
        """A JSON value that is closed."""

    def take_run(self, run: list[tuple[str, Json]]) -> None:
        """Keys and values that follow one another."""
        for key, found in run:
            self.key(key)
            self.take(found)

    def fail(self, shown: str) -> None:
        """A string that is closed and cannot be read, with what was shown of it."""

    def open(self, bracket: str) -> Frame:
        """The frame for the container that comes next."""
        return _SKIP

    def read_whole(self, container: Container) -> bool:
        """Read the container that came next, and is closed, from its text; False when that cannot be."""
        return False

    def adopt(self, child: Frame) -> None:
        """The container that came next is closed."""

    def close(self) -> Any:
        """The value, now that the container is closed; UNFIT, SKIPPED."""
        return SKIPPED

    @property
    def size(self) -> int:
        """How many members it shows; less than 0 where not even that it is there."""
        return 0

    def peek(self, key: str, index: int) -> Slot | None:
        """Where a member goes that is being written, ``index`` members being shown before it."""
        return None

    def view(self, size: int, tail: Tail) -> Any:
        """What is shown of it: its first ``size`` members and the one being written; None: nothing."""
        return None


_SKIP = Frame()


def skip() -> Frame:
    """The frame for a container that is only to be passed over."""
    return _SKIP


class JsonFrame(Frame):
    """A container that is read as a whole when it is closed; nothing of it is shown before."""

    unread = True

    def __init__(self, bracket: str) -> None:
        self.fields: dict[str, Json] = {}
        self._items: list[Json] | None = [] if bracket == "[" else None
        self._key = ""
        self._unfit = False

    def key(self, key: str) -> None:
        self._key = key

    def take(self, found: Json) -> None:
        if self._items is not None:
            self._items.append(found)
            return
        try:
            add_field(self.fields, self._key, found, 0)
        except JsonSyntaxError:
            self._unfit = True

    def fail(self, shown: str) -> None:
        self._unfit = True

    def open(self, bracket: str) -> Frame:
        return JsonFrame(bracket)

    def adopt(self, child: Frame) -> None:
        found = child.close()
        if found is UNFIT:
            self._unfit = True
        else:
            self.take(found)

    def close(self) -> Json:
        if self._unfit:
            return UNFIT
        return self.fields if self._items is None else self._items


_ITEMS = json.JSONDecoder(parse_float=Decimal)
_PAIRS = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=list)


def decoded_items(run: str) -> list[Json]:
    """The items of a clean run in an array."""
    items: list[Json] = _ITEMS.raw_decode("[" + run.rstrip(" \t\r\n,") + "]")[0]
    return items


def settle(container: Container, count: int) -> None:
    """Tell the frame of a container its first ``count`` parts, those that it does not know yet.

    The containers closed in it are read from their text, or told to frames of their own. Without recursion,
    for they may be deep.
    """
    open_parts = [(container, count)]
    while open_parts:
        current, count = open_parts[-1]
        inside = _tell(current, count)
        if inside is not None:
            open_parts.append((inside, 0 if inside.frame is _SKIP else len(inside.parts)))
            continue
        open_parts.pop()
        if open_parts:
            around = open_parts[-1][0]
            frame = _frame_of(around)
            frame.adopt(_frame_of(current))
            around.sizes.append(frame.size)


def _frame_of(container: Container) -> Frame:
    assert container.frame is not None, "a container is told before it has a frame"
    return container.frame


def _tell(container: Container, count: int) -> Container | None:
    """Tell the frame of a container its parts; None at the end, or a closed one in it to be told before."""
    frame, sizes = _frame_of(container), container.sizes
    for part in container.parts[len(sizes) - 1 : count]:
        if isinstance(part, str):
            if container.bracket == "{":
                frame.take_run(_PAIRS.raw_decode("{" + part.rstrip(" \t\r\n,") + "}")[0])
            else:
                frame.take_run([("", found) for found in decoded_items(part)])
        else:
            frame.key(part.key)
            if isinstance(part, Container):
                if part.frame is None and not frame.read_whole(part):
                    part.read_with(frame.open(part.bracket))
                if part.frame is not None:
                    return part
            elif part.unfit:
                frame.fail(str(part.value))
            else:
                frame.take(part.value)
        sizes.append(frame.size)
    return None


class MemberFrame(Frame, ABC):
    """A container whose members are read and shown one by one, each in the slot that is its own."""

    def __init__(self, place: Cursor) -> None:
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
        except (ValidationFailure, RecursionError):
            self._unfit = True
            if slot.grows and isinstance(found, str):  # so it was shown while it was being written
                self._add(found, fits=False)
            return
        if place.coercions:
            place.coercions.clear()
        if place.union_cache:
            place.union_cache.clear()
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
        value = NOT_EXACT if text is None else slot.clean(text)
        if value is not NOT_EXACT:
            self._add(value, fits=True)
        return value is not NOT_EXACT

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
        place: Cursor,
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
        except (ValidationFailure, RecursionError):
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
        self, place: Cursor, slots: tuple[Slot, ...], rest: Slot | None, make: Callable[[list[Any]], Any]
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
        except (ValidationFailure, RecursionError):
            return UNFIT

    @property
    def size(self) -> int:
        return len(self._store.items)

    def peek(self, key: str, index: int) -> Slot | None:
        return self._slots[index] if index < len(self._slots) else self._rest

    def view(self, size: int, tail: Tail) -> PartialList:
        return PartialList(self._store, size, tail)
