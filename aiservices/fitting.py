"""Finds what was given to ``create`` and cannot work: orders of interceptors, and what nothing awaits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .errors import Fault
from .listening import Listener
from .pipeline import Interceptor
from .plan import MethodPlan
from .tool_parameters import inside_of, is_async, name_of

__all__ = ["awaited_nowhere", "awaited_while_blocking", "out_of_order"]

_TOO_EARLY = "memory keeps an answer before it has passed"
_AS_IF_SAID = "memory keeps what the model is told of an answer as if the user had said it"
# What comes of the first one around the second. Interceptors say by ``stands_as`` what they are; those that
# say nothing may stand anywhere.
_WRONG = {
    ("memory", "input guard"): "memory keeps what the guards take out, and the model sees it in later calls",
    ("memory as sent", "input guard"): "a call that waits for approval keeps what the guards take out",
    ("retrieval", "memory"): "memory keeps what was retrieved as if the user had said it",
    ("output guard", "memory"): _TOO_EARLY,
    ("output guard", "memory as sent"): _TOO_EARLY,
    ("output guard", "retrieval"): "after a rejected answer is retrieved what fits the words of the guards",
    ("answer check", "memory"): _TOO_EARLY,
    ("answer check", "memory as sent"): _TOO_EARLY,
    ("retry", "memory"): _AS_IF_SAID,
    ("retry", "memory as sent"): _AS_IF_SAID,
}


def out_of_order(where: str, interceptors: Sequence[Interceptor]) -> Iterator[Fault]:
    """The pairs of interceptors that give wrong results in this order, the first one being the outermost."""
    kinds = [getattr(one, "stands_as", None) for one in interceptors]
    for at, inner in enumerate(kinds):
        if inner == "input guard" and "retrieval" in kinds[:at]:
            continue  # it guards what was retrieved
        for before, outer in enumerate(kinds[:at]):
            why = _WRONG.get((outer, inner)) if isinstance(outer, str) and isinstance(inner, str) else None
            if why is not None:
                first, then = (type(interceptors[one]).__name__ for one in (before, at))
                yield Fault(where, f"{first} stands before {then}, so {why}; put {then} first")


def awaited_while_blocking(
    where: str,
    plans: Mapping[str, MethodPlan],
    interceptors: Iterable[Interceptor],
    listeners: Iterable[Listener],
) -> Iterator[Fault]:
    """What has to be awaited, and is given to methods that block; interceptors name it in ``awaits``."""
    blocking = ", ".join(name for name, plan in plans.items() if not plan.returns.asynchronous)
    if not blocking:
        return
    names = [name for one in interceptors for name in getattr(one, "awaits", ())]
    names += [f"the listener {name_of(inside_of(one))}" for one in listeners if is_async(one)]
    for name in names:
        yield Fault(where, f"{name} is async; only async methods can await it, and these block: {blocking}")


def awaited_nowhere(where: str, functions: Mapping[str, Any]) -> Iterator[Fault]:
    """What is async of functions, by their names, that all kinds of methods call without awaiting them."""
    for name, function in functions.items():
        if is_async(function):
            yield Fault(where, f"{name} is an async function, and nothing awaits it; make it a plain one")
