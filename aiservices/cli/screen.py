"""Writes to the terminal: headings and tables, with colours where somebody watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["heading", "output", "table"]

_WIDE = 500  # columns of what is no terminal: nothing is wrapped or cut


def output() -> Console:
    """The console of standard output. Colours are off where it is no terminal, or NO_COLOR is set."""
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_WIDE)


def heading(text: str) -> None:
    """Write a line that stands out."""
    output().print(Text(text, "bold"), soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows under the names of their columns."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    console = output()
    with console.capture() as written:
        console.print(made)
    print("\n".join(line.rstrip() for line in written.get().splitlines()))
