"""Parse JSON: valid JSON with ``read_exact``, broken JSON with ``read_tolerant``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import starmap
from typing import NoReturn

from ..result.lazy_regex import lazy_regex
from ..result.reading import Cursor, Json
from .result import (
    DEPTH,
    JsonSyntaxError,
    ParsedJson,
    Repair,
    RepairLog,
    add_field,
    nesting_error,
    surrogate_error,
)
from .scanner import Scanner

_FIRST_PIECE, _GROWTH = 64, 8  # characters of the first piece, and the factor for the next one
_LONGEST_WORD = len("-Infinity")
_UNTERMINATED = "Unterminated string"  # in the message of json.JSONDecodeError
_SPACE = lazy_regex(r"[ \t\r\n]*+")
_STRING_END_AHEAD = lazy_regex(r'"|[^"\n{\[]*+"[ \t]*+[,}\]]')
_SURROGATE = lazy_regex(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = lazy_regex(r"\\u[dD][89a-fA-F]")
# Group 1 is an escaped surrogate without its other half.
_ESCAPE = lazy_regex(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def read_exact(text: str) -> Json:
    """Parse text that is exactly one valid JSON value; integers become int, other numbers Decimal.

    Raises only JsonSyntaxError, also for a key that appears twice with different values, NaN and Infinity,
    half a surrogate pair, a number that is too long to convert, and nesting deeper than 500 levels.
    """
    value, end = _decode(text, _skip_space(text, 0))
    end = _skip_space(text, end)
    if end != len(text):
        raise JsonSyntaxError("there is more text after the JSON value", end)
    return value


def read_tolerant(text: str, start: int = 0) -> ParsedJson:
    """Parse the JSON value that begins at index ``start``, repairing common syntax mistakes.

    Parsing stops at the end of the value. Raises only JsonSyntaxError: for truncated text (``truncated`` is
    true), for text that is too far from JSON, and for ambiguous text.
    """
    begins = text[start : start + 1] in ("{", "[")
    first = start if begins else _skip_space(text, start)
    near_exact = begins or text[first : first + 1] in ("{", "[")
    parsed = (_read_near_exact(text, first) if near_exact else None) or Scanner(text).read(start)
    # If a string seems to end behind the value, the bracket that ended the value was text in that string.
    # The exception is a value in quotes, because its closing quote follows.
    if _STRING_END_AHEAD.match(text, parsed.end) and not (first > 0 and text[first - 1] == '"'):
        message = "there is more text after what looks like the end of the value"
        raise JsonSyntaxError(message, parsed.end)
    return parsed


def _read_near_exact(text: str, first: int) -> ParsedJson | None:
    """Parse JSON with the standard library after replacing trailing commas and comments with spaces.

    ``first`` is the index where the value begins. Return None if the JSON has other mistakes, which
    only the slower scanner can repair.
    """
    # An error of the standard library costs as much as all text before it, because it counts lines. A reply
    # may hold many values, so each is read from a piece that grows until it holds the whole value.
    size, blanked = _FIRST_PIECE, False
    repairs: list[Repair] = []
    while True:
        piece = text[first : first + size]
        if blanked:
            piece, repairs = _blank_commas_and_comments(piece)
            if not repairs:
                return None
        try:
            value, end = _decode(piece, 0)
        except JsonSyntaxError as error:
            # More text may help if the error is near the end of the piece, or is reported at the beginning
            # of something that is cut.
            may_be_cut = error.position > len(piece) - _LONGEST_WORD or _UNTERMINATED in error.message
            if may_be_cut and first + size < len(text):
                size *= _GROWTH
            elif blanked:
                return None
            else:
                blanked = True
        else:
            return ParsedJson(value, _first_repairs(repairs, end, first), first + end)


def parse_json_string(data: str, opening: str, cursor: Cursor) -> Json:
    """Parse a string that contains JSON; return any other string unchanged.

    ``opening`` is the bracket that the JSON must begin with.

    Models sometimes write a nested object or array as a string. The conversion is recorded.
    """
    if not data.lstrip().startswith(opening):
        return data
    try:
        inside = read_exact(data.strip())
    except JsonSyntaxError:
        return data
    cursor.record("JSON inside a string", data, inside)
    return inside


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _collect_fields(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        fields = {}
        for key, value in pairs:
            add_field(fields, key, value, 0)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise JsonSyntaxError(f"{name} is not a JSON number", 0)


_DECODER = json.JSONDecoder(
    parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_collect_fields
)


def _decode(text: str, start: int) -> tuple[Json, int]:
    """Parse the valid JSON value at index ``start``; return the value and the index after it."""
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
    raw = None if text.isascii() else _SURROGATE.search(text, start, end)
    if raw:
        raise surrogate_error(raw.start())
    if _SURROGATE_ESCAPE.search(text, start, end):
        for escape in _ESCAPE.finditer(text, start, end):
            if escape[1]:
                raise surrogate_error(escape.start())
    return value, end


# The nesting that json.loads accepts depends on the version of Python, so this limit is checked separately.
def _check_depth(value: Json, position: int) -> None:
    """Raise JsonSyntaxError if a JSON value is nested deeper than the parser allows."""
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


_COMMENT = (
    r"(?<=[\s,:{}\[\]])(?://[^\"\r\n]*+(?=[\r\n]|\Z)|\#(?=\s|\Z)[^\"\r\n]*+(?=[\r\n]|\Z)"
    r"|/\*[^\"*]*+(?:\*(?!/)[^\"*]*+)*+\*/)"
)
_GAP = rf"[ \t\r\n]*+(?:{_COMMENT}[ \t\r\n]*+)*+"
# Matches exact JSON up to the first trailing comma or comment, inclusive.
_EXACT_THEN_REPAIR = lazy_regex(
    rf"""(?:[^"'`/\#,\[{{]++|"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"|[\[{{](?!{_GAP},)|,(?!{_GAP}[}}\]]))*+"""
    rf"(?:(?P<comma>,)(?={_GAP}[}}\]])|(?P<comment>{_COMMENT}))"
)
_REPAIR_RULES = {"comma": "trailing comma", "comment": "comment"}


def _blank_commas_and_comments(text: str) -> tuple[str, list[Repair]]:
    """Replace trailing commas and comments in JSON with spaces; return the new text and the repairs.

    Replacing stops at the first other syntax mistake.
    """
    parts: list[str] = []
    repairs: list[Repair] = []
    done = 0
    while match := _EXACT_THEN_REPAIR.match(text, done):
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        parts += text[done:start], " " * (end - start)
        repairs.append(Repair(_REPAIR_RULES[kind], start))
        done = end
    parts.append(text[done:])
    return "".join(parts), repairs


def _first_repairs(repairs: list[Repair], end: int, offset: int) -> tuple[Repair, ...]:
    """Return one Repair for each kind of mistake that was removed from the JSON before index ``end``."""
    if not repairs:
        return ()
    first: RepairLog = {}
    for rule, position in repairs:
        if position < end:
            first.setdefault(rule, position + offset)
    return tuple(starmap(Repair, first.items()))
