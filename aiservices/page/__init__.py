"""A page on which the methods of services are tried by hand; needs the extra ``fastapi``."""

from .mounting import mount

__all__ = ["mount"]
