"""The need to call what a user wrote, which may be async."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..flow import Do

__all__ = ["doing"]


def doing(function: Callable[..., Any], *arguments: Any) -> Do:
    """Call a function with arguments; one that blocks runs beside an event loop, in a thread."""

    @wraps(function)  # so that what goes wrong names it
    def work() -> Any:
        return function(*arguments)

    return Do(work, in_thread=not inspect.iscoroutinefunction(function))
