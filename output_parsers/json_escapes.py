"""Turns the inside of a quoted string into the text that it means."""

from __future__ import annotations

import re

from .json_text import JsonFault, Repairs, lone_surrogate
from .late_pattern import late

__all__ = ["decode"]

_ODD = late(r"[\\\x00-\x1f\ud800-\udfff]")
_CONTROL = late(r"[\x00-\x1f]")
_ESCAPE = late(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SURROGATE = late(r"[\ud800-\udfff]")
_HEX = late(r"x([0-9a-fA-F]{2})")
_MEANS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_QUOTES = frozenset("'`“”„‘’")


def decode(body: str, position: int, repairs: Repairs, *, python: bool = False) -> str:
    """The text that ``body``, which begins at ``position``, means; what is not JSON in it is noted.

    ``python``: the string stood in single quotes, where ``\\x41`` is an escape. A backslash that begins no
    escape is text. Raises JsonFault for a NUL, half a surrogate pair, and backslashes with two readings.
    """
    if not _ODD.search(body):
        return body
    control = _CONTROL.search(body)
    if control:
        if "\0" in body:
            raise JsonFault("a NUL character stands in a string", position + body.index("\0"))
        repairs.note("control character in a string", position + control.start())
    text = _unescape(body, position, repairs, python=python) if "\\" in body else body
    if _SURROGATE.search(text):
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise lone_surrogate(position) from None
    return text


def _unescape(body: str, position: int, repairs: Repairs, *, python: bool) -> str:
    """Replace the escapes, which two writers may have meant differently.

    Who writes ``\\d`` or ``\\alpha`` does not escape backslashes: then ``\\b`` and ``\\f`` begin words too,
    and ``\\n`` or ``\\t`` before a letter may be a line's end or ``\\nu`` and ``\\table``: refused.
    """
    escapes = list(_ESCAPE.finditer(body))
    unknown = [escape for escape in escapes if escape[2] and escape[2] not in _MEANS]
    plain = any(char[2].isalpha() and not (python and _HEX.match(body, char.start(2))) for char in unknown)
    if unknown:
        repairs.note("invalid escape", position + unknown[0].start())
    parts: list[str] = []
    done = 0
    for escape in escapes:
        parts.append(body[done : escape.start()])
        done = escape.end()
        code, char = escape.groups()
        if code:
            parts.append(chr(int(code, 16)))
        elif python and (digits := _HEX.match(body, escape.start(2))):
            parts.append(chr(int(digits[1], 16)))
            done = digits.end()
        elif char in _QUOTES:
            parts.append(char)
        elif char not in _MEANS or (plain and char in "bf"):
            parts.append(escape[0])
        elif plain and char in "nrt" and "a" <= body[done : done + 1] <= "z":
            raise JsonFault("the backslashes in a string can be read in two ways", position + escape.start())
        else:
            parts.append(_MEANS[char])
    parts.append(body[done:])
    return "".join(parts)
