"""Tells listeners what happens in a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from .events import CallCompleted, CallFailed, CallStarted
from .flow import Do, Emit, Flow, Need
from .plan import Turn
from .through import through

__all__ = ["Listener", "heard"]

T = TypeVar("T")
# Is told of each event; what it returns does not matter, and what it raises is logged and goes no further.
Listener: TypeAlias = Callable[[Any], Awaitable[None] | None]


def heard(flow: Flow[T], turn: Turn, listeners: Sequence[Listener]) -> Flow[T]:
    """A flow whose events are told to the listeners, one after the other, before all others see them."""
    yield from _tell(CallStarted(turn), listeners)

    def told(need: Need) -> Flow[Any]:
        if isinstance(need, Emit):
            yield from _tell(need.event, listeners)
        return (yield need)

    try:
        answer = yield from through(flow, told)
    except GeneratorExit:  # nobody waits for the answer, nor for what listeners do
        raise
    except BaseException as error:
        yield from _tell(CallFailed(turn, error), listeners)
        raise
    yield from _tell(CallCompleted(turn, answer), listeners)
    return answer


def _given(told: Awaitable[None]) -> Awaitable[None]:
    return told


def _tell(event: Any, listeners: Sequence[Listener]) -> Flow[None]:
    for listener in listeners:
        try:
            told = listener(event)
            if told is not None:  # it is to be awaited
                yield Do(partial(_given, told))
        except Exception:
            import logging  # listeners seldom fail

            logging.getLogger("aiservices").exception("a listener failed at %s", type(event).__name__)
