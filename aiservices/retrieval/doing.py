"""Calls what a user wrote: functions that may be async, and flows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, TypeVar

from ..flow import Do, Flow
from ..tool_parameters import name_of

__all__ = ["doing", "flowing"]

T = TypeVar("T")


def doing(function: Callable[..., Any], *arguments: Any) -> Do:
    """Call a function with arguments; one that blocks runs beside an event loop, in a thread."""

    @wraps(function)  # so that what goes wrong names it
    def work() -> Any:
        return function(*arguments)

    return Do(work, in_thread=not inspect.iscoroutinefunction(function))


def flowing(function: Callable[..., Flow[T]], *arguments: Any) -> Flow[T]:
    """The flow that a function gives. Raises TypeError for what is none."""
    made: Any = function(*arguments)
    if isinstance(made, Generator):
        return made
    if inspect.iscoroutine(made):
        made.close()
    said = "it must be a flow, which a function with yield gives; where nothing is to be done, yield from ()"
    raise TypeError(f"{name_of(function)} gave {type(made).__name__}; {said}")
