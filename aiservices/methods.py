"""Makes the methods of a service: what a call does, for each shape in which a value is handed back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from output_parsers.errors import OutputParsingError

from .budget import Budget
from .errors import ServiceOutputError
from .flow import Emit, Flow, arun, astream, run, stream
from .messages import ReplyDelta
from .pipeline import Answer, Pipeline
from .plan import MethodPlan, Turn
from .returns import Result, Shape
from .streams import AsyncStream, AttemptStarted, Stream

if TYPE_CHECKING:
    from output_parsers.partial import ItemReader

__all__ = ["PLAN", "method_of", "result_of", "to_the_end"]

PLAN = "__aiservices_plan__"


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
    yield Emit(answer)


class _Pieces(Protocol):
    """Turns the events of a call into what its iterator gives."""

    def take(self, event: Any) -> list[Any]: ...


class _Texts:
    """The text of a reply, piece by piece."""

    def __init__(self, turn: Turn) -> None:
        self._context = turn.context

    def take(self, event: Any) -> list[Any]:
        if type(event) is not ReplyDelta or not event.text:
            return []
        self._context.text_shown = True
        return [event.text]


class _Items:
    """The items of a list, each when it is complete."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._reader: ItemReader[Any] | None = None
        self._piece: Callable[[ReplyDelta], str] = str
        self._given = 0

    def take(self, event: Any) -> list[Any]:
        if type(event) is AttemptStarted:
            self._start(event)
            return []
        if isinstance(event, Answer):  # the reading of the whole reply has the last word
            return list(event.value)[self._given :]
        if type(event) is not ReplyDelta or self._reader is None:
            return []
        try:
            items = self._reader.feed(self._piece(event))
        except OutputParsingError as error:
            where, attempts = self._turn.plan.where, self._turn.context.attempts
            raise ServiceOutputError(where, error.text, error.problems, attempts) from error
        if items:
            self._turn.context.text_shown = True
            self._given += len(items)
        return items

    def _start(self, event: AttemptStarted) -> None:
        from output_parsers.partial import ItemPolicy, ItemReader  # most calls are not streamed

        plan = self._turn.plan
        assert plan.item is not None, "a method of this shape is planned with the parser of its items"
        policy = ItemPolicy.KEEP if plan.returns.keeps_errors else ItemPolicy.RAISE
        self._reader = ItemReader(plan.item, policy)
        self._piece = event.wire.piece


def _iterate(flow: Flow[None], pieces: _Pieces) -> Generator[Any, None, None]:
    with closing(stream(flow)) as events:
        for event in events:
            yield from pieces.take(event)


async def _aiterate(flow: Flow[None], pieces: _Pieces) -> AsyncGenerator[Any, None]:
    async with aclosing(astream(flow)) as events:
        async for event in events:
            for piece in pieces.take(event):
                yield piece
