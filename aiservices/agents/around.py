"""What goes around the replies of an agent, in the order that fits together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ..errors import Fault
from ..fitting import out_of_order
from ..pipeline import Interceptor
from .generate_response import as_spoken
from .waiting import keeping

__all__ = ["around"]


def around(
    where: str, memory: Interceptor | None, interceptors: Sequence[Interceptor], faults: list[Fault]
) -> tuple[Interceptor, ...]:
    """The interceptors of an agent and its memory, the outermost first; what is wrong goes to ``faults``.

    Guards of what is heard stand before the memory, so that it does not keep what they take out; those behind
    a retrieval stay there, since they guard what was retrieved.
    """
    early = list(takewhile(lambda one: _kind(one) != "retrieval", interceptors))
    guards = [one for one in early if _kind(one) == "input guard"]
    inside = [one for one in early if _kind(one) != "input guard"] + list(interceptors[len(early) :])
    outside = [*guards, *(() if memory is None else (memory,))]
    faults += out_of_order(where, [*outside, *inside])
    return (keeping, *outside, as_spoken, *inside)


def _kind(interceptor: Interceptor) -> object:
    return getattr(interceptor, "stands_as", None)
