"""A web page on which a person can call a service's methods, and a tree view of calls.

The code is in ``aiservices.integrations.playground``. ``mount`` needs the extra ``fastapi``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..integrations import playground
from ..integrations.playground import CallTree

if TYPE_CHECKING:
    from ..integrations.playground import mount

__all__ = ["CallTree", "mount"]


def __getattr__(name: str) -> Any:
    return getattr(playground, name)
