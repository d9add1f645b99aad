"""Reads the date, the time or both that a text is, or that stand alone in a sentence.

Nothing is filled in: a date needs its year of four digits, a date with a time needs both. ISO 8601 is read as
it is; ``01/02/2024`` only where a DateOrder says how it is meant; ``9:05`` and a range of times not at all.
Numbers are never seconds since 1970. An offset is kept; a zone that is only a name (EST, Europe/Berlin) is
refused.
"""

from __future__ import annotations

from datetime import date, datetime, time
from itertools import islice

from .clock_text import WrittenTime, time_at, times_in
from .date_forms import WEEKDAYS, DateOrder, WrittenDate, dates_in
from .doubt import bare_word, doubt
from .duration_text import read_timedelta
from .found import Found, Unreadable, join_rules, unwrap
from .late_pattern import late
from .number_bounds import bound
from .number_words import has_cardinal

__all__ = ["DateOrder", "read_date", "read_datetime", "read_time", "read_timedelta"]

_MOST_MENTIONS = 20
_CLOCK_WORDS = {"noon": time(12), "midnight": time(0)}
_TIME_BEFORE_DATE = late(r"[\s,]{1,3}(?:on\s{1,2})?")
_CLOSING = late(r"\s*(?:[.!;)\"'”’*`]|\Z)")
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


def read_date(text: str, order: DateOrder | None = None) -> Found[date]:
    """The date that the text is, or the only one in it. Raises Unreadable, and nothing else."""
    bare, wrapping = unwrap(text)
    mentions = _mentions(bare, order)
    first, end = mentions[0], mentions[-1].end
    clock = time_at(bare, end) if len(mentions) == 1 else None
    if clock:
        if clock.value.replace(tzinfo=None) != time():
            raise Unreadable("expected a date without a time")
        end = clock.end
    dropped = "midnight dropped" if clock else None
    around = _sentence_rule("date", _parts(bare, mentions, end), first.value)
    if around and bare[first.start : first.end].isdecimal():
        raise Unreadable("eight digits in a sentence may be any number")
    return Found(first.value, join_rules(None if around else wrapping, first.rule, dropped, around))


def read_time(text: str) -> Found[time]:
    """The time of day that the text is, or the only one in it. Raises Unreadable, and nothing else."""
    bare, wrapping = unwrap(text)
    word = _CLOCK_WORDS.get(bare.casefold())
    if word is not None:
        return Found(word, join_rules(wrapping, "time in words"))
    times = list(islice(times_in(bare), 2))
    if not times:
        raise Unreadable("expected a time")
    if len(times) > 1:
        raise Unreadable(f"two times: {times[0].value} and {times[1].value}")
    only = times[0]
    around = _sentence_rule("time", [bare[: only.start], bare[only.end :]])
    _refuse_words_after(bare, only)
    return Found(only.value, join_rules(None if around else wrapping, only.rule, around))


def read_datetime(text: str, order: DateOrder | None = None) -> Found[datetime]:
    """The date with its time that the text is, or the only one in it. Raises Unreadable, and nothing else."""
    bare, wrapping = unwrap(text)
    mentions = _mentions(bare, order)
    if len(mentions) > 1:
        raise Unreadable("several dates")
    day = mentions[0]
    clock = time_at(bare, day.end) or _time_before(bare, day)
    if clock is None:
        raise Unreadable("expected a date with its time")
    start, end = min(day.start, clock.start), max(day.end, clock.end)
    around = _sentence_rule("date and time", [bare[:start], bare[end:]], day.value)
    if clock.start > day.start:
        _refuse_words_after(bare, clock)
    value = datetime.combine(day.value, clock.value)
    return Found(value, join_rules(None if around else wrapping, day.rule, clock.rule, around))


def _mentions(text: str, order: DateOrder | None) -> list[WrittenDate]:
    """The mentions of the one date in the text, at least one."""
    mentions = list(islice(dates_in(text, order), _MOST_MENTIONS))
    if not mentions:
        raise Unreadable("expected a date")
    other = next((mention for mention in mentions if mention.value != mentions[0].value), None)
    if other:
        raise Unreadable(f"two dates: {mentions[0].value} and {other.value}")
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
    """The rule for a value in a sentence, None where nothing is around it. Raises Unreadable if in doubt."""
    if not any(part.strip() for part in parts):
        return None
    before, after = parts[0].split(), " ".join(parts[1:]).split()
    reason = doubt(before, after) or bound(before, after)
    if reason:
        raise Unreadable(reason)
    if before and bare_word(before[-1]) in _ORDINALS:
        raise Unreadable(f'"{before[-1]}" before the {kind} may change it')
    for word in (*before, *after):
        bare = bare_word(word)
        if has_cardinal(word) or any(character.isnumeric() for character in word):
            raise Unreadable(f"a number beside the {kind}: {word[:40]!r}")
        if bare in _MOVES and not (kind == "date" and bare in ("day", "year", "month")):
            raise Unreadable(f'"{bare}" beside the {kind} may change it')
        if day and bare in WEEKDAYS and bare != WEEKDAYS[day.weekday()]:
            raise Unreadable(f"{day} is a {WEEKDAYS[day.weekday()].title()}, not a {bare.title()}")
    return f"{kind} in a sentence"


def _refuse_words_after(text: str, clock: WrittenTime) -> None:
    """Refuse words that follow a time in its sentence: a zone, a part of the day, the end of a range."""
    if not _CLOSING.match(text, clock.end):
        raise Unreadable(f"{text[clock.end :].split()[0][:40]!r} after the time may change it")
