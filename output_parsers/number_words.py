"""The words of numbers in many languages: numerals, scales such as "тыс." and "lakh", units and currencies.

The tables list the words in this order: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish,
Russian, other languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from .lazy_regex import lazy_regex
from .prose import SCALE_WORDS
from .prose.units import EAST_ASIAN_POWERS, SCALES

_ONES = {
    number: words.split()
    for number, words in enumerate(
        """zero null zéro cero nul ноль|one eins один|two zwei deux zwee twee dwa два dois duas две|
        three drei trois tres três drie trzy три|four vier quatre cuatro quattro quatro cztery четыре|
        five fünf fuenf cinq cinco cinque vijf pięć пять|six sechs seis zes sześć шесть|
        seven sieben siete sette sete zeven siedem семь|eight acht huit ocho oito otto osiem восемь|
        nine neun neuf nueve nove negen dziewięć девять|ten zehn diez dieci dez tien dziesięć десять|
        eleven elf onze undici jedenaście одиннадцать|twelve zwölf douze doce dodici doze twaalf dwanaście
        двенадцать|
        thirteen dreizehn treize trece tredici treze dertien trzynaście тринадцать|
        fourteen vierzehn quatorze catorce catorze quattordici veertien czternaście четырнадцать|
        fifteen fünfzehn quinze quince quindici vijftien piętnaście пятнадцать|
        sixteen sechzehn seize dieciséis sedici dezasseis dezesseis zestien szesnaście шестнадцать|
        seventeen siebzehn diecisiete diciassette dezassete dezessete zeventien siedemnaście семнадцать|
        eighteen achtzehn dieciocho diciotto dezoito achttien osiemnaście восемнадцать|
        nineteen neunzehn diecinueve diciannove dezanove dezenove negentien dziewiętnaście
        девятнадцать""".split("|")
    )
}
_TENS = {
    20: "twenty zwanzig vingt vingts veinte venti vinte twintig dwadzieścia двадцать",
    30: "thirty dreißig dreissig trente treinta trenta trinta dertig trzydzieści тридцать",
    40: "forty fourty vierzig quarante cuarenta quaranta quarenta veertig czterdzieści сорок",
    50: "fifty fünfzig cinquante cincuenta cinquanta cinquenta vijftig pięćdziesiąt пятьдесят",
    60: "sixty sechzig soixante sesenta sessanta sessenta zestig sześćdziesiąt шестьдесят",
    70: "seventy siebzig septante setenta settanta zeventig siedemdziesiąt семьдесят",
    80: "eighty achtzig huitante octante ochenta ottanta oitenta tachtig osiemdziesiąt восемьдесят",
    90: "ninety neunzig nonante noventa novanta negentig dziewięćdziesiąt девяносто",
    100: "hundred hundert ciento cento honderd sto сто",
    200: "doscientos doscientas duecento duzentos duzentas dwieście двести",
    300: "trescientos trescientas trecento trezentos trezentas trzysta триста",
    400: "cuatrocientos cuatrocientas quattrocento quatrocentos quatrocentas czterysta четыреста",
    500: "quinientos quinientas cinquecento quinhentos quinhentas pięćset пятьсот",
    600: "seiscientos seiscientas seicento seiscentos seiscentas sześćset шестьсот",
    700: "setecientos setecientas settecento setecentos setecentas siedemset семьсот",
    800: "ochocientos ochocientas ottocento oitocentos oitocentas osiemset восемьсот",
    900: "novecientos novecientas novecento novecentos novecentas dziewięćset девятьсот",
    1000: "thousand tausend duizend tysiąc tysiące tysięcy тысяча тысячи тысяч",
}
_WORDS = {word: number for number, words in _ONES.items() for word in words} | {
    word: number for number, words in _TENS.items() for word in words.split()
}
# These have other meanings, too, so they are parts of numbers only next to other number words.
_PARTS = {
    word: number
    for number, words in {
        1: "un une uno una um uma ein eine einen einem een één jeden jedna jedno одна одну",
        2: "dos due dwie dwa",
        3: "tre",
        6: "sei",
        7: "sept",
        10: "dix",
        11: "once",
        100: "cent cents cien cem",
        1000: "mil mille mila",
    }.items()
    for word in words.split()
}
NUMBER_WORDS = frozenset(_WORDS) | frozenset(SCALE_WORDS)
# Parts of numbers that are written as one word, as in "dreihundertfünfzig", "ventuno" and "veinticinco".
_PIECES = {word: number for word, number in (_WORDS | _PARTS).items() if number <= 100 or number == 1000} | {
    word: number
    for number, words in {
        2: "dós", 3: "tré trés", 6: "séis", 10: "dieci", 20: "veinti vent", 30: "trent", 40: "quarant",
        50: "cinquant", 60: "sessant", 70: "settant", 80: "ottant", 90: "novant", 200: "duecent",
    }.items()
    for word in words.split()
}  # fmt: skip
_STARTS = tuple(_PIECES)
_INNER_JOINTS = ("und", "en", "ën")
_ARTICLE_BEFORE = lazy_regex(r"\ba[ \u00a0]\Z")
_JOINTS = frozenset("and y e et und en i и".split())
_WORD = lazy_regex(r"[^\W\d_]+")
_GAP = lazy_regex(r"[ \t\u00a0\u202f]{1,3}|[ \t]?\r?\n[ \t]*|[-‐‑]")
_GAP_AFTER_THOUSANDS = lazy_regex(rf",?(?:{_GAP.pattern})")  # "two thousand, three hundred"


def value_of_words(words: Sequence[str]) -> Decimal | None:
    """Return the value of number words such as "two hundred fifty"; None if they are not one number."""
    total, group, last, last_scale = 0, 0, 10**15, 10**15
    for word in words:
        power = SCALE_WORDS.get(word)
        number = 10**power if power is not None else _PIECES.get(word, _WORDS.get(word, 0))
        if 1000 <= number < last_scale:
            total, group, last, last_scale = total + (group or 1) * number, 0, number, number
            continue
        added = _added(group, last, word, number)
        if added is None:
            return None
        group, last = added
    return Decimal(total + group)


def _added(group: int, last: int, word: str, number: int) -> tuple[int, int] | None:
    """Return a number below 1000 with a word added, and the upper limit of the next word."""
    if number == 100 and group < 100:
        return (group or 1) * 100, 100
    if word in ("vingt", "vingts") and group % 100 == 4:  # quatre-vingts
        return group + 76, 80
    if (last in (60, 80) and 10 <= number < 20) or (last == 10 and word in ("sept", "huit", "neuf")):
        return group + number, number  # soixante-dix, dix-sept
    if number >= last or last < 20 or (last < 100 and number >= 10):
        return None
    return group + number, number or 1


class Numeral(NamedTuple):
    """Number words.

    Attributes:
        value: The number; None if the words are not one number.
        start: The index where they begin.
        end: The index after them.
    """

    value: Decimal | None
    start: int
    end: int


def numerals_in(text: str) -> Iterator[Numeral]:
    """Yield each number in words. Words such as "dos" are numbers only next to other number words."""
    run: list[re.Match[str]] = []
    joint: re.Match[str] | None = None
    for word in _WORD.finditer(text):
        folded = word[0].casefold()
        is_near = bool(run) and _is_near(text, joint or run[-1], word)
        if is_near and joint is None and folded in _JOINTS:
            joint = word
            continue
        is_number = _is_number(folded)
        if run and not (is_near and is_number and (joint is None or _is_joined(run, joint, folded))):
            yield from _numeral(text, run)
            run = []
        if is_number:
            run.append(word)
        joint = None
    if run:
        yield from _numeral(text, run)


def _is_near(text: str, before: re.Match[str], word: re.Match[str]) -> bool:
    gap = _GAP_AFTER_THOUSANDS if _is_thousands(before[0].casefold()) else _GAP
    return gap.fullmatch(text, before.end(), word.start()) is not None


def _is_thousands(word: str) -> bool:
    return SCALE_WORDS.get(word, 0) > 2 or _WORDS.get(word, _PARTS.get(word)) == 1000


def _is_joined(run: list[re.Match[str]], joint: re.Match[str], word: str) -> bool:
    """Return True if "and" is inside of one number, as in "two hundred and five", and not between two."""
    value = value_of_words([piece for one in run for piece in _pieces(one[0].casefold())])
    round_to = 100 if joint[0].casefold() == "and" else 10
    return value is not None and value >= 20 and value % round_to == 0 and _first_of(word) < value


def _first_of(word: str) -> Decimal:
    return value_of_words(_pieces(word)) or Decimal(0)


def _numeral(text: str, run: list[re.Match[str]]) -> Iterator[Numeral]:
    pieces = [piece for word in run for piece in _pieces(word[0].casefold())]
    start, end = run[0].start(), run[-1].end()
    is_alone = len(pieces) == 1 and (
        pieces[0] in _PARTS or (pieces[0] not in _WORDS and pieces[0] in SCALE_WORDS)
    )
    if is_alone and not (pieces[0] in SCALE_WORDS and _ARTICLE_BEFORE.search(text, max(0, start - 4), start)):
        return
    last = pieces[-1]
    if len(run) == 1 or not set(pieces) <= _PARTS.keys() or last in ("mil", "mille", "mila", "sept"):
        yield Numeral(value_of_words(pieces), start, end)


def _is_number(word: str) -> bool:
    if word in NUMBER_WORDS or word in _PARTS:
        return True
    may_be_compound = 5 < len(word) < 100 and word.startswith(_STARTS) and word.endswith(_STARTS)
    return may_be_compound and len(_pieces(word)) > 1


@lru_cache(maxsize=1000)
def _pieces(word: str) -> list[str]:
    """Return the number words of a compound; "fünfundzwanzig" is twenty and five."""
    if word in NUMBER_WORDS or word in _PARTS:
        return [word]
    pieces: list[str] = []
    segments = _segments(word) or []
    for index, piece in enumerate(segments):
        if piece not in _INNER_JOINTS:
            pieces.append(piece)
        elif index and index + 1 < len(segments) and _PIECES.get(segments[index + 1], 0) in range(20, 100):
            segments[index + 1], pieces[-1] = pieces[-1], segments[index + 1]  # the tens come first
    return pieces


def _segments(word: str) -> list[str] | None:
    """Split a compound into its words: "centotto" is cent and otto, not cento and a rest."""
    ways: dict[int, list[str]] = {0: []}
    for end in range(2, len(word) + 1):
        starts = range(max(0, end - 16), end - 1)
        candidates = [start for start in starts if start in ways and word[start:end] in _PIECES]
        joints = [start for start in starts if start in ways and word[start:end] in _INNER_JOINTS]
        for start in (*candidates, *joints)[:1]:  # the longest word
            ways[end] = [*ways[start], word[start:end]]
    return ways.get(len(word))


# --- Scales ---

_COUNTS = {  # words for other numbers
    12: "dozens? dz dutzend\\w* douzaines? docenas? dozzin[ae] d[uú]zias? dozijn\\w* tuzin\\w* дюжин\\w* "
    "dussin dusin tucet\\w* düzine",
    10: "dizaines? decine decenas? desítek десятк\\w*",
}
_SCALE = lazy_regex(
    "|".join(
        f"(?P<{kind}{number}>{'|'.join(words.split())})"
        for kind, table in (("p", SCALES), ("c", _COUNTS))
        for number, words in table.items()
    )
)
_LETTERS = {"M": 6, "MM": 6, "B": 9, "Mn": 6, "T": 12}
# Letters that may be a scale or a unit; with a currency, they are the scale.
_UNCLEAR = {"m": 6, "K": 3, "b": 9, "T": 12, "G": 9, "bin": 3, "score": None}


@lru_cache(maxsize=1000)
def scale_of(word: str) -> Decimal | None:
    """Return the factor by which a word after a number multiplies it; None for other words."""
    if word in _LETTERS:
        return Decimal(10) ** _LETTERS[word]
    if word in EAST_ASIAN_POWERS:
        return Decimal(10) ** EAST_ASIAN_POWERS[word]
    if word in _UNCLEAR:
        return None
    match = _SCALE.fullmatch(word.casefold())
    if match is None:
        return None
    kind, number = str(match.lastgroup)[0], int(str(match.lastgroup)[1:])
    return Decimal(10) ** number if kind == "p" else Decimal(number)


def unclear_scale_of(word: str) -> Decimal | None:
    """Return the factor of a letter after a number if it is not a unit; None for other words."""
    power = _UNCLEAR.get(word)
    return None if power is None else Decimal(10) ** power


# --- Units ---

# Units and endings that may be written directly after a number.
ATTACHED = frozenset(
    "mm cm dm km nm m µm μm mg g kg µg μg t lb lbs oz ml cl dl l L W kW MW GW TW kWh MWh GWh Wh V kV mV A "
    "mA Hz kHz MHz GHz"
    " kB KB MB GB TB PB kbit Mbit Gbit Mbps Gbps kbps bit bits h hr hrs min mins s sec secs ms µs μs ns d "
    "w wk wks y yr yrs"
    " j J kJ kcal cal px pt em rem in ft yd mi gal mph kmh rpm dB Pa hPa kPa MPa bar mol mmol mmHg ppm ppb "
    "bps am pm AM PM Uhr"
    " x X ° º ª st nd rd th er ère re ème eme e de ste te ha ac".split()
)  # fmt: skip
