"""The pipeline as a generator that yields what it needs, and the four drivers that fulfil it.

A flow does no input or output of its own. It yields a need and is sent the outcome, or has the error
thrown into it. So everything above the drivers is written once for blocking, async and streaming calls.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, closing
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from .deltas import astreamed, in_time, streamed, whole
from .gates import Withheld, agated, astream_gated, stream_gated
from .messages import ChatReply, ReplyDelta
from .models.base import ChatModel
from .requests import ChatRequest

if TYPE_CHECKING:
    import asyncio

__all__ = ["All", "Ask", "Do", "Emit", "Flow", "Need", "Pause", "arun", "astream", "run", "stream"]

T = TypeVar("T")


class Do(NamedTuple):
    """Call a function without arguments; the outcome is what it returns. It may be async in async calls.

    ``in_thread``: one that blocks is not to block an event loop.
    """

    function: Callable[[], Any | Awaitable[Any]]
    in_thread: bool = False


class Ask(NamedTuple):
    """Put a request to a model; the outcome is its ChatReply.

    ``gates`` run beside it, and return whether the reply may be shown: a stream holds what comes before all
    have said yes. Where one says no, Withheld is raised and the request ended, but for a call that blocks,
    which has to wait for the whole reply.
    """

    model: ChatModel
    request: ChatRequest
    gates: tuple[Do, ...] = ()


class All(NamedTuple):
    """Fulfil several needs side by side; the outcome is the list of theirs, in the same order.

    ``at_once`` bounds how many run at one time.
    """

    needs: tuple[Ask | Do, ...]
    at_once: int | None = None


class Emit(NamedTuple):
    """Hand an event to the caller of a stream, and to the listeners of the service. The outcome is None.

    Not ``shown``: it is for listeners alone, since a stream tells the same in another way.
    """

    event: Any
    shown: bool = True


class Pause(NamedTuple):
    """Wait for some seconds; the outcome is None."""

    seconds: float


Need: TypeAlias = Ask | Do | All | Emit | Pause
Flow: TypeAlias = Generator[Need, Any, T]


def run(flow: Flow[T]) -> T:
    """Drive a flow to its end in this thread."""
    step: Callable[[Any], Need] = flow.send
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
    step: Callable[[Any], Need] = flow.send
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
    step: Callable[[Any], Need] = flow.send
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
                    elif isinstance(need, Ask):
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
    step: Callable[[Any], Need] = flow.send
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
                    elif isinstance(need, Ask):
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


def _fulfil(need: Need) -> Any:
    match need:
        case Ask(model, request, gates):
            if not gates:
                return model.complete(request)
            reply, *said = _fulfil(All((Ask(model, request), *gates)))
            if not all(said):
                raise Withheld(reply)
            return reply
        case Do(function):
            outcome = function()
            if outcome is not None and inspect.isawaitable(outcome):
                if inspect.iscoroutine(outcome):
                    outcome.close()
                raise TypeError(
                    f"{_name(function)} is async and cannot run in a blocking call: use async def"
                )
            return outcome
        case All(needs, at_once):
            if len(needs) < 2 or at_once == 1:
                return [_fulfil(one) for one in needs]
            from concurrent.futures import ThreadPoolExecutor  # not all calls need threads

            with ThreadPoolExecutor(min(len(needs), at_once or len(needs))) as pool:
                runs = [pool.submit(copy_context().run, _fulfil, one) for one in needs]
                return [run.result() for run in runs]
        case Pause(seconds):
            time.sleep(seconds)
        case Emit():
            pass
    return None


async def _afulfil(need: Need) -> Any:
    import asyncio  # a third of the cost of importing this package, and blocking calls do without

    match need:
        case Ask(model, request, gates):
            answering = in_time(model.acomplete(request), need)
            return await (agated(answering, partial(_aopen, gates)) if gates else answering)
        case Do(function, in_thread):
            outcome = await asyncio.to_thread(function) if in_thread else function()
            return await outcome if inspect.isawaitable(outcome) else outcome
        case All(needs, at_once):
            room = asyncio.Semaphore(at_once or len(needs) or 1)
            tasks = [asyncio.ensure_future(_in_turn(one, room)) for one in needs]
            try:
                return await asyncio.gather(*tasks)
            except BaseException:  # where one failed, the others are not wanted any more
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        case Pause(seconds):
            await asyncio.sleep(seconds)
        case Emit():
            pass
    return None


async def _in_turn(need: Need, room: asyncio.Semaphore) -> Any:
    async with room:
        return await _afulfil(need)


def _streamed(need: Ask) -> Generator[ReplyDelta, None, ChatReply]:
    deltas = streamed(need)
    return stream_gated(deltas, lambda: all(_fulfil(All(need.gates)))) if need.gates else deltas


def _astreamed(need: Ask) -> AsyncGenerator[ReplyDelta, None]:
    deltas = astreamed(need)
    return astream_gated(deltas, partial(_aopen, need.gates)) if need.gates else deltas


async def _aopen(gates: tuple[Do, ...]) -> bool:
    return all(await _afulfil(All(gates)))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
