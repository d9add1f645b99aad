"""Reads JSON: exactly, or with the tolerances that text written by a model needs, each of them noted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from ..result.lazy_regex import lazy_regex
from ..result.reading import Json
from .result import DEPTH, JsonSyntaxError, ParsedJson, Repair, add_field, nesting_error, surrogate_error
from .scanner import blank_commas_and_comments, repairs_before, scan

_FIRST_PIECE, _GROWTH = 64, 8
_LONGEST_MARK = len("-Infinity")
_UNTERMINATED = "Unterminated string"
_SPACE = lazy_regex(r"[ \t\r\n]*+")
_ESCAPE = lazy_regex(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_GOES_ON = lazy_regex(r'"|[^"\n{\[]*+"[ \t]*+[,}\]]')
_SURROGATE = lazy_regex(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = lazy_regex(r"\\u[dD][89a-fA-F]")


def read_exact(text: str) -> Json:
    """Read a text that is one JSON value and nothing else; integers as int, other numbers as Decimal.

    Raises JsonSyntaxError, and nothing else: also for a key that stands twice with different values, NaN and
    Infinity, half a surrogate pair, a number too long to convert, and nesting beyond 500 levels.
    """
    value, end = _read_exact(text, _end_of_space(text, 0))
    end = _end_of_space(text, end)
    if end != len(text):
        raise JsonSyntaxError("there is more text after the JSON value", end)
    return value


def read_tolerant(text: str, start: int = 0) -> ParsedJson:
    """Read the one JSON value that begins at start, and stop at its end; what is not JSON in it is noted.

    Raises JsonSyntaxError, and nothing else: where the text is cut off (``truncated``), where it is no JSON even
    so, and where it could be read in two ways.
    """
    first = _end_of_space(text, start)
    near = _read_near_exact(text, first) if text[first : first + 1] in ("{", "[") else None
    return _ended(text, first, near or scan(text, start))


def _read_near_exact(text: str, first: int) -> ParsedJson | None:
    """The value at first if it is exact JSON, or is but for trailing commas and comments; else None.

    It is read from a piece that grows until it holds the value: a failure of the exact reader costs as
    much as all text before it, and there may be many values.
    """
    size, mend = _FIRST_PIECE, False
    repairs: list[Repair] = []
    while True:
        piece = text[first : first + size]
        if mend:
            piece, repairs = blank_commas_and_comments(piece)
            if not repairs:
                return None
        try:
            value, end = _read_exact(piece, 0)
        except JsonSyntaxError as fault:
            if first + size < len(text) and _may_be_cut(piece, fault):
                size *= _GROWTH
            elif mend:
                return None
            else:
                mend = True
        else:
            return ParsedJson(value, repairs_before(end, repairs, first), first + end)


def _may_be_cut(piece: str, fault: JsonSyntaxError) -> bool:
    """Whether more text may mend the fault of an exact reading; what is cut is told at its beginning."""
    return fault.position > len(piece) - _LONGEST_MARK or _UNTERMINATED in fault.message


def _ended(text: str, start: int, found: ParsedJson) -> ParsedJson:
    """Refuse a value behind which a string seems to end, for then its own end was text in that string."""
    wrapped = start > 0 and text[start - 1] == '"'
    if _GOES_ON.match(text, found.end) and not wrapped:
        raise JsonSyntaxError("the text goes on after what looks like its end", found.end)
    return found


def _end_of_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _fields(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        fields = {}
        for key, value in pairs:
            add_field(fields, key, value, 0)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise JsonSyntaxError(f"{name} is not a JSON number", 0)


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_fields)


def _read_exact(text: str, start: int) -> tuple[Json, int]:
    """Read one value at start; the value and the index after it."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"this is not exact JSON: {error.msg}", error.pos) from None
    except JsonSyntaxError:
        raise
    except ValueError:
        raise JsonSyntaxError("a number has too many digits", start) from None
    except InvalidOperation:
        raise JsonSyntaxError("the exponent of a number is too large", start) from None
    except RecursionError:
        raise nesting_error(start) from None
    if text.count("[", start, end) + text.count("{", start, end) > DEPTH:
        _check_depth(value, start)
    _check_surrogates(text, start, end)
    return value, end


def _check_depth(value: Json, position: int) -> None:
    """Raise JsonSyntaxError beyond DEPTH, which some versions of Python read and others do not."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise nesting_error(position)
        level = [
            child
            for outer in level
            for child in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(child, (dict, list))
        ]


def _check_surrogates(text: str, start: int, end: int) -> None:
    raw = None if text.isascii() else _SURROGATE.search(text, start, end)
    if raw:
        raise surrogate_error(raw.start())
    if _SURROGATE_ESCAPE.search(text, start, end):
        for escape in _ESCAPE.finditer(text, start, end):
            if escape[1]:
                raise surrogate_error(escape.start())
