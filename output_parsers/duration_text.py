"""Reads the span of time that a text is, or the only one in a sentence."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from .doubt import CARDINALS, doubt
from .found import Found, Unreadable, join_rules, unwrap
from .late_pattern import late
from .number_bounds import bound
from .number_lexeme import read_lexeme
from .number_words import has_cardinal, read_words

__all__ = ["read_timedelta"]

_SECONDS = {
    "w": Fraction(604800),
    "d": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
    "us": Fraction(1, 1_000_000),
}
_DECIMAL = r"[0-9]{1,12}(?:[.,][0-9]{1,12})?"
_ISO_PATTERN = (
    rf"(?P<sign>[+-])?P(?=[0-9T])(?:(?P<w>{_DECIMAL})W)?(?:(?P<d>{_DECIMAL})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_DECIMAL})H)?(?:(?P<m>{_DECIMAL})M)?(?:(?P<s>{_DECIMAL})S)?)?"
)
_ISO = late(_ISO_PATTERN)
_ISO_IN_TEXT = late(rf"(?<![\w+-]){_ISO_PATTERN}(?!\w)")
_CALENDAR = late(r"[+-]?P[0-9]{1,12}[YM]|.{0,200}[0-9]\s?(?:months?|years?|yrs?|mo)\b", re.DOTALL)
# What str(timedelta) writes; the sign of the days is theirs alone, a sign without days is that of the whole.
_CLOCK = late(
    r"(?:(?P<d>[+-]?[0-9]{1,10}) days?, |(?P<sign>[+-])?)"
    r"(?P<h>[0-9]{1,10}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9](?:\.[0-9]{1,12})?)"
)
_NUMBER = r"[0-9]{1,12}(?:,[0-9]{3}){0,3}(?:\.[0-9]{1,12})?"
_UNIT = (
    r"(?:(?P<w>weeks?|wks?|w)|(?P<d>days?|d)|(?P<h>hours?|hrs?|h)|(?P<ms>milliseconds?|msecs?|ms)"
    r"|(?P<us>microseconds?|usecs?|[uµμ]s)|(?P<m>minutes?|mins?|m)|(?P<s>seconds?|secs?|s))"
)
_PART = late(rf"(?P<number>{_NUMBER})\s?{_UNIT}\.?(?![^\W\d]|[_/²³])", re.IGNORECASE)
# A sign belongs to the duration only where nothing stands right before it.
_FIRST = late(rf"(?<![\w.,:/'])(?<![\w)][+-]){_PART.pattern}", re.IGNORECASE)
_JOINT = late(r"[\s,]{0,3}(?:and\s{1,2})?")
_SIGN = late(r"(?<!\S)[+-]\Z")
_MOST_PARTS = 7
_CARDINAL = f"(?:{'|'.join(sorted(CARDINALS))})"
_SPELLED = late(
    rf"\b({_CARDINAL}(?:[\s-](?:and\s)?{_CARDINAL})*)(?=\s(?:week|day|hour|minute|second|millisecond|microsecond)s?\b)",
    re.IGNORECASE,
)
# A unit without a number of its own is a part that was not counted: "an hour and 15 minutes".
_UNCOUNTED = late(r"\b(?:weeks?|days?|hours?|minutes?|seconds?)\b", re.IGNORECASE)
# After these a duration is that of one of many, or says when.
_APART = late(r"\s+(?:each|apiece|earlier|later)\b", re.IGNORECASE)
_LONGEST_SPELLED = 1000  # characters; a reply that spells a duration is short


def read_timedelta(text: str) -> Found[timedelta]:
    """The span of time that the text is, or the only one in it. Raises Unreadable, and nothing else.

    Read are ISO 8601 durations, what ``str(timedelta)`` writes, and numbers with units from weeks to
    microseconds, each unit once and in falling order. Months and years have no fixed length and are refused,
    like numbers without a unit, ``1:30``, and a lone ``5m``, which may be minutes or months.
    """
    bare, wrapping = unwrap(text)
    iso = _ISO.fullmatch(bare)
    if iso:
        return Found(_of_groups(iso), wrapping)
    clock = _CLOCK.fullmatch(bare)
    if clock:
        return Found(_of_groups(clock), join_rules(wrapping, "clock form"))
    if _CALENDAR.match(bare):
        raise Unreadable("months and years have no fixed length")
    spelled, rule = _with_digits(bare)
    value, steps, around = _with_units(spelled)
    return Found(value, join_rules(None if around else wrapping, rule, steps, around))


def _of_groups(match: re.Match[str]) -> timedelta:
    """The duration of the groups that are named for units; ``sign`` is that of the whole."""
    named = {unit: number for unit, number in match.groupdict().items() if unit in _SECONDS and number}
    seconds = sum((Fraction(named[unit].replace(",", ".")) * _SECONDS[unit] for unit in named), Fraction(0))
    return _timedelta(-seconds if match["sign"] == "-" else seconds)


def _timedelta(seconds: Fraction) -> timedelta:
    microseconds = seconds * 1_000_000
    if microseconds.denominator != 1:
        raise Unreadable("the duration is finer than a microsecond")
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError as error:
        raise Unreadable("the duration is too long") from error


def _with_digits(text: str) -> tuple[str, str | None]:
    """The text with number words before units put in digits."""
    if len(text) > _LONGEST_SPELLED:
        return text, None
    digits = _SPELLED.sub(lambda match: f"{read_words(match[1]).value:f}", text)
    return digits, None if digits == text else "number in words"


def _with_units(text: str) -> tuple[timedelta, str | None, str | None]:
    """The only run of numbers with units, or ISO duration, in the text; its rule; the sentence's rule."""
    iso = _ISO_IN_TEXT.search(text)
    parts = [] if iso else _run_of_parts(text)
    if iso:
        value, start, end, rule = _of_groups(iso), iso.start(), iso.end(), None
    elif parts:
        sign = _SIGN.search(text, max(0, parts[0].start() - 2), parts[0].start())
        value = _timedelta(_total(parts, "-" if sign and sign[0] == "-" else ""))
        start, end, rule = sign.start() if sign else parts[0].start(), parts[-1].end(), "units"
    else:
        raise Unreadable("expected a duration")
    return value, rule, _sentence_rule(text[:start], text[end:])


def _run_of_parts(text: str) -> list[re.Match[str]]:
    """The first part and those that are joined to it."""
    first = _FIRST.search(text)
    parts = [first] if first else []
    while parts and len(parts) <= _MOST_PARTS:
        joint = _JOINT.match(text, parts[-1].end())
        following = _PART.match(text, joint.end() if joint else parts[-1].end())
        if following is None:
            break
        parts.append(following)
    return parts


def _total(parts: list[re.Match[str]], sign: str) -> Fraction:
    units = [str(part.lastgroup) for part in parts]
    order = [list(_SECONDS).index(unit) for unit in units]
    if order != sorted(set(order)):
        raise Unreadable("the units of the duration are not each once and in falling order")
    if units == ["m"] and parts[0]["m"].casefold() == "m":
        raise Unreadable(f"{parts[0][0]} may be minutes or months")
    if sign and len(parts) > 1:  # str(timedelta) means the first unit alone, people mean all
        raise Unreadable("the minus sign may be that of the first unit or of all")
    numbers = (Fraction(read_lexeme(f"{sign}{part['number']}").value) for part in parts)
    return sum((number * _SECONDS[unit] for number, unit in zip(numbers, units, strict=True)), Fraction(0))


def _sentence_rule(before: str, after: str) -> str | None:
    if not before.strip() and not after.strip():
        return None
    reason = doubt(before.split(), after.split()) or bound(before.split(), after.split())
    if reason:
        raise Unreadable(reason)
    for word in (*before.split(), *after.split()):
        if has_cardinal(word) or any(character.isnumeric() for character in word):
            raise Unreadable(f"a number beside the duration: {word[:40]!r}")
    uncounted = _UNCOUNTED.search(f"{before}\n{after}")
    if uncounted:
        raise Unreadable(f'"{uncounted[0]}" beside the duration may be a part of it')
    if _APART.match(after):
        raise Unreadable(f'"{after.split()[0]}" after the duration may change it')
    return "duration in a sentence"
