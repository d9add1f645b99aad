"""Numbers in a text, read as int, Int32, float and Decimal."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from aiservices import ChatModel, Int32, create, user_message

from .program import run

ANSWER = (
    "After countless millennia of computation, the supercomputer Deep Thought finally announced that the "
    "answer to the ultimate question of life, the universe, and everything was forty two."
)
PROMPT = "Extract the number from this text.\n\nText: {{text}}"


class NumberExtractor(Protocol):
    @user_message(PROMPT)
    def to_int(self, text: str) -> int:
        """Return an integer of any size."""
        ...

    @user_message(PROMPT)
    def to_int32(self, text: str) -> Int32:
        """Return an integer from -2**31 to 2**31 - 1. Other numbers are errors."""
        ...

    @user_message(PROMPT)
    def to_float(self, text: str) -> float: ...

    @user_message(PROMPT)
    def to_decimal(self, text: str) -> Decimal:
        """Return a Decimal with exactly the digits that the model wrote."""
        ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the number in a text in four types. ``model`` is passed to ``create``."""
    extractor = create(NumberExtractor, model)
    print(ANSWER)
    print(f"int      {extractor.to_int(ANSWER)!r}")
    print(f"Int32    {extractor.to_int32(ANSWER)!r}")
    print(f"float    {extractor.to_float(ANSWER)!r}")
    print(f"Decimal  {extractor.to_decimal(ANSWER)!r}")


if __name__ == "__main__":
    run(main)
