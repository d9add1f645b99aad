"""Restore backslashes of LaTeX and of Windows paths that a model did not escape in JSON.

In ``"$\\frac{1}{2}$"`` with one backslash, ``\\f`` is a form feed for JSON. Where no text can mean that, the
backslash was lost.
"""

from __future__ import annotations

import re

from .lazy_regex import lazy_regex

LOST_BACKSLASH = "backslash that was not escaped"
# Commands that begin with n, r and t: a line break or tab before the rest of them is never prose. Others mean
# a command only between dollar signs.
_COMMANDS = (
    r"(?:n(?:eq|abla|ot)|r(?:ightarrow|angle|floor|ceil|ho)|t(?:imes|heta|ilde|riangle(?:left|right)?))(?![A-Za-z])"
    r"|right[)\]}|.]|text(?:bf|it|rm)?\{"
)
_MATH_COMMANDS = r"(?:n(?:e|u|eg|exists|ewline|mid|subseteq)|rm|t(?:o|op|an|au))(?![A-Za-z])"
# Folders that begin with n, r and t. Other words after "A:" are an answer on its own line.
_FOLDERS = (
    r"(?:n(?:ew|ews|ginx|ode|ode_modules|odejs|otes?)|r(?:eadme|eports?|epos?|epository|eleases?|esources?|esults?|oot)"
    r"|t(?:asks?|emp|emplates?|ests?|exts?|mp|ools?|rain|raining))(?![A-Za-z])"
)
_COMMAND = lazy_regex(_COMMANDS)
_MATH_COMMAND = lazy_regex(_MATH_COMMANDS)
_FOLDER = lazy_regex(_FOLDERS)
# Each begins with the character by which it is found fast.
_SUSPICIOUS = (
    lazy_regex(rf"\\(?:[bf][A-Za-z]|{_COMMANDS})"),
    lazy_regex(rf":\\(?:{_FOLDERS})"),
    lazy_regex(rf"\$[^\"]{{0,80}}\\(?:{_MATH_COMMANDS})"),
)
_ESCAPE = lazy_regex(r"\\(?:([bfnrt])|.)", re.DOTALL)
_PATH = lazy_regex(r"(?<![A-Za-z0-9])[A-Za-z]:(?:\\[^\s\"\\]+)*\Z")  # all its backslashes are not escaped
_NEARBY = 80  # characters before and after an escape that are read


def has_lost_backslash(text: str) -> bool:
    """Return True if JSON has unescaped backslashes of LaTeX or of a path."""
    if "\\" not in text or not any(pattern.search(text) for pattern in _SUSPICIOUS):
        return False
    return any(map(_is_lost, _ESCAPE.finditer(text)))


def with_lost_backslashes(text: str) -> str:
    """Return JSON in which the backslashes of LaTeX commands and of Windows paths are escaped."""
    if not has_lost_backslash(text):
        return text
    return _ESCAPE.sub(lambda match: f"\\{match[0]}" if _is_lost(match) else match[0], text)


def _is_lost(match: re.Match[str]) -> bool:
    letter, text, start, end = match[1], match.string, match.start(), match.end()
    if letter is None or not text[end : end + 1].isalpha():
        return False
    if letter in "bf" or _COMMAND.match(text, end - 1):
        return True
    before = text[max(0, start - _NEARBY) : start]
    if _FOLDER.match(text, end - 1) and _PATH.search(before):
        return True
    is_math = "$" in before.rpartition('"')[2] and "$" in text[end : end + _NEARBY].partition('"')[0]
    return is_math and _MATH_COMMAND.match(text, end - 1) is not None


_UNICODE_ESCAPES = {"b": "\\u0008", "f": "\\u000c", "n": "\\u000a", "r": "\\u000d", "t": "\\u0009"}


def with_clear_escapes(text: str) -> str:
    """Return JSON whose escapes cannot be taken for unescaped backslashes: ``\\b`` is written ``\\u0008``."""
    if not has_lost_backslash(text):
        return text
    return _ESCAPE.sub(lambda match: _UNICODE_ESCAPES[match[1]] if match[1] else match[0], text)
