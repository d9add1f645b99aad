"""Shows what grows while it grows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

from rich.live import Live
from rich.text import Text

from .screen import output

__all__ = ["in_step", "watched"]

T = TypeVar("T")


def in_step(runner: asyncio.Runner, items: AsyncIterable[T]) -> Iterator[T]:
    """What an asynchronous iterator gives, one by one, for a loop that is none."""
    iterator = aiter(items)
    while True:
        try:
            item = runner.run(_next(iterator))
        except StopAsyncIteration:
            return
        yield item


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)


def watched(snapshots: Iterable[Any]) -> None:
    """Show a value while it is written, on a terminal, and take it away when it is whole."""
    console = output()
    if not console.is_terminal:
        for _ in snapshots:
            pass
        return
    with Live(console=console, transient=True) as live:
        for snapshot in snapshots:
            shown = json.dumps(snapshot.to_python(), indent=2, ensure_ascii=False, default=str)
            live.update(Text("\n".join(shown.splitlines()[1 - console.height :])))
