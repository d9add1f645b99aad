"""Let a model rest after several failures in a row: a circuit breaker."""

from __future__ import annotations

import logging
import threading
import time

from .errors import BadRequestError, ModelError, ProbabilitiesUnavailableError, counted

# The fault of the request, not of the model.
_NOT_COUNTED = (BadRequestError, ProbabilitiesUnavailableError)


class Rest:
    """Decides whether a model may be asked: not for some seconds after several failures in a row.

    After that time, one request is admitted. If it succeeds, all are; if it fails, the model rests again. If
    it neither succeeds nor fails within that time, the next request is admitted. It is safe for threads and
    event loops.

    A well-kept library for this is purgatory. It is not used, because it wraps a call and raises an error
    while the circuit is open; here the next model is chosen before a request, so no attempt is spent. It also
    has separate breakers for blocking and async calls. pybreaker has no asyncio.
    """

    def __init__(self, name: str, after: int, seconds: float) -> None:
        self._name = name
        self._after = after
        self._seconds = seconds
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0  # by time.monotonic()

    def admits(self) -> bool:
        """Return True if a request may be sent now; the first one after a rest makes the others wait."""
        if self._failures < self._after:
            return True
        with self._lock:
            now = time.monotonic()
            if self._failures < self._after:
                return True
            if now < self._until:
                return False
            self._until = now + self._seconds
            return True

    def failed(self, error: ModelError) -> None:
        """Count a failed request. Errors of the request itself do not count."""
        if isinstance(error, _NOT_COUNTED):
            return
        with self._lock:
            self._failures += 1
            if self._failures < self._after:
                return
            self._until = time.monotonic() + self._seconds
            failures = counted(self._failures, "failure")
        logging.getLogger("aiservices").warning(
            "%s rests for %g seconds after %s in a row: %s", self._name, self._seconds, failures, error
        )

    def succeeded(self) -> None:
        """Forget the failures, because a request has succeeded."""
        if not self._failures:
            return
        with self._lock:
            has_rested, self._failures = self._failures >= self._after, 0
        if has_rested:
            logging.getLogger("aiservices").info("%s answers again", self._name)

    def describe(self) -> str:
        """Return why the model is not asked, in one line."""
        seconds = max(0.0, self._until - time.monotonic())
        failures = counted(self._failures, "failure")
        return f"{self._name} was skipped: it rests for {seconds:.0f} seconds after {failures} in a row"
