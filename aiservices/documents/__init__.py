"""Documents as arguments of methods: their pages, files, and reading long ones in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .document import Document
    from .files import DocumentError
    from .highlighting import highlight
    from .indexing import IndexChanges, IndexProgress, update_index
    from .merging import By, Conflict, MergeConflictError, by, first, latest, one_of, vote
    from .pages import Box, Page
    from .splitting import Split

__all__ = [
    "Box",
    "By",
    "Conflict",
    "Document",
    "DocumentError",
    "IndexChanges",
    "IndexProgress",
    "MergeConflictError",
    "Page",
    "Split",
    "by",
    "first",
    "highlight",
    "latest",
    "one_of",
    "update_index",
    "vote",
]

# Imported on first use, because templates use documents and are a low layer.
__getattr__ = lazy_names(
    __name__,
    {
        ".document": "Document",
        ".files": "DocumentError",
        ".highlighting": "highlight",
        ".indexing": "IndexChanges IndexProgress update_index",
        ".merging": "By Conflict MergeConflictError by first latest one_of vote",
        ".pages": "Box Page",
        ".splitting": "Split",
    },
    {},
)
