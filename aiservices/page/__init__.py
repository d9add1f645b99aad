"""A web page on which the methods of services can be called by hand.

The code is in ``aiservices.integrations.playground``. It needs the extra ``fastapi``.
"""

from __future__ import annotations

from ..integrations.playground import mount

__all__ = ["mount"]
