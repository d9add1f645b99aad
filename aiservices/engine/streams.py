"""Streams of an answer while the model writes it, and the events of a service call.

Streams yield snapshots, events, chunks of text or list items. Listeners receive all events of a call, and
streams yield AttemptStarted, ToolStarted and ToolFinished. Each event that a listener receives has the call
in ``invocation``, whose ``id`` distinguishes concurrent calls. The event classes are not frozen, because each
call creates some of them, and a frozen dataclass takes twice as long to create.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, cast

from output_parsers.parser.reasoning import ReasoningFilter
from output_parsers.result.errors import OutputParsingError, Problem, ValidatorError
from output_parsers.result.reading import CALL_ARGUMENTS, Reading, strict_equal
from output_parsers.types.cited import cited_from

from ..models.errors import (
    AiServiceError,
    ServiceOutputError,
    Strategy,
    StreamConsumedError,
    hide_library_frames,
)
from ..models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta, ToolCall
from ..models.requests import ChatRequest
from ..tools.tool import ToolRun
from .drivers import astream, stream
from .effects import Flow
from .output_format import OutputFormat
from .plan import CallState, Invocation
from .results import Answer, Result

if TYPE_CHECKING:
    from output_parsers.streaming import ItemReader, PartialReader, Snapshot
    from output_parsers.streaming.reader import ItemListParser


# --- Events for listeners ---


@dataclass(slots=True)
class CallStarted:
    """An event for listeners: a service method was called.

    Attributes:
        invocation: The call with its arguments and messages.
    """

    invocation: Invocation


@dataclass(slots=True)
class AttemptStarted:
    """An event for listeners: a request is about to be sent to a language model.

    If it is not the first of the call, a stream starts over: discard the snapshots of the earlier answer.

    Attributes:
        number: The number of the request in this call, from 1.
        model: The name of the model.
        output_format: How the answer is requested and read.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    number: int
    model: str
    output_format: OutputFormat
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)

    @property
    def strategy(self) -> Strategy:
        """How structured output is requested, for example with a JSON Schema or in JSON mode."""
        return self.output_format.strategy


@dataclass(slots=True)
class ReplyReceived:
    """An event for listeners: a language model has replied to a request.

    Attributes:
        model: The name of the model.
        reply: The reply.
        seconds: Wall time of the request.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    model: str
    reply: ChatReply
    seconds: float
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ReplyFailed:
    """An event for listeners: a model request failed, or its streamed reply was not read to the end.

    Attributes:
        model: The name of the model.
        error: The error.
        seconds: Wall time of the request.
        reply: The part of the reply that had arrived; None if nothing did.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    model: str
    error: Exception
    seconds: float
    _: KW_ONLY
    reply: ChatReply | None = None
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolStarted:
    """An event for listeners: a tool that the model called is about to run.

    Attributes:
        call: The call as the model wrote it.
        invocation: The call; None in a stream.
    """

    call: ToolCall
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolFinished:
    """An event for listeners: a tool call of the model succeeded or failed.

    It is reported when the tool ends, even if other tools of the same reply are still running.

    Attributes:
        run: The call with its result or error.
        invocation: The call; None in a stream.
    """

    run: ToolRun
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolUndone:
    """An event for listeners: a tool call was undone by the ``compensate`` function of its tool.

    Attributes:
        run: The call; ``undo_error`` says why it could not be undone.
        invocation: The call; None in a stream.
    """

    run: ToolRun
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class AnswerRejected:
    """An event for listeners: the answer does not fit the type, so another one is requested.

    Attributes:
        error: The problems of the answer.
        invocation: The call; None in a stream.
    """

    error: ServiceOutputError
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class CallCompleted:
    """An event for listeners: a call of a service method succeeded.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        answer: The answer as interceptors left it.
        events: All events of the call before this one, in order.
    """

    invocation: Invocation
    answer: Answer
    _: KW_ONLY
    events: tuple[object, ...] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class CallFailed:
    """An event for listeners: a call of a service method raised an error or was cancelled.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        error: The error; an AiServiceError has all attempts on it.
        events: All events of the call before this one, in order.
    """

    invocation: Invocation
    error: BaseException
    _: KW_ONLY
    events: tuple[object, ...] = field(default=(), compare=False, repr=False)


@dataclass(slots=True)
class CallClosed:
    """An event for listeners: the reader of a stream closed it before its end.

    Only plain functions receive it, because nothing can be awaited at that point.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        events: All events of the call before this one, in order.
    """

    invocation: Invocation
    _: KW_ONLY
    events: tuple[object, ...] = field(default=(), compare=False, repr=False)


# --- Streams ---


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_NOTHING = object()


class FieldCompleted(NamedTuple):
    """An event of a stream: a field of the streamed object, or an item of the streamed list, is complete.

    Attributes:
        name: The name of the field, or the index of the item.
        value: Its value.
    """

    name: str | int
    value: Any


class Completed(NamedTuple, Generic[T]):
    """The last event of a streamed answer, which contains the complete value.

    Attributes:
        result: The value with the details of the call.
    """

    result: Result[T]


class Accepted(NamedTuple):
    """An internal event of a stream, sent when all interceptors have accepted the answer.

    Attributes:
        answer: An Answer, or the Result that a remote service sent.
    """

    answer: Any


StreamEvent: TypeAlias = (
    AttemptStarted | ReplyDelta | ToolStarted | ToolFinished | ToolUndone | FieldCompleted | Completed[T]
)


class StreamState(Generic[T]):
    """The state of a streamed answer: the partial value, and finally the result or error."""

    def __init__(self, make_result: Callable[[Any], Result[T]], call: CallState | None) -> None:
        self._make_result = make_result
        self._call = call
        self._reader: PartialReader[T] | None = None
        self._text_of: Callable[[ReplyDelta], str] = str
        self._reported_fields: set[str] = set()
        self._reported_items = 0
        self._last_value: object = _NOTHING
        self._is_completed_later = False  # True if the result has probabilities that no snapshot has
        self.is_over = False
        self.error: BaseException | None = None
        self.result: Result[T] | None = None

    def update(self, event: object) -> bool:
        """Process an event of a streamed answer; return True if there is a new partial value."""
        if type(event) is ReplyDelta:
            text = self._text_of(event)
            if not text or self._reader is None:
                return False
            if self._call is None or self._call.verifier is None:
                self._reader.feed(text)
            else:
                with cited_from(self._call.verifier):
                    self._reader.feed(text)
            return True
        if type(event) is AttemptStarted:
            from output_parsers.streaming import PartialReader

            output_format = event.output_format
            parser = output_format.parser if output_format.is_streamed else None
            with cited_from(None if self._call is None else self._call.verifier):
                self._reader = None if parser is None else PartialReader(parser, validate_early=False)
            self._is_completed_later = parser is not None and parser.has_decisions
            self._text_of = output_format.text_extractor()
            if self._call is not None:
                self._call.streamed_reading = self._reading
            self._reported_fields, self._reported_items, self._last_value = set(), 0, _NOTHING
            return False
        if type(event) is not Accepted:
            return False
        self.result = self._make_result(event.answer)
        # The last snapshot is not repeated if the final value equals it.
        return self._is_completed_later or not strict_equal(self._last_value, self.result.value)

    def _reading(self, text: str) -> Reading[Any] | None:
        """Return the complete reply as it was read; None if it has another text."""
        return None if self._reader is None or self._reader.text != text else self._reader.finish()

    def snapshot(self) -> Snapshot[T]:
        """Return the partial value parsed from the text of the answer received so far."""
        from output_parsers.streaming import Snapshot

        if self.result is not None:
            value = self.result.value
            return Snapshot(lambda: value, done=True)
        if self._reader is None:
            return Snapshot(lambda: None, done=False)
        snapshot = self._reader.snapshot()
        self._last_value = snapshot.value if snapshot.done else _NOTHING
        return snapshot

    def user_events(self, event: Any) -> Iterator[StreamEvent[T]]:
        """Convert an internal event of a streamed call to the events that users of the stream receive."""
        has_grown = self.update(event)
        if self.result is None or type(event) is not Accepted:
            yield event
        if has_grown or type(event) is Accepted:
            yield from self._completed_fields()
        if type(event) is Accepted and self.result is not None:
            yield Completed(self.result)

    def _completed_fields(self) -> Iterator[FieldCompleted]:
        """Yield an event for each field or list item of a streamed answer that is now complete."""
        value: Any = self.snapshot().value
        if _is_list(value):
            while self._reported_items < len(value) and _is_complete(value, self._reported_items):
                yield FieldCompleted(self._reported_items, value[self._reported_items])
                self._reported_items += 1
        else:
            for name in _field_names(value):
                if name not in self._reported_fields and _is_complete(value, name):
                    self._reported_fields.add(name)
                    yield FieldCompleted(name, _field_value(value, name))

    def check_not_over(self) -> None:
        """Raise an error if the stream has failed, ended or been closed: it can be read only once."""
        if self.error is not None:
            raise self.error
        if self.is_over:
            reason = "closed" if self.result is None else "read to its end"
            raise StreamConsumedError(
                f"the stream was {reason} before, and a stream can be read only once; "
                "keep its snapshots, or call the method again"
            )

    def fail(self, error: Exception) -> None:
        """Store the error that ended the stream, and remove this library's frames from the traceback."""
        if not isinstance(error, StreamConsumedError):  # this one is about the reading
            self.error = error
        if isinstance(error, AiServiceError):
            hide_library_frames(error)

    def final_result(self) -> Result[T]:
        """Return the stream's result, or raise the error that ended the stream.

        Raises StreamConsumedError if the stream was closed before the answer was complete.
        """
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise StreamConsumedError(
                "the stream was closed before the answer was complete: there is no result"
            )
        return self.result


def _is_list(value: object) -> bool:
    from output_parsers.streaming import PartialList

    return isinstance(value, (PartialList, list, tuple)) and not hasattr(value, "_fields")  # a NamedTuple


def _is_partial(value: object) -> bool:
    from output_parsers.streaming import PartialList, PartialObject

    return isinstance(value, (PartialList, PartialObject))


def _is_complete(value: object, part: str | int) -> bool:
    done = getattr(value, "done", None)
    return not _is_partial(value) or bool(done is not None and done(part))


def _field_names(value: Any) -> list[str]:
    """Return the field names of a dict, a dataclass, a pydantic model or a similar object.

    Returns an empty list for other values.
    """
    if isinstance(value, dict) or _is_partial(value):
        return list(value)
    if is_dataclass(value):
        return [field.name for field in fields(value)]
    # pydantic models, msgspec structs, NamedTuples; then attrs classes
    for attribute in ("model_fields", "__struct_fields__", "_fields"):
        names = getattr(type(value), attribute, None)
        if names is not None:
            return list(names)
    return [field.name for field in getattr(type(value), "__attrs_attrs__", ())]


def _field_value(value: Any, name: str) -> object:
    return value[name] if isinstance(value, dict) or _is_partial(value) else getattr(value, name)


class Stream(Generic[T_co]):
    """An iterable of growing partial values, which are parsed while the model writes its answer.

    The request is sent when the first snapshot, event or result is read. A snapshot never contains half a
    number, and the last one is the complete value. If the answer has to be requested again, snapshots start
    over; ``events()`` reports that. Leaving the ``with`` block, or ``close()``, cancels the request.

    Reading the next snapshot, event or the result raises the errors of a blocking call. A stream can be read
    once: after a ``break``, another loop continues where the last one stopped; after the end or ``close()``,
    another loop raises StreamConsumedError. ``result()`` can be called again.
    """

    def __init__(
        self,
        events: Generator[object, None, None],
        make_result: Callable[[Any], Result[T_co]],
        call: CallState | None = None,
    ) -> None:
        self._events = events
        self._state = StreamState(make_result, call)

    def __iter__(self) -> Iterator[Snapshot[T_co]]:
        self._state.check_not_over()
        try:
            for event in self._events:
                if self._state.update(event):
                    yield self._state.snapshot()
            self._state.is_over = True
        except Exception as error:
            self._fail(error)
            raise

    def events(self) -> Iterator[StreamEvent[T_co]]:
        """Yield the events of a streamed call, such as parts of the reply, tool calls and completed fields.

        Events that interceptors emit are passed on. The last event is Completed, with the result.
        """
        self._state.check_not_over()
        try:
            for event in self._events:
                yield from self._state.user_events(event)
            self._state.is_over = True
        except Exception as error:
            self._fail(error)
            raise

    def result(self) -> Result[T_co]:
        """Wait for the end of the stream, and return the complete value with details such as token usage."""
        try:
            for event in self._events:
                self._state.update(event)
            self._state.is_over = True
            return self._state.final_result()
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        """Keep the error, and end the call with it if it is one of reading, for example of a validator."""
        self._state.fail(error)
        traceback = error.__traceback__  # without the frames of the flow
        with suppress(Exception):
            self._events.throw(error)
            for _ in self._events:
                pass
        error.__traceback__ = traceback

    @property
    def snapshot(self) -> Snapshot[T_co]:
        """The partial value that has been streamed so far, without waiting for more text."""
        return self._state.snapshot()

    def close(self) -> None:
        """Close the stream, and cancel the request to the model if it is still running."""
        self._events.close()
        self._state.is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStream(Generic[T_co]):
    """An async iterable of growing partial values, which are parsed while the model writes its answer.

    It behaves like Stream: ``async for snapshot in stream``, ``await stream.result()``.
    """

    def __init__(
        self,
        events: AsyncGenerator[object, None],
        make_result: Callable[[Any], Result[T_co]],
        call: CallState | None = None,
    ) -> None:
        self._events = events
        self._state = StreamState(make_result, call)

    async def __aiter__(self) -> AsyncIterator[Snapshot[T_co]]:
        self._state.check_not_over()
        try:
            async for event in self._events:
                if self._state.update(event):
                    yield self._state.snapshot()
            self._state.is_over = True
        except Exception as error:
            await self._fail(error)
            raise

    async def events(self) -> AsyncIterator[StreamEvent[T_co]]:
        """Yield the events of a streamed call: parts of the reply, tool calls and completed fields."""
        self._state.check_not_over()
        try:
            async for event in self._events:
                for user_event in self._state.user_events(event):
                    yield user_event
            self._state.is_over = True
        except Exception as error:
            await self._fail(error)
            raise

    async def result(self) -> Result[T_co]:
        """Wait for the end of the stream, and return the complete value with details such as token usage."""
        try:
            async for event in self._events:
                self._state.update(event)
            self._state.is_over = True
            return self._state.final_result()
        except Exception as error:
            await self._fail(error)
            raise

    async def _fail(self, error: Exception) -> None:
        """Keep the error, and end the call with it; see ``Stream``."""
        self._state.fail(error)
        traceback = error.__traceback__  # without the frames of the flow
        with suppress(Exception):
            await self._events.athrow(error)
            async for _ in self._events:
                pass
        error.__traceback__ = traceback

    @property
    def snapshot(self) -> Snapshot[T_co]:
        """The partial value that has been streamed so far, without waiting for more text."""
        return self._state.snapshot()

    async def aclose(self) -> None:
        """Close the stream, and cancel the request to the model if it is still running."""
        await self._events.aclose()
        self._state.is_over = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_END = object()


class ChunkSource(Protocol):
    """The interface of objects that convert stream events to text chunks or list items for the user."""

    def chunks(self, event: object) -> Iterator[object]:
        """Yield the text chunks or list items that are complete after the given event of a stream."""
        ...


class TextChunks:
    """Yields the text chunks of a streamed reply, for service methods that return ``Iterator[str]``."""

    def __init__(self, invocation: Invocation) -> None:
        self._state = invocation.state
        self._reasoning = ReasoningFilter()

    def chunks(self, event: object) -> Iterator[object]:
        if type(event) is AttemptStarted:
            self._reasoning = ReasoningFilter()
        elif type(event) is ReplyDelta and event.text:
            text = self._reasoning.feed(event.text)
            if text:
                self._state.text_streamed = True
                yield text
        elif type(event) is Accepted and (rest := self._reasoning.finish()) and event.answer.tool_run is None:
            yield rest
        elif type(event) is Accepted:
            if not self._state.text_streamed and isinstance(event.answer, Answer):
                texts = (_without_reasoning(one.text) for one in event.answer.messages_before_tools())
                yield from filter(None, texts)
            if event.answer.value and not self._was_streamed(event.answer):
                # An interceptor held the answer back, or it is the result of a tool.
                yield str(event.answer.value)

    def _was_streamed(self, answer: Answer) -> bool:
        """Return True if the user has already received the answer's text in chunks."""
        return self._state.text_streamed and answer.tool_run is None


def _without_reasoning(text: str) -> str:
    reasoning = ReasoningFilter()
    return reasoning.feed(text) + reasoning.finish()


class ItemStream:
    """Yields each item of a streamed list as soon as it is complete, for methods with ``Iterator[Item]``."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._reader: ItemReader[object] | None = None
        self._text_of: Callable[[ReplyDelta], str] = str
        self._answers_by_tool = False
        self._items: list[object] = []  # those that were yielded

    def chunks(self, event: object) -> Iterator[object]:
        """Yield the list items that are complete after an event, such as a new piece of streamed text.

        An invalid item raises _ItemError after the items before it were yielded.
        """
        if type(event) is AttemptStarted:
            output_format = event.output_format
            parser = output_format.parser if output_format.is_streamed else None
            with cited_from(self._invocation.state.verifier):
                self._reader = None if parser is None else cast("ItemListParser", parser).reader()
            self._text_of = output_format.text_extractor()
            self._answers_by_tool = output_format.tooling is not None
            self._items = []
            self._invocation.state.streamed_reading = self._reading
        elif type(event) is Accepted:  # the rest of the list, after the items that were already yielded
            yield from list(event.answer.value)[len(self._items) :]
        elif type(event) is ReplyDelta and self._reader is not None:
            if not self._answers_by_tool and (name := _called_tool(event)):
                self._stop_reading(self._reader, name)
                return
            text = self._text_of(event)
            while items := self._feed(self._reader, text):
                self._invocation.state.text_streamed = True
                self._items += items
                yield from items
                text = ""  # an invalid item raises an error only after the items before it were yielded

    def _stop_reading(self, reader: ItemReader[object], tool_name: str) -> None:
        """Stop parsing list items because the model called a tool.

        Raises an error if the user has already received items.
        """
        self._reader = None
        if self._items:
            message = f"the model called the tool {tool_name} after items of its reply were yielded"
            raise self._error(reader.text, [Problem("$", message)], reader)

    def _reading(self, text: str) -> Reading[Any] | None:
        """Return the items of the complete reply; None if it has another text or is not a list of items."""
        if self._reader is None or self._reader.text != text:
            return None
        try:
            return Reading([*self._items, *self._reader.finish()])
        except OutputParsingError:  # the parser of the complete reply explains it, or reads a list in prose
            return None

    def _feed(self, reader: ItemReader[object], text: str) -> list[object]:
        token = CALL_ARGUMENTS.set(self._invocation.arguments)
        try:
            if self._invocation.state.verifier is None:
                return reader.feed(text)
            with cited_from(self._invocation.state.verifier):
                return reader.feed(text)
        except OutputParsingError as error:
            item_error = self._error(error.text, error.problems, reader)
            item_error.error.__cause__ = error
            raise item_error from error
        finally:
            CALL_ARGUMENTS.reset(token)

    def _error(self, text: str, problems: Sequence[Problem], reader: ItemReader[object]) -> _ItemError:
        qualname, attempts = self._invocation.plan.qualname, self._invocation.state.attempts
        error = ServiceOutputError(qualname, text, problems, attempts)
        error.reply = ChatReply(AiMessage(reader.text), FinishReason.OTHER)
        return _ItemError(error)


class _ItemError(Exception):
    """Raised when an item of a streamed list cannot be parsed.

    The iterators throw ``error`` into the flow where it waits for the reply, so that the pipeline can request
    the answer again.
    """

    def __init__(self, error: ServiceOutputError) -> None:
        super().__init__(error)
        self.error = error


def iterate(flow: Flow[None], source: ChunkSource) -> Generator[object, None, None]:
    """Run a streamed service call, and yield the text chunks or list items of its answer."""
    try:
        with closing(stream(flow)) as events:
            event = next(events, _END)
            while event is not _END:
                try:
                    yield from source.chunks(event)
                    event = next(events, _END)
                except _ItemError as item_error:
                    event = events.throw(item_error.error)
                except ValidatorError as error:
                    event = events.throw(error)
    except AiServiceError as error:
        hide_library_frames(error)
        raise


async def aiterate(flow: Flow[None], source: ChunkSource) -> AsyncGenerator[object, None]:
    """Run a streamed service call in an event loop, and yield the text chunks or list items of its answer."""
    try:
        async with aclosing(astream(flow)) as events:
            event = await anext(events, _END)
            while event is not _END:
                try:
                    for chunk in source.chunks(event):
                        yield chunk
                    event = await anext(events, _END)
                except _ItemError as item_error:
                    event = await events.athrow(item_error.error)
                except ValidatorError as error:
                    event = await events.athrow(error)
    except AiServiceError as error:
        hide_library_frames(error)
        raise


def _called_tool(delta: ReplyDelta) -> str:
    """Return the name of the first tool that a part of a streamed reply calls; "" if it calls none."""
    calls = delta.tool_calls or (delta.reply.message.tool_calls if delta.reply is not None else ())
    return next((call.name for call in calls), "")
