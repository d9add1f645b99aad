"""Reads JSON: exactly, or with the tolerances that text written by a model needs, each of them noted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NoReturn

from .json_scanner import scan
from .json_text import DEPTH, JsonFault, JsonText, Repair, lone_surrogate, put, too_deep
from .json_words import exact_decimal, exact_int
from .reading import Json

__all__ = ["JsonFault", "JsonText", "Repair", "read_exact", "read_tolerant"]

_SPACE = re.compile(r"[ \t\r\n]*+")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_NESTING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|([\[{]++)|([\]}]++)', re.DOTALL)


def read_exact(text: str) -> Json:
    """Read a text that is one JSON value and nothing else; integers as int, other numbers as Decimal.

    Raises JsonFault, and nothing else: also for a key that stands twice with different values, NaN and
    Infinity, half a surrogate pair, a number too long to convert, and nesting beyond 500 levels.
    """
    value, end = _read_exact(text, _end_of_space(text, 0))
    end = _end_of_space(text, end)
    if end != len(text):
        raise JsonFault("there is more text after the JSON value", end)
    return value


def read_tolerant(text: str, start: int = 0) -> JsonText:
    """Read the one JSON value that begins at start, and stop at its end; what is not JSON in it is noted.

    Raises JsonFault, and nothing else: where the text is cut off (``truncated``), where it is no JSON even
    so, and where it could be read in two ways.
    """
    first = _end_of_space(text, start)
    if text[first : first + 1] in ("{", "["):
        try:
            value, end = _read_exact(text, first)
        except JsonFault:
            pass
        else:
            return _ended(text, first, JsonText(value, (), end))
    return _ended(text, first, scan(text, start))


def _ended(text: str, start: int, found: JsonText) -> JsonText:
    """Refuse a value with a quote right after its end, which then was text in a string, if none is before."""
    wrapped = start > 0 and text[start - 1] == '"'
    if text.startswith('"', found.end) and not wrapped:
        raise JsonFault("the text goes on after what looks like its end", found.end)
    return found


def _end_of_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _fields(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        fields = {}
        for key, value in pairs:
            put(fields, key, value, 0)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise JsonFault(f"{name} is not a JSON number", 0)


def _integer(digits: str) -> int:
    return exact_int(digits, 0)


def _decimal(digits: str) -> Decimal:
    return exact_decimal(digits, 0)


_DECODER = json.JSONDecoder(
    parse_int=_integer, parse_float=_decimal, parse_constant=_refuse_constant, object_pairs_hook=_fields
)


def _read_exact(text: str, start: int) -> tuple[Json, int]:
    """Read one value at start; the value and the index after it."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise JsonFault(f"this is not exact JSON: {error.msg}", error.pos) from None
    except RecursionError:
        raise too_deep(start) from None
    _check_nesting(text, start, end)
    _check_surrogates(text, start, end)
    return value, end


def _check_nesting(text: str, start: int, end: int) -> None:
    """Raise JsonFault beyond DEPTH, which some versions of Python read and others do not."""
    if text.count("[", start, end) + text.count("{", start, end) <= DEPTH:
        return
    depth = 0
    for token in _NESTING.finditer(text, start, end):
        opened, closed = token.groups()
        depth += len(opened or "") - len(closed or "")
        if depth > DEPTH:
            raise too_deep(token.start())


def _check_surrogates(text: str, start: int, end: int) -> None:
    raw = None if text.isascii() else _SURROGATE.search(text, start, end)
    if raw:
        raise lone_surrogate(raw.start())
    if _SURROGATE_ESCAPE.search(text, start, end):
        for escape in _ESCAPE.finditer(text, start, end):
            if escape[1]:
                raise lone_surrogate(escape.start())
