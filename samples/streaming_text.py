"""Iterator[str] and AsyncIterator[str]: text as the model writes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from aiservices import ChatModel, create, options, user_message


@options(max_tokens=80)
class Teller(Protocol):
    @user_message("Tell me in one short sentence what {{thing}} is.")
    def tell(self, thing: str) -> Iterator[str]: ...

    # def and not async def: the call gives the iterator, and "async for" awaits its pieces.
    @user_message("Tell me in one short sentence what {{thing}} is.")
    def tell_async(self, thing: str) -> AsyncIterator[str]: ...


async def print_as_it_comes(pieces: AsyncIterator[str]) -> None:
    """Print a text piece by piece, and leave the event loop free between the pieces."""
    async for piece in pieces:
        print(piece, end="", flush=True)
    print()


def main(model: ChatModel | str | None = None) -> None:
    """Print two answers while they are written. ``model`` is as in ``create``."""
    teller = create(Teller, model)
    for piece in teller.tell("a lighthouse"):
        print(piece, end="", flush=True)
    print()
    asyncio.run(print_as_it_comes(teller.tell_async("an abacus")))


if __name__ == "__main__":
    main()
