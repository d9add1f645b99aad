"""Reads replies while they are written.

``PartialReader`` gives snapshots of a value that grows. ``ItemReader`` gives the items of a list one by one.
"""

from __future__ import annotations

from .items import ItemError, ItemPolicy, ItemReader
from .reader import PartialReader, Snapshot
from .views import PartialList, PartialObject

__all__ = [
    "ItemError",
    "ItemPolicy",
    "ItemReader",
    "PartialList",
    "PartialObject",
    "PartialReader",
    "Snapshot",
]
