"""Hands over the items of a list while the list is being written, each as soon as it is complete."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from typing_extensions import TypeForm

from ..json.reader import read_exact, read_tolerant
from ..json.result import JsonSyntaxError
from ..parser.extract import strip_reasoning
from ..parser.fast_path import NOT_EXACT
from ..parser.registry import parser_for
from ..parser.type_parser import TypeParser
from ..result.errors import OutputParsingError, Problem
from ..result.reading import Cursor, Json, Leniency, Reading, ValidationFailure, dump_json
from ..types.containers import ListNode
from ..types.node import Node
from ..types.target import Target
from .builders import Container, decoded_items
from .scanner import Growing, KeptText, ReplyHead, RootSeeker
from .targets import knows

T = TypeVar("T")
_BETWEEN = re.compile(r"[\s,;]*+(?:(?:[-*]|\d{1,4}[.)])\s++)?")


class ItemPolicy(Enum):
    """What becomes of an item that does not fit: an error, nothing, or an ItemError in its place."""

    RAISE = "raise"
    SKIP = "skip"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class ItemError:
    """An item that does not fit: its place in the list, its text, and why."""

    index: int
    text: str
    problems: tuple[Problem, ...]


class ItemReader(Generic[T]):
    """A reply that is a list, chunk by chunk → its items.

    The list may stand bare, under the one key of an object, or as one object after the other (JSON Lines).
    Items come in their order, each once. With RAISE the items before a bad one are handed over first; the
    next call raises, and the call after that goes on behind it.
    """

    def __init__(
        self,
        item: TypeForm[T] | TypeParser[T],
        on_error: ItemPolicy = ItemPolicy.RAISE,
        *,
        leniency: Leniency = Leniency.SAFE,
    ) -> None:
        parser: TypeParser[T] = item if isinstance(item, TypeParser) else parser_for(item)
        self._node: Node[T] = parser.node
        self._clean = parser.fast_reader
        self._on_error = on_error
        self._leniency = leniency
        self._chunks: list[str] = []
        self._head = ReplyHead()
        self._kept = KeptText()
        self._growing = Growing(RootSeeker(self._suits), self._close)
        self._list: Container | None = None
        self._taken = 0  # parts of the list
        self._closed = False
        self._lines_end = -1  # where the last of several objects in a row ends
        self._fault = ""
        self._count = 0
        self._ready: deque[T | ItemError | OutputParsingError] = deque()

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, chunk: str) -> list[T | ItemError]:
        """The items that are complete with this part of the text.

        With RAISE, raises OutputParsingError with the text of the item for one that does not fit.
        """
        self._chunks.append(chunk)
        answer = self._head.feed(chunk)
        if answer and not self._closed:
            self._kept.add(answer)
            self._growing.feed(answer)
            self._find_list(self._growing.spine)
            self._collect()
        items: list[T | ItemError] = []
        while self._ready:
            first = self._ready[0]
            if isinstance(first, OutputParsingError) and items:
                break
            self._ready.popleft()
            if isinstance(first, OutputParsingError):
                raise first
            items.append(first)
        return items

    def finish(self) -> list[T | ItemError]:
        """The items that were not handed over yet, now that the text is complete: mostly none.

        Raises OutputParsingError for a bad item as ``feed`` does, and where the list is cut off, or there is
        none.
        """
        if self._growing.lost and not self._fault:
            self._recover()
        for first in self._ready:
            if isinstance(first, OutputParsingError):
                self._ready.remove(first)
                raise first
        fault = self._fault or self._missing()
        if fault:
            raise OutputParsingError(self.text, [Problem("$", fault)])
        items = [item for item in self._ready if not isinstance(item, OutputParsingError)]
        self._ready.clear()
        return items

    def _missing(self) -> str:
        """What is missing for a whole list; "" for nothing."""
        if self._growing.lost:
            return ""
        if self._growing.spine:
            return "the JSON is cut off: the list is not closed"
        found = self._closed or self._lines_end >= 0
        return "" if found else f"expected a list of items, each {self._node.kind}; the reply holds none"

    def _suits(self, bracket: str) -> bool:
        return bracket == "{" or self._lines_end < 0

    def _find_list(self, spine: list[Container]) -> None:
        """Tell the list from what is around it, once that is seen."""
        if self._list is not None or not spine or self._lines_end >= 0:
            return
        first = spine[0]
        if first.bracket == "{":
            inside = first.parts[0] if first.parts else (spine[1] if len(spine) > 1 else None)
            if not isinstance(inside, Container) or inside.bracket == "{" or knows(self._node, inside.key):
                return
            first = inside
        self._list = first

    def _close(self, root: Container) -> bool:
        self._find_list([root])
        if self._list is not None:
            self._collect()
            self._closed = True
            if root.bracket == "{" and len(root.parts) > 1:
                self._fault = "the object around the list has other keys too"
            return False
        if self._lines_end >= 0 and not _BETWEEN.fullmatch(self._kept.cut(self._lines_end, root.start)):
            self._fault = "text stands between the items"
            self._closed = True
            return False
        self._lines_end = root.end
        self._read(self._kept.cut(root.start, root.end))
        return True

    def _collect(self) -> None:
        """Read the items of the list that have been closed since the last time."""
        end = self._lines_end
        if self._list is not None:
            for part in self._list.parts[self._taken :]:
                self._taken += 1
                if isinstance(part, Container):
                    end = part.end
                    self._read(self._kept.cut(part.start, part.end))
                elif isinstance(part, str):
                    for found in decoded_items(part):
                        self._align(found, dump_json(found))
                elif part.unfit:
                    self._refuse(dump_json(part.value), (self._problem("the string cannot be read"),))
                else:
                    self._align(part.value, dump_json(part.value))
        self._kept.drop(end)

    def _problem(self, message: str) -> Problem:
        return Problem(f"$[{self._count}]", message)

    def _read(self, text: str) -> None:
        value = NOT_EXACT if self._clean is None else self._clean(text)
        if value is not NOT_EXACT:  # most items are exact JSON
            self._ready.append(value)
            self._count += 1
            return
        try:
            found = _json_of(text)
        except JsonSyntaxError as fault:
            self._refuse(text, (self._problem(f"the JSON is broken: {fault.message}"),))
        else:
            self._align(found, text)

    def _align(self, found: Json, text: str) -> None:
        try:
            value = self._node.read(found, Cursor(self._leniency, f"$[{self._count}]"))
        except ValidationFailure as misfit:
            self._refuse(text, misfit.problems)
        except RecursionError:
            self._refuse(text, (self._problem("it is nested too deeply"),))
        else:
            self._ready.append(value)
            self._count += 1

    def _refuse(self, text: str, problems: tuple[Problem, ...]) -> None:
        if self._on_error is ItemPolicy.RAISE:
            self._ready.append(OutputParsingError(text, problems))
        elif self._on_error is ItemPolicy.KEEP:
            self._ready.append(ItemError(self._count, text, problems))
        self._count += 1

    def _recover(self) -> None:
        """Read the whole reply where the scan of it was given up, and go on behind the last item found."""
        try:
            reply = strip_reasoning(self.text, Cursor(self._leniency))
            whole = reply.read_whole()
            found = [candidate.value for candidate in ([whole] if whole else reply.find_candidates())]
        except ValidationFailure as misfit:
            raise OutputParsingError(self.text, misfit.problems) from misfit
        except RecursionError as error:
            raise OutputParsingError(self.text, [Problem("$", "it is nested too deeply")]) from error
        lists = [items for value in found if (items := _list_in(value)) is not None]
        items = found if self._lines_end >= 0 else next(iter(lists), None)
        if items is None or len(items) < self._count:
            raise OutputParsingError(self.text, [Problem("$", "the JSON is broken")])
        for item in items[self._count :]:
            self._align(item, dump_json(item))


def _list_in(found: Json) -> list[Json] | None:
    """The list that a value is, or that it holds under its one key."""
    if isinstance(found, dict) and len(found) == 1:
        found = next(iter(found.values()))
    return found if isinstance(found, list) else None


def _json_of(text: str) -> Json:
    """The one JSON value that a text is. Raises JsonSyntaxError."""
    try:
        return read_exact(text)
    except JsonSyntaxError:
        # in brackets, for there a quote inside a string can be told from its end
        items = read_tolerant(f"[{text}]").value
    if len(items) != 1:
        raise JsonSyntaxError("it is more than one value", 0)
    return items[0]


class ItemListParser(TypeParser[list[Any]]):
    """Reads a whole reply as an ``ItemReader`` does that is fed with it, so that both give the same items.

    What is no JSON, as a list with bullets, is read as any list is. With ``ItemPolicy.KEEP`` an item that
    does not fit stands in the list as an ItemError.
    """

    def __init__(self, item: TypeParser[Any], policy: ItemPolicy, *, field: str | None = None) -> None:
        target = Target(list[Any], alias=f"list[{item.name}]")
        super().__init__(target, ListNode(item.node, list, exact=False), field=field)
        self._item = item
        self._policy = policy

    def with_envelope(self, field: str = "value") -> ItemListParser:
        """The parser of the same list inside an object under one key."""
        return ItemListParser(self._item, self._policy, field=field)

    def reader(self) -> ItemReader[Any]:
        """What hands the items over."""
        return ItemReader(self._item, self._policy)

    def parse(self, text: str, leniency: Leniency = Leniency.SAFE) -> list[Any]:
        """The items. Raises OutputParsingError, and nothing else, when the text is unfit."""
        return self.read(text, leniency).value

    def read(self, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[list[Any]]:
        """The items. Raises OutputParsingError, and nothing else, when the text is unfit."""
        reader = ItemReader(self._item, self._policy, leniency=leniency)
        try:
            items = reader.feed(text)
            return Reading([*items, *reader.finish()])
        except OutputParsingError as error:
            if "[" in text or "{" in text:
                raise
            try:
                return super().read(text, leniency)
            except OutputParsingError:
                raise error from None
