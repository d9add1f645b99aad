"""Reads JSON that is exact but for trailing commas and comments, at the speed of the exact reader.

These are blanked out, so that every index stays what it was, and the rest must be exact JSON. What is
found so is what the careful reading would find too: each string ends at its first quote, and a comment
that holds a quote, or touches a string or a word, is left to the careful reading.
"""

from __future__ import annotations

from .json_text import Repair
from .late_pattern import late

__all__ = ["mended", "repairs_before"]

_COMMENT = (
    r"(?<=[\s,:{}\[\]])(?://[^\"\r\n]*+(?=[\r\n]|\Z)|\#(?=\s|\Z)[^\"\r\n]*+(?=[\r\n]|\Z)"
    r"|/\*[^\"*]*+(?:\*(?!/)[^\"*]*+)*+\*/)"
)
_GAP = rf"[ \t\r\n]*+(?:{_COMMENT}[ \t\r\n]*+)*+"
# What needs no mending, as far as it goes, and then what does.
_NEXT = late(
    rf"""(?:[^"'`/\#,\[{{]++|"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"|[\[{{](?!{_GAP},)|,(?!{_GAP}[}}\]]))*+"""
    rf"(?:(?P<comma>,)(?={_GAP}[}}\]])|(?P<comment>{_COMMENT}))"
)
_RULES = {"comma": "trailing comma", "comment": "comment"}


def mended(text: str) -> tuple[str, list[Repair]]:
    """The text with blanks for trailing commas and comments, and each of them in the order of the text.

    It is mended up to the first thing that is no JSON in another way.
    """
    parts: list[str] = []
    repairs: list[Repair] = []
    done = 0
    while found := _NEXT.match(text, done):
        kind = found.lastgroup or ""
        start, end = found.span(kind)
        parts += text[done:start], " " * (end - start)
        repairs.append(Repair(_RULES[kind], start))
        done = end
    parts.append(text[done:])
    return "".join(parts), repairs


def repairs_before(end: int, repairs: list[Repair], offset: int) -> tuple[Repair, ...]:
    """The first repair of each rule before an index, with positions that count from ``offset`` earlier."""
    if not repairs:
        return ()
    first: dict[str, int] = {}
    for rule, position in repairs:
        if position < end:
            first.setdefault(rule, position + offset)
    return tuple(Repair(rule, position) for rule, position in first.items())
