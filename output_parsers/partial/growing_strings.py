"""A string that is still being written: what of it can be shown, and whether a quote ends it."""

from __future__ import annotations

import re
from enum import Enum
from json import JSONDecoder

from ..json_escapes import decode
from ..json_text import Repairs
from .pieces import Pieces

__all__ = ["GrowingString", "Quote", "judge_quote"]

_CLEAN = r"[^{quote}\\\x00\ud800-\udfff]*+"
_ESCAPE = (
    r"\\(?:[\"'\\/nrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}"
    r"|u[dD][89abAB][0-9a-fA-F]{{2}}\\u[dD][c-fC-F][0-9a-fA-F]{{2}})"
)
# What means the same whatever follows it: clean text, and the escapes on which all readers agree.
_SHOWN = {q: re.compile(f"{_CLEAN}(?:{_ESCAPE}{_CLEAN})*+".format(quote=q)) for q in "\"'"}
_RAW = {q: re.compile(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.DOTALL) for q in "\"'"}
_PLAIN = JSONDecoder(strict=False)
_CUT_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)


class GrowingString:
    """The inside of a quoted string, as far as it has come.

    ``shown`` only ever gets longer: a prefix of what the whole string will mean. From the first doubtful
    escape on nothing more is shown until the end.
    """

    __slots__ = ("_held", "_raw", "inner", "quote", "shown")

    def __init__(self, quote: str) -> None:
        self.quote = quote
        self.shown = Pieces()
        self.inner = 0  # quotes inside that are not escaped, apostrophes apart
        self._raw: list[str] = []
        self._held = False

    def advance(self, text: str, at: int) -> int:
        """Take in what stands from ``at`` up to the next quote, or to what cannot be judged yet."""
        if not self._held:
            found = _SHOWN[self.quote].match(text, at)
            end = found.end() if found else at
            if end > at:
                self._show(text[at:end])
            if end == len(text) or text[end] == self.quote or _CUT_ESCAPE.match(text, end):
                return end
            self._held = True
            at = end
        found = _RAW[self.quote].match(text, at)
        end = found.end() if found else at
        if end > at:
            self._raw.append(text[at:end])
        return end

    def _show(self, piece: str) -> None:
        self._raw.append(piece)
        if "\\" not in piece:
            self.shown.parts.append(piece)
        elif self.quote == '"' and "\\'" not in piece:
            # what _SHOWN lets through is JSON, control characters apart, and the standard library is faster
            self.shown.parts.append(_PLAIN.raw_decode(f'"{piece}"')[0])
        else:
            self.shown.parts.append(decode(piece, 0, Repairs(), python=self.quote == "'"))

    def take_quote(self, after: str) -> None:
        """Take a quote, and what stands after it, for a part of the string."""
        apostrophe = self.quote == "'" and not self.empty and self._raw[-1][-1].isalnum() and after.isalnum()
        self.inner += not apostrophe
        self._raw.append(self.quote)
        if not self._held:
            self.shown.parts.append(self.quote)

    @property
    def empty(self) -> bool:
        return not self._raw

    def last_mark(self) -> str:
        """The last character that is no white space, "" when there is none."""
        for piece in reversed(self._raw):
            bare = piece.rstrip()
            if bare:
                return bare[-1]
        return ""

    def value(self) -> str:
        """The whole string, now that it is closed. Raises JsonFault where it cannot be read."""
        if self._held:
            return decode("".join(self._raw), 0, Repairs(), python=self.quote == "'")
        return self.shown.so_far().join()


class Quote(Enum):
    """What a quote in a string is: its end, a part of it, not to be told yet, or not to be told at all."""

    ENDS = "ends"
    INSIDE = "inside"
    UNSEEN = "unseen"
    DOUBTFUL = "doubtful"


_SPACE = re.compile(r"[ \t\r\n]*+")
_COMMAS = re.compile(r"[ \t\r\n,]*+")
_QUOTED_KEY = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*+([:=])""", re.DOTALL)
_CUT_QUOTED_KEY = re.compile(r"""(?:"(?:[^"\\]|\\.)*+|'(?:[^'\\]|\\.)*+)(?:\\?\Z|["']\s*+\Z)""", re.DOTALL)
_BARE_KEY = re.compile(r"[\w$][\w$.-]*+(?:[ ][\w$-]++){0,3}\s*+(?::(?!//)|=)")
_CUT_BARE_KEY = re.compile(r"[\w$][\w$.-]*+(?:[ ][\w$-]*+){0,4}\s*+(?::/?)?\Z")
_LIST_WORD = re.compile(r"""[^"'`\n{}\[\],]*+""")
_COMMENT = re.compile(r"/\*|//|#\s")


def judge_quote(text: str, at: int, closer: str, string: GrowingString) -> Quote:
    """What the quote at ``at`` is, by what follows it; ``closer`` closes the container of the string.

    It is judged as the reader of whole texts judges it; where that would weigh more than is seen here, the
    quote is DOUBTFUL.
    """
    found = _SPACE.match(text, at + 1)
    after = found.end() if found else at + 1
    mark = text[after : after + 1]
    spaced = after > at + 1
    if not mark:
        return Quote.UNSEEN
    if mark == closer:
        return Quote.ENDS
    if mark == ",":
        return _judge_comma(text, after + 1, closer, string)
    if mark in "\"'`":
        return _judge_neighbour(text, after, closer, string, spaced=spaced)
    if mark in "/#":
        return _judge_comment(text, after, string, spaced=spaced)
    if mark in "+":
        return Quote.DOUBTFUL
    if mark in "}])":
        following = text[_end_of_space(text, after + 1) :][:1]
        if not following:
            return Quote.UNSEEN
        return Quote.DOUBTFUL if following in ",}])" else _inside(string)
    if mark in "{[" and closer == "]" and spaced:
        return Quote.DOUBTFUL
    if closer == "}" and "\n" in text[at:after]:
        return _if_even(_judge_bare_key(text, after, string), string)
    return _inside(string)


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _inside(string: GrowingString) -> Quote:
    """Inside, unless it opens JSON or code within the string, whose quotes need a count of brackets."""
    return Quote.DOUBTFUL if string.last_mark() in ("{", "[") else Quote.INSIDE


def _if_even(quote: Quote, string: GrowingString) -> Quote:
    return Quote.DOUBTFUL if quote is Quote.ENDS and string.inner % 2 else quote


def _judge_comma(text: str, at: int, closer: str, string: GrowingString) -> Quote:
    found = (_COMMAS if closer == "}" else _SPACE).match(text, at)
    at = found.end() if found else at
    mark = text[at : at + 1]
    if not mark or (mark in "/#" and at + 1 == len(text)):
        return Quote.UNSEEN
    if mark == closer or _COMMENT.match(text, at):
        return Quote.ENDS
    if closer == "}":
        if mark in "\"'":
            return Quote.ENDS if string.inner == 0 else _judge_quoted_key(text, at, string)
        return _if_even(_judge_bare_key(text, at, string), string)
    if mark in "\"'{[":
        return Quote.ENDS
    found = _LIST_WORD.match(text, at)
    end = found.end() if found else at
    if end == len(text):
        return Quote.UNSEEN
    return _if_even(Quote.ENDS if text[end] in ",]\n" else _inside(string), string)


def _judge_quoted_key(text: str, at: int, string: GrowingString) -> Quote:
    if _QUOTED_KEY.match(text, at):
        return Quote.ENDS
    return Quote.UNSEEN if _CUT_QUOTED_KEY.match(text, at) else _inside(string)


def _judge_bare_key(text: str, at: int, string: GrowingString) -> Quote:
    if _CUT_BARE_KEY.match(text, at):
        return Quote.UNSEEN
    return Quote.ENDS if _BARE_KEY.match(text, at) else _inside(string)


def _judge_neighbour(text: str, at: int, closer: str, string: GrowingString, *, spaced: bool) -> Quote:
    """A quote with another quote after it: a comma is missing, or it opens triple quotes."""
    if string.empty and not spaced:
        return Quote.DOUBTFUL
    if closer == "}":
        return _if_even(_judge_quoted_key(text, at, string), string)
    return _if_even(Quote.ENDS if spaced else _inside(string), string)


def _judge_comment(text: str, at: int, string: GrowingString, *, spaced: bool) -> Quote:
    if at + 1 == len(text):
        return Quote.UNSEEN
    found = _COMMENT.match(text, at)
    ends = found is not None and (spaced or found[0] == "/*")
    return _if_even(Quote.ENDS if ends else _inside(string), string)
