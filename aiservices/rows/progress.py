"""Progress bars for runs over tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models.errors import DefinitionError, DefinitionProblem, counted
from ..models.extras import import_extra
from .row import Progress


def progress_callback(setting: bool | Callable[[Progress], object]) -> Callable[[Progress], object] | None:
    """Return a progress callback: the given function, a progress bar for True, or None for False."""
    if setting is True:
        return ProgressBar()
    if setting is False or setting is None:
        return None
    if not callable(setting):
        message = f"progress is {setting!r}; pass True, False or a function that receives the progress"
        raise DefinitionError([DefinitionProblem("map_rows", message)])
    return setting


class ProgressBar:
    """A progress bar of tqdm, in a terminal or a notebook."""

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
        """Leave the bar as it is, and continue on a new line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
