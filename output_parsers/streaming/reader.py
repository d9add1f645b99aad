"""Parse a reply while it is being streamed.

``PartialReader`` returns snapshots: the typed value so far. For a record with the fields ``name`` and
``age``::

    reader.feed('{"name": "Ad')   ->   reader.snapshot().value == {"name": "Ad"}
    reader.feed('a", "age": 36')  ->   reader.snapshot().value == {"name": "Ada"}      36 may still grow
    reader.feed("}")              ->   reader.snapshot().value == Person("Ada", 36)    done

``ItemReader`` returns each item of a list as soon as it is complete::

    reader = ItemReader(Person)
    reader.feed('[{"name": "Ada", "age": 36}, {"name"')   ->   [Person("Ada", 36)]
    reader.feed(': "Bob", "age": 7}]')                    ->   [Person("Bob", 7)]

``ItemListParser`` parses a complete reply and returns the same items.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

from typing_extensions import TypeForm

from ..backslashes import with_lost_backslashes
from ..json.calls import may_lead_to_call
from ..json.scanner import read_exact, read_tolerant
from ..json.spelling import respelled
from ..parser.extract import LINE_SEPARATOR, strip_reasoning
from ..parser.fast_path import NOT_EXACT
from ..parser.reasoning import ReasoningFilter, find_answer
from ..parser.type_parser import TypeParser, parser_for
from ..prose.decimal_signs import DecimalSigns
from ..prose.roles import Role, role_of
from ..result.errors import OutputParsingError, Problem
from ..result.reading import (
    Cursor,
    Json,
    JsonSyntaxError,
    Leniency,
    Reading,
    UnitCoercion,
    ValidationFailure,
    dump_json,
    external_cause,
    strict_equal,
)
from ..types.containers import ListNode, may_be_text
from ..types.node import Node, json_node_of
from ..types.records import ENVELOPE_KEYS, LIST_KEYS, ObjectNode, normalize_key
from ..types.scalars import TextNode, refuse_fillers, refuse_mixed_units
from ..types.target import Target
from .builders import Container, PartialList, PartialObject, ScanState, decode_items, plain
from .factory import factory_for, make_view, may_have_key
from .scanner import IncrementalScanner, RootFinder
from .tokens import ITEM, StringBuffer, StringPrefix

T = TypeVar("T")


class Snapshot(Generic[T]):
    """The typed value of a streamed reply so far. A snapshot never changes.

    Attributes:
        done: True if the value is complete.
    """

    __slots__ = ("_make_value", "_value", "done")

    def __init__(
        self, make_value: Callable[[], object] | None = None, *, value: object = None, done: bool
    ) -> None:
        """Create a snapshot from a partial value or from a function that computes it."""
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
        """Return the partial value as plain data: dicts, lists and scalars.

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

    def __init__(
        self,
        output_type: TypeForm[T] | TypeParser[T],
        *,
        leniency: Leniency | None = None,
        validate_early: bool = True,
    ) -> None:
        """Create a reader for one reply, which arrives in chunks of text.

        Args:
            output_type: The type of the value, or its parser.
            leniency: How far the text may differ from exact JSON; by default the leniency of the parser.
            validate_early: False if the validators of the user may see a complete value in ``finish`` only.
        """
        self._parser: TypeParser[T] = (
            output_type if isinstance(output_type, TypeParser) else parser_for(output_type)
        )
        self._leniency = self._parser.leniency if leniency is None else leniency
        self._chunks: list[str] = []
        self._reasoning = ReasoningFilter()
        self._reading: Reading[T] | None = None
        node = self._parser.node
        self._validate_early = validate_early
        self._is_closed = False
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
        elif answer and not self._is_closed:
            self._scanner.feed(answer)
            if self._last_closed is not None and not self._is_closed:
                # The text of an invalid answer is no longer needed.
                self._scanner.drop_before(self._last_closed.stack[0][0].end)

    def _on_root_closed(self, container: Container) -> bool:
        """Parse the answer as soon as the JSON in the streamed reply is complete.

        Returns True to look for another answer, if this one is invalid and snapshots show nothing of it.
        """
        self._last_closed = ScanState([(container, len(container.parts))])
        self._text_of_reading = self._scanner.cut(container.start, container.end)
        # Parsed here and not in ``finish``, so that the last snapshot is an instance of the class.
        try:
            if self._parser.json_parser is not None:  # the validators run when the value is needed
                self._parser.json_parser.read(self._text_of_reading, self._leniency)
            else:
                self._reading = self._parser.read(self._text_of_reading, self._leniency)
        except OutputParsingError:
            return not make_view(self._last_closed, self._factory, self._cursor)
        self._is_closed = True
        return False

    def _validate_closed(self) -> None:
        """Run the validators of a value that is closed and fits."""
        self._validate_early = False
        try:
            self._reading = self._parser.read(self._text_of_reading, self._leniency)
        except OutputParsingError:  # ``finish`` raises it
            pass

    def snapshot(self) -> Snapshot[T]:
        """Return a typed snapshot of the streamed value so far."""
        if self._is_closed and self._validate_early and self._reading is None:
            self._validate_closed()
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
        # the same text is not read twice: that would run its validators again
        if reading is None or self._text_of_reading != self.text.strip():
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
        """Add the next chunk of the answer, from which the model's reasoning is already removed."""
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


# --- The items of a list ---


_BRACKET = re.compile(r"[\[({]")
_LONGEST_LEAD = 120  # characters
_OTHER_SIGN = re.compile("[;；，、]|&quot;")  # in an item that is a whole list in other signs


class ItemPolicy(Enum):
    """How to treat a list item that does not fit its type: raise an error, skip it, or return an ItemError.

    Attributes:
        RAISE: Raise OutputParsingError.
        SKIP: Leave the item out.
        KEEP: Return an ItemError in its place.
    """

    RAISE = "raise"
    SKIP = "skip"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class ItemError:
    """Takes the place of an invalid item in a streamed list, with the reasons why it is invalid.

    Attributes:
        index: The position of the item in the list.
        text: The text of the item.
        problems: The reasons why the item does not fit.
    """

    index: int
    text: str
    problems: tuple[Problem, ...]


class _HeldText:
    """The text of a reply whose items only the complete text shows: tool calls and formulas.

    Attributes:
        may_have_calls: True if tool calls may have the items as their arguments.
    """

    def __init__(self, *, may_have_calls: bool) -> None:
        self.may_have_calls = may_have_calls
        self._chunks: list[str] = []
        self._lead: str | None = ""  # the text before the first bracket; None after it

    def take(self, answer: str) -> bool:
        """Take the next text of the answer; return False if it can be read before the others arrive."""
        if self._lead is not None:
            self._lead += answer
            bracket = _BRACKET.search(self._lead)
            lead = self._lead[: bracket.end()] if bracket else self._lead
            is_held = lead.endswith("\\[") or (self.may_have_calls and may_lead_to_call(lead))
            self._lead = None if bracket or is_held else lead[-_LONGEST_LEAD:]
        else:
            is_held = bool(self._chunks)
        if is_held:
            self._chunks.append(answer)
        return is_held

    @property
    def text(self) -> str:
        """The text from the beginning of the calls or the formula on; "" if there are none."""
        return "".join(self._chunks)


class _ItemQueue(Generic[T]):
    """Converts the items of a list, and queues their values and errors.

    Attributes:
        node: The node of the items.
        count: The number of items so far, including bad ones.
        failed: The positions of the bad items.
        is_held: True if nothing is taken from the queue, because only the whole reply shows what the first
            item is: ``[1; 2]`` may be a list with other separators.
        was_taken: True after an item or an error was taken from the queue.
    """

    def __init__(self, parser: TypeParser[T], on_error: ItemPolicy, leniency: Leniency) -> None:
        self.node: Node[T] = parser.node
        self.count = 0
        self.failed: set[int] = set()
        self._fast_reader = parser.fast_reader
        self._fast_list_reader = parser.fast_list_reader
        self._on_error = on_error
        self._leniency = leniency
        self._all_items = Cursor(leniency)  # with the units of all items
        self._signs = DecimalSigns()  # of the numbers of all items
        self._has_failed = False  # True after an item did not fit
        self.is_held = False
        self.was_taken = False
        # Errors are queued between the items, so that the items before an error are returned first.
        self._ready: deque[T | ItemError | OutputParsingError] = deque()

    def take(self) -> list[T | ItemError]:
        """Remove the items up to the next error from the queue; raise the error if it comes first."""
        items: list[T | ItemError] = []
        if self.is_held:
            return items
        self.was_taken = self.was_taken or bool(self._ready)
        if not self._has_failed:  # so none of the ready items is an error
            items.extend(cast("deque[T]", self._ready))
            self._ready.clear()
            return items
        while self._ready:
            first = self._ready[0]
            if isinstance(first, OutputParsingError) and items:
                break  # the next call raises the error, so that the items before it are not lost
            self._ready.popleft()
            if isinstance(first, OutputParsingError):
                raise first
            items.append(first)
        return items

    def raise_error(self) -> None:
        """Remove the first error from the queue and raise it, if there is one."""
        for first in self._ready:
            if isinstance(first, OutputParsingError):
                self._ready.remove(first)
                raise first

    def add_array(self, whole: str) -> bool:
        """Add the items in the text of a JSON array, and return True if all are exact JSON."""
        items = self._fast_list_reader(whole) if self._fast_list_reader else NOT_EXACT
        if items is not NOT_EXACT:
            self._ready.extend(items)
            self.count += len(items)
            return True
        if self._fast_reader is None:
            try:
                values = cast("list[Json]", read_exact(with_lost_backslashes(whole)))
            except JsonSyntaxError:  # of one of them
                return False
            for value in values:
                self.add_value(value)
            return True
        return False

    @property
    def has_units(self) -> bool:
        return bool(self._all_items.coercions)

    def problem(self, message: str) -> Problem:
        return Problem(f"$[{self.count}]", message)

    def add_text(self, text: str, *, only_exact: bool = False) -> bool:
        """Parse one list item from its JSON text, and add its value or an error to the results.

        Returns False if its JSON is invalid and only exact JSON may be read.
        """
        try:
            item = NOT_EXACT if self._fast_reader is None else self._fast_reader(text)
        except ValidationFailure as failure:  # of a validator of the user
            path = f"$[{self.count}]"
            self.add_error(text, tuple(replace(p, path=path + p.path[1:]) for p in failure.problems))
            return True
        # the usual case: most items are exact JSON; a text may be an ellipsis
        if item is not NOT_EXACT and type(item) is not str:
            self._ready.append(item)
            self.count += 1
            return True
        try:
            value = _read_json(text, only_exact=only_exact)
        except JsonSyntaxError as error:
            if only_exact:
                return False
            self.add_error(text, (self.problem(f"the JSON is broken: {error.message}"),))
        else:
            self.add_value(value, text)
        return True

    def add_value(self, value: Json, text: str | None = None) -> None:
        """Validate the JSON value of one list item, and add its value or an error to the results."""
        cursor = Cursor(self._leniency, f"$[{self.count}]")
        cursor.signs = self._signs
        try:
            if not self._signs.add(value):
                raise cursor.failure("numbers before it were read with another decimal sign", value)
            item = self.node.read(value, cursor)
            if type(item) is str and may_be_text(self.node):
                refuse_fillers([item], cursor)
        except ValidationFailure as failure:
            self.add_error(dump_json(value) if text is None else text, failure.problems)
        except RecursionError:
            self.add_error(
                dump_json(value) if text is None else text, (self.problem("it is nested too deeply"),)
            )
        else:
            problems = self._problems_of_units(cursor)
            if problems:  # of the list, so it is not an ItemError
                self._has_failed = True
                self._ready.append(OutputParsingError(dump_json(value) if text is None else text, problems))
            else:
                self._ready.append(item)
            self.count += 1

    def _problems_of_units(self, cursor: Cursor) -> Sequence[Problem]:
        """Return the problem of an item with another unit than those before it."""
        units = [one for one in cursor.coercions if isinstance(one, UnitCoercion)]
        if not units:
            return ()
        self._all_items.coercions += units
        try:
            refuse_mixed_units(self._all_items, 0)
        except ValidationFailure as failure:
            return failure.problems
        return ()

    def add_error(self, text: str, problems: tuple[Problem, ...]) -> None:
        """Handle an invalid list item: keep an error to raise later, add an ItemError, or skip the item."""
        self._has_failed = True
        self.failed.add(self.count)
        if self.count == 0 and _OTHER_SIGN.search(text):
            self.is_held = True
        if self._on_error is ItemPolicy.RAISE:
            self._ready.append(OutputParsingError(text, problems))
        elif self._on_error is ItemPolicy.KEEP:
            self._ready.append(ItemError(self.count, text, problems))
        self.count += 1


class ItemReader(Generic[T]):
    """Parses a list that arrives in chunks of text, and returns each item when it is complete.

    The reply may be a list, an object with the list under its only key, or one object after the other
    (JSON Lines). Each item is returned once, in order. The items of a list in another form, such as a table,
    are returned by ``finish``. With ``ItemPolicy.RAISE`` the items before a bad one are returned first; the
    next call raises, and the call after that continues behind the bad item.
    """

    def __init__(
        self,
        item: TypeForm[T] | TypeParser[T],
        on_error: ItemPolicy = ItemPolicy.RAISE,
        *,
        leniency: Leniency = Leniency.SAFE,
        envelope: str | None = None,
    ) -> None:
        """Create a reader for the list in one reply, which arrives in chunks of text.

        Args:
            item: The type of the items, or its parser.
            on_error: What to do with an item that does not fit.
            leniency: How far the text may differ from exact JSON.
            envelope: The key of the object around the list that was requested, if any.
        """
        parser: TypeParser[T] = item if isinstance(item, TypeParser) else parser_for(item)
        self._parser = parser
        self._envelope = envelope
        self._queue = _ItemQueue(parser, on_error, leniency)
        self._node: Node[T] = parser.node
        self._name = parser.name
        self._on_error = on_error
        self._leniency = leniency
        self._chunks: list[str] = []
        self._reasoning = ReasoningFilter()
        # only further objects can follow an object that is not in a list
        roots = RootFinder(lambda bracket: bracket == "{" or self._last_object_end < 0)
        self._scanner = IncrementalScanner(roots, self._on_root_closed, self._find_list, self._read_items)
        self._list: Container | None = None
        self._read_until = -1  # the end of the last container that was read
        self._read_parts = 0  # the number of parts of the list that were read
        self._is_closed = False
        self._root: tuple[int, int] | None = None  # where the JSON with the items is in the answer
        self._last_object_end = -1  # the end of the last object that is not in a list
        self._error = ""
        self._held = _HeldText(may_have_calls=isinstance(parser.node, ObjectNode))

    @property
    def text(self) -> str:
        """The text of the streamed reply so far."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, chunk: str) -> list[T | ItemError]:
        """Add the next chunk of text and return the list items that are now complete.

        With ``ItemPolicy.RAISE``, raises OutputParsingError with the text of an item that does not fit.
        """
        self._chunks.append(chunk)
        self._read_answer(self._reasoning.feed(chunk))
        return self._queue.take()

    def _read_answer(self, answer: str) -> None:
        """Read the next text of the answer, from which the model's reasoning is already removed."""
        if answer and not self._held.take(answer) and not self._is_closed:
            self._scanner.feed(answer)
            self._read_closed_items()
            self._scanner.drop_before(self._read_until)

    def _read_calls(self) -> bool:
        """Read the items from the tool calls that a reply wrote as text; return False if there are none."""
        if not self._held.may_have_calls or self._queue.count:
            return False
        try:
            calls = self._list_parser.reply_reader.find_calls(self.text)
        except ValidationFailure as failure:
            raise OutputParsingError(self.text, failure.problems) from None
        if calls is not None:
            for value in calls.value if isinstance(calls.value, list) else [calls.value]:
                self._queue.add_value(value)
        return calls is not None

    def finish(self) -> list[T | ItemError]:
        """Return the remaining list items after the last chunk; usually an empty list.

        Raises OutputParsingError for a bad item as ``feed`` does, and if the list is cut off or missing.
        """
        self._read_answer(self._reasoning.finish())
        json = self._whole_reply_as_json() if self._queue.is_held else None
        self._queue.is_held = False
        if json is None:
            try:
                return self._finish()
            except OutputParsingError:
                json = None if self._queue.was_taken else self._whole_reply_as_json()
                if json is None:
                    raise
        reader: ItemReader[T] = ItemReader(
            self._parser, self._on_error, leniency=self._leniency, envelope=self._envelope
        )
        return [*reader.feed(json), *reader.finish()]

    def _whole_reply_as_json(self) -> str | None:
        """Return the complete reply as exact JSON if its items are written in another way, or None."""
        if self._leniency is Leniency.NONE:
            return None
        json = respelled(find_answer(self.text).text.strip())
        if json is None:
            try:
                json = dump_json(self._list_parser.read(self.text, self._leniency).value)
            except OutputParsingError:
                return None
        return None if json == self.text else json

    def _finish(self) -> list[T | ItemError]:
        held = self._held.text
        if (held or self._scanner.gave_up or self._find_missing()) and self._read_calls():
            self._queue.raise_error()
            return self._queue.take()
        if held:
            self._scanner.feed(held)
            self._read_closed_items()
        if self._scanner.gave_up and not self._error:
            self._read_remaining()
        self._queue.raise_error()
        error = self._error or self._find_missing()
        if error:
            raise OutputParsingError(self.text, [Problem("$", error)])
        self._compare_with_whole_reply()
        self._queue.raise_error()
        return self._queue.take()

    def _compare_with_whole_reply(self) -> None:
        """Add further items of the whole reply; raise OutputParsingError if it has another answer.

        The items are read while the reply arrives, and later text, comments or units may deny them. Bad items
        that are kept or skipped do not count.
        """
        if self._root is None or self._scanner.gave_up:
            return
        start, end = self._root
        answer_text = find_answer(self.text).text
        answer = answer_text if self._reasoning.has_reasoning else self.text
        outside = answer[:start] + answer[end:]
        verdict = role_of(answer, start, end, own_words=self._list_parser.reply_reader.own_words)
        is_other = len(answer_text) < end or verdict.role in (Role.OTHER, Role.UNCLEAR)
        has_remarks = is_other or self._scanner.has_comments or self._queue.has_units
        if not ("[" in outside or "{" in outside or has_remarks):
            return
        try:
            whole, read = map(self._items_in, self._without_bad_items(answer, start, end))
        except OutputParsingError as error:
            raise OutputParsingError(self.text, error.problems) from error.__cause__
        has_more = len(whole) > len(read) and bool(self._queue.failed)
        if has_more or not strict_equal(whole[: len(read)], read):
            raise OutputParsingError(self.text, [Problem("$", "the whole reply has another answer")])
        for value in whole[len(read) :]:  # of a list after the first one
            self._queue.add_value(value)

    def _without_bad_items(self, answer: str, start: int, end: int) -> tuple[str, str]:
        """Return the reply and the JSON in it without the bad items of the list."""
        if self._list is None or not self._queue.failed:
            return self.text, answer[start:end]
        array = answer[self._list.start : self._list.end]
        try:
            items = _read_json(array, only_exact=False)
        except JsonSyntaxError as error:
            raise OutputParsingError(self.text, [Problem("$", error.message)]) from None
        if self._scanner.has_comments and not any(
            strict_equal(_list_in(value), items) for value in self._values_in(self.text)
        ):
            raise OutputParsingError(self.text, [Problem("$", "a comment may say that it is not the answer")])
        fitting = dump_json([item for index, item in enumerate(items) if index not in self._queue.failed])
        return self.text.replace(array, fitting), answer[start:end].replace(array, fitting)

    @cached_property
    def _list_parser(self) -> TypeParser[list[Json]]:
        """A parser of the list in a complete reply, which returns JSON and runs no validators."""
        items = ListNode(json_node_of(self._node, {}), list, exact=False)
        return TypeParser(Target(list[Any], alias=f"list[{self._name}]"), items)

    def _items_in(self, text: str) -> list[Json]:
        """Return the items in a complete reply as JSON."""
        if self._list is None:
            return self._objects_in(text)
        return self._list_parser.read(text, self._leniency).value

    def _find_missing(self) -> str:
        """Return an error message if a streamed list is missing or cut off; return "" otherwise."""
        if self._scanner.gave_up:
            return ""
        if self._scanner.stack:
            return "the JSON is cut off: the list is not closed"
        if self._is_closed or self._last_object_end >= 0:
            return ""
        return f"expected a list of items, each {self._node.kind}; the reply contains none"

    def _find_list(self, opened: Container) -> None:
        """Find the JSON array with the list items as soon as its opening bracket has arrived."""
        root, *inner = self._scanner.stack
        if self._list is not None or opened.bracket == "{" or self._last_object_end >= 0 or len(inner) > 1:
            return
        # If the item type has the key, the list belongs to a single item, as in {"skills": [...]}.
        if inner and (
            root.bracket == "["
            or root.parts
            or (opened.key != self._envelope and may_have_key(self._node, opened.key))
            or not self._is_list_key(opened.key)
        ):
            return
        self._list = self._scanner.item_list = opened

    def _is_list_key(self, key: str) -> bool:
        """Return True if the list may be under a key, as for the parser of the list."""
        name = normalize_key(key)
        is_usual = key == self._envelope or name in ENVELOPE_KEYS or name in LIST_KEYS
        return is_usual or isinstance(self._node, ObjectNode)

    def _on_root_closed(self, root: Container) -> bool:
        """Parse the remaining list items once the JSON in the streamed reply is complete.

        Returns True if the scanner has to look for another object.
        """
        if self._list is not None:
            self._read_closed_items()
            self._is_closed = True
            self._root = root.start, root.end
            if root.bracket == "{" and len(root.parts) > 1:
                self._error = "the object around the list has other keys too"
            return False
        if self._last_object_end >= 0:
            between = self._scanner.cut(self._last_object_end, root.start)
            if not LINE_SEPARATOR.fullmatch(between):
                self._error = "there is text between the items"
                self._is_closed = True
                return False
        self._last_object_end = self._read_until = root.end
        self._root = root.start if self._root is None else self._root[0], root.end
        self._queue.add_text(self._scanner.cut(root.start, root.end))
        return True

    def _read_closed_items(self) -> None:
        """Parse the items of a streamed list that were completed since the last call."""
        if self._list is not None:
            for part in self._list.parts[self._read_parts :]:
                self._read_parts += 1
                if isinstance(part, Container):
                    self._read_until = part.end
                    self._queue.add_text(self._scanner.cut(part.start, part.end))
                elif isinstance(part, str):
                    for value in decode_items(part):
                        self._queue.add_value(value)
                elif part.is_unreadable:
                    self._queue.add_error(
                        dump_json(part.value), (self._queue.problem("the string cannot be read"),)
                    )
                else:
                    self._queue.add_value(part.value)

    def _read_items(self, text: str, position: int, end: int) -> int:
        """Parse the items between two positions; return the position of the first one with invalid JSON."""
        self._read_closed_items()  # those before them
        whole = "[" + text[position:end].rstrip(" \t\r\n,") + "]"
        if self._queue.add_array(whole):
            return end
        while position < end:
            item = ITEM.match(text, position)
            if item is None or not self._queue.add_text(item[1], only_exact=True):
                break
            position = item.end()
        return position

    def _read_remaining(self) -> None:
        """Parse the whole reply again if parsing in chunks failed, and add the missing list items."""
        if self._last_object_end >= 0:
            items: list[Json] | None = self._objects_in(self.text)
        else:
            lists = map(_list_in, self._values_in(self.text))
            items = next((one for one in lists if one is not None), None)
        # The items so far were certain, so the complete text must contain at least as many.
        if items is None or len(items) < self._queue.count:
            raise OutputParsingError(self.text, [Problem("$", "the JSON is broken")])
        for value in items[self._queue.count :]:
            self._queue.add_value(value)

    def _objects_in(self, text: str) -> list[Json]:
        """Return the JSON of the objects in a complete reply that has them one after the other."""
        values = self._values_in(text)
        lines = values[-1] if values else None  # of several values, the last one may be the list of them all
        return lines if isinstance(lines, list) else values

    def _values_in(self, text: str) -> list[Json]:
        """Return the JSON values in a complete reply that may be the answer."""
        try:
            reply = strip_reasoning(text, Cursor(self._leniency), self._list_parser.reply_reader.own_words)
            whole = reply.read_whole()
            candidates = [whole] if whole else reply.find_candidates()
        except ValidationFailure as failure:
            raise OutputParsingError(self.text, failure.problems) from external_cause(failure)
        except RecursionError:
            raise OutputParsingError(self.text, [Problem("$", "it is nested too deeply")]) from None
        return [candidate.value for candidate in candidates if not candidate.objection]


def _list_in(value: Json) -> list[Json] | None:
    """Return a list, or the list that is the only value in a dict; None for other values."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, list) else None


def _read_json(text: str, *, only_exact: bool) -> Json:
    """Parse text that contains one JSON value, repairing mistakes in the JSON unless ``only_exact``.

    Raises JsonSyntaxError if the text cannot be repaired or contains several values.
    """
    text = with_lost_backslashes(text)
    try:
        return read_exact(text)
    except JsonSyntaxError:
        if only_exact:
            raise
        # The end of a string with unescaped quotes is recognized only inside brackets.
        items = read_tolerant(f"[{text}]").value
    if len(items) != 1:
        raise JsonSyntaxError("it is more than one value", 0)
    return items[0]


class ItemListParser(TypeParser[list[Any]]):
    """Parses a complete list, and returns the same items as ItemReader does for the streamed list.

    A reply that is not JSON, such as a bulleted list, is parsed like any other list. With
    ``ItemPolicy.KEEP`` the list contains an ItemError for each item that does not fit.
    """

    def __init__(self, item: TypeParser[object], policy: ItemPolicy, *, field: str | None = None) -> None:
        """Create a parser for a list of items.

        Args:
            item: The parser of the items.
            policy: What to do with an item that does not fit.
            field: The key of the envelope that contains the list; None if the list has no envelope.
        """
        target = Target(list[Any], alias=f"list[{item.name}]")
        node = ListNode(item.node, list, exact=False)
        node.part_descriptions = (item.target.description,)
        super().__init__(target, node, field=field)
        self._item = item
        self._policy = policy

    def with_envelope(self, field: str = "value") -> ItemListParser:
        """Return a parser that expects the list in an object with one key, such as ``{"items": [...]}``."""
        return ItemListParser(self._item, self._policy, field=field).with_leniency(self.leniency)

    def reader(self) -> ItemReader[object]:
        """Return a reader that parses list items one by one while the reply is streamed."""
        return ItemReader(self._item, self._policy, leniency=self.leniency, envelope=self._field)

    def parse(self, text: str, leniency: Leniency | None = None) -> list[object]:
        """Parse a complete reply, and return its list items.

        Raises OutputParsingError if the text does not fit.
        """
        return self.read(text, leniency).value

    def read(self, text: str, leniency: Leniency | None = None) -> Reading[list[object]]:
        """Return the list items of a complete reply, with the conversions and repairs that were needed.

        Raises OutputParsingError if the text does not fit.
        """
        leniency = self.leniency if leniency is None else leniency
        reader = ItemReader(self._item, self._policy, leniency=leniency, envelope=self._field)
        try:
            items = reader.feed(text)
            return Reading([*items, *reader.finish()])
        except OutputParsingError as error:
            if "[" in text or "{" in text:
                raise  # the reply is broken JSON, not a list in prose
            try:
                return super().read(text, leniency)
            except OutputParsingError:
                raise error from None
