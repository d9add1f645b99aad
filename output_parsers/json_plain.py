"""Reads runs of fields and items with nothing odd in them, at the price of one match each.

What is matched here is what the careful reading would find too; it begins where the run ends.
"""

from __future__ import annotations

import re

from .json_escapes import decode
from .json_text import Repairs, put
from .json_words import exact_decimal, exact_int
from .late_pattern import late
from .reading import Json

__all__ = ["plain_fields", "plain_items"]

_LITERALS = {"true": True, "false": False, "null": None}
_SPACE = r"[ \t\r\n]*+"


def _string(quote: str) -> str:
    clean = rf"[^{quote}\\\x00-\x1f\ud800-\udfff]*+"
    return rf"{quote}({clean}(?:\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{{4}}){clean})*+){quote}"


def _field(quote: str) -> re.Pattern[str]:
    key = rf"{_string(quote)}{_SPACE}:{_SPACE}"
    next_key = rf"{quote}[^{quote}\\]*+{quote}{_SPACE}:"
    return late(rf"{key}(?:{_string(quote)}|{_SCALAR}){_SPACE}(?:(,){_SPACE}(?={next_key}|}})|(?=}}))")


def _item(quote: str) -> re.Pattern[str]:
    # A number is not followed by a comma and a zero, for then the comma may be a part of it.
    after_string = rf"(,){_SPACE}(?=[{quote}{{\[\]])|(?=\])"
    after_scalar = rf"(,)(?!0[0-9]){_SPACE}(?=[{quote}{{\[\]0-9tfn-])|(?=\])"
    return late(rf"{_string(quote)}{_SPACE}(?:{after_string})|{_SCALAR}{_SPACE}(?:{after_scalar})")


_SCALAR = r"(?:(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)|(true|false|null))"
_FIELD = {quote: _field(quote) for quote in "\"'"}
_ITEM = {quote: _item(quote) for quote in "\"'"}


def plain_fields(text: str, position: int, fields: dict[str, Json]) -> tuple[int, int]:
    """Read fields from the key at position on.

    Returns the index where the run ends and that of the comma before it, or -1 without one.
    """
    comma = -1
    pattern = _FIELD.get(text[position])
    while pattern and (found := pattern.match(text, position)):
        key, body, whole, rest, literal, _ = found.groups()
        value = _scalar(whole, rest, literal, found.start(3)) if body is None else _text(body, found.start(2))
        if "\\" in key:
            key = _text(key, found.start(1))
        if key in fields:
            put(fields, key, value, position)
        else:
            fields[key] = value
        position, comma = found.end(), found.start(6)
    return position, comma


def plain_items(text: str, position: int, items: list[Json]) -> tuple[int, int]:
    """Read items from position on; returns what plain_fields returns."""
    comma = -1
    pattern = _ITEM["'" if text[position] == "'" else '"']
    while found := pattern.match(text, position):
        body, _, whole, rest, literal, _ = found.groups()
        if body is None:
            items.append(_scalar(whole, rest, literal, found.start(3)))
        else:
            items.append(_text(body, found.start(1)))
        position, comma = found.end(), max(found.start(2), found.start(6))
    return position, comma


def _text(body: str, position: int) -> str:
    return decode(body, position, Repairs()) if "\\" in body else body


def _scalar(whole: str | None, rest: str | None, literal: str | None, position: int) -> Json:
    if whole is None:
        return _LITERALS[literal or "null"]
    return exact_decimal(whole + rest, position) if rest else exact_int(whole, position)
