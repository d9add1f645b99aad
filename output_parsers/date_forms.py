"""Finds the dates that are written in a text, and reads each: ISO, numbers in some order, month names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from enum import Enum
from typing import NamedTuple

from .found import Unreadable
from .late_pattern import late

__all__ = ["WEEKDAYS", "DateOrder", "WrittenDate", "dates_in"]


class DateOrder(Enum):
    """How a date of three numbers such as 01/02/2024 is meant."""

    DMY = "day, month, year"
    MDY = "month, day, year"
    YMD = "year, month, day"


class WrittenDate(NamedTuple):
    """A date, the rule that read it (None for ISO 8601), and where in the text it stands."""

    value: date
    rule: str | None
    start: int
    end: int


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?"
    r"|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
)
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_YEAR = r"[0-9]{4}"
_GAP = r"[\s,.-]{1,3}"
_WORDS = "|".join(
    (
        rf"{_DAY}[\s-]{{0,2}}(?:of\s)?{_MONTH}{_GAP}{_YEAR}",
        rf"{_MONTH}[\s-]{{0,2}}(?:the\s)?{_DAY}{_GAP}{_YEAR}",
        rf"{_YEAR}{_GAP}{_MONTH}[\s-]{{0,2}}{_DAY}",
    )
)
# A time may follow at once, as in 2024-02-13T10:30; any other letter, digit or separator makes it something
# else than a date.
_DATE = late(
    rf"(?<![\w/.+-])(?<![0-9]:)(?:(?P<weekday>{_WEEKDAY})\.?,?\s{{1,2}})?(?:the\s)?(?:"
    r"(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?P<week>[0-9]{4}-?W[0-9]{2}-?[1-7])"
    r"|(?P<basic>[1-9][0-9]{7})"
    r"|(?P<first>[0-9]{4})(?P<a>[-/.])(?P<m1>[0-9]{1,2})(?P=a)(?P<d1>[0-9]{1,2})"
    r"|(?P<p>[0-9]{1,2})(?P<b>[-/.])(?P<q>[0-9]{1,2})(?P=b)(?P<last>[0-9]{4}|[0-9]{2})"
    r"|(?P<y2>[0-9]{4})\s?[年년]\s?(?P<m2>[0-9]{1,2})\s?[月월]\s?(?P<d2>[0-9]{1,2})\s?[日일]"
    rf"|(?P<words>{_WORDS})"
    r")(?:(?=T[0-9])|(?![\w/-])(?![.:][0-9]))",
    re.IGNORECASE,
)


def dates_in(text: str, order: DateOrder | None) -> Iterator[WrittenDate]:
    """The dates in the text, from left to right. Raises Unreadable at one that has no or two meanings."""
    for match in _DATE.finditer(text):
        try:
            value, rule = _value(match, order)
        except ValueError as error:
            raise (
                error if isinstance(error, Unreadable) else Unreadable(f"no such date: {match[0]}")
            ) from error
        weekday = match["weekday"]
        if weekday and not WEEKDAYS[value.weekday()].startswith(weekday[:3].casefold()):
            raise Unreadable(f"{value} is a {WEEKDAYS[value.weekday()].title()}, not a {weekday}")
        yield WrittenDate(value, rule or ("weekday" if weekday else None), match.start(), match.end())


def _value(match: re.Match[str], order: DateOrder | None) -> tuple[date, str | None]:
    """The date and its rule; raises ValueError where the calendar has no such day."""
    if match["iso"]:
        return date.fromisoformat(match["iso"]), None
    if match["week"]:
        return date.fromisoformat(match["week"].upper()), "ISO week date"
    if match["basic"]:
        return date.fromisoformat(match["basic"]), "ISO basic date"
    if match["first"]:
        return date(int(match["first"]), int(match["m1"]), int(match["d1"])), "year, month, day"
    if match["y2"]:
        return date(int(match["y2"]), int(match["m2"]), int(match["d2"])), "year, month, day"
    if match["words"]:
        return _in_words(match["words"]), "date in words"
    return _year_last(match, order)


def _year_last(match: re.Match[str], order: DateOrder | None) -> tuple[date, str]:
    text = f"{match['p']}{match['b']}{match['q']}{match['b']}{match['last']}"
    if len(match["last"]) == 2:
        raise Unreadable(f"{text} has a year of two digits")
    year, p, q = int(match["last"]), int(match["p"]), int(match["q"])
    meanings = {DateOrder.DMY: (q, p), DateOrder.MDY: (p, q)}
    possible = {
        known: date(year, month, day) for known, (month, day) in meanings.items() if _exists(year, month, day)
    }
    if not possible:
        raise Unreadable(f"no such date: {text}")
    if order is not None:
        if order not in possible:
            raise Unreadable(f"{text} is not in the order {order.value}")
        return possible[order], order.value
    if len(set(possible.values())) > 1:
        by_day, by_month = possible[DateOrder.DMY], possible[DateOrder.MDY]
        raise Unreadable(f"{text} may be {by_day} or {by_month}")
    read, value = next(iter(possible.items()))
    return value, read.value


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _in_words(text: str) -> date:
    """A date with a month's name, as dateutil reads it where it adds nothing of its own.

    It fills in what is missing, and takes 0068 for 2068: what it gives must not change with what it fills in
    from, and must show the numbers that stand in the text.
    """
    from dateutil.parser import (
        ParserError,
        parse,
    )  # not at the top: importing it takes longer than all the rest

    plain = re.sub(r"\bthe\b", " ", text, flags=re.IGNORECASE)
    try:
        one, other = (parse(plain, default=filler) for filler in (datetime(2000, 1, 1), datetime(2004, 2, 2)))
    except (ParserError, OverflowError) as error:
        raise Unreadable(f"no such date: {text}") from error
    if one != other or sorted(map(int, re.findall(r"[0-9]+", text))) != sorted((one.day, one.year)):
        raise Unreadable(f"no such date: {text}")
    return one.date()
