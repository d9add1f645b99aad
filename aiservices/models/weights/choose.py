"""Finds the file of weights that a name stands for."""

from __future__ import annotations

import os
from pathlib import Path

from .known import KNOWN, Weights
from .places import is_ready, place_of

__all__ = ["DEFAULT_NAME_VARIABLE", "find_weights", "pull_command", "weights_named"]

DEFAULT_NAME_VARIABLE = "AISERVICES_LOCAL_MODEL"


def weights_named(name: str) -> Weights:
    """The known weights of that name or alias. Raises LookupError, which lists the names."""
    for weights in KNOWN:
        if name.lower() in (weights.name, *weights.aliases):
            return weights
    raise LookupError(f"there are no weights named {name!r}: choose one of {_names()}")


def find_weights(name: str | Path) -> tuple[str, Path]:
    """The short name and the path of the weights that ``name`` stands for; never downloads.

    ``""`` is the default: what ``AISERVICES_LOCAL_MODEL`` names, else the most able that were pulled.
    Otherwise a known name, or the path of any GGUF file. Raises LookupError, with what to do.
    """
    if isinstance(name, Path) or name.lower().endswith(".gguf"):
        return _file(Path(name))
    if not name:
        named = os.environ.get(DEFAULT_NAME_VARIABLE)
        return find_weights(named) if named else _most_able()
    try:
        weights = weights_named(name)
    except LookupError as error:
        raise LookupError(f"{error}, or give the path of a .gguf file") from None
    if not is_ready(weights):
        raise LookupError(
            f"the weights {weights.name} are not on this machine: get them with "
            f"{pull_command(weights.name)} ({_gigabytes(weights.size)})"
        )
    return weights.name, place_of(weights)


def pull_command(name: str) -> str:
    """The command that pulls weights, as a user types it."""
    return f"python -m aiservices.models.local pull {name}"


def _file(path: Path) -> tuple[str, Path]:
    path = path.expanduser()
    if not path.is_file():
        raise LookupError(
            f"there is no file of weights at {path}: give the path of a .gguf file, or one of {_names()}"
        )
    return path.stem, path.absolute()


def _most_able() -> tuple[str, Path]:
    for weights in KNOWN:
        if is_ready(weights):
            return weights.name, place_of(weights)
    sizes = ", ".join(f"{weights.name} ({_gigabytes(weights.size)})" for weights in KNOWN)
    raise LookupError(
        f"the embedded model has no weights yet: get some with {pull_command('NAME')}, NAME one of {sizes}"
    )


def _names() -> str:
    return ", ".join(weights.name for weights in KNOWN)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
