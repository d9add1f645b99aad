"""Parse a model's reply while the model is still writing it.

``PartialReader`` returns snapshots of the value so far. ``ItemReader`` returns the items of a list one by
one.
"""

from __future__ import annotations

from .builders import PartialList, PartialObject
from .reader import ItemError, ItemPolicy, ItemReader, PartialReader, Snapshot

__all__ = [
    "ItemError",
    "ItemPolicy",
    "ItemReader",
    "PartialList",
    "PartialObject",
    "PartialReader",
    "Snapshot",
]
