"""Makes the methods of a service: what a call does, for each shape in which a value is handed back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, cast

from output_parsers.errors import OutputParsingError

from .budget import Budget
from .errors import ServiceOutputError
from .flow import Emit, Flow, arun, astream, run, stream
from .messages import AiMessage, ChatReply, FinishReason, ReplyDelta
from .pipeline import Answer, Pipeline
from .plan import MethodPlan, Turn
from .returns import Result, Shape
from .streams import Accepted, AsyncStream, AttemptStarted, Stream

if TYPE_CHECKING:
    from output_parsers.partial import ItemReader
    from output_parsers.partial.item_list import ItemListParser

__all__ = ["PLAN", "method_of", "result_of", "to_the_end"]

PLAN = "__aiservices_plan__"
_END = object()


def method_of(stub: FunctionType, plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Any:
    """The function that stands in for a stub."""
    shape, asynchronous = plan.returns.shape, plan.returns.asynchronous
    if shape in (Shape.VALUE, Shape.RESULT):
        made = (_awaitable if asynchronous else _blocking)(plan, pipeline, budget)
    elif shape is Shape.STREAM:
        made = _streamed(plan, pipeline, budget)
    else:
        made = _iterated(plan, pipeline, budget)
    method: Any = wraps(stub)(made)
    method.__isabstractmethod__ = False
    setattr(method, PLAN, plan)
    return method


def result_of(answer: Answer, turn: Turn) -> Result[Any]:
    """An answer with the account of its call."""
    context = turn.context
    return Result(
        answer.value,
        answer.reply,
        answer.strategy,
        answer.coercions,
        tuple(context.attempts),
        context.seconds,
        answer.reasons,
        answer.tool_runs,
        answer.sources,
    )


def _value_of(answer: Answer, turn: Turn) -> Any:
    return answer.value


def _blocking(plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Callable[..., Any]:
    turn, flow = plan.turn, pipeline.flow
    finish = result_of if plan.returns.shape is Shape.RESULT else _value_of

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = turn(args, kwargs, budget)
        return finish(run(flow(begun)), begun)

    return call


def _awaitable(plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Callable[..., Any]:
    turn, flow = plan.turn, pipeline.flow
    finish = result_of if plan.returns.shape is Shape.RESULT else _value_of

    async def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = turn(args, kwargs, budget)
        return finish(await arun(flow(begun)), begun)

    return call


def _streamed(plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Callable[..., Any]:
    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = plan.turn(args, kwargs, budget)
        flow = to_the_end(pipeline.flow(begun))
        finish: Callable[[Answer], Result[Any]] = lambda answer: result_of(answer, begun)  # noqa: E731
        if plan.returns.asynchronous:
            return AsyncStream(astream(flow), finish)
        return Stream(stream(flow), finish)

    return call


def _iterated(plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Callable[..., Any]:
    pieces = _Texts if plan.returns.shape is Shape.TEXT_STREAM else _Items

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = plan.turn(args, kwargs, budget)
        flow = to_the_end(pipeline.flow(begun))
        return (_aiterate if plan.returns.asynchronous else _iterate)(flow, pieces(begun))

    return call


def to_the_end(flow: Flow[Answer]) -> Flow[None]:
    """A flow whose answer is its last event, since a stream hands over nothing else."""
    answer = yield from flow
    yield Emit(Accepted(answer))


class _Pieces(Protocol):
    """Turns the events of a call into what its iterator gives."""

    def take(self, event: Any) -> Iterator[Any]: ...


class _Texts:
    """The text of a reply, piece by piece."""

    def __init__(self, turn: Turn) -> None:
        self._context = turn.context

    def take(self, event: Any) -> Iterator[Any]:
        if type(event) is ReplyDelta and event.text:
            self._context.text_shown = True
            yield event.text


class _Items:
    """The items of a list, each when it is complete."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._reader: ItemReader[Any] | None = None
        self._piece: Callable[[ReplyDelta], str] = str
        self._given = 0

    def take(self, event: Any) -> Iterator[Any]:
        """The items that are complete now. Raises _Misfit behind those before one that does not fit."""
        if type(event) is AttemptStarted:
            parser = event.wire.parser
            known = parser is not None and event.wire.shown
            self._reader = cast("ItemListParser", parser).reader() if known else None
            self._piece = event.wire.piece
        elif type(event) is Accepted:  # the reading of the whole reply has the last word
            yield from list(event.answer.value)[self._given :]
        elif type(event) is ReplyDelta and self._reader is not None:
            piece = self._piece(event)
            while items := self._fed(self._reader, piece):
                self._turn.context.text_shown = True
                self._given += len(items)
                yield from items
                piece = ""  # what does not fit is told when the items before it have been handed over

    def _fed(self, reader: ItemReader[Any], piece: str) -> list[Any]:
        try:
            return reader.feed(piece)
        except OutputParsingError as error:
            where, attempts = self._turn.plan.where, self._turn.context.attempts
            failure = ServiceOutputError(where, error.text, error.problems, attempts)
            failure.reply = ChatReply(AiMessage(reader.text), FinishReason.OTHER)
            failure.__cause__ = error
            raise _Misfit(failure) from error


class _Misfit(Exception):
    """Something that was read of a stream does not fit; ``error`` says what."""

    def __init__(self, error: ServiceOutputError) -> None:
        super().__init__(error)
        self.error = error


# What does not fit is thrown to where the reply is written, so that the pipeline can have it asked for again.


def _iterate(flow: Flow[None], pieces: _Pieces) -> Generator[Any, None, None]:
    with closing(stream(flow)) as events:
        event = next(events, _END)
        while event is not _END:
            try:
                yield from pieces.take(event)
                event = next(events, _END)
            except _Misfit as misfit:
                event = events.throw(misfit.error)


async def _aiterate(flow: Flow[None], pieces: _Pieces) -> AsyncGenerator[Any, None]:
    async with aclosing(astream(flow)) as events:
        event = await anext(events, _END)
        while event is not _END:
            try:
                for piece in pieces.take(event):
                    yield piece
                event = await anext(events, _END)
            except _Misfit as misfit:
                event = await events.athrow(misfit.error)
