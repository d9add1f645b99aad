"""Parse a reply while it is being streamed, and return snapshots: the typed value so far.

For a record with the fields ``name`` and ``age``::

    reader.feed('{"name": "Ad')   ->   reader.snapshot().value == {"name": "Ad"}
    reader.feed('a", "age": 36')  ->   reader.snapshot().value == {"name": "Ada"}      36 may still grow
    reader.feed("}")              ->   reader.snapshot().value == Person("Ada", 36)    done
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from typing_extensions import TypeForm

from ..parser.registry import parser_for
from ..parser.type_parser import TypeParser
from ..result.errors import OutputParsingError
from ..result.reading import Cursor, Leniency, Reading
from ..types.scalars import TextNode
from .builders import Container, PartialList, PartialObject, ScanState, plain
from .factory import factory_for, make_view
from .scanner import IncrementalScanner, ReasoningFilter, RootFinder
from .tokens import StringBuffer, StringPrefix

T = TypeVar("T")


class Snapshot(Generic[T]):
    """The typed value of the part of a streamed reply that has arrived; later text does not change it.

    Attributes:
        done: True if the value is complete.
    """

    __slots__ = ("_make_value", "_value", "done")

    def __init__(
        self, make_value: Callable[[], object] | None = None, *, value: object = None, done: bool
    ) -> None:
        """Create a snapshot of a partly streamed value from the value or a function that computes it."""
        self._make_value = make_value
        self._value = value
        self.done = done

    @property
    def value(self) -> T | PartialObject | PartialList | None:
        """The value of the streamed reply at the time of this snapshot.

        While an object or a list is being written, it is a ``PartialObject`` or a ``PartialList``. Text is
        a string. Other values are None until they are complete.
        """
        if self._make_value is not None:
            value = self._make_value()
            self._value = value.join() if isinstance(value, StringPrefix) else value
            self._make_value = None
        return cast("T | PartialObject | PartialList | None", self._value)

    def is_done(self, *path: str | int) -> bool:
        """Return True if a field or an item of the partial value is complete and will not change.

        ``path`` consists of field names and list indexes, as in ``snapshot.is_done("skills", 0)``. All parts
        of a complete value are complete.
        """
        part: object = self.value
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
        """Return the partial value as dicts, lists and scalars, which ``json.dumps`` accepts.

        Complete members and items are converted once and shared by all snapshots: copy what you want to
        change.

        Raises ValueError for a complete value that is nested too deeply for pydantic.
        """
        return plain(self.value)

    def __repr__(self) -> str:
        return f"Snapshot({self.value!r}, done={self.done})"


class PartialReader(Generic[T]):
    """Parses a reply that arrives in chunks of text, and returns its partial value at any time.

    Strings grow. Objects and lists are shown as views that grow, and become instances of their classes when
    they are complete. Other values appear when they are complete. Later snapshots never contradict earlier
    ones, and a part that does not fit its type is not shown. The time is linear in the length of the text.

    A snapshot is not validated as a whole. ``finish`` parses the complete text as ``TypeParser.read`` does,
    and its result is authoritative.
    """

    def __init__(self, output_type: TypeForm[T] | TypeParser[T], *, leniency: Leniency | None = None) -> None:
        """Create a reader for one reply, which arrives in chunks of text.

        Args:
            output_type: The type of the value, or its parser.
            leniency: How far the text may differ from exact JSON; by default the leniency of the parser.
        """
        self._parser: TypeParser[T] = (
            output_type if isinstance(output_type, TypeParser) else parser_for(output_type)
        )
        self._leniency = self._parser.leniency if leniency is None else leniency
        self._chunks: list[str] = []
        self._reasoning = ReasoningFilter()
        self._reading: Reading[T] | None = None
        node = self._parser.node
        self._plain_text = PlainTextReader(self._reasoning) if isinstance(node, TextNode) else None
        self._text_of_reading = ""  # the text that ``_reading`` was parsed from
        self._factory = factory_for(node)
        self._cursor = Cursor(self._leniency)  # shared by all members; the coercions in it are not reported
        self._last_closed: ScanState | None = None  # the state when the outermost container was closed
        finder = RootFinder(self._factory.root_brackets.__contains__)
        self._scanner = IncrementalScanner(finder, self._on_root_closed)

    @property
    def text(self) -> str:
        """The text of the streamed reply so far."""
        # The chunks are joined on demand, because joining them for each chunk takes quadratic time.
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, chunk: str) -> None:
        """Add the next chunk of the streamed reply; invalid text does not raise an error here."""
        self._chunks.append(chunk)
        answer = self._reasoning.feed(chunk)
        if self._plain_text is not None:
            self._plain_text.feed(answer)
        elif answer and self._reading is None:
            self._scanner.feed(answer)
            if self._last_closed is not None and self._reading is None:
                # The text of an invalid answer is not needed any more.
                self._scanner.drop_before(self._last_closed.stack[0][0].end)

    def _on_root_closed(self, container: Container) -> bool:
        """Parse the answer as soon as the JSON in the streamed reply is complete.

        Returns True to look for another answer, if this one is invalid and snapshots show nothing of it.
        """
        self._last_closed = ScanState([(container, len(container.parts))])
        self._text_of_reading = self._scanner.cut(container.start, container.end)
        # Parsed here and not in ``finish``, so that the last snapshot is an instance of the class.
        try:
            self._reading = self._parser.read(self._text_of_reading, self._leniency)
        except OutputParsingError:
            return not make_view(self._last_closed, self._factory, self._cursor)
        return False

    def snapshot(self) -> Snapshot[T]:
        """Return a typed snapshot of the streamed value so far."""
        reading = self._reading
        if reading is not None:
            return Snapshot(value=reading.value, done=True)
        if self._plain_text is not None:
            text = self._plain_text.so_far()
            return Snapshot(lambda: text, done=False)
        state = self._scanner.state()
        # The visible part of an invalid answer stays visible after its closing bracket.
        if not state.stack and self._last_closed is not None:
            state = self._last_closed
        return Snapshot(partial(make_view, state, self._factory, self._cursor), done=False)

    def finish(self) -> Reading[T]:
        """Parse the complete reply; return its value with the conversions and repairs that were needed.

        Afterwards ``snapshot`` returns this value. Raises OutputParsingError if the text does not fit.
        """
        reading = self._reading
        if reading is None or self._text_of_reading != self.text:  # the same text is not read twice
            reading = self._reading = self._parser.read(self.text, self._leniency)
        return reading


class PlainTextReader:
    """Collects the text of a reply that is not JSON.

    White space around the answer is removed if reasoning comes before the answer.
    """

    def __init__(self, reasoning: ReasoningFilter) -> None:
        self._reasoning = reasoning
        self._buffer = StringBuffer()
        self._trailing_space: list[str] = []  # it is part of the text only if more text follows

    def feed(self, answer: str) -> None:
        """Add the next chunk of the streamed answer, without the model's reasoning."""
        bare = answer
        if self._reasoning.has_reasoning:
            bare = answer.rstrip().rstrip("\ufeff\u200b\u2060\0").rstrip()
        if bare:
            self._buffer.pieces += [*self._trailing_space, bare]
            self._trailing_space = []
        if len(bare) < len(answer):
            self._trailing_space.append(answer[len(bare) :])

    def so_far(self) -> StringPrefix | None:
        """Return the text of the answer received so far; None if no text has arrived yet."""
        return self._buffer.prefix() if self._buffer.pieces else None
