"""List all numbers, dates, times and durations that a text mentions, with every meaning that each may have.

The other modules of this package find one answer and refuse what is ambiguous. Here ``1.500`` is both 1500 and
1.5, because the question is whether a given value may come from the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Generic, NamedTuple, TypeVar

from ..lazy_regex import lazy_regex
from . import SCALE_WORDS, TextParseError
from .numbers import NumberRules, NumberStyle, read_number_token, read_words, scale_of
from .times import possible_dates, possible_durations, possible_times

V = TypeVar("V")


class Mention(NamedTuple, Generic[V]):
    """A value that a text mentions.

    Attributes:
        values: Its possible meanings.
        start: The index where it begins.
        end: The index after it.
    """

    values: frozenset[V]
    start: int
    end: int


_EAST_ASIAN = r"\u2e80-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"  # written without spaces around numbers
_EAST_ASIAN_SCALES = "十拾百佰千仟万萬亿億兆십백천만억조"
_RUN = lazy_regex(
    rf"(?<![^\W{_EAST_ASIAN}])(?<![.{_EAST_ASIAN_SCALES}])"
    r"(?<!\d[,'’])\d+(?:[.,'’_]\d+)*(?:[ \u00a0\u2009\u202f]\d{3}(?!\d))*(?:[.,]\d+)?(?:[eE][+-]?\d+)?"
)
_EAST_ASIAN_POWERS = {
    scale: power
    for power, scales in {1: "十拾십", 2: "百佰백", 3: "千仟천", 4: "万萬만", 8: "亿億억", 12: "兆조"}.items()
    for scale in scales
}
# Such as 99万, or 1億2000万. 5千克 are 5 kilograms.
_EAST_ASIAN_NUMBER = lazy_regex(
    rf"(?<![^\W{_EAST_ASIAN}])(?<![.,{_EAST_ASIAN_SCALES}])"
    rf"(?:\d{{1,20}}(?:,\d{{3}})*(?:\.\d{{1,20}})?[{_EAST_ASIAN_SCALES}]{{1,3}}(?![克米瓦卡字帕赫伏焦牛欧比分]))+"
    r"(?:\d{1,4}(?![\d.,]))?"
)
_EAST_ASIAN_PART = lazy_regex(rf"(\d[\d,.]*)([{_EAST_ASIAN_SCALES}]*)")
_PERCENT = lazy_regex(r"\s?(?:%|٪|％|percent\b|per cent\b|prozent\b|pour cent\b|por ciento\b)", re.IGNORECASE)
_WORD_AFTER = lazy_regex(r"([ \u00a0\n]?)([^\W\d_]+)\b\.?")
_MINUS_BEFORE = lazy_regex(
    r"(?:(?:^|[\s(\[:=,;$€£¥])[-−–]\s?(?:[$€£¥]\s?)?|\b(?:minus|negative)\s)\Z", re.IGNORECASE
)
# A dash between a word and a number separates them, or is a sign: "Rent - 500" and "temperature - 5".
_DASH_BEFORE = lazy_regex(r"[^\W\d_][)\]]?[ \u00a0][-–][ \u00a0][$€£¥]?\s?\Z")
_HALF = lazy_regex(r"(?:(?<!\d)(\d{1,9}))?\s?([\u00bc-\u00be\u2150-\u215e])")
_FRACTION = lazy_regex(r"(?<![\d/.,])(\d{1,6})\s?[/\u2044]\s?(\d{1,6})(?![\d/])")
_POWER = lazy_regex(
    r"(?<![\d.])(\d{1,30}(?:\.\d{1,30})?)\s?[×x*·]\s?10(?:\^|\*\*)?([-−]?\d{1,4}|[⁻⁰¹²³⁴-⁹]+)"
)
_SUPERSCRIPT = lazy_regex("[⁰¹²³⁴-⁹]+")
_DIGITS_BEFORE = lazy_regex(r"\d[\d.,]*\s\Z")
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_MAX_DIGITS = 60  # of a number; longer ones are keys or data
_STYLES = (None, NumberStyle.POINT, NumberStyle.COMMA)
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2009\u202f\n", " "))
# Number words with a single meaning in all these languages: "due" and "cent" are missing.
_WORDS = {
    word: number
    for number, words in enumerate(
        """zero null zéro cero nul ноль|one eins один|two zwei deux zwee twee dwa два dois duas
        |three drei trois tres três drie trzy три|four vier quatre cuatro quattro quatro cztery четыре
        |five fünf cinq cinco cinque vijf pięć пять|six sechs seis zes sześć шесть
        |seven sieben siete sette sete zeven siedem семь|eight acht huit ocho oito osiem восемь
        |nine neun neuf nueve nove negen dziewięć девять|ten zehn diez dieci dez dziesięć десять
        |eleven elf onze undici|twelve zwölf douze doce dodici doze twaalf|thirteen dreizehn treize trece tredici
        |fourteen vierzehn quatorze catorce|fifteen fünfzehn quinze quince quindici|sixteen sechzehn seize
        |seventeen siebzehn|eighteen achtzehn|nineteen neunzehn|twenty zwanzig vingt veinte venti vinte twintig
        двадцать""".split("|")
    )
    for word in words.split()
} | {
    word: number
    for number, words in {
        30: "thirty dreißig dreissig trente treinta trenta trinta dertig тридцать",
        40: "forty vierzig quarante cuarenta quaranta quarenta veertig сорок",
        50: "fifty fünfzig cinquante cincuenta cinquanta vijftig пятьдесят",
        60: "sixty sechzig soixante sesenta sessanta zestig",
        70: "seventy siebzig septante setenta settanta",
        80: "eighty achtzig ochenta ottanta",
        90: "ninety neunzig noventa novanta",
        100: "hundred hundert ciento honderd сто",
        1000: "thousand tausend duizend тысяча",
    }.items()
    for word in words.split()
}
NUMBER_WORDS = frozenset(_WORDS) | frozenset(SCALE_WORDS)
_WORD = lazy_regex(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_JOINT = lazy_regex(r"\s{1,3}(?:and\s)?")


def numbers_in(text: str) -> Iterator[Mention[Decimal]]:
    """Yield each number in the text, in digits or words."""
    for run in _RUN.finditer(text):
        values, end = _meanings(text, run)
        if values:
            if _DASH_BEFORE.search(text, max(0, run.start() - 12), run.start()):
                values |= {-value for value in values}
            elif _MINUS_BEFORE.search(text, max(0, run.start() - 12), run.start()):
                values = {-value for value in values}
            elif (
                text[run.start() - 1 : run.start()] == "("
                and text[end : end + 1] == ")"
                and end - run.start() > 3
            ):
                values |= {-value for value in values}  # as in accounts
            yield Mention(frozenset(values), run.start(), end)
    for match in _EAST_ASIAN_NUMBER.finditer(text):
        value = sum(
            Decimal(digits.replace(",", "")).scaleb(sum(_EAST_ASIAN_POWERS[one] for one in scales))
            for digits, scales in _EAST_ASIAN_PART.findall(match[0])
        )
        yield Mention(frozenset({Decimal(value)}), *match.span())
    for match in _HALF.finditer(text):
        part = Decimal(str(unicodedata.numeric(match[2])))
        yield Mention(frozenset({part + int(match[1] or 0)}), *match.span())
    for match in _FRACTION.finditer(text):
        if int(match[2]):
            yield Mention(frozenset({Decimal(int(match[1])) / int(match[2])}), *match.span())
    for match in _POWER.finditer(text):
        exponent = int(match[2].translate(_SUPERSCRIPTS))
        if abs(exponent) < 400:
            yield Mention(frozenset({Decimal(match[1]).scaleb(exponent)}), *match.span())
    yield from _numbers_in_words(text)


def _meanings(text: str, run: re.Match[str]) -> tuple[set[Decimal], int]:
    """Return what the digits at a place may mean, and where the number ends."""
    digits = run[0].translate(_SPACES)
    # "99万" is 990000, and "3½" is not 3
    if (
        len(digits) > _MAX_DIGITS
        or _EAST_ASIAN_NUMBER.match(text, run.start())
        or _HALF.match(text, run.end())
    ):
        return set(), run.end()
    values = _readings(digits)
    parts = digits.split(" ")
    if len(parts) > 1:  # one number or several
        values = values.union(*map(_readings, parts))
    end = run.end()
    percent = _PERCENT.match(text, end)
    if percent:
        return values | {value / 100 for value in values}, percent.end()
    word = _WORD_AFTER.match(text, end)
    scale = scale_of(word[2]) if word else None
    if word and scale is not None:
        is_word = len(word[2]) > 2
        scaled = {value.scaleb(scale) for value in values}
        # "5 m" may be metres; "5 million" has one meaning
        return (scaled if is_word else values | scaled), word.end()
    power = _SUPERSCRIPT.match(text, end)
    if power:  # a power, or the number of a footnote
        exponent = int(power[0].translate(_SUPERSCRIPTS))
        return values | ({value**exponent for value in values} if exponent < 100 else set()), power.end()
    return values, end


def _readings(digits: str) -> set[Decimal]:
    values = set()
    for style in _STYLES:
        try:
            values.add(read_number_token(digits, NumberRules(style)).value)
        except TextParseError:
            continue
    return values


def _numbers_in_words(text: str) -> Iterator[Mention[Decimal]]:
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(text):
        is_number = all(part in NUMBER_WORDS for part in word[0].casefold().split("-"))
        if run and not (is_number and _JOINT.fullmatch(text[run[-1].end() : word.start()])):
            if word[0].casefold() == "and" and text[run[-1].end() : word.start()].isspace():
                continue
            yield from _number_of_words(text, run)
            run = []
        if is_number:
            run.append(word)
    if run:
        yield from _number_of_words(text, run)


def _number_of_words(text: str, run: list[re.Match[str]]) -> Iterator[Mention[Decimal]]:
    start, end = run[0].start(), run[-1].end()
    words = [part for word in run for part in word[0].casefold().split("-")]
    value = _value_of_words(words)
    if value is None:
        try:
            value = read_words(text[start:end]).value
        except TextParseError:
            return
    digits = _DIGITS_BEFORE.search(text, max(0, start - 30), start)
    if digits is None:  # else "2.5 million", which is a mention already
        yield Mention(frozenset({value}), start, end)


def _value_of_words(words: Iterable[str]) -> Decimal | None:
    """Return the value of number words such as "two hundred fifty"; None if they are not one number."""
    total, group, last = 0, 0, 10**12
    for word in words:
        power = SCALE_WORDS.get(word)
        number = _WORDS.get(word, 0)
        if power is not None or number in (100, 1000):
            scale = 10**power if power is not None else number
            if scale == 100:
                group = (group or 1) * 100
            else:
                total, group = total + (group or 1) * scale, 0
            last = scale
        elif number >= last or (last < 20) or (last < 100 and number >= 10):
            return None
        else:
            group, last = group + number, number or 1
    return Decimal(total + group)


def dates_in(text: str) -> Iterator[Mention[date]]:
    """Yield each date in the text; ``01/02/2024`` has two meanings."""
    return (Mention(frozenset(values), start, end) for values, start, end in possible_dates(text))


def times_in(text: str) -> Iterator[Mention[time]]:
    """Yield each time of day in the text; ``9:05`` has two meanings."""
    return (Mention(frozenset(values), start, end) for values, start, end in possible_times(text))


def durations_in(text: str) -> Iterator[Mention[timedelta]]:
    """Yield each duration in the text, such as ``2 hours 5 minutes``."""
    return (Mention(frozenset({value}), start, end) for value, start, end in possible_durations(text))
