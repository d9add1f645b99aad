"""What a call comes to, and what it takes: of a method of a service in every shape, or of a function."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..errors import Attempt, usage_of
from ..flow import Do, Flow
from ..messages import Usage
from ..methods import bound_of, is_planned
from ..returns import Result, Shape

__all__ = ["Spent", "spent_on", "waits", "where_of"]


class Spent(NamedTuple):
    """What a call came to, and what it took."""

    value: Any
    error: Exception | None
    attempts: int
    usage: Usage
    seconds: float


def spent_on(method: Callable[..., Any], arguments: Mapping[str, Any]) -> Flow[Spent]:
    """What a call gives and takes, be it of a service or a function.

    Of a function it is known what it took where it gives the Result of a service.
    """
    began, value, failed = time.monotonic(), None, None
    attempts: Sequence[Attempt] = ()
    try:
        if is_planned(method):
            bound = bound_of(method)
            turn = bound.plan.turn((), arguments, bound.budget)
            attempts = turn.context.attempts
            shape, awaited = bound.plan.returns.shape, bound.plan.returns.asynchronous
            value = yield Do(partial(bound.begin, turn), in_thread=not awaited)
            value = yield Do(partial(_awhole if awaited else _whole, value, shape), in_thread=not awaited)
        else:
            value = yield Do(partial(method, **arguments), in_thread=not waits(method))
            if isinstance(value, Result):  # of a service that it asks
                attempts, value = value.attempts, value.value
    except Exception as error:
        failed = error
    seconds = time.monotonic() - began
    return Spent(value, failed, len(attempts), usage_of(attempts) or Usage(), seconds)


def _whole(value: Any, shape: Shape) -> Any:
    """The value that a method handed back in its own shape."""
    if shape is Shape.STREAM:
        value = value.result()
    if shape is Shape.TEXT_STREAM:
        return "".join(value)
    return list(value) if shape is Shape.ITEMS else _bare(value)


async def _awhole(value: Any, shape: Shape) -> Any:
    if shape is Shape.STREAM:
        value = await value.result()
    if shape in (Shape.TEXT_STREAM, Shape.ITEMS):
        return _whole([piece async for piece in value], shape)
    return _bare(value)


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, Result) else value


def waits(method: Any) -> bool:
    """Whether a call of it is awaited."""
    if is_planned(method):
        return bound_of(method).plan.returns.asynchronous
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(type(method).__call__)


def where_of(method: Any) -> str:
    if is_planned(method):
        plan = bound_of(method).plan
        return f"{plan.where} → {plan.model.name}"
    return getattr(method, "__qualname__", repr(method))
