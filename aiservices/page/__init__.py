"""The public import path of ``mount``: a web page on which the methods of services can be called by hand.

Needs the extra ``fastapi``.
"""

from __future__ import annotations

from ..integrations.playground import mount

__all__ = ["mount"]
