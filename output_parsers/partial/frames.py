"""What reads an open container as somebody looks at it, and the containers of which nothing is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..json_text import JsonFault, put
from ..node import Node
from ..reading import Json
from .growing_spine import Container, Member
from .views import Size, Tail

__all__ = [
    "SKIPPED",
    "UNFIT",
    "Frame",
    "JsonFrame",
    "Slot",
    "decoded_items",
    "settle",
    "settled_size",
    "skip",
]

UNFIT: Any = object()  # what a container gives that does not fit its type
SKIPPED: Any = object()  # what a container gives that nobody asked for


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value goes: the node that reads it, the frame for a container in it, whether its text grows.

    ``clean`` reads the exact text of an object, or gives NOT_CLEAN. ``exact`` says that the key is the
    field's very name; ``hidden`` that the value is shown only with the whole object, for the class may
    change it.
    """

    node: Node[Any]
    clean: Callable[[str], Any]
    open: Callable[[str], Frame]
    grows: bool
    name: Any = None
    exact: bool = True
    hidden: bool = False


class Frame:
    """Reads one container, told its members in the order of the text; this one ignores them.

    ``unread`` says that what it gives is JSON, which the container around it has yet to read; ``lazy`` that
    it can be shown before it was told its members.
    """

    unread = False
    lazy = False

    def key(self, key: str) -> None:
        """The key of the member that comes next."""

    def take(self, found: Json) -> None:
        """A JSON value that is closed."""

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

    def view(self, size: Size, tail: Callable[[], Tail]) -> Any:
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
            put(self.fields, self._key, found, 0)
        except JsonFault:
            self._unfit = True

    def fail(self, shown: str) -> None:
        self._unfit = True

    def open(self, bracket: str) -> Frame:
        return JsonFrame(bracket)

    def read_whole(self, container: Container) -> bool:
        """Read the container that came next, and is closed, from its text; False when that cannot be."""
        return False

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
    items: list[Json] = _ITEMS.decode("[" + run.rstrip(" \t\r\n,") + "]")
    return items


def settle(container: Container, count: int) -> None:
    """Tell the frame of a container its first ``count`` parts, those that it does not know yet.

    The containers closed in it are told to frames of their own. Without recursion, for they may be deep.
    """
    open_parts = [(container, count)]
    while open_parts:
        current, count = open_parts[-1]
        frame = current.frame
        assert frame is not None, "a container is settled before it has a frame"
        if len(current.sizes) > count:
            open_parts.pop()
            if open_parts:
                around = open_parts[-1][0]
                assert around.frame is not None, "a container is settled before it has a frame"
                around.frame.adopt(frame)
                around.sizes.append(around.frame.size)
            continue
        part = current.parts[len(current.sizes) - 1]
        if isinstance(part, Container):
            frame.key(part.key)
            if part.frame is None and frame.read_whole(part):
                current.sizes.append(frame.size)
                continue
            if part.frame is None:
                part.read_with(frame.open(part.bracket))
            open_parts.append((part, 0 if part.frame is _SKIP else len(part.parts)))
            continue
        _tell(frame, current.bracket, part)
        current.sizes.append(frame.size)


def settled_size(container: Container, count: int) -> int:
    """How much is shown of a container after so many parts."""
    settle(container, count)
    return container.sizes[count]


def _tell(frame: Frame, bracket: str, part: str | Member) -> None:
    if isinstance(part, Member):
        frame.key(part.key)
        if part.unfit:
            frame.fail(str(part.value))
        else:
            frame.take(part.value)
        return
    if bracket == "[":
        for found in decoded_items(part):
            frame.key("")
            frame.take(found)
        return
    for key, found in _PAIRS.decode("{" + part.rstrip(" \t\r\n,") + "}"):
        frame.key(key)
        frame.take(found)
