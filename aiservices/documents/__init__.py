"""Documents as arguments of methods: texts with names, pages and the places of their characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .document import Document
    from .files import DocumentError
    from .pages import Box, Page

__all__ = ["Box", "Document", "DocumentError", "Page"]

__getattr__ = lazy_names(
    __name__, {".document": "Document", ".files": "DocumentError", ".pages": "Box Page"}, {}
)
