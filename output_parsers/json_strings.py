"""Reads the quoted strings of one text, whatever quotes they stand in."""

from __future__ import annotations

from .json_escapes import decode
from .json_quotes import doubtful_quotes, find_end
from .json_text import JsonFault, Repairs, cut_off
from .late_pattern import late

__all__ = ["Strings"]

_RULES = {'"': "", "'": "single-quoted string", "`": "backtick string"}
_PLUS = late(r"\s*+\+\s*+(?=[\"'`])")
_MORE_QUOTES = late(r'[^"`]*+"')


class Strings:
    """The strings of one text; it keeps count of quotes inside them that have no partner."""

    def __init__(self, text: str, repairs: Repairs) -> None:
        self.text = text
        self.repairs = repairs
        self._unpaired = -1  # the start of the string with an odd number of quotes inside

    def read(self, position: int, closer: str) -> tuple[str, int]:
        """Read the string that begins at position, and those added to it with ``+``; its text and its end.

        ``closer`` is the bracket that closes its container, or "" outside of all.
        """
        value, end = self.read_one(position, closer)
        plus = _PLUS.match(self.text, end)
        if plus is None:
            return value, end
        self.repairs.note("joined strings", position)
        parts = [value]
        while plus:
            value, end = self.read_one(plus.end(), closer)
            parts.append(value)
            plus = _PLUS.match(self.text, end)
        return "".join(parts), end

    def read_one(self, position: int, closer: str) -> tuple[str, int]:
        """Read the string whose opening quote stands at position, and nothing after it."""
        text, quote = self.text, self.text[position]
        start, width = position + 1, 1
        triple = quote * 3
        if triple == "```" and text.startswith(triple, position):
            raise JsonFault("a code fence is not a value", position)
        if quote in "\"'" and text.startswith(triple, position):
            self.repairs.note("triple-quoted string", position)
            start, width = position + 3, 3
            end = text.find(triple, start)
            if end < 0:
                raise cut_off("string", position)
        else:
            end = self._end_of_string(start, closer)
        body = decode(text[start:end], start, self.repairs, python=quote == "'")
        return body, end + width

    def _end_of_string(self, start: int, closer: str) -> int:
        span = find_end(self.text, start, closer)
        rule = _RULES.get(self.text[start - 1], "curly quotes")
        if rule:
            self.repairs.note(rule, start - 1)
        if span.first >= 0:
            self.repairs.note("unescaped quote", span.first)
        if span.inner % 2:
            # Where one string is cut too short, another one takes the other half of its pair of quotes.
            if self._unpaired >= 0:
                raise doubtful_quotes(self._unpaired)
            self._unpaired = start - 1
        return span.end

    def check_end(self, position: int) -> None:
        """Raise JsonFault where the value that ends at position has quotes that may mean something else.

        A comma missing between strings, and a quote inside one of them, look the same.
        """
        inner = self.repairs.first("unescaped quote")
        if inner >= 0 and self.repairs.first("missing comma") >= 0:
            raise doubtful_quotes(inner)
        if self._unpaired >= 0 and _MORE_QUOTES.match(self.text, position):
            raise doubtful_quotes(self._unpaired)
