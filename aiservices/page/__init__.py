"""A web page for trying out service methods (extra ``fastapi``), and a tree view of service calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .call_tree import CallTree

if TYPE_CHECKING:
    from .app import mount

__all__ = ["CallTree", "mount"]


# Imported on first use, so that a missing package is reported with the name of its extra.
def __getattr__(name: str) -> Any:
    if name != "mount":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .app import mount
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "fastapi", "starlette"):
            raise
        from ..models.errors import missing_extra

        raise missing_extra(error.name, "fastapi", "the page") from None
    globals()[name] = mount
    return mount
