"""Finds the clock times that are written in a text, and reads each with its zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, time, timedelta, timezone, tzinfo
from typing import NamedTuple

from .found import Unreadable, join_rules
from .late_pattern import late

__all__ = ["WrittenTime", "time_at", "times_in"]


class WrittenTime(NamedTuple):
    """A time, the rule that read it (None for ISO 8601), and where in the text it stands."""

    value: time
    rule: str | None
    start: int
    end: int


_CLOCK = (
    r"(?P<t>T)?(?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,12}))?)?)?"
    r"(?:\s?(?P<half>[ap]\.?m\b\.?))?"
    r"(?:\s?(?P<zone>Z|(?:UTC|GMT)(?:[+-][0-9]{2}(?::?[0-9]{2})?)?|[+-][0-9]{2}(?::?[0-9]{2})?))?"
    r"(?![\w/:+-])(?![.,][0-9])"
)
_BASIC = (
    r"T(?P<bhour>[0-9]{2})(?P<bminute>[0-9]{2})(?P<bsecond>[0-9]{2})?"
    r"(?P<bzone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?(?![\w:+-])"
)
_ANYWHERE = late(rf"(?<![\w./+-])(?<![0-9]:){_CLOCK}", re.IGNORECASE)
_AFTER_DATE = late(
    rf"(?:\s{{0,2}}(?=T[0-9])|[\s,]{{1,3}}(?:at\s{{1,2}})?)(?:{_CLOCK}|{_BASIC})", re.IGNORECASE
)
_ZONE = late(r"(?:UTC|GMT|Z)?(?:([+-])([0-9]{2}):?([0-9]{2})?)?", re.IGNORECASE)


def times_in(text: str) -> Iterator[WrittenTime]:
    """The times in the text, from left to right. Raises Unreadable at one that has no or two meanings."""
    for match in _ANYWHERE.finditer(text):
        if match["minute"] or match["half"]:
            yield _written(match)


def time_at(text: str, position: int) -> WrittenTime | None:
    """The time that follows a date which ends at the position, with what joins the two, or None."""
    match = _AFTER_DATE.match(text, position)
    if match is None:
        return None
    if match["bhour"]:
        basic = match["bhour"], match["bminute"], match["bsecond"]
        hour, minute, second = (int(part or 0) for part in basic)
        value = _time(match[0].strip(), hour, minute, second, 0, _zone(match["bzone"]))
        return WrittenTime(value, "ISO basic time", match.start(), match.end())
    return _written(match) if match["minute"] or match["half"] else None


def _written(match: re.Match[str]) -> WrittenTime:
    shown = match[0].strip(" ,")
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    fraction = match["fraction"] or ""
    rules = []
    if match["half"]:
        if not 1 <= hour <= 12:
            raise Unreadable(f"no such time: {shown}")
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
        rules.append("12-hour clock")
    elif len(match["hour"]) == 1:
        raise Unreadable(f"{shown} may be in the morning or in the afternoon")
    if fraction[6:].strip("0"):
        rules.append("cut to microseconds")
    zone = match["zone"]
    if zone and zone[0] == "-" and not match["second"] and not match["t"]:
        raise Unreadable(f"{shown} may be a span of time, or a time with an offset")
    if zone and zone[:3].upper() in ("UTC", "GMT"):
        rules.append("named zone")
    value = _time(shown, hour, minute, second, int(f"{fraction[:6]:0<6}"), _zone(zone))
    return WrittenTime(value, join_rules(*rules), match.start(), match.end())


def _time(shown: str, hour: int, minute: int, second: int, microsecond: int, zone: tzinfo | None) -> time:
    try:
        return time(hour, minute, second, microsecond, zone)
    except ValueError as error:
        raise Unreadable(f"no such time: {shown}") from error


def _zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    match = _ZONE.fullmatch(text)
    assert match is not None, "the zone is part of what the clock's pattern matched"
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset >= timedelta(days=1) or int(minutes or 0) > 59:
        raise Unreadable(f"no such offset: {text}")
    if not offset:
        return UTC
    return timezone(-offset if sign == "-" else offset)
