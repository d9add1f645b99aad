"""The drivers, which perform the effects that a flow yields.

``run`` and ``arun`` return the result of a flow; ``stream`` and ``astream`` yield the deltas of replies and
the events that the flow emits.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import ExitStack, aclosing, closing
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from ..models.errors import AiServiceError, ServiceOutputError, hide_library_frames
from ..models.messages import ChatReply, ReplyDelta
from .effects import (
    CallModel,
    Effect,
    Emit,
    Flow,
    Gather,
    GatherFlows,
    Outcome,
    ReplyBlocked,
    Run,
    RunningFlows,
    Sleep,
)
from .reply_streams import (
    abandon_reply,
    areply_with_early_flows,
    astreamed_reply,
    before_deadline,
    checked_reply,
    parallel_deltas,
    streamed_reply,
    whole_reply,
)
from .time_limit import TimeLimit

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

T = TypeVar("T")


def run(flow: Flow[T]) -> T:
    """Run a service call, executing each step that its generator yields, and return the result."""
    # The next step either sends an outcome into the generator, or throws an error into it.
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    try:
        while True:
            effect = step(outcome)
            try:
                outcome, step = _perform(effect), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AiServiceError as error:
        hide_library_frames(error)
        raise


async def arun(flow: Flow[T]) -> T:
    """Run a service call asynchronously, executing each step that its generator yields; return the result."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    try:
        while True:
            effect = step(outcome)
            try:
                outcome, step = await _aperform(effect), flow.send
            except BaseException as error:
                outcome, step = error, flow.throw
    except StopIteration as stop:
        value: T = stop.value
        return value
    except AiServiceError as error:
        hide_library_frames(error)
        raise


def stream(flow: Flow[Outcome]) -> Generator[object, None, None]:
    """Run a service call, and yield its events and the streamed text of the reply."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    is_cancelled = False
    # When the user closes the stream, the cleanup code of the flow must run at once.
    with closing(flow):
        try:
            while True:
                effect = step(outcome)
                try:
                    if isinstance(effect, Emit):
                        # The reader of a cancelled call must get the cancellation, and no more events.
                        if effect.streamed and not is_cancelled:
                            yield effect.event
                        outcome, step = None, flow.send
                    elif type(effect) is CallModel and (effect.policy.streamed or effect.policy.early):
                        outcome, step = (yield from streamed_reply(effect, _perform)), flow.send
                    elif isinstance(effect, GatherFlows):
                        outcome, step = (yield from _gather_flows(effect)), flow.send
                    else:
                        outcome, step = _perform(effect), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    is_cancelled = is_cancelled or not isinstance(error, Exception)
                    outcome, step = error, flow.throw
        except StopIteration:
            return


async def astream(flow: Flow[Outcome]) -> AsyncGenerator[object, None]:
    """Run a service call in an event loop, and yield its events and the streamed text of the reply."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    is_cancelled = False
    with closing(flow):
        try:
            while True:
                effect = step(outcome)
                try:
                    if isinstance(effect, Emit):
                        # The reader of a cancelled call must get the cancellation, and no more events.
                        if effect.streamed and not is_cancelled:
                            yield effect.event
                        outcome, step = None, flow.send
                    elif type(effect) is CallModel and (effect.policy.streamed or effect.policy.early):
                        outcome = None
                        async with aclosing(astreamed_reply(effect, _aperform)) as parts:
                            async for part in parts:
                                if isinstance(part, ReplyDelta):
                                    outcome = part.reply
                                    if not effect.policy.streamed:
                                        continue
                                elif isinstance(part, ChatReply):  # the whole reply, after filters
                                    outcome = part
                                    continue
                                try:
                                    yield part  # a delta, or an event of an early flow
                                except ServiceOutputError as error:
                                    await abandon_reply(error, effect, outcome, parts)
                                    raise
                        outcome, step = whole_reply(outcome, effect), flow.send
                    elif isinstance(effect, GatherFlows):
                        running = effect.running or RunningFlows()
                        async with aclosing(_agather_flows(effect, running)) as events:
                            async for event in events:
                                yield event
                        outcome, step = running.outcomes, flow.send
                    else:
                        outcome, step = await _aperform(effect), flow.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    is_cancelled = is_cancelled or not isinstance(error, Exception)
                    outcome, step = error, flow.throw
        except StopIteration:
            return


def _perform(effect: Effect) -> Outcome:
    match effect:
        case CallModel(model, request, policy):
            if policy.early is not None:
                return _last_value(parallel_deltas(effect, _perform))
            if not policy.checks:
                return model.complete(request)
            reply, *verdicts = _perform(Gather((CallModel(model, request), *policy.checks)))
            if not all(verdicts):
                raise ReplyBlocked(reply)
            return reply
        case Run(function):
            if effect.in_background:
                from .background_loop import run_in_background  # few blocking calls have async parts

                return run_in_background(_aperform(effect))
            outcome = function()
            if outcome is not None and inspect.isawaitable(outcome):
                if inspect.iscoroutine(outcome):
                    outcome.close()
                name = getattr(function, "__qualname__", repr(function))
                raise TypeError(f"{name} is async and cannot run in a blocking call: use async def")
            return outcome
        case Gather(effects, max_concurrency):
            return _gather(effects, min(len(effects), max_concurrency or len(effects)))
        case GatherFlows():
            return _last_value(_gather_flows(effect))
        case Sleep(seconds):
            time.sleep(seconds)
        case Emit():
            pass
        case _:
            raise _not_an_effect(effect)
    return None


def _gather(effects: Sequence[CallModel | Run], max_concurrency: int) -> list[Outcome]:
    if max_concurrency <= 1:
        return [_perform(one) for one in effects]
    from concurrent.futures import ThreadPoolExecutor  # few calls need threads

    with ThreadPoolExecutor(max_concurrency) as pool:
        # Each effect sees the context variables of the caller, such as the current span.
        futures = [pool.submit(copy_context().run, _perform, one) for one in effects]
        return [future.result() for future in futures]


def _not_an_effect(value: object) -> TypeError:
    return TypeError(
        f"an interceptor yielded a value of the type {type(value).__name__}; "
        "it must yield effects: CallModel, Run, Gather, GatherFlows, Emit or Sleep"
    )


def _last_value(events: Generator[object, None, T]) -> T:
    """Run a generator to its end, discard what it yields, and return its return value."""
    try:
        while True:
            next(events)
    except StopIteration as stop:
        value: T = stop.value
        return value


def _gather_flows(effect: GatherFlows) -> Generator[object, None, list[Outcome]]:
    """Run several flows at the same time; yield their events, and return their results in order.

    The flows themselves run here, one step after the other. Only their effects run in threads.
    """
    flows, outcomes = effect.flows, list[Outcome]()
    with ExitStack() as stack:
        for one in flows:
            stack.callback(one.close)
        if effect.running is None and min(effect.max_concurrency, len(flows)) <= 1:
            for one in flows:
                outcomes.append((yield from _flow_with_events(one)))
            return outcomes
        from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

        running = effect.running or RunningFlows()
        stack.callback(running.close)
        running.join()
        limit = min(effect.max_concurrency, len(flows) + len(running.effects)) or 1
        pool = stack.enter_context(ThreadPoolExecutor(limit))

        def perform(effect: Effect) -> Future[Outcome]:
            return pool.submit(copy_context().run, _perform, effect)

        waiting = list(reversed(flows))
        while waiting or running.effects:
            if waiting and len(running.effects) < limit:
                yield from running.start(waiting.pop(), perform)
            else:
                # in the order of the flows if several are done
                done = wait(running.effects, return_when=FIRST_COMPLETED).done
                yield from running.proceed(min(done, key=running.effects.__getitem__), perform)
        return running.outcomes


def _flow_with_events(flow: Flow[T]) -> Generator[object, None, T]:
    """Run a flow in this thread, waiting for complete replies; yield its events, and return its result."""
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    while True:
        try:
            effect = step(outcome)
        except StopIteration as stop:
            value: T = stop.value
            return value
        if isinstance(effect, Emit):
            if effect.streamed:
                yield effect.event
            outcome, step = None, flow.send
            continue
        try:
            outcome, step = _perform(effect), flow.send
        except BaseException as error:
            outcome, step = error, flow.throw


async def _aperform(effect: Effect) -> Outcome:
    import asyncio  # a third of the cost of importing this package, and blocking calls do not need it

    match effect:
        case CallModel(model, request, policy):
            if policy.early is not None:
                return await areply_with_early_flows(effect, _aperform)
            if policy.checks:
                return await checked_reply(effect, _aperform)
            return await before_deadline(model.acomplete(request), effect)
        case Run(deadline=deadline):
            if deadline is None or deadline == math.inf:
                return await _arun_function(effect)
            waiting = effect.waiting
            async with TimeLimit(deadline, waiting, 0.0 if waiting is None else waiting.seconds):
                return await _arun_function(effect)
        case Gather(effects, max_concurrency):
            return await _agather(effects, max_concurrency or len(effects) or 1)
        case GatherFlows():
            running = effect.running or RunningFlows()
            async with aclosing(_agather_flows(effect, running)) as events:
                async for _ in events:
                    pass
            return running.outcomes
        case Sleep(seconds):
            await asyncio.sleep(seconds)
        case Emit():
            pass
        case _:
            raise _not_an_effect(effect)
    return None


async def _agather(effects: Sequence[CallModel | Run], max_concurrency: int) -> list[Outcome]:
    import asyncio

    semaphore = asyncio.Semaphore(max_concurrency)
    tasks = [asyncio.ensure_future(_aperform_with(semaphore, one)) for one in effects]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:  # after one failure the outcomes of the others are not needed
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _agather_flows(effect: GatherFlows, running: RunningFlows) -> AsyncGenerator[object, None]:
    """Run flows at the same time in an event loop, and yield their events.

    If a flow raises an error, the effects of the others are cancelled.
    """
    import asyncio

    def perform(effect: Effect) -> asyncio.Task[Outcome]:
        return asyncio.ensure_future(_aperform(effect))

    waiting = list(reversed(effect.flows))
    try:
        running.join()
        while waiting or running.effects:
            if waiting and len(running.effects) < effect.max_concurrency:
                events = running.start(waiting.pop(), perform)
            else:
                done, _ = await asyncio.wait(running.effects, return_when=asyncio.FIRST_COMPLETED)
                events = running.proceed(min(done, key=running.effects.__getitem__), perform)
            for event in events:
                yield event
    finally:
        await running.aclose()
        for one in waiting:
            one.close()


async def _arun_function(effect: Run) -> Outcome:
    if effect.in_thread:
        import asyncio

        outcome = await asyncio.to_thread(effect.function)
    else:
        outcome = effect.function()
    return await outcome if inspect.isawaitable(outcome) else outcome


async def _aperform_with(semaphore: asyncio.Semaphore, effect: Effect) -> Outcome:
    async with semaphore:
        return await _aperform(effect)
