"""Shows on standard error how far a pull is."""

from __future__ import annotations

import sys
import time

__all__ = ["ProgressLine"]


class ProgressLine:
    """A ``Progress`` that rewrites one line, or writes a line every tenth where nobody watches."""

    def __init__(self) -> None:
        self._doing = ""
        self._shown = (-1, 0.0)

    def __call__(self, doing: str, done: int, of: int) -> None:
        percent = min(100, 100 * done // max(of, 1))
        watched = sys.stderr.isatty()
        last, when = self._shown if doing == self._doing else (-1, 0.0)
        step_is_due = time.monotonic() - when > 0.1 if watched else percent // 10 > last // 10
        if percent == last or not (step_is_due or percent == 100):
            return
        self._doing, self._shown = doing, (percent, time.monotonic())
        text = f"{doing} {percent:3d} %"
        sys.stderr.write(f"\r{text:<60}{chr(10) if percent == 100 else ''}" if watched else text + "\n")
        sys.stderr.flush()
