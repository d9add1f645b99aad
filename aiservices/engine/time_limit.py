"""The time limit of async calls."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ..models.requests import WaitingTime

if TYPE_CHECKING:
    import asyncio

_SHORTEST_CHECK = 0.02  # seconds between two checks of a deadline that moves


class TimeLimit(AbstractAsyncContextManager[None]):
    """A deadline of an async call, which moves while requests of the call wait for their turn.

    Args:
        deadline: The value of ``time.monotonic()`` at which the ``async with`` block ends with a
            TimeoutError.
        waiting: Measures the waits; None if requests do not wait.
        waited: The seconds of waits that the deadline already includes.
    """

    def __init__(self, deadline: float, waiting: WaitingTime | None, waited: float = 0.0) -> None:
        import asyncio

        self._deadline = deadline - waited
        self._waiting = waiting
        self._timeout = asyncio.timeout(self.left if waiting is None else None)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        waited = 0.0 if self._waiting is None else self._waiting.seconds
        return self._deadline + waited - time.monotonic()

    @property
    def expired(self) -> bool:
        """True if the time is over, so that this object raised the TimeoutError."""
        return self._timeout.expired()

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        if self._waiting is not None:
            self._check()

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(*error)  # raises a TimeoutError itself

    def _check(self) -> None:
        import asyncio

        loop, left = asyncio.get_running_loop(), self.left
        if left > 0:
            self._timer = loop.call_later(max(left, _SHORTEST_CHECK), self._check)
        else:
            self._timeout.reschedule(loop.time())
