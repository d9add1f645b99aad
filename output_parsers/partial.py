"""Reads a reply while it is written: chunks of text → typed snapshots that only ever grow."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from typing_extensions import TypeForm

from .growing import Growing
from .growing_roots import ReplyHead, RootSeeker
from .parse import parser_for
from .parser import TypeParser
from .partial_items import ItemError, ItemPolicy, ItemReader
from .partial_root import RootFrame
from .partial_views import PartialList, PartialObject, TextSoFar, plain
from .reading import Leniency, Reading
from .scalars import TextNode

__all__ = [
    "ItemError",
    "ItemPolicy",
    "ItemReader",
    "PartialList",
    "PartialObject",
    "PartialReader",
    "Snapshot",
]

T = TypeVar("T")


class Snapshot(Generic[T]):
    """What can be told of a value at one moment. It never changes.

    ``done`` says that the value is complete.
    """

    __slots__ = ("_shown", "done")

    def __init__(self, shown: Any, *, done: bool) -> None:
        self._shown = shown
        self.done = done

    @property
    def value(self) -> T | PartialObject | PartialList | None:
        """The value, once it is complete; a view while an object or a list is being written; else None.

        Text is shown as far as it has come.
        """
        if isinstance(self._shown, TextSoFar):
            self._shown = self._shown.join()
        return cast("T | PartialObject | PartialList | None", self._shown)

    def is_done(self, *path: str | int) -> bool:
        """Whether the part under these names of fields and indexes of items is complete.

        ``snapshot.is_done("skills", 0)``; a part of what is complete is complete.
        """
        part: Any = self.value
        done = self.done
        for step in path:
            if done or not isinstance(part, (PartialObject, PartialList)):
                break
            done = part.done(cast(Any, step))
            try:
                part = part[cast(Any, step)]
            except (LookupError, TypeError):
                break
        return done

    def to_python(self) -> Any:
        """What is shown as dicts, lists, strings, numbers, booleans and None, ready for ``json.dumps``."""
        return plain(self.value)

    def __repr__(self) -> str:
        return f"Snapshot({self.value!r}, done={self.done})"


class PartialReader(Generic[T]):
    """Text of a reply, chunk by chunk → snapshots of its value, in time linear in the text.

    Strings grow, objects and lists are shown as views that grow, and become instances of their classes when
    they are closed; all else appears when it is complete. What was shown stays: nothing is taken back, and a
    part that does not fit its type is not shown. ``finish`` reads the whole text as ``read`` does, and has
    the last word: a snapshot is what the text says so far, not yet a value that was checked as a whole.
    """

    def __init__(self, form: TypeForm[T] | TypeParser[T], *, leniency: Leniency = Leniency.SAFE) -> None:
        self._parser: TypeParser[T] = form if isinstance(form, TypeParser) else parser_for(form)
        self._leniency = leniency
        self._chunks: list[str] = []
        self._head = ReplyHead()
        self._reading: Reading[T] | None = None
        node = self._parser.node
        self._pieces: list[str] | None = [] if isinstance(node, TextNode) else None
        self._held = ""  # white space that may be the end of the text
        self._root = RootFrame(node, leniency)
        self._growing = Growing(self._root, RootSeeker(self._root.suits))

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, chunk: str) -> None:
        """Take the next part of the text. Raises nothing, whatever the text."""
        self._chunks.append(chunk)
        self._reading = None
        answer = self._head.feed(chunk)
        if self._pieces is None:
            self._growing.feed(answer)
        else:
            self._grow(self._pieces, answer)

    def _grow(self, pieces: list[str], answer: str) -> None:
        if not self._head.reasoned:
            pieces.append(answer)
            return
        # behind reasoning, the text of the answer stands without the white space around it
        answer = self._held + answer
        bare = answer.rstrip().rstrip("\ufeff\u200b\u2060\0").rstrip()
        self._held = answer[len(bare) :]
        pieces.append(bare if pieces else bare.lstrip())

    def snapshot(self) -> Snapshot[T]:
        """What can be told of the value now."""
        if self._reading is not None:
            return Snapshot(self._reading.value, done=True)
        if self._pieces is not None:
            return Snapshot(TextSoFar(self._pieces) if any(self._pieces[:1]) else None, done=False)
        shown: Any = None
        for frame in reversed(self._growing.frames):
            shown = frame.view(shown)
        return Snapshot(shown, done=self._root.fits)

    def finish(self) -> Reading[T]:
        """The value of the whole text, with the steps that reading it took, just as ``read`` gives them.

        Raises OutputParsingError, and nothing else, when the text is unfit. From then on ``snapshot`` gives
        the value.
        """
        self._reading = self._parser.read(self.text, self._leniency)
        return self._reading
