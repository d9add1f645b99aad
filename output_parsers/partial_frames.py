"""What a scanner tells of an open container, and the containers of which nothing is shown."""

from __future__ import annotations

from typing import Any

from .growing_strings import GrowingString
from .json_text import JsonFault, put
from .reading import Json

__all__ = ["SKIPPED", "UNFIT", "Frame", "JsonFrame", "skip"]

UNFIT: Any = object()  # what a container gives that does not fit its type
SKIPPED: Any = object()  # what a container gives that nobody asked for


class Frame:
    """One open container. The scanner tells it what it holds, in the order of the text; this one ignores it.

    ``closer`` is the bracket that ends it; ``spanned`` says that it wants to know where its values begin
    and end; ``unread`` that what it gives is JSON, which the container around it has yet to read; ``more``
    that it may hold another value: of the first frame, which stands for the reply.
    """

    closer = ""
    spanned = False
    unread = False
    more = False

    def key(self, key: str) -> None:
        """A key, whose value comes next."""

    def take(self, found: Json) -> None:
        """A JSON value that is closed."""

    def open(self, bracket: str) -> Frame:
        """The frame for a container that begins here."""
        return skip(bracket)

    def grow(self, text: GrowingString) -> None:
        """A string that has begun; ``take`` or ``fail`` follows when it is closed."""

    def fail(self) -> None:
        """The string or the word that was to come here cannot be read."""

    def adopt(self, child: Frame) -> None:
        """A container that ``open`` gave is closed."""

    def close(self) -> Any:
        """The value, now that the container is closed; UNFIT, SKIPPED."""
        return SKIPPED

    def view(self, tail: Any) -> Any:
        """What is shown of it now; ``tail`` is what is shown of the container open in it. None: nothing."""
        return None

    def began(self, position: int) -> None:
        """Where a value begins in the whole text."""

    def ended(self, position: int) -> None:
        """Where it ends."""


def skip(bracket: str) -> Frame:
    """The frame for a container that is only to be passed over."""
    return _SKIP[bracket]


def _skipping(closer: str) -> Frame:
    frame = Frame()
    frame.closer = closer
    return frame


_SKIP = {"{": _skipping("}"), "[": _skipping("]")}


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
