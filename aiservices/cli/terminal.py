"""Writes what a model said, which may hold the codes by which a terminal is steered."""

from __future__ import annotations

import re
import sys
from typing import TextIO

__all__ = ["say"]

_CODES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say(text: str, *, end: str = "\n", file: TextIO | None = None) -> None:
    """Write a text at once; on a terminal with a sign for each control character but line end and tab."""
    to = file or sys.stdout
    print(_CODES.sub(_sign, text) if to.isatty() else text, end=end, file=to, flush=True)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
