"""Show the progress of a run as a bar, on one line of a terminal, or as a log line every 30 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from ..models.errors import DefinitionError, DefinitionProblem, counted, import_extra
from .row import Progress

ProgressSetting: TypeAlias = bool | Callable[[Progress], object]
_SECONDS_BETWEEN_LINES = 30.0


def progress_callback(setting: ProgressSetting | None) -> Callable[[Progress], object] | None:
    """Convert the setting ``progress`` to a callback: True to a bar or lines, and False to None."""
    if setting is True:
        # a notebook has no terminal, but tqdm shows a bar there
        return ProgressBar() if sys.stderr.isatty() or "ipykernel" in sys.modules else ProgressLine()
    if setting is False or setting is None:
        return None
    if not callable(setting):
        message = f"progress is {setting!r}; pass True, False or a function that receives the progress"
        raise DefinitionError([DefinitionProblem("map_rows", message)])
    return setting


class ProgressBar:
    """A tqdm progress bar, in a terminal or a notebook."""

    def __init__(self) -> None:
        self._tqdm = import_extra("tqdm.auto", "tables", "progress=True")
        self._bar: Any = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = self._tqdm.tqdm(total=progress.total, unit=" rows")
        self._bar.n = progress.rows
        parts = [counted(progress.errors, "error")] if progress.errors else []
        if progress.cost:
            expected = progress.expected_cost
            parts.append(f"cost {progress.cost:.4g}" + ("" if expected is None else f" of {expected:.4g}"))
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        """Stop updating the progress bar, and leave it on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class ProgressLine:
    """Shows the progress on one line of the terminal, or as a line every 30 seconds without a terminal.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._clock = clock
        self._next_at: float | None = None
        self._shown = ""

    def __call__(self, progress: object) -> None:
        if self._is_terminal:
            self._shown = str(progress)
            print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
            return
        now = self._clock()
        if self._next_at is None:
            self._next_at = now + _SECONDS_BETWEEN_LINES
        elif now >= self._next_at:
            self._next_at = now + _SECONDS_BETWEEN_LINES
            print(progress, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line of a terminal with a line break."""
        if self._shown:
            self._shown = ""
            print(file=sys.stderr)
