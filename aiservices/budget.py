"""What a call may spend, and what it has spent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .errors import Attempt, DefinitionError, Fault, ModelError

__all__ = ["Budget", "CallContext"]

_LONGEST_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Budget:
    """What one call may spend in all.

    ``attempts``: requests to the model, the first included; a request is made again only when the
    provider or the connection failed in a way that may pass (429, 5xx, 408, 409, no connection, time
    out). ``seconds``: wall time for the whole call, waiting included; None sets no limit.
    ``first_wait``: seconds before the second attempt; each wait is twice the one before, with jitter,
    unless the provider says how long to wait.
    """

    attempts: int = 3
    seconds: float | None = None
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        faults = []
        if self.attempts < 1:
            faults.append(Fault("Budget", f"attempts is {self.attempts}; it must be at least 1"))
        if self.seconds is not None and self.seconds <= 0:
            faults.append(Fault("Budget", f"seconds is {self.seconds}; it must be greater than 0"))
        if self.first_wait < 0:
            faults.append(Fault("Budget", f"first_wait is {self.first_wait}; it must not be negative"))
        if faults:
            raise DefinitionError(faults)


@dataclass(slots=True)
class CallContext:
    """The account of one call: its budget, when it began, each attempt, and whether text was handed out."""

    budget: Budget
    began: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)
    text_shown: bool = False

    @property
    def seconds(self) -> float:
        """Wall time since the call began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget's seconds; None when it sets no limit."""
        return None if self.budget.seconds is None else self.budget.seconds - self.seconds

    def wait_before_retry(self, error: ModelError) -> float | None:
        """Seconds to wait before the same request is made again; None when it must not be.

        It must not once a stream has handed out text: another answer would begin in the midst of the first.
        """
        made = len(self.attempts)
        if not error.retryable or self.text_shown or made >= self.budget.attempts:
            return None
        from random import uniform  # loads OpenSSL's hashes, and few calls are retried

        if error.retry_after is not None:
            wait = error.retry_after
        else:
            wait = min(self.budget.first_wait * 2 ** (made - 1), _LONGEST_WAIT) * uniform(0.75, 1.0)
        if wait > _LONGEST_WAIT * 2 or (self.seconds_left is not None and wait >= self.seconds_left):
            return None
        return wait
