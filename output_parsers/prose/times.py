"""Parse text in prose that contains exactly one date, time or duration.

Missing parts are never filled in. A date needs a year of four digits, and a datetime needs a date and a time.
ISO 8601 does not need a rule. ``01/02/2024`` is read only with a DateOrder. ``9:05`` and time ranges are
rejected. Numbers are never interpreted as seconds since 1970. A UTC offset becomes part of the value; a zone
that is only a name, such as EST or Europe/Berlin, is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from ..lazy_regex import lazy_regex
from . import (
    ENGLISH_NUMBER_WORDS,
    NEUTRAL,
    TextParseError,
    TextReading,
    bare_word,
    join_rules,
    strip_wrapping,
    word_set,
    words_in,
)
from .announcements import after_announcement
from .harmless import ends_a_heading, find_objection, separate_runs
from .numbers import APPROXIMATELY, has_number_word, read_number_token, read_words
from .units import TIME_UNITS


class DateOrder(Enum):
    """The order of day, month and year in a numeric date, such as 01/02/2024.

    Attributes:
        DMY: The day, the month, the year.
        MDY: The month, the day, the year.
        YMD: The year, the month, the day.
    """

    DMY = "day, month, year"
    MDY = "month, day, year"
    YMD = "year, month, day"


_MAX_MENTIONS = 20  # further mentions of a date are not read, so that the time stays linear
_CLOCK_WORDS = {"noon": time(12), "midnight": time(0)}
_TIME_BEFORE_DATE = lazy_regex(r"[\s,]{1,3}(?:on\s{1,2})?")
_FULL_WIDTH = {
    0xFEE0 + code: code for code in (*range(0x30, 0x3B), 0x2D, 0x2E, 0x2F)
}  # digits, -, ., / and :


_BULLET = lazy_regex(r"\A\s*[-*•>][ \t]+")


def _answer(text: str) -> tuple[str, str | None]:
    """Return the part of a reply with the answer, without quotes and markup, and the rule if they were removed."""
    return strip_wrapping(separate_runs(after_announcement(text.translate(_FULL_WIDTH))))


_IN_THE_MORNING = "in the morning|morgens|vormittags|du matin|de la mañana|del mattino|di mattina|da manhã|'s ochtends|утра|rano"
_IN_THE_AFTERNOON = (
    "in the afternoon|in the evening|nachmittags|abends|de l'après-midi|du soir|de la tarde|de la noche|del pomeriggio|di sera|da tarde|da noite"
    "|'s middags|'s avonds|дня|вечера|po południu|wieczorem"
)
# Times as they are written in German, French, Chinese, Japanese and Korean: 14.30 Uhr, 14h30, 下午2:30, 14時30分.
_FOREIGN_TIME = lazy_regex(
    r"(?<![\d:.,])(?P<uhr>[0-2]?[0-9][:.][0-5][0-9])\s?(?:Uhr|uur)\b(?!\s\w)"
    rf"|(?<![\d:.,])(?P<day>(?:0?[1-9]|1[0-2])[:.][0-5][0-9])(?:\sUhr)?\s(?:(?P<am>{_IN_THE_MORNING})|(?P<pm>{_IN_THE_AFTERNOON}))\b"
    r"|(?<![\w:.,])(?P<h>[0-2][0-9]\s?h\s?[0-5][0-9])(?!\w)"
    r"|(?P<half>上午|午前|오전|下午|午後|오후)\s?(?P<clock>[01]?[0-9]\s?[:：時时點点시]\s?[0-5][0-9])\s?[分분]?(?!\s?[\d:])"
    r"|(?<![\d:.,])(?P<cjk>[0-2][0-9]\s?[時时點点시]\s?[0-5][0-9])\s?[分분](?!\s?\d)"
)
_BETWEEN_HOUR_AND_MINUTE = lazy_regex(r"[^0-9]+")


def _clock_answer(text: str) -> tuple[str, str | None]:
    """Return the part of a reply with the answer, in which foreign times are written as 14:30 or 2:30 pm."""
    return _answer(_FOREIGN_TIME.sub(_to_usual_time, _BULLET.sub("", text)))


def _to_usual_time(match: re.Match[str]) -> str:
    half = match["half"]
    written = match["uhr"] or match["day"] or match["h"] or match["clock"] or match["cjk"]
    is_afternoon = match["pm"] or half in ("下午", "午後", "오후")
    suffix = " pm" if is_afternoon else " am" if half or match["am"] else ""
    written = written.rjust(5, "0") if match["uhr"] else written
    space = " " if half or match["cjk"] else ""
    return f"{space}{_BETWEEN_HOUR_AND_MINUTE.sub(':', written)}{suffix}"


def read_date(text: str, order: DateOrder | None = None) -> TextReading[date]:
    """Parse the only date in the text.

    Raises TextParseError if there is not exactly one.
    """
    bare, wrapping = _answer(_BULLET.sub("", text))
    mentions = _mentions(bare, order)
    first, end = mentions[0], mentions[-1].end
    clock = _time_after_date(bare, end) if len(mentions) == 1 else None
    if clock:
        if clock.value.replace(tzinfo=None) != time():
            raise TextParseError("expected a date without a time")
        end = clock.end
    dropped = "midnight dropped" if clock else None
    sentence_rule = _sentence_rule("date", _texts_between(bare, mentions, end), first.value)
    if sentence_rule and bare[first.start : first.end].isdecimal():
        raise TextParseError("eight digits in a sentence are not clearly a date")
    return TextReading(
        first.value, join_rules(None if sentence_rule else wrapping, first.rule, dropped, sentence_rule)
    )


def read_time(text: str) -> TextReading[time]:
    """Parse the only time of day in the text.

    Raises TextParseError if there is not exactly one.
    """
    bare, wrapping = _clock_answer(text)
    word = _CLOCK_WORDS.get(bare.casefold())
    if word is not None:
        return TextReading(word, join_rules(wrapping, "time in words"))
    times = list(islice(_times_in(bare), 2))
    if not times:
        raise TextParseError("expected a time")
    if len(times) > 1:
        raise TextParseError(f"two times: {times[0].value} and {times[1].value}")
    only = times[0]
    sentence_rule = _sentence_rule("time", [bare[: only.start], bare[only.end :]])
    return TextReading(only.value, join_rules(None if sentence_rule else wrapping, only.rule, sentence_rule))


def read_datetime(text: str, order: DateOrder | None = None) -> TextReading[datetime]:
    """Parse the only date in the text together with its time of day.

    Raises TextParseError if there is not exactly one.
    """
    bare, wrapping = _clock_answer(text)
    mentions = _mentions(bare, order)
    if len(mentions) > 1:
        raise TextParseError("several dates")
    day = mentions[0]
    clock = _time_after_date(bare, day.end) or _time_before_date(bare, day)
    if clock is None:
        raise TextParseError("expected a date with its time")
    start, end = min(day.start, clock.start), max(day.end, clock.end)
    sentence_rule = _sentence_rule("date and time", [bare[:start], bare[end:]], day.value)
    value = datetime.combine(day.value, clock.value)
    return TextReading(
        value, join_rules(None if sentence_rule else wrapping, day.rule, clock.rule, sentence_rule)
    )


def _mentions(text: str, order: DateOrder | None) -> list[_DateMention]:
    """Return every mention of the date in the text.

    Raises TextParseError if the text does not have exactly one date.
    """
    # A reply may repeat its date, also in another format.
    mentions = list(islice(_dates_in(text, order), _MAX_MENTIONS))
    if not mentions:
        raise TextParseError("expected a date")
    other = next((mention for mention in mentions if mention.value != mentions[0].value), None)
    if other:
        raise TextParseError(f"two dates: {mentions[0].value} and {other.value}")
    return mentions


def possible_dates(text: str) -> Iterator[tuple[set[date], int, int]]:
    """Yield the possible meanings of each date in the text, with its start and end."""
    for match in _DATE.finditer(text):
        values = set()
        for order in (None, DateOrder.DMY, DateOrder.MDY):
            try:
                values.add(_to_date(match, order)[0])
            except ValueError:
                continue
        if match["last"] and len(match["last"]) == 2:
            values |= _with_century(match)
        if values:
            yield values, match.start(), match.end()


def _with_century(match: re.Match[str]) -> set[date]:
    """Return the possible meanings of a date with a year of two digits, such as 01/02/24."""
    first, second, last = int(match["p"]), int(match["q"]), int(match["last"])
    return {
        date(century + last, month, day)
        for century in (1900, 2000)
        for month, day in ((first, second), (second, first))
        if _date_exists(century + last, month, day)
    }


def possible_times(text: str) -> Iterator[tuple[set[time], int, int]]:
    """Yield the possible meanings of each time of day in the text, with its start and end."""
    for pattern in (_TIME, _TIME_IN_DATETIME):
        for match in pattern.finditer(text):
            if not (match["minute"] or match["half"]):
                continue
            try:
                values = {_to_time(match).value}
            except ValueError:
                hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
                if match["half"] or match["zone"] or max(hour, minute // 5, second // 5) > 11:
                    continue
                values = {time(hour, minute, second), time((hour + 12) % 24, minute, second)}
            yield values, match.start(), match.end()


def possible_durations(text: str) -> Iterator[tuple[timedelta, Fraction | None, int, int]]:
    """Yield each duration in the text, with its first number, its start and its end.

    ISO durations and those with a word for an amount, such as "half an hour", have no number.
    """
    if len(text) <= _MAX_WORDS_LENGTH:
        text = _NUMBER_IN_WORDS.sub(_same_length, text)
    for match in _ISO_IN_TEXT.finditer(text):
        yield _duration_of_match(match), None, match.start(), match.end()
    position = 0
    while parts := _duration_parts(text, position):
        position = parts[-1].end()
        try:
            value = _to_timedelta(_total_seconds(parts, ""))
            number = _number_of(parts[0])
        except TextParseError:
            continue
        yield value, number, parts[0].start(), position


def unit_after(text: str, position: int) -> tuple[timedelta, int] | None:
    """Return the unit of a duration in words after a number that ends at a position, and its end; or None."""
    match = _UNIT_AFTER.match(text, position)
    if match is None:
        return None
    return _to_timedelta(_SECONDS[str(match.lastgroup)]), match.end()


def _same_length(words: re.Match[str]) -> str:
    try:
        digits = f"{read_words(words[0]).value:f}"
    except TextParseError:
        return words[0]
    return digits.rjust(len(words[0]))


def _time_before_date(text: str, day: _DateMention) -> _TimeMention | None:
    """Return the time of day before a date, as in "11:45 PM on July 4"; None if there is none."""
    times = list(islice(_times_in(text[: day.start]), 2))
    joined = len(times) == 1 and _TIME_BEFORE_DATE.fullmatch(text[times[0].end : day.start])
    return times[0] if joined else None


def _texts_between(text: str, mentions: list[_DateMention], end: int) -> list[str]:
    """Return the parts of the text before, between and after the mentions of the date.

    ``end`` is the end of the last mention with its time.
    """
    starts = [0, *(mention.end for mention in mentions[:-1]), end]
    ends = [*(mention.start for mention in mentions), len(text)]
    return [text[start:stop] for start, stop in zip(starts, ends, strict=True)]


_MARKUP = lazy_regex(r"(?<!\S)[*_`\"']{1,3}(?!\S)|[*_`\"']{1,3}\Z|\A[*_`\"']{1,3}")


def _sentence_rule(kind: str, parts: list[str], day: date | None = None) -> str | None:
    """Check the words around a date or time; return a rule name such as "date in a sentence", or None.

    Return None if there are no words.

    ``parts`` is the text around the value. Raises TextParseError if the words may change the value, or
    if they contain a weekday that contradicts ``day``.
    """
    if not any(part.strip() for part in parts):
        return None
    parts = [_MARKUP.sub(" ", part) for part in parts]
    before, after = parts[0].split(), " ".join(parts[1:]).split()
    _refuse_other_numbers(before, after, kind)
    for word in map(bare_word, (*before, *after)):
        if day and word in WEEKDAYS and word != WEEKDAYS[day.weekday()]:
            raise TextParseError(f"{day} is a {WEEKDAYS[day.weekday()].title()}, not a {word.title()}")
    lasted = _LASTED.search(parts[0]) if kind == "time" else None
    if lasted:
        raise TextParseError(f"{lasted[0].strip()!r} before the time says that it is something else")
    zone = _ZONE_NAME.match(parts[-1]) if "time" in kind else None
    if zone:
        raise TextParseError(f"{zone[1]!r} after the time may change it")
    _refuse_unknown(parts, kind)
    return f"{kind} in a sentence"


def _refuse_other_numbers(before: list[str], after: list[str], kind: str) -> None:
    for word in (*before, *after):
        if has_number_word(word) or any(character.isnumeric() for character in word):
            raise TextParseError(f"the text contains a number besides the {kind}: {word[:40]!r}")


_OF_A_DURATION = word_set("runtime running video movie long length lasts lasted for")
_LASTED = lazy_regex(
    r"\b(?:last(?:s|ed|ing)?|took|takes|duration|score|ratio|runtime|dauer\w*|durée|dur[eaó]|durada?|duración|durata|duur\w*|результат|счёт)\b[^:.]*\Z",
    re.IGNORECASE,
)
_ZONE_NAME = lazy_regex(r"\s*\(?([A-Z]{2,5}|(?:my|our|your|their|local|[A-Z][a-z]+) time)\b")
_SCHEDULED = lazy_regex(r"\b(?:scheduled|planned|due) for\W*\Z", re.IGNORECASE)


def _refuse_unknown(parts: list[str], kind: str) -> None:
    """Raise TextParseError if a word around a value is not known to be harmless, such as another calendar."""
    if ends_a_heading(parts[-1]):
        raise TextParseError(f"the {kind} ends a heading")
    of_a_date = words_in("of a date")
    known = (of_a_date | _OF_A_DURATION | NEUTRAL) - {"day"} if kind == "duration" else of_a_date
    objection = find_objection(
        _SCHEDULED.sub("", parts[0]), " ".join(parts[1:]), known, known_after=("statt",), leading=known
    )
    if objection:
        raise TextParseError(f'"{objection[:40]}" in the text may change the {kind}')


class _TimeMention(NamedTuple):
    """A time of day that was found in the text, with its position.

    Attributes:
        value: The time.
        rule: The name of the rule that was applied; None for ISO 8601.
        start: The index where the time begins.
        end: The index after the time.
    """

    value: time
    rule: str | None
    start: int
    end: int


_CLOCK_PATTERN = (
    r"(?P<t>T)?(?P<hour>[0-9]{1,2})"
    r"(?:(?::|\.(?=[0-9]{2}\s?[ap]\.?m\b))(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,12}))?)?)?"
    r"(?:\s?(?P<half>[ap]\.?m\b\.?))?"
    r"(?:\s?(?P<zone>Z|(?:UTC|GMT)(?:[+-][0-9]{2}(?::?[0-9]{2})?)?|[+-][0-9]{2}(?::?[0-9]{2})?))?"
    r"(?![\w/:+-])(?![.,][0-9])"
)
_BASIC_PATTERN = (
    r"T(?P<bhour>[0-9]{2})(?P<bminute>[0-9]{2})(?P<bsecond>[0-9]{2})?"
    r"(?P<bzone>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?(?![\w:+-])"
)
_TIME = lazy_regex(rf"(?<![\w./+-])(?<![0-9]:){_CLOCK_PATTERN}", re.IGNORECASE)
_TIME_IN_DATETIME = lazy_regex(rf"(?<=[0-9])(?=T[0-9]){_CLOCK_PATTERN}", re.IGNORECASE)
_TIME_AFTER_DATE = lazy_regex(
    rf"(?:\s{{0,2}}(?=T[0-9])|(?:\s(?:г\.|года|року|roku|r\.))?[\s,]{{1,3}}(?:(?:at|um|à|в|às|alle|om|kl\.?|a las)\s{{1,2}})?)(?:{_CLOCK_PATTERN}|{_BASIC_PATTERN})",
    re.IGNORECASE,
)
_ZONE = lazy_regex(r"(?:UTC|GMT|Z)?(?:([+-])([0-9]{2}):?([0-9]{2})?)?", re.IGNORECASE)


def _times_in(text: str) -> Iterator[_TimeMention]:
    """Yield the times of day in the text, or raise TextParseError if one of them is ambiguous."""
    for match in _TIME.finditer(text):
        if match["minute"] or match["half"]:
            yield _to_time(match)


def _time_after_date(text: str, position: int) -> _TimeMention | None:
    """Return the time of day after the date that ends at ``position``; None if there is none."""
    match = _TIME_AFTER_DATE.match(text, position)
    if match is None:
        return None
    if match["bhour"]:
        basic = match["bhour"], match["bminute"], match["bsecond"]
        hour, minute, second = (int(part or 0) for part in basic)
        value = _time(match[0].strip(), hour, minute, second, 0, _zone(match["bzone"]))
        return _TimeMention(value, "ISO basic time", match.start(), match.end())
    return _to_time(match) if match["minute"] or match["half"] else None


def _to_time(match: re.Match[str]) -> _TimeMention:
    """Convert a regex match to a time of day, or raise TextParseError if the time is ambiguous."""
    text = match[0].strip(" ,")
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    fraction = match["fraction"] or ""
    rules = []
    if match["half"]:
        if not 1 <= hour <= 12:
            raise TextParseError(f"not a valid time: {text}")
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
        rules.append("12-hour clock")
    elif len(match["hour"]) == 1:  # 09:05 is on the 24-hour clock; 9:05 may be on the 12-hour clock too
        raise TextParseError(f"{text} may be in the morning or in the afternoon")
    if fraction[6:].strip("0"):  # datetime keeps no more than microseconds
        rules.append("cut to microseconds")
    zone = match["zone"]
    # "10:30-12:00" looks like a time with an offset, but is often a range of times.
    if zone and zone[0] == "-" and not match["second"] and not match["t"]:
        raise TextParseError(f"{text} is ambiguous: a time range, or a time with a UTC offset")
    if zone and zone[:3].upper() in ("UTC", "GMT"):
        rules.append("named zone")
    value = _time(text, hour, minute, second, int(f"{fraction[:6]:0<6}"), _zone(zone))
    return _TimeMention(value, join_rules(*rules), match.start(), match.end())


def _time(text: str, hour: int, minute: int, second: int, microsecond: int, zone: tzinfo | None) -> time:
    try:
        return time(hour, minute, second, microsecond, zone)
    except ValueError as error:
        raise TextParseError(f"not a valid time: {text}") from error


def _zone(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    match = _ZONE.fullmatch(text)
    assert match is not None, "the zone is part of what the clock's pattern matched"
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset >= timedelta(days=1) or int(minutes or 0) > 59:
        raise TextParseError(f"not a valid UTC offset: {text}")
    if not offset:
        return UTC
    return timezone(-offset if sign == "-" else offset)


class _DateMention(NamedTuple):
    """A date that was found in the text, with its position.

    Attributes:
        value: The date.
        rule: The name of the rule that was applied; None for ISO 8601.
        start: The index where the date begins.
        end: The index after the date.
    """

    value: date
    rule: str | None
    start: int
    end: int


_MONTH_NAMES = (
    "january jan januar januari janvier janv enero ene gennaio gen janeiro stycznia styczeń ledna leden января январь"
    " січня ocak",
    "february feb februar februari février févr febrero febbraio fevereiro fev lutego luty února únor февраля февраль"
    " лютого şubat",
    "march mar märz mars maart marts maret marzo março marca marzec března březen марта март березня mart",
    "april apr avril avr abril abr aprile kwietnia kwiecień dubna duben апреля апрель квітня nisan",
    "may mai mei maj mayo maggio mag maio maja května květen мая май травня mayıs",
    "june jun juni juin junio giugno giu junho czerwca czerwiec června červen июня июнь червня haziran",
    "july jul juli juillet juil julio luglio lug julho lipca lipiec července červenec июля июль липня temmuz",
    "august aug augustus augusti agustus août agosto ago sierpnia sierpień srpna srpen августа август серпня ağustos",
    "september sep sept septembre septiembre settembre set setembro września wrzesień září сентября сентябрь вересня"
    " eylül",
    "october oct oktober okt octobre octubre ottobre ott outubro out października październik října říjen октября"
    " октябрь жовтня ekim",
    "november nov novembre noviembre novembro listopada listopad listopadu ноября ноябрь листопада kasım",
    "december dec dezember dez december décembre déc diciembre dic dicembre dezembro desember grudnia grudzień prosince"
    " prosinec декабря декабрь грудня aralık",
)
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_MONTH = rf"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?"
    r"|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
)
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th|er|[º°ª]|\.(?=\s))?"
_YEAR = r"[0-9]{4}"
_GAP = r"[\s,.-]{1,3}"
_DATE_IN_WORDS = "|".join(
    (
        rf"{_DAY}[\s-]{{0,2}}(?:(?:of|de)\s)?{_MONTH}{_GAP}(?:del?\s)?{_YEAR}",
        rf"{_MONTH}[\s-]{{0,2}}(?:the\s)?{_DAY}{_GAP}{_YEAR}",
        rf"{_YEAR}{_GAP}{_MONTH}[\s-]{{0,2}}{_DAY}",
    )
)
# A time may follow directly, as in 2024-02-13T10:30. Text with any other letter, digit or separator next to
# it is not a date.
_DATE = lazy_regex(
    rf"(?<![\w/.+-])(?<![0-9]:)(?:(?P<weekday>{_WEEKDAY})\.?,?\s{{1,2}})?(?:the\s)?(?:"
    r"(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?P<week>[0-9]{4}-?W[0-9]{2}-?[1-7])"
    r"|(?P<basic>[1-9][0-9]{7})"
    r"|(?P<first>[0-9]{4})(?P<a>[-/.])(?P<m1>[0-9]{1,2})(?P=a)(?P<d1>[0-9]{1,2})"
    r"|(?P<p>[0-9]{1,2})(?P<b>[-/.])(?P<q>[0-9]{1,2})(?P=b)(?P<last>[0-9]{4}|[0-9]{2})"
    r"|(?P<y2>[0-9]{4})\s?[年년]\s?(?P<m2>[0-9]{1,2})\s?[月월]\s?(?P<d2>[0-9]{1,2})\s?[日일]"
    rf"|(?P<words>{_DATE_IN_WORDS})"
    r")(?:(?=T[0-9])|(?![\w/-])(?![.:][0-9]))",
    re.IGNORECASE,
)


def _dates_in(text: str, order: DateOrder | None) -> Iterator[_DateMention]:
    """Yield the dates in the text, or raise TextParseError if one of them is ambiguous."""
    for match in _DATE.finditer(text):
        try:
            value, rule = _to_date(match, order)
        except ValueError as error:
            raise (
                error
                if isinstance(error, TextParseError)
                else TextParseError(f"not a valid date: {match[0]}")
            ) from error
        # A weekday that contradicts its date means that one of them is wrong.
        weekday = match["weekday"]
        if weekday and not WEEKDAYS[value.weekday()].startswith(weekday[:3].casefold()):
            raise TextParseError(f"{value} is a {WEEKDAYS[value.weekday()].title()}, not a {weekday}")
        yield _DateMention(value, rule or ("weekday" if weekday else None), match.start(), match.end())


def _to_date(match: re.Match[str], order: DateOrder | None) -> tuple[date, str | None]:
    """Convert a regex match to a date; return the date and the name of its format."""
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
        return _parse_date_in_words(match["words"]), "date in words"
    return _date_with_year_last(match, order)


def _date_with_year_last(match: re.Match[str], order: DateOrder | None) -> tuple[date, str]:
    """Convert a match such as 01/02/2024 to a date, after deciding whether the day or the month is first.

    Without ``order``, the date must have only one meaning.
    """
    text = f"{match['p']}{match['b']}{match['q']}{match['b']}{match['last']}"
    # The century is unknown, and 01/02/03 may even begin with the year.
    if len(match["last"]) == 2:
        raise TextParseError(f"{text} has a year of two digits")
    year, first, second = int(match["last"]), int(match["p"]), int(match["q"])
    meanings = {DateOrder.DMY: (second, first), DateOrder.MDY: (first, second)}
    possible = {
        possible_order: date(year, month, day)
        for possible_order, (month, day) in meanings.items()
        if _date_exists(year, month, day)
    }
    if not possible:
        raise TextParseError(f"not a valid date: {text}")
    if order is not None:
        if order not in possible:
            raise TextParseError(f"{text} is not in the order {order.value}")
        return possible[order], order.value
    if len(set(possible.values())) > 1:
        by_day, by_month = possible[DateOrder.DMY], possible[DateOrder.MDY]
        raise TextParseError(f"{text} may be {by_day} or {by_month}")
    only_order, value = next(iter(possible.items()))
    return value, only_order.value


def _date_exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _parse_date_in_words(text: str) -> date:
    """Parse a date that contains the name of a month."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    month = next((_MONTHS[word] for word in words if word in _MONTHS), None)
    if month is None:
        raise TextParseError(f"not a valid date: {text}")
    day, year = sorted(re.findall(r"[0-9]+", text), key=len)
    if not "1000" <= year < "3000":  # 5784 is a year of another calendar
        raise TextParseError(f"not a valid date: {text}")
    return date(int(year), month, int(day))


# Fractions, because sums of floats would not be exact to the microsecond.
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
# The format of str(timedelta). A sign before days applies only to the days; without days, to the whole.
_CLOCK_PATTERN_OF_DURATION = (
    r"(?:(?P<d>[+-]?[0-9]{1,10}) days?, |(?P<sign>[+-])?)"
    r"(?P<h>[0-9]{1,10}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9](?:\.[0-9]{1,12})?)"
)
_CLOCK_DURATION = lazy_regex(_CLOCK_PATTERN_OF_DURATION)
_CLOCK_IN_TEXT = lazy_regex(rf"(?<![\w+:.,-]){_CLOCK_PATTERN_OF_DURATION}(?![\w:])(?![.,][0-9])")
# Words for an amount directly before a unit, as in "half an hour" and "anderthalb Stunden".
_AMOUNT_WORDS = {
    Fraction(
        1, 4
    ): r"(?:a |one )?quarter(?: of)? an?|quarter|(?:d['’])?(?:un )?quart d['’]|(?:un )?cuarto de|(?:un )?quarto d['’]|(?:um )?quarto de"
    r"|(?:eine[rn]? )?viertel|четверть|чверть|čtvrt",
    Fraction(
        1, 2
    ): r"(?:one )?half an?|half|(?:eine[rn]? |een )?halbe[nr]?|een hal(?:f|ve)|halve|(?:d['’])?(?:une )?demi|(?:una |un )?medi[ao](?! ?día)|(?:una )?mezz[ao](?! ?giorno)|mezz['’]"
    r"|(?:uma )?mei[ao](?![ -]?dia)|pół|půl|пол(?!день)|пів(?!день)|(?:en )?halv|yarım|半|반|نصف",
    Fraction(
        3, 4
    ): r"(?:three quarters|three-quarters)(?: of an?)?|dreiviertel|trois quarts d['’]|tres cuartos de|tre quarti d['’]|três quartos de",
    Fraction(
        3, 2
    ): r"anderthalb|eineinhalb|anderhal(?:f|ve)|półtor(?:a|ej)|полтор[аы]|півтор[аи]|halvannen|halvanden"
    r"|bir buçuk",
    Fraction(5, 2): r"zweieinhalb|tweeënhal(?:f|ve)|iki buçuk",
    Fraction(7, 2): r"dreieinhalb|drieënhal(?:f|ve)|üç buçuk",
    Fraction(9, 2): r"viereinhalb|vierenhal(?:f|ve)|dört buçuk",
    Fraction(11, 2): r"fünfeinhalb|vijfenhal(?:f|ve)|beş buçuk",
}
_AND_A_HALF = (
    r"(?:\s(?:and a half|und eine?n? halbe?|et demie?|y medi[oa]|e mezz[oa]|e mei[oa]|en een half|i pół|с половиной|och en halv"
    r"|og en halv)\b)"
)
# "a minute" and "a second" often ask for patience.
_AMOUNT_WORDS[Fraction(1)] = (
    rf"(?:(?:an?|eine?n?|une?|una|uma?|een)\s|un['’])(?=\w{{1,12}}{_AND_A_HALF}|(?:hour|day|week|stunde|tag|woche|heure|jour|semaine|hora|día|dia"
    r"|semana|ora|giorno|settimana|uur|dag)\b)"
)
_AMOUNTS = "|".join(f"(?P<a{number}>{words})" for number, words in enumerate(_AMOUNT_WORDS.values()))
_NUMBER = r"[0-9]{1,12}(?:,[0-9]{1,2}(?![0-9])|(?:,[0-9]{3}){0,3}(?:\.[0-9]{1,12})?)"
# "une demi-heure" and "Viertelstunde" are units of their own.
_UNIT = "|".join(
    rf"(?P<{letter}>{'|'.join(sorted(words.split(), key=len, reverse=True))}|{letter})"
    for letter, words in TIME_UNITS.items()
)
# These may also be months, or points and people.
_AMBIGUOUS_MINUTES = frozenset("m分분")
_PART_PATTERN = (
    rf"(?:(?P<number>{_NUMBER})(?P<more>\s?½|{_AND_A_HALF})?(?:\s|-(?=[^\W\d_]{{3}}))?|(?:{_AMOUNTS})[\s-]?(?=[^\W\d_]{{3}}|[\u3040-\ud7af]))"
    rf"(?:{_UNIT})\.?(?![^\W\d]|[_/²³])(?P<half>{_AND_A_HALF})?"
)
_PART = lazy_regex(_PART_PATTERN, re.IGNORECASE)
_UNIT_AFTER = lazy_regex(
    rf"[\s-]?(?=[^\W\d_]{{3}}|[\u3040-\ud7af])(?:{_UNIT})(?![^\W\d]|[_/²³])", re.IGNORECASE
)
# A sign belongs to the duration only if nothing is right before it.
_FIRST_PART = lazy_regex(rf"(?<![\w.,/'])(?<!\d:)(?<![\w)][+-]){_PART_PATTERN}", re.IGNORECASE)
_PART_JOINT = lazy_regex(r"[\s,]{0,3}(?:(?:and|und|et|y|e|en|i|и)\s{1,2})?")
# Before "2 heures" or "14 uur" these turn it into a time of day.
_AT = lazy_regex(
    r"(?:\b(?:à|a las?|às|alle|om|at|um|o|в|il est|son las|sono le|são|het is|jest|il y a|há)|vers|verso)\s+\Z",
    re.IGNORECASE,
)
_DECADE = lazy_regex(r"\b(?:the|early|late|mid|in) ?[0-9]*0s\b", re.IGNORECASE)
_SIGN_BEFORE = lazy_regex(r"(?<!\S)[+-]\Z")
_MAX_PARTS = 7  # one for each unit
_NUMBER_WORD = f"(?:{'|'.join(sorted(ENGLISH_NUMBER_WORDS))})"
_NUMBER_IN_WORDS = lazy_regex(
    rf"\b({_NUMBER_WORD}(?:[\s-](?:and\s)?{_NUMBER_WORD})*)(?=(?:\sand a half)?[\s-](?:week|day|hour|minute|second|millisecond|microsecond)s?\b)",
    re.IGNORECASE,
)
_MAX_WORDS_LENGTH = 1000  # characters; a reply with a duration in words is short


def read_timedelta(text: str) -> TextReading[timedelta]:
    """Parse the only duration in the text.

    Raises TextParseError if there is not exactly one.

    It accepts ISO 8601 durations, the format of ``str(timedelta)``, and numbers with units from weeks to
    microseconds, each unit once and in descending order. It rejects months and years, which have no fixed
    length, numbers without a unit, ``1:30``, and ``5m`` alone, which may be minutes or months.
    """
    bare, wrapping = _answer(APPROXIMATELY.sub("", text))
    iso = _ISO.fullmatch(bare)
    if iso:
        return TextReading(_duration_of_match(iso), wrapping)
    clock = _CLOCK_DURATION.fullmatch(bare)
    if clock:
        return TextReading(_duration_of_match(clock), join_rules(wrapping, "clock form"))
    if _CALENDAR.match(bare):
        raise TextParseError("months and years have no fixed length")
    with_digits, words_rule = _words_to_digits(bare)
    value, rule, sentence_rule = _only_duration(with_digits)
    return TextReading(
        value, join_rules(None if sentence_rule else wrapping, words_rule, rule, sentence_rule)
    )


def _duration_of_match(match: re.Match[str]) -> timedelta:
    """Convert a regex match with one group per unit, such as hours and minutes, to a duration."""
    named = {unit: number for unit, number in match.groupdict().items() if unit in _SECONDS and number}
    seconds = sum((Fraction(named[unit].replace(",", ".")) * _SECONDS[unit] for unit in named), Fraction(0))
    return _to_timedelta(-seconds if match["sign"] == "-" else seconds)


def _to_timedelta(seconds: Fraction) -> timedelta:
    microseconds = seconds * 1_000_000
    if microseconds.denominator != 1:
        raise TextParseError("the duration is finer than a microsecond")
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError as error:
        raise TextParseError("the duration is too long") from error


def _words_to_digits(text: str) -> tuple[str, str | None]:
    """Replace number words before units, as in "two hours", with digits.

    Return the new text, and the name of the rule or None if the text did not change.
    """
    if len(text) > _MAX_WORDS_LENGTH:
        return text, None
    digits = _NUMBER_IN_WORDS.sub(lambda match: f"{read_words(match[1]).value:f}", text)
    return digits, None if digits == text else "number in words"


def _only_duration(text: str) -> tuple[timedelta, str | None, str | None]:
    """Find the only duration in the text; return it with the names of the parsing rules that were used.

    The first rule is for the duration, the second one for the sentence around it.
    """
    whole = _ISO_IN_TEXT.search(text) or _CLOCK_IN_TEXT.search(text)
    parts = [] if whole else _duration_parts(text)
    if whole:
        value, start, end = _duration_of_match(whole), whole.start(), whole.end()
        rule = None if "T" in whole[0] or "P" in whole[0] else "clock form"
    elif parts:
        sign = _SIGN_BEFORE.search(text, max(0, parts[0].start() - 2), parts[0].start())
        value = _to_timedelta(_total_seconds(parts, "-" if sign and sign[0] == "-" else ""))
        start, end, rule = sign.start() if sign else parts[0].start(), parts[-1].end(), "units"
        if _DECADE.search(text, max(0, start - 6)):
            raise TextParseError(f"{text[start:end]} may be a decade")
        if _AT.search(text, max(0, start - 12), start):
            raise TextParseError(f"{text[start:end]} may be a time of day")
    else:
        raise TextParseError("expected a duration")
    end -= text[end - 1] == "."  # of the sentence
    return value, rule, _duration_sentence_rule(text[:start], text[end:])


def _duration_parts(text: str, position: int = 0) -> list[re.Match[str]]:
    """Split the first duration after a position, such as "2 hours 5 minutes", into matches of one unit each."""
    first = _FIRST_PART.search(text, position)
    parts = [first] if first else []
    while parts and len(parts) <= _MAX_PARTS:
        joint = _PART_JOINT.match(text, parts[-1].end())
        following = _PART.match(text, joint.end() if joint else parts[-1].end())
        if following is None:
            break
        parts.append(following)
    return parts


def _total_seconds(parts: list[re.Match[str]], sign: str) -> Fraction:
    """Add up the parts of a duration in seconds, or raise TextParseError if the total is ambiguous."""
    units = [next(unit for unit in _SECONDS if part[unit]) for part in parts]
    order = [list(_SECONDS).index(unit) for unit in units]
    if order != sorted(set(order)):
        raise TextParseError("each unit of the duration must occur once, in falling order")
    if units == ["m"] and parts[0]["m"].casefold() in _AMBIGUOUS_MINUTES:
        other = "months" if parts[0]["m"].isascii() else "something else"
        raise TextParseError(f"{parts[0][0]} may be minutes or {other}")
    # In str(timedelta), a sign belongs to the first unit; in prose, it belongs to all units.
    if sign and len(parts) > 1:
        raise TextParseError("the minus sign may belong to the first unit or to all")
    total = sum(
        (_amount_of(part) * _SECONDS[unit] for part, unit in zip(parts, units, strict=True)), Fraction(0)
    )
    return -total if sign == "-" else total


def _amount_of(part: re.Match[str]) -> Fraction:
    """Return the number of units in a part of a duration, such as 2.5 for "2,5 Stunden"."""
    number = _number_of(part)
    if number is None:
        number = next(amount for index, amount in enumerate(_AMOUNT_WORDS) if part[f"a{index}"])
    return number + Fraction(1 if part["half"] else 0, 2)


def _number_of(part: re.Match[str]) -> Fraction | None:
    """Return the number before a unit; None for a word such as "half"."""
    if not part["number"]:
        return None
    if _THOUSANDS_OR_DECIMALS.fullmatch(part["number"]) and _FOREIGN_UNIT.search(part[0]):
        raise TextParseError(f"{part['number']} may have thousands or three decimals")
    number = Fraction(read_number_token(_DECIMAL_COMMA.sub(".", part["number"])).value)
    return number + Fraction(1 if part["more"] else 0, 2)


_DECIMAL_COMMA = lazy_regex(r",(?=[0-9]{1,2}\Z)")
_THOUSANDS_OR_DECIMALS = lazy_regex(r"[1-9][0-9]{0,2}[.,][0-9]{3}")
_FOREIGN_UNIT = lazy_regex(
    r"(?i)[^\W\d_]{4,}\.?\Z(?<!week)(?<!weeks)(?<!days)(?<!hour)(?<!hours)(?<!minute)(?<!minutes)(?<!second)(?<!seconds)"
)


def _duration_sentence_rule(before: str, after: str) -> str | None:
    """Check the words around a duration; return "duration in a sentence", or None if there are no words.

    Raises TextParseError if the words may change the duration.
    """
    if not before.strip() and not after.strip():
        return None
    _refuse_other_numbers(before.split(), after.split(), "duration")
    _refuse_unknown([before, after], "duration")
    return "duration in a sentence"
