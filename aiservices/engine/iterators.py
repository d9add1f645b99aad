"""Iterators over a reply while it is written: its text in chunks, or the items of its list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Protocol, cast

from output_parsers.result.errors import OutputParsingError, Problem

from ..models.errors import ServiceOutputError
from ..models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta, ToolMessage
from .effects import Flow, astream, stream
from .events import AttemptStarted
from .plan import Invocation
from .results import Answer
from .streams import Accepted

if TYPE_CHECKING:  # imported late, because few methods return items
    from output_parsers.streaming import ItemReader
    from output_parsers.streaming.items import ItemListParser

_END = object()


class ChunkSource(Protocol):
    """Turns the events of a call into the chunks that its iterator yields."""

    def chunks(self, event: object) -> Iterator[Any]:
        """Yield the chunks that an event completes."""


class TextChunks:
    """The text of a reply in chunks, for ``Iterator[str]``."""

    def __init__(self, invocation: Invocation) -> None:
        self._state = invocation.state

    def chunks(self, event: object) -> Iterator[Any]:
        if type(event) is ReplyDelta and event.text:
            self._state.text_shown = True
            yield event.text
        elif type(event) is Accepted and event.answer.value and not self._was_streamed(event.answer):
            yield str(event.answer.value)

    def _was_streamed(self, answer: Answer) -> bool:
        """Return False if the answer was held back, or is the result of a tool."""
        is_tool_result = bool(answer.messages) and isinstance(answer.messages[-1], ToolMessage)
        return self._state.text_shown and not is_tool_result


class ItemStream:
    """The items of a list, each as soon as it is complete, for ``Iterator[Item]``."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._reader: ItemReader[Any] | None = None
        self._text_of: Callable[[ReplyDelta], str] = str
        self._answers_by_tool = False
        self._item_count = 0

    def chunks(self, event: object) -> Iterator[Any]:
        """Yield the items that an event completes. Raises _ItemError after those before an invalid item."""
        if type(event) is AttemptStarted:
            output_format = event.output_format
            parser = output_format.parser if output_format.is_streamed else None
            self._reader = None if parser is None else cast("ItemListParser", parser).reader()
            self._text_of = output_format.text_extractor()
            self._answers_by_tool = output_format.tooling is not None
        elif type(event) is Accepted:  # what the whole reply contains beyond the items shown so far
            yield from list(event.answer.value)[self._item_count :]
        elif type(event) is ReplyDelta and self._reader is not None:
            if not self._answers_by_tool and (name := _called_tool(event)):
                self._stop_reading(self._reader, name)
                return
            text = self._text_of(event)
            while items := self._feed(self._reader, text):
                self._invocation.state.text_shown = True
                self._item_count += len(items)
                yield from items
                text = ""  # an invalid item raises only after the items before it were handed out

    def _stop_reading(self, reader: ItemReader[Any], tool_name: str) -> None:
        """Ignore the rest of a reply that calls a tool. Raises _ItemError if items of it were handed out."""
        self._reader = None
        if self._item_count:
            message = f"the model called the tool {tool_name} after items of its reply were handed out"
            raise self._error(reader.text, [Problem("$", message)], reader)

    def _feed(self, reader: ItemReader[Any], text: str) -> list[Any]:
        try:
            return reader.feed(text)
        except OutputParsingError as error:
            item_error = self._error(error.text, error.problems, reader)
            item_error.error.__cause__ = error
            raise item_error from error

    def _error(self, text: str, problems: Sequence[Problem], reader: ItemReader[Any]) -> _ItemError:
        qualname, attempts = self._invocation.plan.qualname, self._invocation.state.attempts
        error = ServiceOutputError(qualname, text, problems, attempts)
        error.reply = ChatReply(AiMessage(reader.text), FinishReason.OTHER)
        return _ItemError(error)


class _ItemError(Exception):
    """An item of a stream cannot be read.

    The iterators throw ``error`` into the flow, at the place where it receives the reply, so that the
    pipeline can request the answer again.
    """

    def __init__(self, error: ServiceOutputError) -> None:
        super().__init__(error)
        self.error = error


def iterate(flow: Flow[None], source: ChunkSource) -> Generator[Any, None, None]:
    """Yield the chunks of a call."""
    with closing(stream(flow)) as events:
        event = next(events, _END)
        while event is not _END:
            try:
                yield from source.chunks(event)
                event = next(events, _END)
            except _ItemError as item_error:
                event = events.throw(item_error.error)


async def aiterate(flow: Flow[None], source: ChunkSource) -> AsyncGenerator[Any, None]:
    """Yield the chunks of an async call."""
    async with aclosing(astream(flow)) as events:
        event = await anext(events, _END)
        while event is not _END:
            try:
                for chunk in source.chunks(event):
                    yield chunk
                event = await anext(events, _END)
            except _ItemError as item_error:
                event = await events.athrow(item_error.error)


def _called_tool(delta: ReplyDelta) -> str:
    """Return the name of a tool that a delta calls, or ""."""
    calls = delta.tool_calls or (delta.reply.message.tool_calls if delta.reply is not None else ())
    return next((call.name for call in calls), "")
