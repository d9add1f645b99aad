"""Chooses and gets the weights that a demonstration runs with on this machine."""

from __future__ import annotations

from collections.abc import Callable

from .choose import weights_named
from .free_memory import free_memory
from .known import Weights
from .places import is_ready
from .progress import ProgressLine
from .pull import WeightsError, pull

__all__ = ["demo_weights"]

_BIG, _SMALL = "qwen2.5-coder-1.5b", "smollm2"
_NEEDED = 2_500_000_000


def _shown(name: str) -> object:
    return pull(name, ProgressLine())


def demo_weights(
    prefer: str | None = None,
    *,
    pull: Callable[[str], object] = _shown,
    free_memory: Callable[[], int | None] = free_memory,
) -> tuple[str, str]:
    """The name of weights that are now on this machine, and a sentence that says why these.

    ``prefer`` is taken as it is. Otherwise the big one, and the small one where memory is short or the
    big one cannot be had. Raises LookupError for an unknown name, WeightsError when none can be had.
    """
    if prefer:
        chosen = _had(weights_named(prefer), pull)
        return chosen.name, f"Running {chosen.title}, as asked."
    big, small = weights_named(_BIG), weights_named(_SMALL)
    free = free_memory()
    if free is not None and free < _NEEDED:
        why = f"{free / 1e9:.1f} GB of memory are free, and {big.title} wants {_NEEDED / 1e9:.1f} GB"
    else:
        try:
            return _had(big, pull).name, f"Running {big.title}, the most able of the known weights."
        except WeightsError as error:
            why = str(error)
    return _had(small, pull).name, f"Running {small.title}, which errs often: {why}."


def _had(weights: Weights, pull: Callable[[str], object]) -> Weights:
    if not is_ready(weights):
        pull(weights.name)
    return weights
