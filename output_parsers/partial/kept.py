"""A list in which an item that does not fit is kept, as an ItemError in its place."""

from __future__ import annotations

from typing import Any

from ..custom import CustomNode, OutputParser
from ..json_inside import opened
from ..parser import TypeParser
from ..reading import Json, Misfit, Place, written
from ..sequences import ListNode
from ..target import Target
from .items import ItemError

__all__ = ["list_with_errors"]


class KeptListNode(ListNode):
    """Reads what it can of a list."""

    def read(self, found: Json, at: Place) -> Any:
        found = opened(found, "[", at)
        if not isinstance(found, list):
            raise at.misfit("expected an array", found)
        return [self._item(item, index, at) for index, item in enumerate(found)]

    def _item(self, found: Json, index: int, at: Place) -> Any:
        before = len(at.ledger)
        try:
            return self.item.read(found, at.at(index))
        except Misfit as misfit:
            del at.ledger[before:]
            return ItemError(index, written(found), misfit.problems)


def list_with_errors(item: OutputParser[Any]) -> TypeParser[list[Any]]:
    """The parser of a list of what ``item`` reads; what it cannot read stands in the list as ItemError."""
    node = item.node if isinstance(item, TypeParser) else CustomNode("item", item)
    return TypeParser(Target.of(list[Any]), KeptListNode(node, list, exact=False))
