"""A web page for trying out the methods of services. Needs the extra ``fastapi``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import mount

__all__ = ["mount"]


# Imported on first use, so that a missing package is reported with the name of its extra.
def __getattr__(name: str) -> Any:
    if name != "mount":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .app import mount
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "fastapi", "starlette"):
            raise
        raise ImportError(f'the page needs {error.name}: pip install "aiservices[fastapi]"') from error
    globals()[name] = mount
    return mount
