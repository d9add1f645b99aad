"""Functions that change the effects of a flow on their way to the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ..models.messages import ReplyDelta
from ..models.requests import WaitingTime
from .effects import CallModel, EarlyFlows, Effect, Flow, Gather, GatherFlows, Outcome, Run, StreamFilter

T = TypeVar("T")
_GRACE = 0.2  # seconds, for functions that start after the deadline of the call


def map_effects(flow: Flow[T], perform: Callable[[Effect], Flow[Outcome]]) -> Flow[T]:
    """Run a generator of effects, such as model requests, and call ``perform`` to execute each of them.

    ``perform`` returns a flow, too, so that it can yield effects. Errors that it raises are thrown into the
    inner flow. The steps of flows in a GatherFlows are performed in the same way.
    """
    step: Callable[[Outcome], Effect] = flow.send
    outcome: Outcome = None
    with closing(flow):
        while True:
            try:
                effect = step(outcome)
            except StopIteration as stop:
                value: T = stop.value
                return value
            if type(effect) in (GatherFlows, CallModel, Gather):
                effect = _with_mapped_flows(effect, perform)
            try:
                outcome, step = (yield from perform(effect)), flow.send
            except GeneratorExit:
                raise
            except BaseException as error:
                outcome, step = error, flow.throw


def _with_mapped_flows(effect: Effect, perform: Callable[[Effect], Flow[Outcome]]) -> Effect:
    """Return a copy of an effect whose nested flows also execute their effects with ``perform``."""
    if type(effect) is GatherFlows:
        return effect._replace(flows=tuple([map_effects(one, perform) for one in effect.flows]))
    if type(effect) is Gather:
        if any(type(one) is CallModel for one in effect.effects):
            effects: list[Any] = [_with_mapped_flows(one, perform) for one in effect.effects]
            effect = effect._replace(effects=tuple(effects))
    elif type(effect) is CallModel:
        policy = effect.policy
        if policy.filters:
            filters = [partial(_mapped_filter, one, perform) for one in policy.filters]
            effect = effect._replace(filters=tuple(filters))
        if policy.early is not None:
            start = partial(_mapped_starts, policy.early.start, perform)
            effect = effect._replace(early=EarlyFlows(start, policy.early.running))
    return effect


def _mapped_starts(
    start: Callable[[ReplyDelta], list[Flow[object]]],
    perform: Callable[[Effect], Flow[Outcome]],
    delta: ReplyDelta,
) -> list[Flow[object]]:
    return [map_effects(flow, perform) for flow in start(delta)]


def _mapped_filter(
    stream_filter: StreamFilter, perform: Callable[[Effect], Flow[Outcome]], delta: ReplyDelta
) -> Iterator[Flow[ReplyDelta | None]]:
    for flow in stream_filter(delta):
        yield map_effects(flow, perform)


def with_deadline(
    flow: Flow[T],
    deadline: Callable[[], float],
    waiting: WaitingTime | None,
    expired: Callable[[], Exception],
) -> Flow[T]:
    """Run a service call until a deadline; then raise an error, even if a function is still running.

    An async call stops waiting for the function. A blocking call cannot interrupt the function, and raises
    the error when the function returns. A function that starts after the deadline, such as a cleanup
    function, has ``_GRACE`` seconds. The deadline moves by the time that requests wait for their turn.
    """

    def limited(effect: Run, end: float) -> Run:
        return replace(effect, deadline=end, waiting=waiting) if effect.deadline is None else effect

    def perform(effect: Effect) -> Flow[Outcome]:
        if not isinstance(effect, (Run, Gather, CallModel)):
            return (yield effect)  # to the driver, or an outer map_effects
        end = deadline()
        is_late = time.monotonic() >= end
        if is_late:
            end = time.monotonic() + _GRACE
        if isinstance(effect, Run):
            effect = limited(effect, end)
        elif isinstance(effect, Gather):
            effects = [limited(one, end) if isinstance(one, Run) else one for one in effect.effects]
            effect = effect._replace(effects=tuple(effects))
        elif effect.checks:
            effect = effect._replace(checks=tuple([limited(check, end) for check in effect.checks]))
        try:
            outcome = yield effect
        except TimeoutError as error:
            if time.monotonic() < end:  # not the deadline, but a TimeoutError of the function
                raise
            raise expired() from error
        is_limited = isinstance(effect, Run) and effect.deadline == end and not is_late
        if is_limited and time.monotonic() >= deadline():
            raise expired()
        return outcome

    return map_effects(flow, perform)


def without_streaming(effect: Effect) -> Flow[Outcome]:
    """Execute a step of a service call, but do not stream the model's reply to the user."""
    return (yield effect._replace(streamed=False) if isinstance(effect, CallModel) else effect)


def hold_back(flow: Flow[T]) -> Flow[T]:
    """Run a service call without streaming; the user receives nothing until the call succeeds."""
    return map_effects(flow, without_streaming)
