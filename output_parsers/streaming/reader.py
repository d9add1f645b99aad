"""Reads a reply while it is written: chunks of text → typed snapshots that only ever grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from typing_extensions import TypeForm

from ..parser.registry import parser_for
from ..parser.type_parser import TypeParser
from ..result.errors import OutputParsingError
from ..result.reading import Leniency, Reading
from ..types.scalars import TextNode
from .builders import Container, Moment
from .scanner import Growing, KeptText, ReplyHead, RootSeeker
from .targets import Root
from .tokens import TextPieces, TextSoFar
from .views import PartialList, PartialObject, plain


class GrowingText:
    """The answer of a growing reply. Behind reasoning, the white space around it is no part of it."""

    def __init__(self, head: ReplyHead) -> None:
        self._head = head
        self._pieces = TextPieces()
        self._held: list[str] = []  # white space that may be the end of the text

    def feed(self, answer: str) -> None:
        """Take the next part of what stands behind the reasoning."""
        bare = answer.rstrip().rstrip("\ufeff\u200b\u2060\0").rstrip() if self._head.reasoned else answer
        if bare:
            self._pieces.parts += [*self._held, bare]
            self._held = []
        if len(bare) < len(answer):
            self._held.append(answer[len(bare) :])

    def so_far(self) -> TextSoFar | None:
        """What can be shown of it now; None when nothing has come."""
        return self._pieces.so_far() if self._pieces.parts else None


T = TypeVar("T")


class Snapshot(Generic[T]):
    """What can be told of a value at one moment. It never changes.

    ``done`` says that the value is complete.
    """

    __slots__ = ("_look", "_shown", "done")

    def __init__(self, look: Callable[[], Any], *, done: bool) -> None:
        self._look: Callable[[], Any] | None = look
        self._shown: Any = None
        self.done = done

    @property
    def value(self) -> T | PartialObject | PartialList | None:
        """The value, once it is complete; a view while an object or a list is being written; else None.

        Text is shown as far as it has come.
        """
        if self._look is not None:
            shown = self._look()
            self._shown = shown.join() if isinstance(shown, TextSoFar) else shown
            self._look = None
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
        """What is shown as dicts, lists, strings, numbers, booleans and None, ready for ``json.dumps``.

        Members and items that are complete are turned into them once, and all snapshots share what came of
        it: copy what you want to change.

        Raises ValueError for a complete value that is nested deeper than pydantic dumps.
        """
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
        self._growing_text = GrowingText(self._head) if isinstance(node, TextNode) else None
        self._kept = KeptText()
        self._answer = ""
        self._root = Root(node, leniency)
        self._last: Moment | None = None  # of the outermost container that was closed last
        self._growing = Growing(RootSeeker(self._root.suits), self._close)

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, chunk: str) -> None:
        """Take the next part of the text. Raises nothing, whatever the text."""
        self._chunks.append(chunk)
        answer = self._head.feed(chunk)
        if self._growing_text is not None:
            self._growing_text.feed(answer)
        elif answer and self._reading is None:
            self._kept.add(answer)
            self._growing.feed(answer)
            if self._last is not None:
                self._kept.drop(self._last.spine[0][0].end)

    def _close(self, container: Container) -> bool:
        """Read the answer; one that does not fit, and of which nothing was shown, makes way for another."""
        moment = Moment([(container, len(container.parts))])
        self._last = moment
        self._answer = self._kept.cut(container.start, container.end)
        try:
            self._reading = self._parser.read(self._answer, self._leniency)
        except OutputParsingError:
            return not self._root.view(moment)
        return False

    def snapshot(self) -> Snapshot[T]:
        """What can be told of the value now."""
        reading = self._reading
        if reading is not None:
            return Snapshot(lambda: reading.value, done=True)
        if self._growing_text is not None:
            shown = self._growing_text.so_far()
            return Snapshot(lambda: shown, done=False)
        moment = self._growing.moment()
        if not moment.spine and self._last is not None:
            moment = self._last
        return Snapshot(partial(self._root.view, moment), done=False)

    def finish(self) -> Reading[T]:
        """The value of the whole text, with the steps that reading it took, just as ``read`` gives them.

        Raises OutputParsingError, and nothing else, when the text is unfit. From then on ``snapshot`` gives
        the value.
        """
        reading = self._reading
        if reading is None or self._answer != self.text:  # else the very same text was read when it closed
            reading = self._reading = self._parser.read(self.text, self._leniency)
        return reading
