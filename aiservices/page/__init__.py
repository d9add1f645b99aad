"""Web pages to try the methods of services, and to see the calls of a run.

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
