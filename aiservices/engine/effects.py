"""The pipeline as a generator that yields what it needs, and the four drivers that fulfil it.

A flow does no input or output of its own. It yields a need and is sent the outcome, or has the error
thrown into it. So everything above the drivers is written once for blocking, async and streaming calls.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, asynccontextmanager, closing
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ..models.base import ChatModel
from ..models.errors import InvalidReplyError, ModelTimeoutError
from ..models.messages import ChatReply, ReplyDelta
from ..models.requests import ChatRequest

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


def streamed(need: CallModel) -> Generator[ReplyDelta, None, ChatReply]:
    """The pieces of a reply, and at the end the whole. Raises ModelTimeoutError after the deadline."""
    reply = None
    deltas = need.model.stream(need.request)
    try:
        for delta in deltas:
            reply = delta.reply
            yield delta
            if reply is None:
                _check_time(need)
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()
    return whole(reply, need)


async def astreamed(need: CallModel) -> AsyncGenerator[ReplyDelta, None]:
    """The pieces of a reply; the last one should have the whole. Raises ModelTimeoutError at the deadline."""
    deltas = need.model.astream(need.request)
    try:
        while (delta := await in_time(anext(deltas, None), need)) is not None:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


async def in_time(awaited: Awaitable[T], need: CallModel) -> T:
    """What is awaited, or ModelTimeoutError when the deadline of the request comes first."""
    if need.request.deadline is None:
        return await awaited
    import asyncio

    limit = asyncio.timeout(need.request.deadline - time.monotonic())
    try:
        async with limit:
            return await awaited
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _too_late(need) from error


def whole(reply: ChatReply | None, need: CallModel) -> ChatReply:
    """The reply that the last delta of a stream carried."""
    if reply is None:
        raise InvalidReplyError(f"the stream of {need.model.name} ended without the whole reply")
    return reply


def _check_time(need: CallModel) -> None:
    if need.request.deadline is not None and time.monotonic() > need.request.deadline:
        raise _too_late(need)


def _too_late(need: CallModel) -> ModelTimeoutError:
    said = f"{need.model.name}: the answer was not whole when the time for it was over"
    return ModelTimeoutError(said, retryable=True)


_END: Any = object()


class ReplyBlocked(Exception):
    """A reply may not be shown; ``reply`` is the whole of it, None where the request was ended before."""

    def __init__(self, reply: ChatReply | None) -> None:
        super().__init__("the reply may not be shown")
        self.reply = reply


def stream_gated(
    deltas: Generator[ReplyDelta, None, ChatReply], opens: Callable[[], bool]
) -> Generator[ReplyDelta, None, ChatReply]:
    """The pieces of a reply, once ``opens`` has said yes; until then a thread reads and holds them.

    Raises Withheld at once where it says no. What is left while the thread reads it is closed by the thread,
    when the next piece has come.
    """
    from queue import SimpleQueue  # few streams are held

    held: SimpleQueue[ReplyDelta] = SimpleQueue()
    decided = threading.Event()

    def read() -> ChatReply | None:
        while not decided.is_set():
            try:
                held.put(next(deltas))
            except StopIteration as stop:
                whole: ChatReply = stop.value
                return whole
        return None

    reading = _begun(read)
    reading.add_done_callback(lambda _: held.put(_END))
    try:
        if not opens():
            raise ReplyBlocked(_come_of(reading))
        decided.set()
        while (delta := held.get()) is not _END:
            yield delta
        reply = reading.result()
        return (yield from deltas) if reply is None else reply
    finally:
        decided.set()
        reading.add_done_callback(lambda _: deltas.close())


async def astream_gated(
    deltas: AsyncGenerator[ReplyDelta, None], opens: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[ReplyDelta, None]:
    """As ``stream_gated``; one task reads it all, since some streams bear no other, and ends with this."""
    import asyncio  # a third of the cost of importing this package, and blocking calls do without

    held: asyncio.Queue[ReplyDelta] = asyncio.Queue()

    async def read() -> ChatReply | None:
        reply = None
        async with aclosing(deltas):
            async for delta in deltas:
                reply = delta.reply
                held.put_nowait(delta)
        return reply

    async with _abegun(read()) as reading:
        reading.add_done_callback(lambda _: held.put_nowait(_END))
        if not await opens():
            raise ReplyBlocked(_come_of(reading))
        while (delta := await held.get()) is not _END:
            yield delta
        await reading


async def agated(
    answering: Coroutine[Any, Any, ChatReply], opens: Callable[[], Awaitable[bool]]
) -> ChatReply:
    """A whole reply, once ``opens`` has said yes. Raises Withheld, and ends the request, where it says no."""
    async with _abegun(answering) as reading:
        if not await opens():
            raise ReplyBlocked(_come_of(reading))
        return await reading


def _begun(work: Callable[[], T]) -> Future[T]:
    """Work that is under way in a thread, which no program waits for at its end."""
    from concurrent.futures import Future

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return future


@asynccontextmanager
async def _abegun(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Work that is under way in a task, which ends with the block."""
    import asyncio

    task = asyncio.ensure_future(work)
    try:
        await asyncio.sleep(0)  # it has begun, even where the verdict comes at once
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _come_of(reading: Future[ChatReply | None] | asyncio.Task[Any]) -> ChatReply | None:
    """The reply, where it is whole by now."""
    failed = not reading.done() or reading.cancelled() or reading.exception() is not None
    return None if failed else reading.result()


class Run(NamedTuple):
    """Call a function without arguments; the outcome is what it returns. It may be async in async calls.

    ``in_thread``: one that blocks is not to block an event loop.
    """

    function: Callable[[], Any | Awaitable[Any]]
    in_thread: bool = False


class CallModel(NamedTuple):
    """Put a request to a model; the outcome is its ChatReply.

    ``gates`` run beside it, and return whether the reply may be shown: a stream holds what comes before all
    have said yes. Where one says no, Withheld is raised and the request ended, but for a call that blocks,
    which has to wait for the whole reply.
    """

    model: ChatModel
    request: ChatRequest
    gates: tuple[Run, ...] = ()


class Gather(NamedTuple):
    """Fulfil several needs side by side; the outcome is the list of theirs, in the same order.

    ``at_once`` bounds how many run at one time.
    """

    needs: tuple[CallModel | Run, ...]
    at_once: int | None = None


class Emit(NamedTuple):
    """Hand an event to the caller of a stream, and to the listeners of the service. The outcome is None.

    Not ``shown``: it is for listeners alone, since a stream tells the same in another way.
    """

    event: Any
    shown: bool = True


class Sleep(NamedTuple):
    """Wait for some seconds; the outcome is None."""

    seconds: float


Effect: TypeAlias = CallModel | Run | Gather | Emit | Sleep
Flow: TypeAlias = Generator[Effect, Any, T]


def run(flow: Flow[T]) -> T:
    """Drive a flow to its end in this thread."""
    step: Callable[[Any], Effect] = flow.send
    outcome: Any = None
    try:
        while True:
            need = step(outcome)
            try:
                outcome, step = _fulfil(need), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value


async def arun(flow: Flow[T]) -> T:
    """Drive a flow to its end in the running event loop."""
    step: Callable[[Any], Effect] = flow.send
    outcome: Any = None
    try:
        while True:
            need = step(outcome)
            try:
                outcome, step = await _afulfil(need), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value


def stream(flow: Flow[Any]) -> Generator[Any, None, None]:
    """Drive a flow and yield its events: each piece that a model writes, and what is emitted."""
    step: Callable[[Any], Effect] = flow.send
    outcome: Any = None
    with closing(flow):
        try:
            while True:
                need = step(outcome)
                try:
                    if isinstance(need, Emit):
                        if need.shown:
                            yield need.event
                        outcome, step = None, flow.send
                    elif isinstance(need, CallModel):
                        outcome = yield from _streamed(need)
                        step = flow.send
                    else:
                        outcome, step = _fulfil(need), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    outcome, step = error, flow.throw
        except StopIteration:
            return


async def astream(flow: Flow[Any]) -> AsyncGenerator[Any, None]:
    """As ``stream``, in the running event loop."""
    step: Callable[[Any], Effect] = flow.send
    outcome: Any = None
    with closing(flow):
        try:
            while True:
                need = step(outcome)
                try:
                    if isinstance(need, Emit):
                        if need.shown:
                            yield need.event
                        outcome, step = None, flow.send
                    elif isinstance(need, CallModel):
                        outcome = None
                        async with aclosing(_astreamed(need)) as deltas:
                            async for delta in deltas:
                                outcome = delta.reply
                                yield delta
                        outcome, step = whole(outcome, need), flow.send
                    else:
                        outcome, step = await _afulfil(need), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    outcome, step = error, flow.throw
        except StopIteration:
            return


def _fulfil(need: Effect) -> Any:
    match need:
        case CallModel(model, request, gates):
            if not gates:
                return model.complete(request)
            reply, *said = _fulfil(Gather((CallModel(model, request), *gates)))
            if not all(said):
                raise ReplyBlocked(reply)
            return reply
        case Run(function):
            outcome = function()
            if outcome is not None and inspect.isawaitable(outcome):
                if inspect.iscoroutine(outcome):
                    outcome.close()
                raise TypeError(
                    f"{_name(function)} is async and cannot run in a blocking call: use async def"
                )
            return outcome
        case Gather(needs, at_once):
            if len(needs) < 2 or at_once == 1:
                return [_fulfil(one) for one in needs]
            from concurrent.futures import ThreadPoolExecutor  # not all calls need threads

            with ThreadPoolExecutor(min(len(needs), at_once or len(needs))) as pool:
                runs = [pool.submit(copy_context().run, _fulfil, one) for one in needs]
                return [run.result() for run in runs]
        case Sleep(seconds):
            time.sleep(seconds)
        case Emit():
            pass
    return None


async def _afulfil(need: Effect) -> Any:
    import asyncio  # a third of the cost of importing this package, and blocking calls do without

    match need:
        case CallModel(model, request, gates):
            answering = in_time(model.acomplete(request), need)
            return await (agated(answering, partial(_aopen, gates)) if gates else answering)
        case Run(function, in_thread):
            outcome = await asyncio.to_thread(function) if in_thread else function()
            return await outcome if inspect.isawaitable(outcome) else outcome
        case Gather(needs, at_once):
            room = asyncio.Semaphore(at_once or len(needs) or 1)
            tasks = [asyncio.ensure_future(_in_turn(one, room)) for one in needs]
            try:
                return await asyncio.gather(*tasks)
            except BaseException:  # where one failed, the others are not wanted any more
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        case Sleep(seconds):
            await asyncio.sleep(seconds)
        case Emit():
            pass
    return None


async def _in_turn(need: Effect, room: asyncio.Semaphore) -> Any:
    async with room:
        return await _afulfil(need)


def _streamed(need: CallModel) -> Generator[ReplyDelta, None, ChatReply]:
    deltas = streamed(need)
    return stream_gated(deltas, lambda: all(_fulfil(Gather(need.gates)))) if need.gates else deltas


def _astreamed(need: CallModel) -> AsyncGenerator[ReplyDelta, None]:
    deltas = astreamed(need)
    return astream_gated(deltas, partial(_aopen, need.gates)) if need.gates else deltas


async def _aopen(gates: tuple[Run, ...]) -> bool:
    return all(await _afulfil(Gather(gates)))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def through(flow: Flow[T], fulfil: Callable[[Effect], Flow[Any]]) -> Flow[T]:
    """The same flow, of which ``fulfil`` gives the outcome of each need; it is closed with this one."""
    step: Callable[[Any], Effect] = flow.send
    outcome: Any = None
    with closing(flow):
        while True:
            try:
                need = step(outcome)
            except StopIteration as stop:
                value: T = stop.value
                return value
            try:
                outcome, step = (yield from fulfil(need)), flow.send
            except GeneratorExit:
                raise
            except BaseException as error:
                outcome, step = error, flow.throw


def held(flow: Flow[T]) -> Flow[T]:
    """A flow of which a stream shows nothing that a model writes: it is asked for its reply as a whole."""
    return through(flow, asked_as_a_whole)


def asked_as_a_whole(need: Effect) -> Flow[Any]:
    """The outcome of a need; among needs that are fulfilled side by side, a model does not stream."""
    if isinstance(need, CallModel):
        (reply,) = yield Gather((need,))
        return reply
    return (yield need)
