"""Writes to the terminal: headings and tables, with colours where somebody watches."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from output_parsers.types.target import type_name

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


_CODES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(text: str, *, end: str = "\n", file: TextIO | None = None) -> None:
    """Write a text at once; on a terminal with a sign for each control character but line end and tab."""
    to = file or sys.stdout
    print(_CODES.sub(_sign, text) if to.isatty() else text, end=end, file=to, flush=True)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def signature_text(where: str, signature: inspect.Signature) -> str:
    """``Service.method(text: str, limit: int = 3) -> bool``, with the types as they are written."""
    parts, starred = [], False
    for parameter in signature.parameters.values():
        star = _STARS.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {_written(parameter.annotation)}{default}")
    return f"{where}({', '.join(parts)}) -> {_written(signature.return_annotation)}"


def _written(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else type_name(annotation)


def counted(number: int, thing: str) -> str:
    """``1 method``, ``2 methods``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
