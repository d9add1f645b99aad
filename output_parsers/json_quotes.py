"""Finds where a quoted string ends, also where quotes inside it are not escaped.

A quote ends its string only if what follows can follow a value there. Quotes inside come in pairs: the
first of a pair looks like an opening quote, so one that looks like a closing quote casts doubt, and so does
a single one left over. Where two readings stay possible the string is refused.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from .json_text import JsonFault, cut_off
from .late_pattern import late

__all__ = ["OPENING_QUOTES", "Span", "doubtful_quotes", "find_end"]

_CLOSERS = {'"': '"', "'": "'", "`": "`", "“": "”", "”": "”", "‘": "’", "’": "’", "„": "“”"}
OPENING_QUOTES = frozenset(_CLOSERS)
_MOST_INNER_QUOTES = 1000

_QUOTED_KEY = r"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"\s*+[:=]|"?\s*+\Z|\\\Z)
    |'[^'\\]*+(?:\\.[^'\\]*+)*+'\s*+[:=] | `[^`\\]*+(?:\\.[^`\\]*+)*+`\s*+: | [“”][^”\n]{0,200}”\s*+:)"""
_BARE_KEY = r"[\w$][\w$.-]*+(?:[ ][\w$-]++){0,3}\s*+(?::(?!//)|=)"
_COMMENT = r"(?:/\*|//|\#\s)"
_SCALAR = r"(?:-?[0-9][0-9.eE+-]*+|true|false|null|True|False|None|-?\Z)"


def _after(surely: str, evenly: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.VERBOSE | re.DOTALL
    always = rf"\s*+/\*|\s++{_COMMENT}|\s*+\+\s*+[\"'`]"
    return late(rf"\s*+(?:\Z|{surely})", flags), re.compile(rf"{always}|{evenly}", flags)


def _after_in_list(closer: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    value = rf"[\"'“‘„`{{\[(]|{_SCALAR}\s*+(?:[,\{closer}]|\Z)"
    return _after(
        rf"\{closer}|,\s*+(?:\Z|\{closer}|{_COMMENT}|{value})",
        rf"\s*+,[^\"'`\n{{}}\[\],]*+(?:[,\{closer}\n]|\Z)|\s++[\"'“„`{{\[]",
    )


# What may follow a string, by the bracket that closes its container: surely, and only after an even number
# of quotes inside.
_AFTER = {
    "}": _after(
        rf"}}|,[\s,]*+(?:\Z|}}|{_COMMENT}|{_QUOTED_KEY})",
        rf"\s*+,[\s,]*+{_BARE_KEY}|\s*+{_QUOTED_KEY}|[ \t]*+[\r\n]\s*+{_BARE_KEY}",
    ),
    "]": _after_in_list("]"),
    ")": _after_in_list(")"),
}
# A closing bracket, even of the wrong kind, with structure behind it: the container judges it.
_ANY_CLOSER = late(r"\s*+[}\])]\s*+(?:[,}\])]|\Z)")
_COLON = late(r"\s*+:")
_CODE_BEFORE = late(r"[{\[]\s*\Z")
_ONLY_SEPARATOR = late(r"[\s}\]]*+[,:][\s{\[]*+")
_SEPARATOR_BEFORE = late(r"[,\n]\s*\Z")
_WINDOW = 80  # how far back a quote looks: enough for a key, and it keeps the whole linear


class Span(NamedTuple):
    """The end of a string's body, how many quotes it has inside, apostrophes apart, and the first of all."""

    end: int
    inner: int
    first: int


@cache
def _run(opening: str) -> re.Pattern[str]:
    closers = _CLOSERS[opening]
    return late(rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+(?=[{closers}])", re.DOTALL)


@cache
def _floating(opening: str) -> re.Pattern[str]:
    return late(rf"[\s.,;:!?)]|[^\w\s]{{0,2}}[{_CLOSERS[opening]}]")


def doubtful_quotes(position: int) -> JsonFault:
    """The fault of a string, which begins at ``position``, whose end cannot be told from a quote inside."""
    return JsonFault("the quotes inside a string can be read in two ways", position)


def find_end(text: str, start: int, closer: str) -> Span:
    """Where the string ends whose opening quote stands at start - 1.

    ``closer`` is the bracket that closes its container, or "" for a key or a string outside of all, which
    end at their first quote. Raises JsonFault where the string is cut off or can end in two ways.
    """
    return _Search(text, start, closer).run()


class _Search:
    """One string's quotes, from the first on, until one of them ends it."""

    def __init__(self, text: str, start: int, closer: str) -> None:
        self.text, self.start, self.closer = text, start, closer
        self.opening = text[start - 1]
        self.inner = 0
        self.first = -1
        self.depth = 0  # of brackets opened right before an inner quote: JSON or code inside the string
        self.held_code = False
        self.last = -1
        self.last_follows_separator = False

    def run(self) -> Span:
        run, text, position = _run(self.opening), self.text, self.start
        while True:
            found = run.match(text, position)
            if found is None:
                raise cut_off("string", self.start - 1)
            at = found.end()
            if self.depth:
                self._count_brackets(position, at)
            if self._is_apostrophe(at):
                pass
            elif self._ends(at):
                return Span(at, self.inner, self.first)
            elif not self._closes_low_quote(position, at):
                self._skip(at)
            if self.first < 0:
                self.first = at
            position = at + 1

    def _count_brackets(self, position: int, end: int) -> None:
        count = self.text.count
        opened = count("{", position, end) + count("[", position, end)
        closed = count("}", position, end) + count("]", position, end)
        self.depth = max(0, self.depth + opened - closed)

    def _is_apostrophe(self, at: int) -> bool:
        inside = self.opening in "'‘’" and at > self.start
        return inside and self.text[at - 1].isalnum() and self.text[at + 1 : at + 2].isalnum()

    def _closes_low_quote(self, position: int, at: int) -> bool:
        """Whether the quote is the second one of „this", as some write in German, Polish or Romanian."""
        low = self.text.rfind("„", position, at)
        return low >= 0 and max(self.text.rfind(high, low, at) for high in "“”") < 0

    def _ends(self, at: int) -> bool:
        if not self.closer:
            return True
        if self.depth:
            return False
        surely, evenly = _AFTER[self.closer]
        odd = self.inner % 2
        if not odd and _ANY_CLOSER.match(self.text, at + 1):
            return True
        if not surely.match(self.text, at + 1) and (odd or not evenly.match(self.text, at + 1)):
            return False
        # A lone quote after a comma begins the next string as well, if the quote before the comma is missing.
        if odd and (self.held_code or self.last_follows_separator or self._looks_opening(self.last)):
            raise doubtful_quotes(self.start - 1)
        return True

    def _looks_opening(self, at: int) -> bool:
        if at == self.start:
            return True
        before, after = self.text[at - 1], self.text[at + 1 : at + 2]
        return (before.isspace() or before in "([{") and not (after.isspace() or after in ".,;:!?)]}")

    def _skip(self, at: int) -> None:
        """Take the quote at ``at`` for text, unless that is doubtful."""
        if not self.depth:
            self._check(at)
            before = self.text[max(self.start, at - _WINDOW) : at]
            if self.inner % 2 == 0 and _CODE_BEFORE.search(before):
                self._check_code(at, before.rstrip()[-1])
                self.depth, self.held_code = 1, True
        self.last = at
        self.inner += 1
        if self.inner > _MOST_INNER_QUOTES:
            raise doubtful_quotes(self.start - 1)

    def _check_code(self, at: int, bracket: str) -> None:
        """Raise JsonFault where the code before a first quote closes what it did not open.

        In ``[{"a": "x}, {"b": "y"}]`` the quote after x is missing. ``bracket``: the last one before ``at``.
        """
        if self.inner:
            return
        for opening, closing in ("{}", "[]"):
            opened = self.text.count(opening, self.start, at) - (opening == bracket)
            if self.text.count(closing, self.start, at) > opened:
                raise doubtful_quotes(self.start - 1)

    def _check(self, at: int) -> None:
        """Raise JsonFault where the quote at ``at`` may be the end of this string or part of a next field."""
        text = self.text
        before = text[max(self.start, at - _WINDOW) : at]
        between = self.inner == 0 and _ONLY_SEPARATOR.fullmatch(before)
        if between or (self.last_follows_separator and _COLON.match(text, at + 1)):
            raise doubtful_quotes(self.start - 1)
        self.last_follows_separator = _SEPARATOR_BEFORE.search(before) is not None
        if self.inner % 2:
            doubtful = self._looks_opening(at)
        else:
            inches = before[-1:].isdigit() and text[at + 1 : at + 2] == " "
            doubtful = not inches and _floating(self.opening).match(text, at + 1) is not None
        if doubtful:
            raise doubtful_quotes(self.start - 1)
