"""The parser of a whole list whose items are handed over while it is written."""

from __future__ import annotations

from typing import Any

from ..errors import OutputParsingError
from ..parser import TypeParser
from ..reading import Leniency, Reading
from ..sequences import ListNode
from ..target import Target
from .items import ItemPolicy, ItemReader

__all__ = ["ItemListParser"]


class ItemListParser(TypeParser[list[Any]]):
    """Reads a whole reply as an ``ItemReader`` does that is fed with it, so that both give the same items.

    What is no JSON, as a list with bullets, is read as any list is. With ``ItemPolicy.KEEP`` an item that
    does not fit stands in the list as an ItemError.
    """

    def __init__(self, item: TypeParser[Any], policy: ItemPolicy, *, field: str | None = None) -> None:
        target = Target(list[Any], alias=f"list[{item.name}]")
        super().__init__(target, ListNode(item.node, list, exact=False), field=field)
        self._item = item
        self._policy = policy

    def enveloped(self, field: str = "value") -> ItemListParser:
        """The parser of the same list inside an object under one key."""
        return ItemListParser(self._item, self._policy, field=field)

    def reader(self) -> ItemReader[Any]:
        """What hands the items over."""
        return ItemReader(self._item, self._policy)

    def parse(self, text: str, leniency: Leniency = Leniency.SAFE) -> list[Any]:
        """The items. Raises OutputParsingError, and nothing else, when the text is unfit."""
        return self.read(text, leniency).value

    def read(self, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[list[Any]]:
        """The items. Raises OutputParsingError, and nothing else, when the text is unfit."""
        reader = ItemReader(self._item, self._policy, leniency=leniency)
        try:
            items = reader.feed(text)
            return Reading([*items, *reader.finish()])
        except OutputParsingError as error:
            if "[" in text or "{" in text:
                raise
            try:
                return super().read(text, leniency)
            except OutputParsingError:
                raise error from None
