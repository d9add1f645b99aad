"""Print text, headings, tables and signatures to the terminal."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from output_parsers.types.target import type_name

_PIPE_WIDTH = 500  # columns if the output is not a terminal, so that rich wraps nothing


def stdout_console() -> Console:
    """Return a rich console for standard output; it uses colours only on a terminal without NO_COLOR."""
    # Markup and emoji codes are disabled: text of models and prompts must appear unchanged.
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_PIPE_WIDTH)


def print_heading(text: str) -> None:
    """Print a heading as a bold line."""
    stdout_console().print(Text(text, "bold"), soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows as a table with column names."""
    rich_table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        rich_table.add_column(name, overflow="fold")
    for row in rows:
        rich_table.add_row(*map(Text, row))
    console = stdout_console()
    with console.capture() as capture:
        console.print(rich_table)
    # rich pads each line to the width of the table.
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


# The C0 and C1 control characters and DEL, except newline and tab.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_text(text: str, *, end: str = "\n", file: TextIO | None = None) -> None:
    """Print a string and flush the output.

    On a terminal, control characters except newline and tab are replaced with visible symbols. This prevents
    a model from sending escape sequences to the terminal.
    """
    stream = file or sys.stdout
    visible = _CONTROL_CHARACTERS.sub(_symbol, text) if stream.isatty() else text
    print(visible, end=end, file=stream, flush=True)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"


_STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def signature_text(qualname: str, signature: inspect.Signature) -> str:
    """Return a method's signature as text, such as ``Service.method(text: str, limit: int = 3) -> bool``."""
    parts, starred = [], False
    for parameter in signature.parameters.values():
        star = _STARS.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(f"{star}{parameter.name}: {_annotation_text(parameter.annotation)}{default}")
    return f"{qualname}({', '.join(parts)}) -> {_annotation_text(signature.return_annotation)}"


def _annotation_text(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else type_name(annotation)


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural, such as ``1 method`` or ``2 methods``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
