"""Iterator[str] and AsyncIterator[str]: text while the model writes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from aiservices import ChatModel, create, options, user_message

from .program import run


@options(max_tokens=80)
class Teller(Protocol):
    @user_message("Tell me in one short sentence what {{thing}} is.")
    def tell(self, thing: str) -> Iterator[str]: ...

    # def, not async def: the call returns the iterator, and "async for" awaits its pieces.
    @user_message("Tell me in one short sentence what {{thing}} is.")
    def tell_async(self, thing: str) -> AsyncIterator[str]: ...


async def print_pieces(pieces: AsyncIterator[str]) -> None:
    """Print a text piece by piece; between the pieces other tasks can run."""
    async for piece in pieces:
        print(piece, end="", flush=True)
    print()


def main(model: ChatModel | str | None = None) -> None:
    """Print two answers while the model writes them. ``model`` is passed to ``create``."""
    teller = create(Teller, model)
    for piece in teller.tell("a lighthouse"):
        print(piece, end="", flush=True)
    print()
    asyncio.run(print_pieces(teller.tell_async("an abacus")))


if __name__ == "__main__":
    run(main)
