"""PartialReader and ItemReader: typed snapshots and list items from text that arrives in chunks."""

from __future__ import annotations

from dataclasses import dataclass

from aiservices import ChatModel
from output_parsers import ItemReader, PartialReader

CHUNKS = (
    '{"title": "Greek',
    ' salad", "minutes": 1',
    '5, "steps": ["Chop the',
    ' cucumber", "Add fe',
    'ta"]}',
)


@dataclass
class Recipe:
    title: str
    minutes: int
    steps: list[str]


def main(model: ChatModel | str | None = None) -> None:
    """Print the value after each chunk of a reply. No model is called."""
    reader = PartialReader(Recipe)
    for chunk in CHUNKS:
        reader.feed(chunk)
        snapshot = reader.snapshot()
        print(snapshot.to_python(), "| minutes:", snapshot.is_done("minutes"))
    print(reader.finish().value)
    items = ItemReader(int)
    for chunk in ("[1, 2", "0, 300", ", 4]"):
        print(items.feed(chunk), end=" ")
    print(items.finish())


if __name__ == "__main__":
    main()
