"""A web page for trying out service methods (extra ``fastapi``), and a tree view of service calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names
from .call_tree import CallTree

if TYPE_CHECKING:
    from .app import mount

__all__ = ["CallTree", "mount"]

# Imported on first use, so that a missing package is reported with the name of its extra.
__getattr__ = lazy_names(
    __name__, {".app": "mount"}, dict.fromkeys(("anyio", "fastapi", "starlette"), "fastapi")
)
