"""List all numbers, dates, times and durations that a text mentions, with every meaning that each may have.

The readers of prose find one answer and refuse what is ambiguous. This module tells whether a value may come
from the text. A number is a mention only as a whole, with its sign, scale, exponent and fraction: "5" is not
mentioned by "5 million", "-5", "10^5", "5½" or "v5.1".
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, TypeVar

from .lazy_regex import lazy_regex
from .number_words import ATTACHED, numerals_in, scale_of, unclear_scale_of
from .prose.decimal_signs import MAX_CHARACTERS, SIGN_OF_DECIMALS
from .prose.numbers import NumberStyle, may_be_ip_address
from .prose.times import possible_dates, possible_durations, possible_times, unit_after
from .prose.units import CALENDAR_UNITS, CURRENCY_CODES, CURRENCY_SIGNS, EAST_ASIAN_POWERS

V = TypeVar("V")


class Mention(NamedTuple, Generic[V]):
    """A value that a text mentions.

    Attributes:
        values: Its meanings.
        start: The index where it begins.
        end: The index after it.
        possible: Its meanings in other contexts that the surrounding words do not exclude.
        is_changed: True for a number with a sign or a scale, so that its digits alone are another number.
    """

    values: frozenset[V]
    start: int
    end: int
    possible: frozenset[V] = frozenset()
    is_changed: bool = False


def dates_in(text: str) -> Iterator[Mention[date]]:
    """Yield each date in the text; ``01/02/2024`` has two meanings."""
    return (Mention(frozenset(values), start, end) for values, start, end in possible_dates(text))


def times_in(text: str) -> Iterator[Mention[time]]:
    """Yield each time of day in the text; ``9:05`` has two meanings."""
    return (Mention(frozenset(values), start, end) for values, start, end in possible_times(text))


def durations_in(text: str, style: NumberStyle | None = None) -> Iterator[Mention[timedelta]]:
    """Yield each duration in the text, such as ``2 hours 5 minutes``; ``style`` is for its numbers."""
    numbers = sorted(numbers_in(text, style), key=attrgetter("start"))
    rest: list[Mention[Decimal]] = []  # numbers with a unit that have not been read yet
    position = 0
    for value, amount, start, end in sorted(possible_durations(text), key=itemgetter(2)):
        index, number = _number_at_start(numbers, start)
        rest += numbers[position:index]
        position = bisect_left(numbers, end, key=attrgetter("start"))
        if _CALENDAR_BEFORE.search(text, max(0, start - 24), start):
            continue  # "1 month 5 days" is not 5 days
        if amount is not None and number is not None:
            if amount in number.values or -amount in number.values:
                yield Mention(frozenset({value if amount in number.values else -value}), number.start, end)
            else:
                rest.append(number)
        elif amount is None and number is None and rest and not text[rest[-1].end : start].strip():
            before = rest.pop()  # "drei Viertelstunden"
            yield Mention(_times(value, before.values), before.start, end)
        else:
            yield Mention(frozenset({value}), start, end)
    for number in [*rest, *numbers[position:]]:
        unit = unit_after(text, number.end)
        if unit is not None:
            values, possible = _times(unit[0], number.values), _times(unit[0], number.possible)
            yield Mention(values, number.start, unit[1], possible - values)


def _number_at_start(numbers: list[Mention[Decimal]], start: int) -> tuple[int, Mention[Decimal] | None]:
    """Return how many numbers are before a duration, and the number that it starts with."""
    index = bisect_right(numbers, start, key=attrgetter("start"))
    if index and numbers[index - 1].end > start:
        return index - 1, numbers[index - 1]
    return index, None


def _times(unit: timedelta, numbers: frozenset[Decimal]) -> frozenset[timedelta]:
    """Multiply a duration by each number, exactly to the microsecond."""
    microseconds = [round(Fraction(number) * (unit // timedelta(microseconds=1))) for number in numbers]
    longest = timedelta.max // timedelta(microseconds=1)
    return frozenset(timedelta(microseconds=one) for one in microseconds if abs(one) <= longest)


_CALENDAR_BEFORE = lazy_regex(
    rf"(?<![^\W\d_])(?:{'|'.join(CALENDAR_UNITS).replace(' ', '|')}|mês|lata?|rok|miesiąc\w*|miesięcy|год\w*"
    r"|месяц\w*),?\s(?:(?:and|und|et|y|e|en|i|и)\s)?\Z",
    re.IGNORECASE,
)


# --- Numbers ---


@dataclass(slots=True)
class _Number:
    """A number while it is read.

    Attributes:
        start: The index where it begins, with its sign.
        end: The index after it, with its scale.
        values: Its meanings.
        possible: Other meanings that it may have.
        scale: The factor of its scale word.
        is_percent: True for a number with a percent sign, which may also be the share.
        digits: The indices of its digits.
    """

    start: int
    end: int
    values: set[Decimal]
    possible: set[Decimal]
    digits: tuple[int, int]
    scale: Decimal = Decimal(1)
    is_percent: bool = False

    def doubt(self, *others: Decimal) -> None:
        """Turn all meanings into possible ones, and add others."""
        self.possible |= {*self.values, *others}
        self.values = set()

    def mention(self, text: str) -> Mention[Decimal]:
        """Return the number as a mention."""
        digits = text[slice(*self.digits)]
        is_negative = self.start < self.digits[0] and text[self.start] in _DASHES
        has_several_words = not digits.isalpha() and not any(map(str.isdecimal, digits))
        is_changed = self.scale != 1 or is_negative or has_several_words
        possible = frozenset(self.possible - self.values)
        return Mention(frozenset(self.values), self.start, self.end, possible, is_changed)

    def convert(self, factor: Decimal) -> None:
        """Multiply all meanings."""
        self.values = {value * factor for value in self.values}
        self.possible = {value * factor for value in self.possible}


_SPACES = r"[ \u00a0\u2009\u202f]"
_DIGITS = lazy_regex(r"\d+(?:[.,'’_\u066b\u066c]\d+)*(?:[eE][+\-−]?\d+)?|[\u00bc-\u00be\u2150-\u215e]")
_MAX_DIGITS = 60  # of a number; longer ones are keys or data


def numbers_in(
    text: str, style: NumberStyle | None = None, *, whole: bool = False
) -> Iterator[Mention[Decimal]]:
    """Yield each number in the text, in digits or words.

    Args:
        text: The text.
        style: The decimal sign of its numbers, if it is known: it decides what ``10,000`` means.
        whole: True if a whole number is expected, so that ``1.500`` has thousands.
    """
    if not any(character.isnumeric() for character in text):
        yield from _in_words(text, [])
        return
    dates = list(dates_in(text))
    yield from map(_numbers_of_date, dates)
    in_dates = [(one.start, one.end) for one in dates]
    numbers: list[_Number] = []
    reach = 0
    for group in _groups(text, in_dates):
        runs = [run for run in group if run.start() >= reach]
        numbers += _read_group(text, runs, style, whole=whole) if runs else ()
        reach = max([reach, *(number.end for number in numbers[-len(runs) - 1 :])])
    for one in _joined(text, numbers):
        if one.values or one.possible:
            yield one.mention(text)
    yield from _in_words(text, [*in_dates, *((one.start, one.end) for one in numbers)])


def _numbers_of_date(mention: Mention[date]) -> Mention[Decimal]:
    """Return the year of a date as a number, and its month and day as possible ones."""
    years = frozenset(Decimal(one.year) for one in mention.values)
    others = frozenset(Decimal(part) for one in mention.values for part in (one.month, one.day))
    return Mention(years, mention.start, mention.end, others)


def _groups(text: str, excluded: list[tuple[int, int]]) -> Iterator[list[re.Match[str]]]:
    """Yield the runs of digits that have only single spaces between them, which may be one number.

    Those in the ``excluded`` ranges are left out.
    """
    group: list[re.Match[str]] = []
    ranges = iter([*excluded, (len(text) + 1, len(text) + 1)])
    start, end = next(ranges)
    for run in _DIGITS.finditer(text):
        while run.start() >= end:
            start, end = next(ranges)
        if run.start() >= start:
            continue
        if group and not (
            run.start() == group[-1].end() + 1 and text[run.start() - 1] in " \u00a0\u2009\u202f"
        ):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


_GROUPED = lazy_regex(rf"[1-9]\d{{0,2}}(?:{_SPACES}\d{{3}})+(?:[.,]\d+)?")


def _read_group(
    text: str, runs: list[re.Match[str]], style: NumberStyle | None, *, whole: bool
) -> Iterator[_Number]:
    """Yield the number or the numbers in runs of digits between spaces."""
    if len(runs) > 1 and _is_code(text, runs):
        return
    grouped = None
    if len(runs) > 1 and _GROUPED.fullmatch(_ascii(text[runs[0].start() : runs[-1].end()])):
        grouped, is_one = _read_spaced(text, runs, style, whole=whole)
        if grouped is not None and is_one:
            yield grouped
            return
    reach = 0
    for run in runs:
        part = None if run.start() < reach else _number_at(text, *run.span(), run[0], style, whole=whole)
        if part is not None:
            reach = part.end
            if grouped is not None:
                part.doubt()
            yield part
    if grouped is not None:
        grouped.doubt()
        yield grouped


def _read_spaced(
    text: str, runs: list[re.Match[str]], style: NumberStyle | None, *, whole: bool
) -> tuple[_Number | None, bool]:
    """Return the number with spaces between thousands, and whether the runs cannot be several numbers."""
    start, end = runs[0].start(), runs[-1].end()
    compact = re.sub(_SPACES, "", text[start:end])
    has_comma = "," in compact
    number = _number_at(text, start, end, compact, NumberStyle.COMMA if has_comma else style, whole=whole)
    is_one = (
        has_comma
        or all(text[run.end()] != " " for run in runs[:-1])
        or (len(runs) > 2 and len(runs[0][0]) < 3)
        or any(run[0][0] == "0" for run in runs[1:])
    )
    return number, is_one or (number is not None and _has_currency(text, number))


def _is_code(text: str, runs: list[re.Match[str]]) -> bool:
    """Return True for numbers of telephones and cards, which are written in groups."""
    lengths = [len(run[0]) for run in runs]
    first = text[runs[0].start() - 1 : runs[0].start()]
    return (
        first == "+"
        or (runs[0][0][0] == "0" and runs[0][0].isdecimal() and lengths[0] > 1)
        or sum(run[0].isdecimal() and len(run[0]) > 3 and not 1900 <= int(run[0]) <= 2100 for run in runs) > 2
    )


_TO_ASCII = str.maketrans({"’": "'", "\u066b": ".", "\u066c": ",", "−": "-"})


def _ascii(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(unicodedata.decimal(one, one)) for one in digits.translate(_TO_ASCII))


# --- What is before and after a number ---

_CURRENCY_BEFORE = lazy_regex(rf"(?:{CURRENCY_SIGNS}|(?<![^\W_])(?:{CURRENCY_CODES})\.?){_SPACES}?\Z")
_CURRENCY = rf"(?:{CURRENCY_SIGNS}|(?:{CURRENCY_CODES})(?![^\W\d_]))"
_CURRENCY_AFTER = lazy_regex(rf"{_SPACES}?{_CURRENCY}")
_CODE_LABEL = lazy_regex(
    r"(?:\b(?:version|release|section|sections|chapter|article|art|clause|paragraph|para|figure|fig|table"
    r"|item|rule|annex"
    r"|appendix|abschnitt|kapitel|artikel|ziffer|tabelle|abbildung|punkt|article|alinéa|artículo|sección"
    r"|capítulo|sezione"
    r"|раздел|пункт|статья|глава)\.?\s?|§\s?|\bv\.?\s?)\Z",
    re.IGNORECASE,
)
_PHONE_LABEL = lazy_regex(
    r"\b(?:phone|tel|telephone|telefon|mobile|fax|isbn|iban)\b[.:]?\s?[+(]?\Z", re.IGNORECASE
)
_POINT_BEFORE = lazy_regex(r"(?<![\w.])\.\Z")
_MINUS_WORD = lazy_regex(r"\b(?:minus|negative|moins|menos|meno|минус|мінус|eksi)\s\Z", re.IGNORECASE)
_DASHES = "-−–‑‐—"
_EXPONENT_BEFORE = lazy_regex(r"(?:[_^]|[\w)]\*\*)[-−+({]?\Z")
_SCALE_BEFORE = lazy_regex(rf"(?<!\d)(?<!\d{_SPACES})\b([^\W\d_]{{2,}})\.?{_SPACES}\Z")


def _number_at(
    text: str, start: int, end: int, digits: str, style: NumberStyle | None, *, whole: bool
) -> _Number | None:
    """Return the number at a place; None if its digits are a part of a word, a code or another number."""
    digits = _ascii(digits)
    number = _Number(start, end, set(), set(), (start, end))
    if not _begins(text, number):
        return None
    has_currency = _has_currency(text, number)
    number.values, number.possible = _readings(digits, style, whole=whole, has_currency=has_currency)
    if _POINT_BEFORE.search(text, max(0, start - 2), start) and digits.isdecimal():
        number.values, number.possible = {Decimal(f"0.{digits}")}, set()
        number.start -= 1
    if not number.values and not number.possible:
        return None
    is_shortened = len(digits.partition(".")[2]) > 1 and digits[-1] == "0"
    if is_shortened and _CODE_LABEL.search(text, max(0, start - 16), start):
        return None  # version 3.10 is not 3.1
    if not _read_end(text, number, has_currency=has_currency):
        return None
    _read_sign(text, number)
    return number


def _begins(text: str, number: _Number) -> bool:
    """Return True if a number begins at a place; a currency before it becomes part of it."""
    before = text[max(0, number.start - 12) : number.start]
    currency = _CURRENCY_BEFORE.search(before)
    if currency is not None:
        number.start -= len(before) - currency.start()
        before = before[: currency.start()]
        return not before[-1:].isalnum() and before[-1:] != "_"
    last, earlier = before[-1:], before[-2:-1]
    if last.isalpha():  # as in A4
        return _is_spaceless(last) and last not in EAST_ASIAN_POWERS
    if _EXPONENT_BEFORE.search(before):
        return False
    if last in tuple(".,'’") and earlier.isdecimal():
        return False
    if last == "/" and earlier.isalpha():
        return False
    # COVID-19; but scripts such as Hebrew join words and numbers by a hyphen
    return not (last in tuple(_DASHES) and earlier.isalpha() and unicodedata.bidirectional(earlier) == "L")


def _is_spaceless(letter: str) -> bool:
    return "\u2e80" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3" or "\uf900" <= letter <= "\ufaff"


def _has_currency(text: str, number: _Number) -> bool:
    before = text[max(0, number.digits[0] - 12) : number.digits[0]].rstrip("-−–")
    return (
        _CURRENCY_BEFORE.search(before) is not None
        or _CURRENCY_AFTER.match(text, number.digits[1]) is not None
    )


def _read_sign(text: str, number: _Number) -> None:
    """Apply the sign before a number."""
    start = number.start
    before = text[max(0, start - 16) : start]
    word = _MINUS_WORD.search(before)
    if word is not None:
        number.convert(Decimal(-1))
        number.start -= len(word[0])
    elif (dash := _DASH_BEFORE.search(before)) is not None:
        meaning = _dash_meaning(before[: dash.start()].rstrip("\r\n"), dash)
        if meaning == "minus":
            number.convert(Decimal(-1))
            number.start = start - 1
        elif meaning == "unclear":
            number.doubt(*(-value for value in number.values))
    elif start < number.digits[0] and text[number.digits[0] - 1] in "-−":  # "$-500"
        number.convert(Decimal(-1))
    elif text[start - 1 : start] == "(" and text[number.end : number.end + 1] == ")":
        _read_brackets(text, number)


_DASH_BEFORE = lazy_regex(rf"([{_DASHES}])([ \u00a0]*)\Z")


def _dash_meaning(before: str, dash: re.Match[str]) -> str:
    """Return whether a dash is a minus. After a word it separates, as in "Rent - 500", or joins a range."""
    if dash[1] == "—" or before[-1:].isalnum() or before[-1:] in tuple(")]%"):
        return "separator"
    previous = before.rstrip(" \u00a0")[-1:]
    follows_word = previous.isalnum() or previous in tuple(")]%")
    if dash[2]:
        return "separator" if follows_word and dash[1] != "−" else "unclear"
    return "unclear" if (dash[1] == "–" and follows_word) or previous.isdecimal() else "minus"


def _read_brackets(text: str, number: _Number) -> None:
    """Read a number in brackets: in accounts it is negative, and after its words it is not."""
    start, end = number.digits
    before = text[max(0, start - 60) : number.start - 1].rstrip()
    is_amount = number.scale == 1 and number.end - number.start > 3
    is_plain = text[start:end].isdecimal() and number.start == start
    if is_amount and not is_plain and all(numeral.end < len(before) for numeral in numerals_in(before)):
        number.doubt(*(-value for value in number.values))


_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_POWER = r"(?:\^|\*\*)(?:\{([-−+]?\d{1,4})\}|\(([-−+]?\d{1,4})\)|([-−+]?\d{1,4})(?!\d|[.,]\d))|([⁻⁰¹²³⁴-⁹]+)"
_EXPONENT = lazy_regex(_POWER)
_WHOLE = lazy_regex(r"[-+]?\d{1,4}")
_HIGHEST_POWER = 400  # of ten
_TIMES_TEN = lazy_regex(rf"\s?[×x*·]\s?10(?:{_POWER}|([-−]\d{{1,3}})(?!\d))")
_MIXED = lazy_regex(
    rf"{_SPACES}?([\u00bc-\u00be\u2150-\u215e])|(?:{_SPACES}|-)(\d{{1,2}})[/\u2044](\d{{1,3}})(?![\d/])"
)
_HALF_AFTER = lazy_regex(
    r"\s(?:and a half|und ein(?:e|en)? halb\w*|et demie?|y medi[oa]|e mezz[oa]|e mei[oa]|en een half|i pół"
    r"|с половиной)\b",
    re.IGNORECASE,
)
_PERCENT = lazy_regex(
    r"[\s-]?(?:(?P<p2>[%٪％]|(?:percent\w{0,4}|per cent|pct|prozent\w{0,2}|pour cent|por ciento|por cento"
    r"|procent\w{0,2}|proc"
    r"|процент\w*|відсот\w*|τοις εκατό|パーセント|퍼센트)(?![^\W_]))|(?P<p3>‰|(?:per mille|promille)\b)"
    r"|(?P<p4>‱|(?:basis points?|bps|bp|basispunkte?n?)\b))",
    re.IGNORECASE,
)
_CURRENCY_WITH_SCALE = lazy_regex(rf"{_SPACES}?(k|K|T|MM|M|m|Mn|mn|Mio|mio|bn|Bn|B|Md|Mrd|G)\.?{_CURRENCY}")
_ATTACHED = lazy_regex(r"[^\W\d_]+")
# Such as 万, or 億2000万; 千克 are kilograms.
_EAST_ASIAN_SCALES = rf"[{''.join(EAST_ASIAN_POWERS)}]{{1,3}}(?![克米瓦卡字帕赫伏焦牛欧比分])"
_EAST_ASIAN_REST = lazy_regex(
    rf"[ \u00a0]?{_EAST_ASIAN_SCALES}(?:\d{{1,20}}(?:\.\d{{1,20}})?{_EAST_ASIAN_SCALES})*"
    r"(?:\d{1,4}(?![\d.,]))?"
)
_EAST_ASIAN_PART = lazy_regex(rf"(\d+(?:\.\d+)?)?([{''.join(EAST_ASIAN_POWERS)}]*)")
_NEXT_WORD = lazy_regex(
    rf"\+?(?:\)|{_SPACES}?\([^()]{{1,60}}\))?"
    rf"(?P<currency>{_SPACES}?{_CURRENCY})?"
    r"(?:[ \t\u00a0\u2009\u202f]{0,2}(?:\r?\n[ \t]*)?|[-‐‑])"
    r"(?P<word>[^\W\d_](?:[^\W\d_]|[\u0300-\u036f\u093c-\u094d\u0e31-\u0e4e])*)(?P<stop>\.?)"
)
_FRACTION_NOUN = lazy_regex(
    r"[\s-](?:(?P<f2>halves)|(?P<f3>thirds?|drittel|tiers|tercios?|terzi|terços?|derde|trzecie|трети)"
    r"|(?P<f4>quarters?|fourths?|viertel|quarts?|cuartos?|quarti|kwart)|(?P<f5>fifths?|fünftel|cinquièmes?"
    r"|quintos?)"
    r"|(?P<f6>sixths?|sechstel)|(?P<f7>sevenths?|siebtel)|(?P<f8>eighths?|achtel)|(?P<f9>ninths?|neuntel)"
    r"|(?P<f10>tenths?|zehntel|dixièmes?|décimos?)|(?P<f100>hundredths?|hundertstel|centièmes?)"
    r"|(?P<f1000>thousandths?|tausendstel|millièmes?))\b",
    re.IGNORECASE,
)


def _read_end(text: str, number: _Number, *, has_currency: bool) -> bool:
    """Apply the text after the digits of a number; return False if they are part of something else."""
    end = number.end
    east_asian = _EAST_ASIAN_REST.match(text, end)
    if east_asian is not None:
        _read_east_asian(number, east_asian)
        return True
    power = _EXPONENT.match(text, end)
    if power is not None:
        return _read_power(number, power)
    times = _TIMES_TEN.match(text, end)
    if times is not None:
        exponent = _exponent(times)
        number.convert(Decimal(10) ** (exponent or 0))
        number.end = times.end()
        return exponent is not None
    _read_mixed(text, number)
    percent = _PERCENT.match(text, number.end)
    if percent is not None:
        factor = Decimal(1).scaleb(-int(str(percent.lastgroup)[1]))
        number.values |= {value * factor for value in number.values}
        number.is_percent = factor == Decimal("0.01")
        number.end = percent.end()
        return True
    return _read_scale(text, number, has_currency=has_currency)


def _read_mixed(text: str, number: _Number) -> None:
    """Add a fraction after a whole number, as in 2½."""
    mixed = _MIXED.match(text, number.end)
    if (
        mixed is not None
        and (mixed[1] or int(mixed[2]) < int(mixed[3]))
        and text[number.start : number.end].isdecimal()
    ):
        part = (
            Decimal(str(unicodedata.numeric(mixed[1])))
            if mixed[1]
            else Decimal(int(mixed[2])) / int(mixed[3])
        )
        number.values = {value + part for value in number.values}
        number.end = mixed.end()
    half = _HALF_AFTER.match(text, number.end)
    if half is not None:
        number.values = {value + Decimal("0.5") for value in number.values}
        number.end = half.end()


def _read_east_asian(number: _Number, rest: re.Match[str]) -> None:
    """Read a number such as 1億2000万 to its end."""
    first, *parts = [part for part in _EAST_ASIAN_PART.findall(rest[0].lstrip()) if part != ("", "")]
    number.convert(Decimal(1).scaleb(sum(EAST_ASIAN_POWERS[one] for one in first[1])))
    more = sum(
        (
            Decimal(_ascii(digits)).scaleb(sum(EAST_ASIAN_POWERS[one] for one in scales))
            for digits, scales in parts
        ),
        Decimal(0),
    )
    number.values = {value + more for value in number.values}
    number.scale, number.end = Decimal(10), rest.end()


def _exponent(power: re.Match[str]) -> int | None:
    """Return an exponent; None for other raised signs, such as those of an ion."""
    digits = next(filter(None, power.groups())).translate(_SUPERSCRIPTS)
    return int(digits) if _WHOLE.fullmatch(digits) else None


def _read_power(number: _Number, power: re.Match[str]) -> bool:
    """Apply an exponent; a raised digit may also be the number of a footnote."""
    exponent = _exponent(power)
    if exponent is None or abs(exponent) > _HIGHEST_POWER:
        return False
    bases = [value for value in number.values if abs(value.adjusted()) < _HIGHEST_POWER]
    raised = {value**exponent for value in bases if value or exponent > 0}
    raised = {value for value in raised if abs(value.adjusted()) < _HIGHEST_POWER}
    is_sure = power[0][0] in "^*" or number.values == {Decimal(10)}
    if is_sure:
        number.values, number.possible = raised, set()
    else:
        number.doubt(*raised)
    number.end = power.end()
    return True


def _read_scale(text: str, number: _Number, *, has_currency: bool) -> bool:
    """Apply the scale words after a number; return False if unknown letters are right after it."""
    money = _CURRENCY_WITH_SCALE.match(text, number.end)
    if money is not None:
        factor = Decimal(1000) if money[1] == "T" else scale_of(money[1]) or unclear_scale_of(money[1])
        assert factor is not None
        _scale(number, factor, money.end())
        return True
    attached = _ATTACHED.match(text, number.end)
    if attached is not None and not _is_spaceless(attached[0][0]):
        return _read_attached(text, number, attached, has_currency=has_currency)
    if text[number.end : number.end + 1] == "_":
        return False
    if not _read_spaced_scale(text, number, has_currency=has_currency):
        return False
    _read_fraction_noun(text, number)
    before = _SCALE_BEFORE.search(text, max(0, number.start - 24), number.start)
    factor = scale_of(before[1]) if before is not None and number.scale == 1 else None
    if factor is not None:  # as in Swahili
        number.values, number.possible = set(), {value * factor for value in number.values}
    return True


def _read_spaced_scale(text: str, number: _Number, *, has_currency: bool) -> bool:
    """Apply the scale words after a space or a hyphen; return False if the number is part of a code."""
    while (word := _NEXT_WORD.match(text, number.end)) is not None:
        factor = _spaced_scale(word, has_currency=has_currency)
        if factor is not None:
            _scale(number, factor, word.end())
            continue
        if text[number.end] in "-‐‑" and (len(word["word"]) < 3 or word["word"].isupper()):
            return False  # 10-K
        unclear = unclear_scale_of(word["word"])
        if unclear is not None and word["word"] not in ("m", "b"):
            number.doubt(*(value * unclear for value in number.values))
        return True
    return True


def _spaced_scale(word: re.Match[str], *, has_currency: bool) -> Decimal | None:
    letters = word["word"]
    if letters == "mil":
        return Decimal(1000)
    if has_currency or word["currency"]:
        return scale_of(letters) or unclear_scale_of(letters)
    return scale_of(letters)


def _scale(number: _Number, factor: Decimal, end: int) -> None:
    number.convert(factor)
    number.scale *= factor
    number.end = end


def _read_attached(text: str, number: _Number, attached: re.Match[str], *, has_currency: bool) -> bool:
    """Apply letters right after a number: a scale, a unit or the ending of an ordinal number."""
    letters = attached[0].rstrip("²³")
    if (
        text[attached.end() : attached.end() + 1].isdecimal()
        or text[attached.end() : attached.end() + 1] == "_"
    ):
        return False
    unclear = unclear_scale_of(letters)
    if has_currency and unclear is not None:
        _scale(number, unclear, attached.end())
    elif letters in ("m", "b"):
        number.doubt(*(value * (unclear or 1) for value in number.values))
    elif letters == "K":
        _scale(number, Decimal(1000), attached.end())
    elif (factor := scale_of(letters)) is not None:
        _scale(number, factor, attached.end())
        return _read_scale(text, number, has_currency=has_currency)
    elif letters not in ATTACHED and not re.fullmatch(CURRENCY_CODES, letters):
        return False
    if letters == "s" and number.values and text[number.end - 1] == "0":
        number.doubt()  # the 1990s, or seconds
    number.end = max(number.end, attached.end())
    return True


def _read_fraction_noun(text: str, number: _Number) -> None:
    noun = _FRACTION_NOUN.match(text, number.end)
    if noun is not None and number.scale == 1:
        number.doubt(*(value / int(str(noun.lastgroup)[1:]) for value in number.values))
        number.end = noun.end()


# --- Digits ---

_PATTERNS = {
    "plain": r"\d+",
    "thousands, point": r"[1-9]\d{0,2}(?:,\d{3}){2,}(?:\.\d+)?|[1-9]\d{0,2},\d{3}\.\d+"
    r"|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?",
    "thousands, comma": r"[1-9]\d{0,2}(?:\.\d{3}){2,}(?:,\d+)?|[1-9]\d{0,2}\.\d{3},\d+",
    "comma group": r"[1-9]\d{0,2},\d{3}",
    "point group": r"[1-9]\d{0,2}\.\d{3}",
    "apostrophes": r"\d{1,3}(?:'\d{3})+(?:[.,]\d+)?",
    "underscores": r"\d{1,3}(?:_\d{3})+(?:\.\d+)?",
    "point": r"\d+\.\d+",
    "comma": r"\d+,\d+",
}
_FORM = lazy_regex("|".join(f"(?P<f{number}>{pattern})" for number, pattern in enumerate(_PATTERNS.values())))
_FORMS = list(_PATTERNS)


def _readings(
    digits: str, style: NumberStyle | None, *, whole: bool, has_currency: bool
) -> tuple[set[Decimal], set[Decimal]]:
    """Return the meanings of digits, and their possible other meanings."""
    if len(digits) > _MAX_DIGITS:
        return set(), set()
    if len(digits) == 1 and not digits.isascii():
        return {Decimal(str(unicodedata.numeric(digits)))}, set()
    mantissa, _, exponent = re.sub("[eE]", "e", digits).partition("e")
    form = _FORM.fullmatch(mantissa)
    if form is None or len(exponent) > 4 or may_be_ip_address(mantissa):
        return set(), set()
    kind = _FORMS[int(str(form.lastgroup)[1:])]
    values, possible = _meanings(mantissa, kind, style, whole=whole, has_currency=has_currency)
    if exponent:
        return {value.scaleb(int(exponent)) for value in values}, {
            value.scaleb(int(exponent)) for value in possible
        }
    return values, possible


def _meanings(
    digits: str, kind: str, style: NumberStyle | None, *, whole: bool, has_currency: bool
) -> tuple[set[Decimal], set[Decimal]]:
    by_point, by_comma = digits.replace(",", ""), digits.replace(".", "").replace(",", ".")
    match kind:
        case "plain":
            values = {Decimal(digits)}
            return (set(), values) if len(digits) > 1 and digits[0] == "0" else (values, set())
        case "apostrophes" | "underscores":
            return {Decimal(re.sub("['_]", "", digits).replace(",", "."))}, set()
        case "thousands, point" | "point":
            return {Decimal(by_point)}, set()
        case "thousands, comma":
            return {Decimal(by_comma)}, set()
        case "comma":
            parts = {Decimal(part) for part in digits.split(",")}
            value = Decimal(digits.replace(",", "."))
            return ({value}, set()) if style is not NumberStyle.POINT else (set(), {value, *parts})
        case "comma group":
            return {Decimal(by_comma if style is NumberStyle.COMMA else by_point)}, set()
    return _point_group(Decimal(by_comma), Decimal(digits), style, is_amount=whole or has_currency)


def _point_group(
    grouped: Decimal, fraction: Decimal, style: NumberStyle | None, *, is_amount: bool
) -> tuple[set[Decimal], set[Decimal]]:
    """Return the certain and the possible meanings of 1.500: few whole numbers have three decimals."""
    if style is NumberStyle.COMMA or (style is None and is_amount):
        return {grouped}, set()
    return (set(), {grouped, fraction}) if style is None or is_amount else ({fraction}, set())


_ENGLISH = frozenset("the of and to is in that for be by with shall this".split())
_OTHER_LANGUAGES = frozenset(
    "der die das und den von mit ist le la les des et du est pour el los las de que del y il di che per "
    "het een van en "
    "os da do em não и в не на что w na się jest z och att är på og er av det i".split()
)


@lru_cache(maxsize=32)
def style_of(text: str) -> NumberStyle | None:
    """Return the decimal sign in a text, as its other numbers or its language show; None if unknown."""
    numbers = SIGN_OF_DECIMALS.finditer(text, 0, MAX_CHARACTERS)
    counts = Counter(str(match.lastgroup) for match in numbers)
    for point, comma in (("point", "comma"), ("cents", "decimals")):
        if counts[point] and counts[comma]:
            return None
        if counts[point] or counts[comma]:
            return NumberStyle.POINT if counts[point] else NumberStyle.COMMA
    words = text[:5000].casefold().split()
    english, other = sum(word in _ENGLISH for word in words), sum(word in _OTHER_LANGUAGES for word in words)
    if abs(english - other) < 3:
        return None
    return NumberStyle.POINT if english > other else NumberStyle.COMMA


# --- Several numbers ---

_RANGE = lazy_regex(
    r"\s?[-–—‑‐]\s?|\s?(?:\.{2,3}|…)\s?|\s(?:to|bis|à|a|al|до|do|tot|till|through|or|oder|ou|o)\s"
)
_POINT_WORD = lazy_regex(r"\s(?i:point|komma|virgule|coma|virgola|vírgula|przecinek|запятая)\s")
_WITH_POINT_WORD = lazy_regex(r"-?[0-9]+\.[0-9]{1,2}")
_SEPARATOR = lazy_regex(r"\s?[/\u2044]\s?")
_AND = ("and", "und", "et", "y", "e")
_SCORES = frozenset(map(Decimal, (5, 10, 20, 100)))
_NAMES = frozenset({(Decimal(24), Decimal(7)), (Decimal(9), Decimal(11))})  # always, and a date


def _joined(text: str, numbers: list[_Number]) -> Iterator[_Number]:
    """Yield the numbers, joining those that form a fraction, a range, a code or a sum."""
    position = 0
    while position < len(numbers):
        chain = [numbers[position]]
        while position + len(chain) < len(numbers):
            following = numbers[position + len(chain)]
            gap = text[chain[-1].end : following.start]
            if following.start < chain[-1].end or not _CHAIN.fullmatch(gap):
                break
            chain.append(following)
        yield from _read_chain(text, chain)
        position += len(chain)


_CHAIN = lazy_regex(
    rf"{_RANGE.pattern}|{_POINT_WORD.pattern}|{_SEPARATOR.pattern}|[:.]|[ \u00a0](?:(?:and|und|et|y"
    rf"|e)[ \u00a0])?|\)[ \u00a0]?"
)


def _read_chain(text: str, chain: list[_Number]) -> Iterator[_Number]:
    gaps = [text[one.end : other.start] for one, other in pairwise(chain)]
    digits = [text[slice(*one.digits)] for one in chain]
    if _is_hyphenated_code(text, chain, gaps, digits):
        return
    for index, (one, other) in enumerate(pairwise(chain)):
        _read_pair(one, other, gaps[index], is_alone=len(chain) == 2)
    yield from chain


def _is_hyphenated_code(text: str, chain: list[_Number], gaps: list[str], digits: list[str]) -> bool:
    """Return True for codes such as telephone numbers: digits in several groups, or after a label."""
    if len(chain) > 1 and _PHONE_LABEL.search(text, max(0, chain[0].start - 16), chain[0].start):
        return True
    hyphens = sum(gap in tuple("-–‑‐.") for gap in gaps)
    if hyphens > 1 and all(gap in tuple("-–‑‐.) ") or gap == ") " for gap in gaps):
        return True
    is_phone = hyphens and ")" in "".join(gaps)
    return bool(
        is_phone or (gaps in (["-"], ["‑"]) and [len(one) for one in digits] == [3, 4] and digits[1] > "1")
    )


def _read_pair(one: _Number, other: _Number, gap: str, *, is_alone: bool) -> None:
    falls = max(other.values, default=0) < max(one.values, default=0)
    if _POINT_WORD.fullmatch(gap):
        _read_point(one, other, is_alone=is_alone)
    elif _SEPARATOR.fullmatch(gap):
        _read_fraction(one, other, is_alone=is_alone)
    elif gap in (":", ".") or (gap in tuple("-–‑‐") and falls and not other.is_percent):
        one.doubt()
        other.doubt()
    elif one.scale > other.scale:
        _read_sum(one, other, gap)
    else:
        _read_range(one, other, gap)


def _read_range(one: _Number, other: _Number, gap: str) -> None:
    """Apply the percent sign or the scale of the end of a range to its beginning."""
    is_range = _RANGE.fullmatch(gap) is not None
    if is_range and other.is_percent and not one.is_percent:  # 5-10 %
        one.possible |= {value / 100 for value in one.values}
    elif one.scale == 1 < other.scale and (is_range or gap.strip() in _AND):
        scaled = {value * other.scale for value in one.values}
        if is_range:  # 5 to 6 million
            one.values, one.possible = scaled, set(one.values)
        else:  # 5 and 6 million, between 5 and 6 million
            one.doubt(*scaled)


def _read_point(one: _Number, other: _Number, *, is_alone: bool) -> None:
    """Read three point five as one number."""
    digits = f"{min(one.values, default='')}.{min(other.values, default='')}"
    one.values = {Decimal(digits)} if is_alone and _WITH_POINT_WORD.fullmatch(digits) else set()
    one.possible = set()
    one.end, other.values, other.possible = other.end, set(), set()


def _read_fraction(one: _Number, other: _Number, *, is_alone: bool) -> None:
    if any(1900 <= value <= 2100 for value in {*one.values, *other.values}):  # 05/2024
        one.doubt()
        other.doubt()
        return
    pairs = [(above, below) for above in one.values for below in other.values if below]
    is_name = any(pair in _NAMES for pair in pairs)
    is_score = bool(other.values & _SCORES)
    one.possible = set(one.values) if is_score else set()
    one.values = {above / below for above, below in pairs} if is_alone and not is_name else set()
    if any(above > below for above, below in pairs):
        one.doubt()
    one.end, other.values, other.possible = other.end, set(), set()


def _read_sum(one: _Number, other: _Number, gap: str) -> None:
    """Read 5 million 300 thousand as one number; without a scale, the second number may be another one."""
    has_scale = other.scale > 1
    if gap not in (" ", "\u00a0") and not (has_scale and gap in (" and ", " und ", " et ")):
        return
    sums = {first + second for first in one.values for second in other.values if 0 < second < one.scale}
    if sums and has_scale:
        one.values, one.end, one.scale, other.values = sums, other.end, other.scale, set()
    elif sums:
        other.doubt()
        one.doubt(*sums)


# --- Words ---

_ROMAN = lazy_regex(r"\b(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
_ROMAN_LABEL = lazy_regex(
    r"\b(?:chapter|article|art\.|part|section|title|book|volume|vol\.|phase|class|type|annex|appendix"
    r"|schedule|act|scene"
    r"|kapitel|artikel|teil|band|buch|chapitre|titre|tome|livre|capítulo|artículo|parte|título|libro"
    r"|capitolo|articolo|titolo)\s\Z",
    re.IGNORECASE,
)
_ARTICLE = lazy_regex(r"\b(?:an?|eine?|une?|una|uma|um|een)\s([^\W\d_]{4,})", re.IGNORECASE)
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_SHARE_BEFORE = lazy_regex(
    r"\b(?:(half|halbe|demi|media|mezzo)|(a quarter))(?: of)?(?: an?)?\s\Z", re.IGNORECASE
)
_UNSURE = frozenset("one eins один".split())


def _in_words(text: str, excluded: list[tuple[int, int]]) -> Iterator[Mention[Decimal]]:
    """Yield the numbers in words outside of the ``excluded`` ranges, and those in Roman digits."""
    numbers: list[_Number] = []
    numerals = list(numerals_in(text))
    others = sorted(excluded)
    for numeral in numerals:
        if numeral.value is not None and not _is_inside(others, numeral.start, numeral.end):
            numbers += _read_numeral(text, numeral.value, (numeral.start, numeral.end))
    in_numerals = [(one.start, one.end) for one in numerals]
    for article in _ARTICLE.finditer(text):
        factor = scale_of(article[1])
        if factor is not None and not _is_inside(in_numerals, article.start(1), article.end()):
            numbers += _read_numeral(text, factor, article.span())
    yield from (one.mention(text) for one in _joined(text, sorted(numbers, key=lambda one: one.start)))
    yield from _roman_numbers(text)


def _is_inside(ranges: list[tuple[int, int]], start: int, end: int) -> bool:
    """Return True if a part of a text is in one of several ranges, which are in order."""
    index = bisect_left(ranges, end, key=itemgetter(0)) - 1  # the last one that begins before its end
    return index >= 0 and ranges[index][1] > start


def _read_numeral(text: str, value: Decimal, span: tuple[int, int]) -> Iterator[_Number]:
    """Yield a number in words with its sign and scale."""
    number = _Number(*span, {value}, set(), span)
    share = _SHARE_BEFORE.search(text, max(0, number.start - 16), number.start)
    if share is not None:
        number.convert(Decimal("0.5") if share[1] else Decimal("0.25"))
    if text[slice(*span)].casefold() in _UNSURE:
        number.doubt()
    if _read_end(text, number, has_currency=False):
        _read_sign(text, number)
        yield number


def _roman_numbers(text: str) -> Iterator[Mention[Decimal]]:
    """Yield Roman numbers; without a label such as "Chapter" they may be something else."""
    for roman in _ROMAN.finditer(text):
        digits = [_ROMAN_DIGITS[letter] for letter in roman[0]]
        value = Decimal(sum(-one if one < max(digits[index:]) else one for index, one in enumerate(digits)))
        if _ROMAN_LABEL.search(text, max(0, roman.start() - 12), roman.start()):
            yield Mention(frozenset({value}), *roman.span())
        elif len(digits) > 1:
            yield Mention(frozenset(), *roman.span(), frozenset({value}))
