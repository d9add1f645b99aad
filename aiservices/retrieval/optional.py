"""Loads what is installed on demand, and says how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["needed"]


def needed(module: str, extra: str) -> Any:
    """A module of an optional dependency. Raises ImportError that names the extra which brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        said = f'{module} is not installed; install it with pip install "aiservices[{extra}]"'
        raise ImportError(said, name=module) from error
