"""Restore backslashes of LaTeX and of Windows paths that a model did not escape in JSON.

In ``"$\\frac{1}{2}$"`` with one backslash, ``\\f`` is a form feed for JSON. Where no text can mean that, the
backslash was lost.
"""

from __future__ import annotations

import re

from .lazy_regex import lazy_regex

LOST_BACKSLASH = "backslash that was not escaped"
# Commands that begin with t, n and r, without this letter. The first ones are no words of any language, and
# the others count only between dollar signs.
_COMMANDS = (
    r"imes\b|heta\b|ext(?:bf|it|rm)?\{|ilde\b|riangle|eq\b|abla\b|exists\b|ot\b|eg\b|ightarrow|ight[)\]}|.]|angle\b"
    r"|floor\b|ceil\b|ho\b"
)
_IN_MATH = lazy_regex(r"(?:o|op|an|au|e|u|ewline|m|q|ow)(?![a-z])")
_COMMAND = lazy_regex(_COMMANDS)
_SUSPICIOUS = lazy_regex(rf"\\(?:[bf][A-Za-z]|[nrt](?:{_COMMANDS}))|:\\[bfnrt]\w|\$[^\"]{{0,80}}\\[nrt][a-z]")
_ESCAPE = lazy_regex(r"\\(?:([bfnrt])|.)", re.DOTALL)
_PATH = lazy_regex(r"(?<![A-Za-z0-9])[A-Za-z]:(?:\\+[^\s\"\\]*)*\Z")
_NEARBY = 80  # characters before and after an escape that are read


def has_lost_backslash(text: str) -> bool:
    """Return True if the escapes in JSON may be unescaped backslashes of LaTeX or of a path."""
    return "\\" in text and _SUSPICIOUS.search(text) is not None


def with_lost_backslashes(text: str) -> str:
    """Return JSON in which the backslashes of LaTeX commands and of Windows paths are escaped."""
    if not has_lost_backslash(text):
        return text
    return _ESCAPE.sub(lambda match: f"\\{match[0]}" if match[1] and _is_lost(match) else match[0], text)


def _is_lost(match: re.Match[str]) -> bool:
    text, start, end = match.string, match.start(), match.end()
    before, after = text[max(0, start - _NEARBY) : start], text[end : end + _NEARBY]
    if not after[:1].isalpha():
        return False
    if match[1] in "bf" or _COMMAND.match(after) or _PATH.search(before):
        return True
    is_math = "$" in before.rpartition('"')[2] and "$" in after.partition('"')[0]
    return is_math and _IN_MATH.match(after) is not None


_UNICODE_ESCAPES = {"b": "\\u0008", "f": "\\u000c", "n": "\\u000a", "r": "\\u000d", "t": "\\u0009"}


def with_clear_escapes(text: str) -> str:
    """Return JSON whose escapes cannot be taken for unescaped backslashes: ``\\b`` is written ``\\u0008``."""
    if not has_lost_backslash(text):
        return text
    return _ESCAPE.sub(lambda match: _UNICODE_ESCAPES[match[1]] if match[1] else match[0], text)
