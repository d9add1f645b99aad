"""What an iterator gives of a reply that is being written: its text, or the items of its list."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Protocol, cast

from output_parsers.result.errors import OutputParsingError, Problem

from ..models.errors import ServiceOutputError
from ..models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta, ToolMessage
from .effects import Flow, astream, stream
from .plan import Invocation
from .streams import Accepted, AttemptStarted

if TYPE_CHECKING:
    from output_parsers.streaming import ItemReader
    from output_parsers.streaming.items import ItemListParser

_END = object()


class ChunkSource(Protocol):
    """Turns the events of a call into what its iterator gives."""

    def take(self, event: Any) -> Iterator[Any]: ...


class TextChunks:
    """The text of a reply, piece by piece."""

    def __init__(self, invocation: Invocation) -> None:
        self._context = invocation.state

    def take(self, event: Any) -> Iterator[Any]:
        if type(event) is ReplyDelta and event.text:
            self._context.text_shown = True
            yield event.text
        elif type(event) is Accepted and event.answer.value and not self._is_shown(event.answer):
            yield str(event.answer.value)

    def _is_shown(self, answer: Any) -> bool:
        """Whether the answer came in pieces: it may have been held back, or be the result of a tool."""
        of_tool = bool(answer.said) and isinstance(answer.said[-1], ToolMessage)
        return self._context.text_shown and not of_tool


class ItemStream:
    """The items of a list, each when it is complete."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._reader: ItemReader[Any] | None = None
        self._piece: Callable[[ReplyDelta], str] = str
        self._answers_by_tool = False
        self._given = 0

    def take(self, event: Any) -> Iterator[Any]:
        """The items that are complete now. Raises _Misfit behind those before one that does not fit."""
        if type(event) is AttemptStarted:
            parser = event.wire.parser
            known = parser is not None and event.wire.shown
            self._reader = cast("ItemListParser", parser).reader() if known else None
            self._piece = event.wire.pieces()
            self._answers_by_tool = event.wire.tooling is not None
        elif type(event) is Accepted:  # the reading of the whole reply has the last word
            yield from list(event.answer.value)[self._given :]
        elif type(event) is ReplyDelta and self._reader is not None:
            if not self._answers_by_tool and (name := _called(event)):
                self._leave(self._reader, name)
                return
            piece = self._piece(event)
            while items := self._fed(self._reader, piece):
                self._invocation.state.text_shown = True
                self._given += len(items)
                yield from items
                piece = ""  # what does not fit is told when the items before it have been handed over

    def _leave(self, reader: ItemReader[Any], name: str) -> None:
        """Read no more of a reply that calls a tool. Raises _Misfit where items of it were handed out."""
        self._reader = None
        if self._given:
            said = f"items of it were handed out, and then the model called the tool {name}: it is no answer"
            raise self._misfit(reader.text, [Problem("$", said)], reader)

    def _fed(self, reader: ItemReader[Any], piece: str) -> list[Any]:
        try:
            return reader.feed(piece)
        except OutputParsingError as error:
            misfit = self._misfit(error.text, error.problems, reader)
            misfit.error.__cause__ = error
            raise misfit from error

    def _misfit(self, text: str, problems: Sequence[Problem], reader: ItemReader[Any]) -> _Misfit:
        failure = ServiceOutputError(
            self._invocation.plan.where, text, problems, self._invocation.state.attempts
        )
        failure.reply = ChatReply(AiMessage(reader.text), FinishReason.OTHER)
        return _Misfit(failure)


def _called(delta: ReplyDelta) -> str:
    """The name of a tool that is called in a piece of a reply; "" where none is."""
    calls = delta.tool_calls or (delta.reply.message.tool_calls if delta.reply is not None else ())
    return next((call.name for call in calls), "")


class _Misfit(Exception):
    """Something that was read of a stream does not fit; ``error`` says what."""

    def __init__(self, error: ServiceOutputError) -> None:
        super().__init__(error)
        self.error = error


# What does not fit is thrown to where the reply is written, so that the pipeline can have it asked for again.


def iterate(flow: Flow[None], pieces: ChunkSource) -> Generator[Any, None, None]:
    with closing(stream(flow)) as events:
        event = next(events, _END)
        while event is not _END:
            try:
                yield from pieces.take(event)
                event = next(events, _END)
            except _Misfit as misfit:
                event = events.throw(misfit.error)


async def aiterate(flow: Flow[None], pieces: ChunkSource) -> AsyncGenerator[Any, None]:
    async with aclosing(astream(flow)) as events:
        event = await anext(events, _END)
        while event is not _END:
            try:
                for piece in pieces.take(event):
                    yield piece
                event = await anext(events, _END)
            except _Misfit as misfit:
                event = await events.athrow(misfit.error)
