"""Streamed replies of models: their deadline, checks, filters, early flows, and their usage if they fail.

Each function has an async version, whose name begins with ``a``. ``perform`` is the function of the driver
that performs an effect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from contextlib import aclosing, asynccontextmanager, closing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ..models.errors import InvalidReplyError, ModelError, ModelTimeoutError, ServiceOutputError
from ..models.messages import AiMessage, ChatReply, FinishReason, ReplyDelta
from ..models.requests import ChatRequest
from .effects import (
    CallModel,
    Effect,
    Flow,
    Gather,
    Outcome,
    ReplyBlocked,
    ReplyStopped,
    StreamFilter,
)
from .time_limit import TimeLimit

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")
Perform: TypeAlias = Callable[[Effect], Outcome]
AsyncPerform: TypeAlias = Callable[[Effect], Coroutine[object, object, Outcome]]
_END: object = object()
# Limits for reading an abandoned stream for its usage: the characters, and the minimum that a piece counts.
_MAX_DISCARDED = 64_000
_MIN_PER_PIECE = 4


def streamed_reply(effect: CallModel, perform: Perform) -> Generator[object, None, ChatReply]:
    """Yield what a stream shows of a reply, and return the complete reply."""
    policy = effect.policy
    is_plain = not policy.checks and policy.early is None
    deltas = _deltas(effect) if is_plain else parallel_deltas(effect, perform)
    return _filtered(deltas, effect, perform) if policy.filters else deltas


def astreamed_reply(effect: CallModel, perform: AsyncPerform) -> AsyncGenerator[object, None]:
    """Yield what a stream shows of a reply; after filters, the complete reply comes last."""
    policy = effect.policy
    is_plain = not policy.checks and policy.early is None
    deltas = _adeltas(effect) if is_plain else aparallel_deltas(effect, perform)
    return _afiltered(deltas, effect, perform) if policy.filters else deltas


def _deltas(effect: CallModel) -> Generator[ReplyDelta, None, ChatReply]:
    """Yield the parts of a model's streamed reply as they arrive, and return the complete reply.

    Raises ModelTimeoutError after the deadline of the request.
    """
    reply = None
    request = effect.request
    deltas = effect.model.stream(request)
    try:
        for delta in deltas:
            reply = delta.reply
            try:
                yield delta
            except ServiceOutputError as error:
                _read_usage(error, effect, reply, iter(deltas))
                raise
            # A blocking read cannot be interrupted here; the timeout of the request ends it.
            if reply is None and _is_late(request):
                raise _timeout(effect)
    finally:
        # A model may return a plain iterator, which has no such method.
        close = getattr(deltas, "close", None)
        if close is not None:
            close()
    return whole_reply(reply, effect)


async def _adeltas(effect: CallModel) -> AsyncGenerator[ReplyDelta, None]:
    """Asynchronously yield the parts of a model's streamed reply; the last part has the complete reply.

    Raises ModelTimeoutError at the deadline of the request.
    """
    deltas = effect.model.astream(effect.request)
    try:
        while (delta := await before_deadline(anext(deltas, None), effect)) is not None:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


def _is_late(request: ChatRequest) -> bool:
    """Return True after the deadline of a request, which moves while the request waits for its turn."""
    if request.deadline is None:
        return False
    waited = 0.0 if request.waiting is None else request.waiting.seconds
    return time.monotonic() > request.deadline + waited


async def before_deadline(awaitable: Awaitable[T], effect: CallModel) -> T:
    """Await a model's reply, or raise ModelTimeoutError when the request's deadline passes."""
    if effect.request.deadline is None:
        return await awaitable
    limit = TimeLimit(effect.request.deadline, effect.request.waiting)
    try:
        async with limit:
            return await awaitable
    except TimeoutError as error:
        if not limit.expired:  # the model raised the TimeoutError, not this deadline
            raise
        raise _timeout(effect) from error


def _timeout(effect: CallModel) -> ModelTimeoutError:
    message = f"{effect.model.name}: the reply was not complete when the time of the call ran out"
    return ModelTimeoutError(message, retryable=True)


def whole_reply(reply: ChatReply | None, effect: CallModel) -> ChatReply:
    if reply is None:
        raise InvalidReplyError(f"the stream of {effect.model.name} ended before the reply was complete")
    return reply


def parallel_deltas(effect: CallModel, perform: Perform) -> Generator[Any, None, ChatReply]:
    """Stream a reply that is read in a thread; checks and early flows run at the same time.

    The deltas are buffered until all checks, such as guardrails, have passed; ReplyBlocked is raised when one
    fails. If the thread is still reading then, it closes the stream after the next delta. The events of early
    flows are yielded between the deltas.
    """
    from queue import SimpleQueue  # few streams have checks

    deltas, policy = _deltas(effect), effect.policy
    early = policy.early
    arrived: SimpleQueue[object] = SimpleQueue()  # deltas, and the effects of early flows that are done
    has_ended = threading.Event()

    def read() -> ChatReply | None:
        while not has_ended.is_set():
            try:
                arrived.put(next(deltas))
            except StopIteration as stop:
                reply: ChatReply = stop.value
                return reply
        return None

    def start(effect: Effect) -> Future[Outcome]:
        future = _start_thread(partial(perform, effect))
        future.add_done_callback(arrived.put)
        return future

    reading = _start_thread(read)
    reading.add_done_callback(lambda _: arrived.put(_END))
    try:
        if policy.checks and not all(perform(Gather(policy.checks))):
            raise ReplyBlocked(_reply_so_far(reading))
        if early is None:
            has_ended.set()  # this thread can read the rest
        while (item := arrived.get()) is not _END:
            if policy.streamed and isinstance(item, ReplyDelta):
                try:
                    yield item
                except ServiceOutputError as error:
                    rest = chain(iter(arrived.get, _END), deltas)
                    deltas_left = (one for one in rest if isinstance(one, ReplyDelta))
                    _read_usage(error, effect, item.reply, deltas_left)
                    raise
            if early is not None:
                yield from early.after(item, start)
        reply = reading.result()
        return (yield from deltas) if reply is None else reply
    except BaseException:
        if early is not None:
            early.running.close()
        raise
    finally:
        has_ended.set()
        # A generator that runs in another thread cannot be closed, so close it when the thread is done.
        reading.add_done_callback(lambda _: deltas.close())


async def aparallel_deltas(effect: CallModel, perform: AsyncPerform) -> AsyncGenerator[Any, None]:
    """Stream a reply while checks and early flows run; async version of ``parallel_deltas``."""
    import asyncio

    deltas, policy = _adeltas(effect), effect.policy
    early = policy.early
    arrived: asyncio.Queue[object] = asyncio.Queue()

    # One task reads the whole stream, because some streams must be read and closed by the same task.
    async def read() -> ChatReply | None:
        reply = None
        async with aclosing(deltas):
            async for delta in deltas:
                reply = delta.reply
                arrived.put_nowait(delta)
        return reply

    def start(effect: Effect) -> asyncio.Task[Outcome]:
        task = asyncio.ensure_future(perform(effect))
        task.add_done_callback(arrived.put_nowait)
        return task

    try:
        async with _task(read()) as reading:
            reading.add_done_callback(lambda _: arrived.put_nowait(_END))
            if policy.checks and not all(await perform(Gather(policy.checks))):
                raise ReplyBlocked(_reply_so_far(reading))
            while (item := await arrived.get()) is not _END:
                if isinstance(item, ReplyDelta):
                    yield item
                if early is not None and not early.running.is_closed:
                    for event in early.after(item, start):
                        yield event
            await reading
    except BaseException:
        if early is not None:
            await early.running.aclose()
        raise


async def areply_with_early_flows(effect: CallModel, perform: AsyncPerform) -> ChatReply:
    """Send a request whose tools may start early, and return the complete reply; nothing is streamed."""
    reply = None
    async with aclosing(aparallel_deltas(effect, perform)) as items:
        async for item in items:
            if isinstance(item, ReplyDelta):
                reply = item.reply
    return whole_reply(reply, effect)


async def checked_reply(effect: CallModel, perform: AsyncPerform) -> ChatReply:
    """Return a model's reply when all checks have passed; cancel the request if a check fails.

    Raises ReplyBlocked if a check fails.
    """
    request = before_deadline(effect.model.acomplete(effect.request), effect)
    async with _task(request) as reading:
        if not all(await perform(Gather(effect.checks))):
            raise ReplyBlocked(_reply_so_far(reading))
        return await reading


def _start_thread(work: Callable[[], T]) -> Future[T]:
    """Start a function in a daemon thread, and return a Future for its result."""
    from concurrent.futures import Future

    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run_work() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run_work,), daemon=True).start()
    return future


@asynccontextmanager
async def _task(work: Awaitable[T]) -> AsyncIterator[asyncio.Task[T]]:
    """Context manager that runs a coroutine as a task, and cancels the task at the end of the block."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(0)  # let it start, even if the checks have a verdict at once
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _reply_so_far(reading: Future[ChatReply | None] | asyncio.Task[ChatReply | None]) -> ChatReply | None:
    """Return a model's reply if it has already arrived completely, else None."""
    failed = not reading.done() or reading.cancelled() or reading.exception() is not None
    return None if failed else reading.result()


class _Show(NamedTuple):
    """An effect of stream filters only: show a delta."""

    delta: ReplyDelta


class _FilterChain:
    """Passes the deltas of one reply through its stream filters."""

    def __init__(self, filters: tuple[StreamFilter, ...]) -> None:
        self._filters = filters
        self._texts: list[list[str]] = [[] for _ in filters]  # what each filter has received

    def flow(self, delta: ReplyDelta, index: int = 0) -> Flow[None]:
        """Pass a delta to the filter at ``index`` and those after it; yield a _Show for what is left.

        Raises ReplyStopped if a filter raises an error.
        """
        if index == len(self._filters):
            yield _Show(delta)  # type: ignore[misc]  # only _filtered and _afiltered run this flow
            return
        texts = self._texts[index]
        texts.append(delta.text)
        flows = self._filters[index](delta)
        while True:
            visible = None
            try:
                for flow in flows:
                    if (visible := (yield from flow)) is not None:
                        break
            except Exception as error:
                reply = ChatReply(AiMessage("".join(texts)), FinishReason.OTHER)
                raise ReplyStopped(error, reply) from error
            if visible is None:
                return
            yield from self.flow(visible, index + 1)


def _filtered(
    source: Generator[ReplyDelta, None, ChatReply], effect: CallModel, perform: Perform
) -> Generator[ReplyDelta, None, ChatReply]:
    """Yield the parts of a streamed reply after a request's stream filters; return the unfiltered reply."""
    filters = _FilterChain(effect.policy.filters)
    with closing(source):
        while True:
            try:
                delta = next(source)
            except StopIteration as stop:
                reply: ChatReply = stop.value
                return reply
            try:
                yield from _visible_deltas(filters.flow(delta), perform)
            except ReplyStopped as stopped:
                _read_usage(stopped, effect, delta.reply, source)
                raise


def _visible_deltas(flow: Flow[None], perform: Perform) -> Generator[ReplyDelta, None, None]:
    step: Callable[[Outcome], Effect | _Show] = flow.send
    outcome: Outcome = None
    with closing(flow):
        while True:
            try:
                one = step(outcome)
            except StopIteration:
                return
            outcome, step = None, flow.send
            if isinstance(one, _Show):
                yield one.delta
                continue
            try:
                outcome = perform(one)
            except BaseException as error:
                outcome, step = error, flow.throw


async def _afiltered(
    source: AsyncGenerator[ReplyDelta, None], effect: CallModel, perform: AsyncPerform
) -> AsyncGenerator[ReplyDelta | ChatReply, None]:
    """Yield the parts of a streamed reply after a request's stream filters, and the unfiltered reply last."""
    filters = _FilterChain(effect.policy.filters)
    reply = None
    async with aclosing(source):
        async for delta in source:
            reply = delta.reply
            try:
                async with aclosing(_avisible_deltas(filters.flow(delta), perform)) as deltas:
                    async for visible in deltas:
                        yield visible
            except ReplyStopped as stopped:
                await _aread_usage(stopped, effect, delta.reply, source)
                raise
    if reply is not None:
        yield reply


async def _avisible_deltas(flow: Flow[None], perform: AsyncPerform) -> AsyncGenerator[ReplyDelta, None]:
    step: Callable[[Outcome], Effect | _Show] = flow.send
    outcome: Outcome = None
    with closing(flow):
        while True:
            try:
                one = step(outcome)
            except StopIteration:
                return
            outcome, step = None, flow.send
            if isinstance(one, _Show):
                yield one.delta
                continue
            try:
                outcome = await perform(one)
            except BaseException as error:
                outcome, step = error, flow.throw


def _read_usage(
    error: ServiceOutputError | ReplyStopped,
    effect: CallModel,
    reply: ChatReply | None,
    rest: Iterator[ReplyDelta],
) -> None:
    """Read the rest of a failed streamed reply, within limits, and add its token usage to the error."""
    try:
        while reply is None and _may_read_on(error, effect):
            delta = next(rest)
            reply = delta.reply
            error.discarded_characters += _length(delta)
    except (ModelError, StopIteration):
        pass
    _add_usage(error, reply)


async def _aread_usage(
    error: ServiceOutputError | ReplyStopped,
    effect: CallModel,
    reply: ChatReply | None,
    rest: AsyncGenerator[ReplyDelta, None],
) -> None:
    """Read the rest of a failed reply, and add its token usage to the error; async version."""
    try:
        while reply is None and _may_read_on(error, effect):
            delta = await anext(rest)
            reply = delta.reply
            error.discarded_characters += _length(delta)
    except (ModelError, StopAsyncIteration):
        pass
    _add_usage(error, reply)


async def abandon_reply(
    error: ServiceOutputError, effect: CallModel, reply: ChatReply | None, parts: AsyncGenerator[Any, None]
) -> None:
    """Stop the early flows of a reply with an invalid item, and read the rest for its token usage."""
    if effect.policy.early is not None:
        await effect.policy.early.running.aclose()
    if not effect.policy.filters:
        await _aread_usage(error, effect, reply, parts)


def _may_read_on(error: ServiceOutputError | ReplyStopped, effect: CallModel) -> bool:
    may_cost_more = effect.policy.counts_usage and error.discarded_characters < _MAX_DISCARDED
    return may_cost_more and not _is_late(effect.request)


def _length(delta: ReplyDelta) -> int:
    arguments = sum([len(call.arguments) for call in delta.tool_calls])
    return max(_MIN_PER_PIECE, len(delta.text) + len(delta.reasoning) + arguments)


def _add_usage(error: ServiceOutputError | ReplyStopped, reply: ChatReply | None) -> None:
    if reply is not None and error.reply is not None:
        error.reply = replace(error.reply, usage=reply.usage, model=reply.model, id=reply.id)
