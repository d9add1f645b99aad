"""A growing string as it was at one moment, joined only when somebody looks."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..json.result import JsonSyntaxError, RepairLog
from ..json.strings import decode_string, read_bare_value
from ..result.reading import Json


class TextPieces:
    """The pieces of a growing string. They are only ever added to; the last text that was made is kept."""

    __slots__ = ("_joined", "_joined_of", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._joined = ""
        self._joined_of = 0  # how many parts are in it

    def join(self, count: int) -> str:
        """The text of the first ``count`` pieces: of those that a look adds to the last one, once."""
        if count < self._joined_of:
            return "".join(self.parts[:count])
        if count > self._joined_of:
            self._joined = "".join((self._joined, *self.parts[self._joined_of : count]))
            self._joined_of = count
        return self._joined

    def so_far(self) -> TextSoFar:
        """The text as it stands now."""
        return TextSoFar(self, len(self.parts))


class TextSoFar:
    """A growing string at one moment: the first pieces of those that others go on adding to."""

    __slots__ = ("_count", "_pieces")

    def __init__(self, pieces: TextPieces, count: int) -> None:
        self._pieces = pieces
        self._count = count

    def join(self) -> str:
        return self._pieces.join(self._count)


_SPACE = r"[ \t\r\n]*+"
_PLAIN = r"[^\"\\\x00-\x1f\ud800-\udfff]*+"
_ESCAPE = (
    r"\\(?:[\"\\/nrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_STRING = f"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*+"
_CUT_ESCAPE = r"(?:\\(?:u[0-9a-fA-F]{0,4}(?:\\u?[0-9a-fA-F]{0,3})?)?)?"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,400}+)(?:\.[0-9]{1,400}+)?(?:[eE][+-]?[0-9]{1,4}+)?"
_SCALAR = rf"(?:{_NUMBER}|true|false|null)"
_CUT_SCALAR = r"[-+.0-9a-zA-Z]*+"

# Members with nothing odd in them, up to where the next one begins. A string ends only where a key or an
# item follows, so that no quote inside it is taken for its end. The third group of OPENING closes, the
# fourth is the comma after that.
CLEAN_RUN = {
    "{": re.compile(
        rf'(?:{_SPACE}"{_PLAIN}"{_SPACE}:{_SPACE}(?:"{_STRING}"|{_SCALAR}){_SPACE}(?:,{_SPACE}(?=")|(?=}})))*+'
    ),
    "[": re.compile(
        rf'(?:{_SPACE}(?:"{_STRING}"{_SPACE}(?:,{_SPACE}(?=["{{\[])|(?=\]))|{_SCALAR}{_SPACE}(?:,|(?=\]))))*+'
    ),
}
OPENING = {
    "{": re.compile(rf'{_SPACE}(?:"({_PLAIN})"{_SPACE}:{_SPACE}([{{\[])|([}}\]])(?:{_SPACE}(,))?)'),
    "[": re.compile(rf"{_SPACE}(?:()([{{\[])|([}}\]])(?:{_SPACE}(,))?)"),
}
NEXT = re.compile(rf"{_SPACE}(?:([}}\]])|,)")
# The beginning of such a member, up to the end of the text: its key, and its string as far as it has come.
_CUT_STRING = rf'"({_STRING})(?:{_CUT_ESCAPE}|"{_SPACE}(?:,{_SPACE})?)'
CUT_MEMBER = {
    "{": re.compile(
        rf'{_SPACE}(?:"{_PLAIN}|"({_PLAIN})"{_SPACE}(?::{_SPACE}(?:{_CUT_STRING}|{_CUT_SCALAR})?)?)?\Z'
    ),
    "[": re.compile(rf"{_SPACE}()(?:{_CUT_STRING}|{_CUT_SCALAR})?\Z"),
}

_BLANK = re.compile(r"[\s\ufeff\u200b-\u200d\u2060]*+")
_QUOTED = re.compile(r""""((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'""", re.DOTALL)
_BARE = r"""[^\s,:{}\[\]()"'`“”‘’=\\\x00-\x1f\ud800-\udfff]++"""
_BARE_KEY = re.compile(rf"{_BARE}(?:[ \t]++{_BARE})*+")
_WORD = re.compile(r'[^,{}\[\]"\r\n]*+')
_COMMENT_AFTER = re.compile(r"[ \t](?://|/\*|#\s)")
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


def cut_string(member: re.Match[str]) -> tuple[str, str | None]:
    """The key of a match of CUT_MEMBER, and its string as far as it has come, None when none has begun."""
    key, body = member.groups()
    if body is None:
        return "", None
    return key, decode_string(body, 0, RepairLog()) if "\\" in body else body


def end_of_blank(text: str, at: int) -> int:
    """The index of the next character that is no white space."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def find_comment(text: str, at: int) -> str | None:
    """What opens a comment at ``child``, "" where none begins, None where more text must tell."""
    mark = text[at]
    if mark not in "/#":
        return ""
    if at + 1 == len(text):
        return None
    if mark == "#":
        return "#" if text[at + 1].isspace() else ""
    return text[at : at + 2] if text[at + 1] in "/*" else ""


def read_growing_key(text: str, at: int) -> Token:
    """Read the key that begins at ``child`` and its colon. Raises Unread."""
    if text[at] in "\"'":
        found = _QUOTED.match(text, at)
        if found is None:
            raise Unread(cut=True)
        try:
            key = decode_string(found[0][1:-1], at + 1, RepairLog(), python=text[at] == "'")
        except JsonSyntaxError:
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
    """Read the number, the literal or the words without quotes at ``child``. Raises Unread.

    ``closer`` closes the container. A word ends where a comma, a bracket or a comment follows; a line's end
    counts only once it is seen what follows it.
    """
    if text[at] in "(`“”„‘’":
        raise Unread(cut=False)
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
        read = read_bare_value(word, 0, closer)
    except JsonSyntaxError:
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
