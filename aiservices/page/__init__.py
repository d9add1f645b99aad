"""A web page in which a person can call the methods of a service.

The code is in ``aiservices.integrations.playground``. It needs the extra ``fastapi``.
"""

from __future__ import annotations

from ..integrations.playground import mount

__all__ = ["mount"]
