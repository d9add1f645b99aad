"""Restore backslashes of LaTeX and of Windows paths that a model did not escape in JSON.

In ``"$\\frac{1}{2}$"`` with one backslash, ``\\f`` is a form feed for JSON. If no text can mean that, the
backslash was lost.
"""

from __future__ import annotations

import re

from .lazy_regex import lazy_regex

LOST_BACKSLASH = "backslash that was not escaped"
# Commands that begin with n, r and t: a line break or tab before the rest of the name is never prose. Other
# names mean a command only between dollar signs.
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
# Each begins with the character that a fast search looks for.
_SUSPICIOUS = (
    lazy_regex(rf"\\(?:[bf][A-Za-z]|{_COMMANDS})"),
    lazy_regex(rf":\\(?:{_FOLDERS})"),
    lazy_regex(rf"\$[^\"]{{0,80}}\\(?:{_MATH_COMMANDS})"),
)
_ESCAPE = lazy_regex(r"\\(?:([bfnrt])|.)", re.DOTALL)
_PATH = lazy_regex(r"(?<![A-Za-z0-9])[A-Za-z]:(?:\\[^\s\"\\]+)*\Z")  # all its backslashes are not escaped
# A path that begins its string, with a folder that shows that it is one: its further names belong to it, too.
_IN_PATH = lazy_regex(rf"\"[A-Za-z]:\\(?:[bf][a-z]|{_FOLDERS})[^\s:\"\\]*(?:\\[^\s:\"\\]{{2,}})*\Z")
_NAME = lazy_regex(r"[a-z0-9._-]+[\"\\]")  # up to the end of the string, or the next name
NEARBY = 80  # the number of characters that are read before and after an escape


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
    if letter is None:
        return False
    before = text[max(0, start - NEARBY) : start]
    if _IN_PATH.search(before) and _NAME.match(text, end):
        return True
    if not text[end : end + 1].isalpha():
        return False
    if letter in "bf" or _COMMAND.match(text, end - 1):
        return True
    if _FOLDER.match(text, end - 1) and _PATH.search(before):
        return True
    is_math = "$" in before.rpartition('"')[2] and "$" in text[end : end + NEARBY].partition('"')[0]
    return is_math and _MATH_COMMAND.match(text, end - 1) is not None


_WORD = lazy_regex(r"(?:[a-z][A-Za-z]{0,15})?")  # no command or folder above is longer


def undecided_escape(text: str, start: int, end: int) -> tuple[int, bool]:
    """Return the index of the first escape whose backslash is or may be lost, or ``end``.

    The second value is True if the escape is near the end of the text, so that more text decides. ``text`` is
    JSON that is being streamed, from the opening quote of a string on.
    """
    for match in _ESCAPE.finditer(text, start, end):
        if match[1] is None:
            continue
        word = _WORD.match(text, match.end())
        if word is not None and word.end() == len(text):
            return match.start(), True
        before = text[max(0, match.start() - NEARBY) : match.start()]
        is_in_formula = "$" in before and _MATH_COMMAND.match(text, match.end() - 1) is not None
        if is_in_formula or _is_lost(match):
            return match.start(), False
    return end, False


_UNICODE_ESCAPES = {"b": "\\u0008", "f": "\\u000c", "n": "\\u000a", "r": "\\u000d", "t": "\\u0009"}


def with_clear_escapes(text: str) -> str:
    """Return JSON whose escapes cannot be taken for unescaped backslashes: ``\\b`` is written ``\\u0008``."""
    if not has_lost_backslash(text):
        return text
    return _ESCAPE.sub(lambda match: _UNICODE_ESCAPES[match[1]] if match[1] else match[0], text)
