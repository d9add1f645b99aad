"""Flows that go through another one, which fulfils their needs in its own way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from .flow import All, Ask, Flow, Need

__all__ = ["asked_as_a_whole", "held", "through"]

T = TypeVar("T")


def through(flow: Flow[T], fulfil: Callable[[Need], Flow[Any]]) -> Flow[T]:
    """The same flow, of which ``fulfil`` gives the outcome of each need; it is closed with this one."""
    step: Callable[[Any], Need] = flow.send
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


def asked_as_a_whole(need: Need) -> Flow[Any]:
    """The outcome of a need; among needs that are fulfilled side by side, a model does not stream."""
    if isinstance(need, Ask):
        (reply,) = yield All((need,))
        return reply
    return (yield need)
