"""What reads an open container as somebody looks at it, and the containers of which nothing is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from ..json_text import JsonFault, put
from ..node import Node
from ..reading import Json
from .growing_spine import Container
from .views import Tail

__all__ = [
    "SKIPPED",
    "UNFIT",
    "Frame",
    "JsonFrame",
    "Slot",
    "decoded_items",
    "settle",
    "skip",
]

UNFIT: Any = object()  # what a container gives that does not fit its type
SKIPPED: Any = object()  # what a container gives that nobody asked for


class Slot(NamedTuple):
    """Where a value goes: the node that reads it, the frame for a container in it, whether its text grows.

    ``as_is`` is the type of JSON that the node gives just as it is; ``clean`` reads the exact text of a
    container, or gives NOT_CLEAN, and is None where it always would. ``exact`` says that the key is the
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
            put(self.fields, self._key, found, 0)
        except JsonFault:
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
