"""The keys, words and gaps of a growing text: what can be told of them before more of it comes."""

from __future__ import annotations

import re
from typing import NamedTuple

from .json_escapes import decode
from .json_text import JsonFault, Repairs
from .json_words import exact_decimal, exact_int, read_word
from .reading import Json

__all__ = [
    "CLEAN_FIELD",
    "CLEAN_ITEM",
    "CLEAN_NEXT",
    "Token",
    "Unread",
    "clean_scalar",
    "end_of_blank",
    "find_comment",
    "read_growing_key",
    "read_growing_word",
]

_SPACE = r"[ \t\r\n]*+"
_CLEAN = r"[^\"\\\x00-\x1f\ud800-\udfff]*+"
_NUMBER = r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
_LITERAL = "(true|false|null)"

# A member with nothing odd in it, up to where the next one begins; or a key and the bracket that opens its
# value. A string ends only where a key or an item follows, so that no quote inside it is taken for its end.
CLEAN_FIELD = re.compile(
    rf'{_SPACE}"({_CLEAN})"{_SPACE}:{_SPACE}'
    rf'(?:(?:"({_CLEAN})"|{_NUMBER}|{_LITERAL}){_SPACE}(?:(,){_SPACE}(?=")|(?=}}))|([{{\[]))'
)
CLEAN_ITEM = re.compile(
    rf'{_SPACE}(?:"({_CLEAN})"{_SPACE}(?:(,){_SPACE}(?=["{{\[])|(?=\]))'
    rf"|(?:{_NUMBER}|{_LITERAL}){_SPACE}(?:(,)|(?=\]))|([{{\[]))"
)
CLEAN_NEXT = re.compile(rf"{_SPACE}(?:([}}\]])|,)")

_LITERALS = {"true": True, "false": False, "null": None}
_BLANK = re.compile(r"[\s\ufeff\u200b-\u200d\u2060]*+")
_QUOTED = re.compile(r""""((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'""", re.DOTALL)
_BARE = r"""[^\s,:{}\[\]()"'`“”‘’=\\\x00-\x1f\ud800-\udfff]++"""
_BARE_KEY = re.compile(rf"{_BARE}(?:[ \t]++{_BARE})*+")
_WORD = re.compile(r'[^,{}\[\]"\r\n]*+')
_COMMENT_AFTER = re.compile(r"[ \t](?://|/\*|#\s)")
_SCALAR = r"(?:-?[0-9][0-9.eE+-]*+|true|false|null)"
_COMMENTED = re.compile(rf"{_SCALAR}(?=//|/\*)")
_EXACT = re.compile(rf"{_SCALAR}[ \t]++")
_MAYBE_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}")


class Token(NamedTuple):
    """What a key or a word means, and the index after it (of a key: after its colon)."""

    value: Json
    end: int


class Unread(Exception):  # it never leaves the scanner
    """A key or a word cannot be told: ``cut``, more text may help."""

    def __init__(self, *, cut: bool) -> None:
        super().__init__("cut" if cut else "odd")
        self.cut = cut


def clean_scalar(whole: str | None, rest: str | None, literal: str | None) -> Json:
    """The value of the parts of a clean number or literal. Raises JsonFault for one too large to hold."""
    if whole is None:
        return _LITERALS[literal or "null"]
    return exact_decimal(whole + rest, 0) if rest else exact_int(whole, 0)


def end_of_blank(text: str, at: int) -> int:
    """The index of the next character that is no white space."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def find_comment(text: str, at: int) -> str | None:
    """What opens a comment at ``at``, "" where none begins, None where more text must tell."""
    mark = text[at]
    if mark not in "/#":
        return ""
    if at + 1 == len(text):
        return None
    if mark == "#":
        return "#" if text[at + 1].isspace() else ""
    return text[at : at + 2] if text[at + 1] in "/*" else ""


def read_growing_key(text: str, at: int) -> Token:
    """Read the key that begins at ``at`` and its colon. Raises Unread."""
    if text[at] in "\"'":
        found = _QUOTED.match(text, at)
        if found is None:
            raise Unread(cut=True)
        try:
            key = decode(found[0][1:-1], at + 1, Repairs(), python=text[at] == "'")
        except JsonFault:
            raise Unread(cut=False) from None
    else:
        found = _BARE_KEY.match(text, at)
        if found is None:
            raise Unread(cut=False)
        key = found[0]
    end = end_of_blank(text, found.end())
    if end == len(text):
        raise Unread(cut=True)
    if text[end] != ":":
        raise Unread(cut=False)
    return Token(key, end + 1)


def read_growing_word(text: str, at: int, closer: str) -> Token:
    """Read the number, the literal or the words without quotes at ``at``. Raises Unread.

    ``closer`` closes the container. A word ends where a comma, a bracket or a comment follows; a line's end
    counts only once it is seen what follows it.
    """
    commented = _COMMENTED.match(text, at)
    found = _WORD.match(text, at)
    end = found.end() if found else at
    comment = _COMMENT_AFTER.search(text, at, end)
    if commented:
        word = commented[0]
    elif comment:
        word = text[at : comment.start()].rstrip()
    else:
        word = text[at:end].rstrip()
        _check_end(text, at, end, word, closer)
    try:
        read = read_word(word, 0, closer)
    except JsonFault:
        raise Unread(cut=False) from None
    if read.end != len(word):
        raise Unread(cut=False)
    return Token(read.value, at + len(word))


def _check_end(text: str, at: int, end: int, word: str, closer: str) -> None:
    """Raise Unread where a word need not end at ``end``."""
    if end == len(text):
        raise Unread(cut=True)
    mark = text[end]
    if mark == "," and closer == "}" and _MAYBE_GROUPED.fullmatch(word):
        if end + 1 == len(text):
            raise Unread(cut=True)
        if text[end + 1].isdigit():  # 1,000
            raise Unread(cut=False)
    elif mark in "\r\n":
        if end_of_blank(text, end) == len(text):
            raise Unread(cut=True)
    elif mark in "{[" or (mark == '"' and not _EXACT.fullmatch(text, at, end)):
        raise Unread(cut=False)
