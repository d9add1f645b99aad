"""Reads the date, the time or both that a text is, or that stand alone in a sentence.

Nothing is filled in: a date needs its year of four digits, a date with a time needs both. ISO 8601 is read as
it is; ``01/02/2024`` only where a DateOrder says how it is meant; ``9:05`` and a range of times not at all.
Numbers are never seconds since 1970. An offset is kept; a zone that is only a name (EST, Europe/Berlin) is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from ..result.lazy_regex import lazy_regex
from .numbers import find_limit, has_number_word, read_number_token, read_words
from .result import (
    NUMBER_WORDS,
    TextParseError,
    TextReading,
    bare_word,
    find_hedging,
    join_rules,
    strip_wrapping,
)


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
_ANYWHERE = lazy_regex(rf"(?<![\w./+-])(?<![0-9]:){_CLOCK}", re.IGNORECASE)
_AFTER_DATE = lazy_regex(
    rf"(?:\s{{0,2}}(?=T[0-9])|[\s,]{{1,3}}(?:at\s{{1,2}})?)(?:{_CLOCK}|{_BASIC})", re.IGNORECASE
)
_ZONE = lazy_regex(r"(?:UTC|GMT|Z)?(?:([+-])([0-9]{2}):?([0-9]{2})?)?", re.IGNORECASE)


def times_in(text: str) -> Iterator[WrittenTime]:
    """The times in the text, from left to right. Raises TextParseError at one that has no or two meanings."""
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
            raise TextParseError(f"no such time: {shown}")
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
        rules.append("12-hour clock")
    elif len(match["hour"]) == 1:
        raise TextParseError(f"{shown} may be in the morning or in the afternoon")
    if fraction[6:].strip("0"):
        rules.append("cut to microseconds")
    zone = match["zone"]
    if zone and zone[0] == "-" and not match["second"] and not match["t"]:
        raise TextParseError(f"{shown} may be a span of time, or a time with an offset")
    if zone and zone[:3].upper() in ("UTC", "GMT"):
        rules.append("named zone")
    value = _time(shown, hour, minute, second, int(f"{fraction[:6]:0<6}"), _zone(zone))
    return WrittenTime(value, join_rules(*rules), match.start(), match.end())


def _time(shown: str, hour: int, minute: int, second: int, microsecond: int, zone: tzinfo | None) -> time:
    try:
        return time(hour, minute, second, microsecond, zone)
    except ValueError as error:
        raise TextParseError(f"no such time: {shown}") from error


def _zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    match = _ZONE.fullmatch(text)
    assert match is not None, "the zone is part of what the clock's pattern matched"
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset >= timedelta(days=1) or int(minutes or 0) > 59:
        raise TextParseError(f"no such offset: {text}")
    if not offset:
        return UTC
    return timezone(-offset if sign == "-" else offset)


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
_DATE = lazy_regex(
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
    """The dates in the text, from left to right. Raises TextParseError at one that has no or two meanings."""
    for match in _DATE.finditer(text):
        try:
            value, rule = _value(match, order)
        except ValueError as error:
            raise (
                error if isinstance(error, TextParseError) else TextParseError(f"no such date: {match[0]}")
            ) from error
        weekday = match["weekday"]
        if weekday and not WEEKDAYS[value.weekday()].startswith(weekday[:3].casefold()):
            raise TextParseError(f"{value} is a {WEEKDAYS[value.weekday()].title()}, not a {weekday}")
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
        raise TextParseError(f"{text} has a year of two digits")
    year, p, q = int(match["last"]), int(match["p"]), int(match["q"])
    meanings = {DateOrder.DMY: (q, p), DateOrder.MDY: (p, q)}
    possible = {
        known: date(year, month, day) for known, (month, day) in meanings.items() if _exists(year, month, day)
    }
    if not possible:
        raise TextParseError(f"no such date: {text}")
    if order is not None:
        if order not in possible:
            raise TextParseError(f"{text} is not in the order {order.value}")
        return possible[order], order.value
    if len(set(possible.values())) > 1:
        by_day, by_month = possible[DateOrder.DMY], possible[DateOrder.MDY]
        raise TextParseError(f"{text} may be {by_day} or {by_month}")
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
        raise TextParseError(f"no such date: {text}") from error
    if one != other or sorted(map(int, re.findall(r"[0-9]+", text))) != sorted((one.day, one.year)):
        raise TextParseError(f"no such date: {text}")
    return one.date()


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
_ISO = lazy_regex(_ISO_PATTERN)
_ISO_IN_TEXT = lazy_regex(rf"(?<![\w+-]){_ISO_PATTERN}(?!\w)")
_CALENDAR = lazy_regex(r"[+-]?P[0-9]{1,12}[YM]|.{0,200}[0-9]\s?(?:months?|years?|yrs?|mo)\b", re.DOTALL)
# What str(timedelta) writes; the sign of the days is theirs alone, a sign without days is that of the whole.
_CLOCK_DURATION = lazy_regex(
    r"(?:(?P<d>[+-]?[0-9]{1,10}) days?, |(?P<sign>[+-])?)"
    r"(?P<h>[0-9]{1,10}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9](?:\.[0-9]{1,12})?)"
)
_NUMBER = r"[0-9]{1,12}(?:,[0-9]{3}){0,3}(?:\.[0-9]{1,12})?"
_UNIT = (
    r"(?:(?P<w>weeks?|wks?|w)|(?P<d>days?|d)|(?P<h>hours?|hrs?|h)|(?P<ms>milliseconds?|msecs?|ms)"
    r"|(?P<us>microseconds?|usecs?|[uµμ]s)|(?P<m>minutes?|mins?|m)|(?P<s>seconds?|secs?|s))"
)
_PART = lazy_regex(rf"(?P<number>{_NUMBER})\s?{_UNIT}\.?(?![^\W\d]|[_/²³])", re.IGNORECASE)
# A sign belongs to the duration only where nothing stands right before it.
_FIRST = lazy_regex(rf"(?<![\w.,:/'])(?<![\w)][+-]){_PART.pattern}", re.IGNORECASE)
_JOINT = lazy_regex(r"[\s,]{0,3}(?:and\s{1,2})?")
_SIGN = lazy_regex(r"(?<!\S)[+-]\Z")
_MOST_PARTS = 7
_CARDINAL = f"(?:{'|'.join(sorted(NUMBER_WORDS))})"
_SPELLED = lazy_regex(
    rf"\b({_CARDINAL}(?:[\s-](?:and\s)?{_CARDINAL})*)(?=\s(?:week|day|hour|minute|second|millisecond|microsecond)s?\b)",
    re.IGNORECASE,
)
# A unit without a number of its own is a part that was not counted: "an hour and 15 minutes".
_UNCOUNTED = lazy_regex(r"\b(?:weeks?|days?|hours?|minutes?|seconds?)\b", re.IGNORECASE)
# After these a duration is that of one of many, or says when.
_APART = lazy_regex(r"\s+(?:each|apiece|earlier|later)\b", re.IGNORECASE)
_LONGEST_SPELLED = 1000  # characters; a reply that spells a duration is short


def read_timedelta(text: str) -> TextReading[timedelta]:
    """The span of time that the text is, or the only one in it. Raises TextParseError, and nothing else.

    Read are ISO 8601 durations, what ``str(timedelta)`` writes, and numbers with units from weeks to
    microseconds, each unit once and in falling order. Months and years have no fixed length and are refused,
    like numbers without a unit, ``1:30``, and a lone ``5m``, which may be minutes or months.
    """
    bare, wrapping = strip_wrapping(text)
    iso = _ISO.fullmatch(bare)
    if iso:
        return TextReading(_of_groups(iso), wrapping)
    clock = _CLOCK_DURATION.fullmatch(bare)
    if clock:
        return TextReading(_of_groups(clock), join_rules(wrapping, "clock form"))
    if _CALENDAR.match(bare):
        raise TextParseError("months and years have no fixed length")
    spelled, rule = _with_digits(bare)
    value, steps, around = _with_units(spelled)
    return TextReading(value, join_rules(None if around else wrapping, rule, steps, around))


def _of_groups(match: re.Match[str]) -> timedelta:
    """The duration of the groups that are named for units; ``sign`` is that of the whole."""
    named = {unit: number for unit, number in match.groupdict().items() if unit in _SECONDS and number}
    seconds = sum((Fraction(named[unit].replace(",", ".")) * _SECONDS[unit] for unit in named), Fraction(0))
    return _timedelta(-seconds if match["sign"] == "-" else seconds)


def _timedelta(seconds: Fraction) -> timedelta:
    microseconds = seconds * 1_000_000
    if microseconds.denominator != 1:
        raise TextParseError("the duration is finer than a microsecond")
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError as error:
        raise TextParseError("the duration is too long") from error


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
        raise TextParseError("expected a duration")
    return value, rule, _duration_sentence_rule(text[:start], text[end:])


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
        raise TextParseError("the units of the duration are not each once and in falling order")
    if units == ["m"] and parts[0]["m"].casefold() == "m":
        raise TextParseError(f"{parts[0][0]} may be minutes or months")
    if sign and len(parts) > 1:  # str(timedelta) means the first unit alone, people mean all
        raise TextParseError("the minus sign may be that of the first unit or of all")
    numbers = (Fraction(read_number_token(f"{sign}{part['number']}").value) for part in parts)
    return sum((number * _SECONDS[unit] for number, unit in zip(numbers, units, strict=True)), Fraction(0))


def _duration_sentence_rule(before: str, after: str) -> str | None:
    if not before.strip() and not after.strip():
        return None
    reason = find_hedging(before.split(), after.split()) or find_limit(before.split(), after.split())
    if reason:
        raise TextParseError(reason)
    for word in (*before.split(), *after.split()):
        if has_number_word(word) or any(character.isnumeric() for character in word):
            raise TextParseError(f"a number beside the duration: {word[:40]!r}")
    uncounted = _UNCOUNTED.search(f"{before}\n{after}")
    if uncounted:
        raise TextParseError(f'"{uncounted[0]}" beside the duration may be a part of it')
    if _APART.match(after):
        raise TextParseError(f'"{after.split()[0]}" after the duration may change it')
    return "duration in a sentence"


_MOST_MENTIONS = 20
_CLOCK_WORDS = {"noon": time(12), "midnight": time(0)}
_TIME_BEFORE_DATE = lazy_regex(r"[\s,]{1,3}(?:on\s{1,2})?")
_CLOSING = lazy_regex(r"\s*(?:[.!;)\"'”’*`]|\Z)")
# Beside a date or a time these move it, or say which half of the day or which zone is meant.
_MOVES = frozenset(
    """
    eve day days week weeks month months year years morning afternoon evening night tonight noon midnight
    utc gmt zone eastern pacific central mountain by from later earlier yesterday tomorrow bc bce b.c
    anniversary
    """.split()
)
# Right before a date or a time these mean another one: "the Friday following March 15, 2024".
_ORDINALS = frozenset({"following", "preceding", "succeeding", "past"})


def read_date(text: str, order: DateOrder | None = None) -> TextReading[date]:
    """The date that the text is, or the only one in it. Raises TextParseError, and nothing else."""
    bare, wrapping = strip_wrapping(text)
    mentions = _mentions(bare, order)
    first, end = mentions[0], mentions[-1].end
    clock = time_at(bare, end) if len(mentions) == 1 else None
    if clock:
        if clock.value.replace(tzinfo=None) != time():
            raise TextParseError("expected a date without a time")
        end = clock.end
    dropped = "midnight dropped" if clock else None
    around = _sentence_rule("date", _parts(bare, mentions, end), first.value)
    if around and bare[first.start : first.end].isdecimal():
        raise TextParseError("eight digits in a sentence may be any number")
    return TextReading(first.value, join_rules(None if around else wrapping, first.rule, dropped, around))


def read_time(text: str) -> TextReading[time]:
    """The time of day that the text is, or the only one in it. Raises TextParseError, and nothing else."""
    bare, wrapping = strip_wrapping(text)
    word = _CLOCK_WORDS.get(bare.casefold())
    if word is not None:
        return TextReading(word, join_rules(wrapping, "time in words"))
    times = list(islice(times_in(bare), 2))
    if not times:
        raise TextParseError("expected a time")
    if len(times) > 1:
        raise TextParseError(f"two times: {times[0].value} and {times[1].value}")
    only = times[0]
    around = _sentence_rule("time", [bare[: only.start], bare[only.end :]])
    _refuse_words_after(bare, only)
    return TextReading(only.value, join_rules(None if around else wrapping, only.rule, around))


def read_datetime(text: str, order: DateOrder | None = None) -> TextReading[datetime]:
    """The date with its time that the text is, or the only one in it. Raises TextParseError, and nothing else."""
    bare, wrapping = strip_wrapping(text)
    mentions = _mentions(bare, order)
    if len(mentions) > 1:
        raise TextParseError("several dates")
    day = mentions[0]
    clock = time_at(bare, day.end) or _time_before(bare, day)
    if clock is None:
        raise TextParseError("expected a date with its time")
    start, end = min(day.start, clock.start), max(day.end, clock.end)
    around = _sentence_rule("date and time", [bare[:start], bare[end:]], day.value)
    if clock.start > day.start:
        _refuse_words_after(bare, clock)
    value = datetime.combine(day.value, clock.value)
    return TextReading(value, join_rules(None if around else wrapping, day.rule, clock.rule, around))


def _mentions(text: str, order: DateOrder | None) -> list[WrittenDate]:
    """The mentions of the one date in the text, at least one."""
    mentions = list(islice(dates_in(text, order), _MOST_MENTIONS))
    if not mentions:
        raise TextParseError("expected a date")
    other = next((mention for mention in mentions if mention.value != mentions[0].value), None)
    if other:
        raise TextParseError(f"two dates: {mentions[0].value} and {other.value}")
    return mentions


def _time_before(text: str, day: WrittenDate) -> WrittenTime | None:
    """The time that stands right before a date: "11:45 PM on July 4, 1968"."""
    times = list(islice(times_in(text[: day.start]), 2))
    joined = len(times) == 1 and _TIME_BEFORE_DATE.fullmatch(text[times[0].end : day.start])
    return times[0] if joined else None


def _parts(text: str, mentions: list[WrittenDate], end: int) -> list[str]:
    """What stands around the mentions; the last of them ends, with its time, at ``end``."""
    starts = [0, *(mention.end for mention in mentions[:-1]), end]
    ends = [*(mention.start for mention in mentions), len(text)]
    return [text[start:stop] for start, stop in zip(starts, ends, strict=True)]


def _sentence_rule(kind: str, parts: list[str], day: date | None = None) -> str | None:
    """The rule for a value in a sentence, None where nothing is around it. Raises TextParseError if in doubt."""
    if not any(part.strip() for part in parts):
        return None
    before, after = parts[0].split(), " ".join(parts[1:]).split()
    reason = find_hedging(before, after) or find_limit(before, after)
    if reason:
        raise TextParseError(reason)
    if before and bare_word(before[-1]) in _ORDINALS:
        raise TextParseError(f'"{before[-1]}" before the {kind} may change it')
    for word in (*before, *after):
        bare = bare_word(word)
        if has_number_word(word) or any(character.isnumeric() for character in word):
            raise TextParseError(f"a number beside the {kind}: {word[:40]!r}")
        if bare in _MOVES and not (kind == "date" and bare in ("day", "year", "month")):
            raise TextParseError(f'"{bare}" beside the {kind} may change it')
        if day and bare in WEEKDAYS and bare != WEEKDAYS[day.weekday()]:
            raise TextParseError(f"{day} is a {WEEKDAYS[day.weekday()].title()}, not a {bare.title()}")
    return f"{kind} in a sentence"


def _refuse_words_after(text: str, clock: WrittenTime) -> None:
    """Refuse words that follow a time in its sentence: a zone, a part of the day, the end of a range."""
    if not _CLOSING.match(text, clock.end):
        raise TextParseError(f"{text[clock.end :].split()[0][:40]!r} after the time may change it")
