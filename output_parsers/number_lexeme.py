"""Reads one number written in digits: signs, separators, currencies, exponents, of any script."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from .doubt import SCALES
from .errors import shorten
from .found import Found, Unreadable, join_rules
from .late_pattern import late

__all__ = ["read_lexeme"]

# What is written inside a number beside the plain space and apostrophe, and the signs of other scripts.
_SEPARATORS = str.maketrans({"’": "'", "\u2009": "\u00a0", "\u202f": "\u00a0"})
_SIGNS = str.maketrans(
    {"−": "-", "－": "-", "＋": "+", "．": ".", "，": ",", "٫": ".", "٬": ",", "％": "%", "٪": "%"}
)

_PLAIN = late(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNDERSCORED = late(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?")

# A group of thousands that only one reading explains. A plain space also stands between numbers, so it counts
# only from two groups on, after a short first group. "1.234" is missing: to us it is a decimal point.
_GROUPED = tuple(
    (late(rf"[+-]?{pattern}"), group, point)
    for pattern, group, point in (
        (r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]{0,2}(?:'[0-9]{3})+(?:\.[0-9]+)?", "'", "."),
        (r"[1-9][0-9]{0,2}(?:\u00a0[0-9]{3})+(?:[.,][0-9]+)?", "\u00a0", ","),
        (r"[1-9][0-9]?(?: [0-9]{3}){2,}(?:[.,][0-9]+)?", " ", ","),
        (r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?", ".", ","),
        (r"[1-9][0-9]{0,2}\.[0-9]{3},[0-9]+", ".", ","),
    )
)
_ADDRESS = late(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

_POWER_OF_TEN = late(
    r"([+-]?[0-9]+(?:\.[0-9]+)?) ?(?:[×x*·]|\\times) ?10 ?(?:\^|\*\*) ?"
    r"(?:\{([+-]?[0-9]+)\}|\(?([+-]?[0-9]+)\)?)"
)
_MONEY = r"(?:(?:US|CA|AU)?[$€£¥₹]|USD|EUR|GBP|JPY|CNY|CHF|INR|CAD|AUD)"
_MONEY_FIRST = late(rf"([+-]?){_MONEY}[ \u00a0]?(?=[+-]?[.0-9])")
_MONEY_LAST = late(rf"(?<=[0-9])[ \u00a0]?{_MONEY}\Z")

_COMMA = late(r"[+-]?[0-9]+,[0-9]+")
_SPACED = late(r"[+-]?[0-9]+(?: [0-9]+)+")
_FRACTION = late(r"[+-]?[0-9]+ ?/ ?[0-9]+")
_PERCENT = late(r"[^%]*[0-9] ?%")


def read_lexeme(text: str) -> Found[Decimal]:
    """The number that the text is, from its first character to its last. Raises Unreadable. Linear time."""
    ascii_text, foreign = _in_ascii(text)
    bare, currency = _without_currency(ascii_text)
    for read in (_read_plain, _read_grouped, _read_power, _read_scaled):
        found = read(bare)
        if found:
            return Found(found.value, join_rules(foreign, currency, found.rule))
    raise Unreadable(_refusal(bare))


def _in_ascii(text: str) -> tuple[str, str | None]:
    if text.isascii():
        return text, None
    zeros = {ord(character) - int(character) for character in set(text) if character.isdecimal()}
    if len(zeros) > 1:
        raise Unreadable("digits of several scripts")
    digits = {zero + digit: str(digit) for zero in zeros for digit in range(10)}
    before = text.translate(_SEPARATORS)
    same = before.translate(_SIGNS).translate(digits)
    return same, None if same == before else "characters of another script"


def _without_currency(text: str) -> tuple[str, str | None]:
    bare = _MONEY_LAST.sub("", text)
    first = _MONEY_FIRST.match(bare)
    if first:
        rest = bare[first.end() :]
        if first[1] and rest[0] in "+-":
            raise Unreadable("two signs")
        bare = first[1] + rest
    return bare, None if bare == text else "currency"


def _read_plain(text: str) -> Found[Decimal] | None:
    if _PLAIN.fullmatch(text):
        padded = re.match(r"[+-]?0[0-9]", text)
        return Found(_decimal(text), "leading zeros" if padded else None)
    if _UNDERSCORED.fullmatch(text):
        return Found(_decimal(text.replace("_", "")), "underscores")
    return None


def _read_grouped(text: str) -> Found[Decimal] | None:
    for pattern, group, point in _GROUPED:
        if pattern.fullmatch(text) and not _may_be_address(text):
            return Found(_decimal(text.replace(group, "").replace(point, ".")), "thousands separators")
    return None


def _may_be_address(text: str) -> bool:
    # only a text this short is looked at, for int() of its parts
    return bool(_ADDRESS.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))


def _read_power(text: str) -> Found[Decimal] | None:
    match = _POWER_OF_TEN.fullmatch(text)
    return Found(_decimal(f"{match[1]}e{match[2] or match[3]}"), "power of ten") if match else None


def _read_scaled(text: str) -> Found[Decimal] | None:
    """A number and a word for its scale: "1.5 million"."""
    head, space, word = text.rpartition(" ")
    scale = SCALES.get(word.casefold())
    if not space or scale is None:
        return None
    number = _read_plain(head) or _read_grouped(head)
    if number is None or not number.value.is_finite() or "e" in head.casefold():
        return None
    scaled = _decimal(f"{number.value}e{scale}")
    return Found(_decimal(f"{scaled:f}"), join_rules(number.rule, "scale word"))


def _decimal(lexeme: str) -> Decimal:
    try:
        value = Decimal(lexeme)
    except InvalidOperation:
        raise Unreadable("the exponent is out of range") from None
    if not value.is_finite():  # what a context without traps gives instead
        raise Unreadable("the exponent is out of range")
    return value


def _refusal(text: str) -> str:
    shown = shorten(text, 40)
    if _PERCENT.fullmatch(text):
        return f"{shown} may mean {shown.rstrip(' %')} or a hundredth of it"
    if _COMMA.fullmatch(text):
        return f"{shown} may be one number or two, its comma a decimal point or not"
    if _SPACED.fullmatch(text):
        return f"{shown} may be one number or several"
    if _FRACTION.fullmatch(text):
        return f"{shown} may be a fraction, a score or a date"
    return "expected a number"
