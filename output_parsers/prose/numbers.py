"""Parse numbers in prose: text that is only a number, or a sentence with only one number.

Text that two people may understand differently is rejected, never guessed:

* ``1,234`` is 1234 and ``1.234`` has three decimals, as in English and JSON, unless the text has other numbers with
  a decimal comma; next to words of another language both are rejected. ``1,5``, ``12,34`` and ``0,123`` are rejected;
  ``1.234,56`` and ``12,50 €`` are read, because they have only one meaning. A ``NumberStyle`` decides.
* ``50%`` (50 or 0.5) is rejected unless the declaration says percent or share. ``1/2`` (a half, one of two, or a
  date) and ``(5)`` (in accounts: minus five) are rejected.
* ``2k`` and ``5 Mio.`` are read for counts and for money; elsewhere they may be units.
* In a sentence, all other words must be known to be harmless (``harmless``), or be units. A unit must be one
  that the declaration names, if it names any.
* ``- 5`` is rejected, because it may be an item of a list. ``~5`` is read, because it has only one meaning.
* English number words are read if the package text2num is installed. "one" in a sentence is not a number.

All functions take time linear in the length of the text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from enum import Enum
from itertools import islice, pairwise
from typing import NamedTuple

from ..lazy_regex import join_lines, lazy_regex
from ..result.errors import shorten
from . import (
    ENGLISH_NUMBER_WORDS,
    NEUTRAL,
    SCALE_WORDS,
    TextParseError,
    TextReading,
    bare_word,
    join_rules,
    strip_wrapping,
    word_set,
    words_in,
)
from .announcements import after_announcement
from .harmless import (
    ends_a_heading,
    find_objection,
    find_relation,
    has_decimal_comma,
    separate_runs,
    takes_back,
)
from .units import CURRENCY_CODES, CURRENCY_SIGNS, SCALES, UNITS


class NumberStyle(Enum):
    """The sign that is the decimal point of a number in text: ``Annotated[float, NumberStyle.COMMA]``.

    Numbers in JSON always have a point. Without a style, text that can be read in two ways is rejected.

    Attributes:
        POINT: ``1,234.56``: a decimal point, and commas between thousands.
        COMMA: ``1.234,56``: a decimal comma, and points between thousands.
    """

    POINT = "decimal point, as in 1234.56"
    COMMA = "decimal comma, as in 1234,56"


class NumberRules(NamedTuple):
    """What a declaration says about a number.

    Attributes:
        style: The sign that is the decimal point, if it is known.
        words: The words of the description and of the name of the field, in lower case.
        is_count: True for whole numbers, for which ``2k`` is 2000.
        highest: The highest number that is allowed, if it is known, so that ``8/10`` is 8 points of at most 10.
        usual_style: Without a style, the decimal sign for ``1.500`` and ``2,750``; None if it is unclear.
    """

    style: NumberStyle | None = None
    words: frozenset[str] = frozenset()
    is_count: bool = False
    highest: float | None = None
    usual_style: NumberStyle | None = NumberStyle.POINT


_NO_RULES = NumberRules()

# A text with more numbers is not an answer, and checking each number takes time linear in the text.
_MAX_MENTIONS = 20
_DIGIT = lazy_regex(r"\d")
_SENTENCE_END = lazy_regex(r"(?<=[.!?])\s+|\n+")
_LIST_MARKER = lazy_regex(r"^[ \t]*[0-9]{1,9}[.)][ \t]+\S", re.MULTILINE)
_BOXED = lazy_regex(r"\\boxed\{([^{}]{1,80})\}")
_ANSWER = lazy_regex(
    r"(?:(?:so|therefore|thus|hence),? )?(?:[*_]{1,2})?"
    r"(?:(?:the )?(?:final |correct )?(?:answer|result|solution)(?: is:?|:|:?[*_]{1,2}:?| =)|=)"
    r"\s{0,9}(.{1,80})",
    re.IGNORECASE,
)
# In "Answer:42", "答案：42" and "x=42" the number is a separate word.
_LABEL_WITHOUT_SPACE = lazy_regex(r"(?<=[^\W\d_])([:=：])(?=\S)")


def read_number(text: str, rules: NumberRules = _NO_RULES) -> TextReading[Decimal]:
    """Parse text that contains nothing but a number, in digits or words, and perhaps its unit.

    Raises TextParseError for other text.
    """
    bare, wrapping = strip_wrapping(text)
    reading = _read_bare(bare, rules)
    return reading._replace(rule=join_rules(wrapping, reading.rule))


def find_number(text: str, rules: NumberRules = _NO_RULES) -> TextReading[Decimal]:
    """Parse the only number in the text, or the number after words such as "the answer is".

    A stated answer is ``\\boxed{42}``, or a last sentence that is only "The answer is 42", "Result: 42",
    "= 42" or something similar. Several such statements must give the same number. Raises only
    TextParseError.
    """
    text = _ESCAPED.sub("", APPROXIMATELY.sub("", _DISPLAYED.sub(r"\1", text)))
    try:
        return read_number(text, rules)
    except TextParseError as error:
        reading = (
            _computed(text, rules)
            or _stated_answer(text, rules)
            or _announced(text, rules)
            or _only_number(text, rules)
        )
        if reading is None:
            raise error
        return reading


# The scale of a rating, whose end is not another number, with the end as {}.
_SCALE_BEFORE = (
    r"\(?(?:(?:on|auf|sur|en|su|in|em|op|på|w|na|по|num) ?(?:an? |the |einer |une |una |uma |a |een |en )?"
    r"(?:scale|skala|échelle|escala|scala|schaal|skali|skale|stupnici|шкале)(?: (?:of|from|von|del?|dal?|van|från|fra|od|от))?"
    r" ?[01] ?(?:to|[-–—]|bis|à|al?|ad|tot|till?|do|до) ?{}|on an? {}[- ]point scale)(?![\d/-]|[.,]\d)\)?,?"
    r"|(?:在|从)[01] ?(?:到|至|-) ?{}分?(?:的?(?:评分|量表|范围|尺度))?[中上里内]?[，,]?(?:我给(?:出|它)?)?"
)
_OUT_OF = (
    r"(?<![\d/.,])(\d+(?:\.\d+)?)[*_]{{0,3}} ?(?:/|(?:out of|von|sur|su|de|van|av|af|na|z|из|з|dari) )\s?[*_]{{0,3}}{}(?![\d/,]|\.\d)"
    r"(?: (?:points?|punkten?|puntos|punti|pontos|punten|poäng|point|poeng|punktów|bodů|баллов|балів|stars?|sternen?|étoiles|estrellas|stelle|estrelas|sterren))?"
)


def without_scale(text: str, highest: float | None) -> str:
    """Return the text of a rating without its scale, whose end is the highest number that is allowed.

    ``8/10``, ``8 out of 10`` and "8 on a scale of 1 to 10" become 8.
    """
    if highest is None:
        return text
    end = f"{highest:g}"
    if end not in text:
        return text
    text = re.sub(_SCALE_BEFORE.format(end, end, end), "", text, flags=re.IGNORECASE)
    return re.sub(_OUT_OF.format(end), r"\1", text, flags=re.IGNORECASE)


# "≈ 9.81", "x ≈ 0.33", "\\$42.50" and "**8** / 10"
APPROXIMATELY = lazy_regex(r"\A\s*(?:(?:[A-Za-z]\s*)?[~≈≅]\s*(?=[\d.$€£-])|(?:大?[约約]|약)\s*(?=\d))")
_ESCAPED = lazy_regex(r"\\(?=[$%#&_])")
_DISPLAYED = lazy_regex(r"\A\s*\$\$([^$]{1,80})\$\$\s*\Z")
_COMPUTATION = lazy_regex(
    r"\W{0,4}([^=\n]{1,40}?)[ \t]?([+−–×x*÷/^-])[ \t]?([^=\n+−–×*÷/^-]{1,20}?)[ \t]?=[ \t]?([^=\n]{1,20}?)\W{0,3}"
)


def _computed(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse the result of a computation with two numbers, as in "3 × 5 = 15", if it is right."""
    parts = _COMPUTATION.fullmatch(text.strip())
    if parts is None:
        return None
    try:
        one, two, result = (read_number_token(parts[number].strip(), rules).value for number in (1, 3, 4))
    except TextParseError:
        return None
    if max(abs(one.adjusted()), abs(two.adjusted())) > _MOST_COMPUTED or (parts[2] in "÷/" and not two):
        return None
    if parts[2] == "^":
        value = one**two if two in range(_MOST_COMPUTED + 1) else None
    elif parts[2] == "+":
        value = one + two
    elif parts[2] in "−–-":
        value = one - two
    else:
        value = one / two if parts[2] in "÷/" else one * two
    return TextReading(result, "computation with its result") if value == result else None


_MOST_COMPUTED = 12  # digits; the numbers are exact in a computation


_EXCLAIMED = lazy_regex(r"(?<=[0-9]\.[0-9])!\Z|(?<=[0-9]\.[0-9][0-9])!\Z")  # "5!" may be a factorial


def _read_bare(text: str, rules: NumberRules) -> TextReading[Decimal]:
    if not _DIGIT.search(text):
        return _read_stars(text, rules) or _read_fraction(text) or read_words(text)
    text = _EXCLAIMED.sub("", text)
    try:
        return read_number_token(text, rules)
    except TextParseError as error:
        reading = _read_repeated(text, rules) or _read_with_unit(text, rules)
        if reading is None:
            raise error
        return reading


_STARS = lazy_regex(r"([★⭐])(?:\ufe0f?\s?\1)*\ufe0f?(?:\s?☆)*")


def _read_stars(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse a rating such as "★★★★☆", if the highest number is known; return None for other text."""
    stars, empty = text.count("★") + text.count("⭐"), text.count("☆")
    if rules.highest is None or not _STARS.fullmatch(text):
        return None
    fits = stars + empty == rules.highest if empty else stars <= rules.highest
    return TextReading(Decimal(stars), "stars") if fits else None


def _read_fraction(text: str) -> TextReading[Decimal] | None:
    """Parse a fraction sign such as ½ or ¼ that has a finite number of decimals."""
    value = _FRACTIONS.get(text)
    return None if value is None else TextReading(Decimal(value), "fraction sign")


_FRACTIONS = {
    "½": "0.5",
    "¼": "0.25",
    "¾": "0.75",
    "⅕": "0.2",
    "⅖": "0.4",
    "⅗": "0.6",
    "⅘": "0.8",
    "⅛": "0.125",
}
_REPEATED = lazy_regex(r"([^()]{1,60}) \(([^()]{1,60})\)")
_MINUS_WORD = lazy_regex(r"(?:minus|negative) (?=[0-9$€£¥.])", re.IGNORECASE)
_WITH_UNIT = lazy_regex(r"([^%]*?[0-9.,]) ?(%|°[CFK]?|[^\W\d_][\w.²³/-]*(?: old)?)\.?")
_UNIT_BACKWARDS = lazy_regex(r"\.?(?:dlo )?[\w.²³/-]*+")


def _read_repeated(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse a number that is repeated in brackets, as in "5 (five)"."""
    both = _REPEATED.fullmatch(text)
    if both is None:
        return None
    try:
        first, second = _read_bare(both[1], rules), _read_bare(both[2], rules)
    except TextParseError:
        return None
    return first if first.value == second.value else None


def _read_with_unit(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse a number with its unit or with a minus in words; return None for other text."""
    minus = _MINUS_WORD.match(text)
    if minus is not None:
        positive = _read_bare(text[minus.end() :], rules)
        return positive._replace(value=-positive.value, rule=join_rules(positive.rule, "minus in words"))
    # From the beginning, each digit of a long word would be tried as the last one of the number.
    backwards = _UNIT_BACKWARDS.match(text[::-1])
    start = max(0, len(text) - (backwards.end() if backwards else 0) - 3)  # the signs, a space and a digit
    parts = _WITH_UNIT.fullmatch(text, start)
    if parts is None or "%" in text[:start]:
        return None
    unit = parts[2].rstrip(".").removesuffix(" old")
    if _is_wrong_unit(unit, rules, is_decade=_DECADE.search(text) is not None):
        return None
    number = read_number_token(text[: parts.end(1)], rules)
    value = number.value
    if parts[2] == "%" and not rules.words.isdisjoint(_SHARE_WORDS):
        value = value.scaleb(-2)
    return TextReading(value, join_rules(number.rule, "unit"), number.unit or _undeclared(unit, rules))


_PERCENT_WORDS = word_set(
    "percent percentage pct % prozent pourcentage porcentaje percentuale porcentagem процент"
)
_SHARE_WORDS = word_set("share fraction ratio proportion probability")


_DECADE = lazy_regex(r"0s\.?\Z")  # the 1990s, or seconds
_SECONDS = word_set(
    "s sec secs second seconds sekunden secondes segundos secondi duration time timeout delay dauer durée"
)
_CAPITALS = frozenset("MKTBGDSHL")


def _is_wrong_unit(unit: str, rules: NumberRules, *, is_decade: bool = False) -> bool:
    """Return True if a word after a number is not a unit, or is another unit than the declaration names."""
    if unit in _CAPITALS:  # 2.5M and 300K are not metres and kelvin
        return True
    if is_decade and _SECONDS.isdisjoint(rules.words):
        return True
    unit = unit.casefold()
    if unit in _PERCENT_WORDS:
        return rules.words.isdisjoint(_PERCENT_WORDS) == rules.words.isdisjoint(_SHARE_WORDS)
    if not any(unit in family for family in UNITS):
        return unit not in words_in("counted") and unit not in rules.words
    return _is_other_unit(unit, rules)


_AGES = word_set("age alter âge edad età idade leeftijd wiek возраст 年龄 年齢 나이")


def _is_other_unit(unit: str, rules: NumberRules) -> bool:
    """Return True if the declaration names other units of the same kind."""
    named = _declared(unit, rules)
    return bool(named) and _family_of(unit)[unit] not in named


def _declared(unit: str, rules: NumberRules) -> set[str]:
    """Return the units of the same kind that the declaration names."""
    family = _family_of(unit)
    named = {family[word] for word in rules.words if word in family}
    if not named and "year" in family and not _AGES.isdisjoint(rules.words):
        named = {"year"}  # an age in months is not a number of years
    return named


def _undeclared(unit: str, rules: NumberRules) -> str | None:
    """Return the usual name of a unit, or None if the declaration names this unit."""
    unit = unit.casefold()
    return None if len(_declared(unit, rules)) == 1 else _family_of(unit).get(unit, unit)


def _family_of(unit: str) -> dict[str, str]:
    """Return the units of the same kind by their spellings."""
    return next((family for family in UNITS if unit in family), {})


def unit_kind(unit: str) -> str:
    """Return the first unit of the kind of a unit: all currencies, for example, are of one kind."""
    return next(iter(_family_of(unit)), "usd" if _CURRENCY.fullmatch(unit) else unit)


def _read_inside(text: str, rules: NumberRules) -> TextReading[Decimal]:
    """Parse a number in a sentence, ignoring quotes around the number."""
    return _read_bare(strip_wrapping(text)[0], rules)


def _stated_answer(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    boxed = _BOXED.findall(text)
    if len(boxed) > _MAX_MENTIONS:
        raise TextParseError(f"{len(boxed)} answers")
    if boxed:
        return TextReading(_only_value([_read_inside(inner, rules).value for inner in boxed]), "boxed answer")
    sentences = [_without_introduction(sentence.strip()) for sentence in _SENTENCE_END.split(text.strip())]
    if not _ANSWER.fullmatch(sentences[-1]):
        return None
    stated = [match[1] for sentence in sentences if (match := _ANSWER.fullmatch(sentence))]
    if len(stated) > _MAX_MENTIONS:
        raise TextParseError(f"{len(stated)} answers")
    try:
        readings = [_read_inside(inner.strip(" *_"), rules) for inner in stated]
        value = _only_value([reading.value for reading in readings])
        return TextReading(value, join_rules(readings[0].rule, "stated answer"))
    except TextParseError:
        return None  # "Answer: 42 apples" may still contain only one number


def _announced(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse a number after words such as "答案是", which need not be a sentence of their own."""
    announced = after_announcement(text)
    if announced == text or len(announced) > _MAX_WORDS_LENGTH:
        return None
    try:
        reading = read_number(announced.rstrip("。！"), rules)
    except TextParseError:
        return None
    return reading._replace(rule=join_rules(reading.rule, "stated answer"))


def _without_introduction(sentence: str) -> str:
    """Return a sentence without a first part such as "From the data,", unless that part may change the answer."""
    introduction, comma, rest = sentence.rpartition(", ")
    is_harmless = comma and takes_back(introduction) is None and _ANSWER.fullmatch(rest)
    return rest if is_harmless else sentence


def _only_number(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    if ends_a_heading(text):
        raise TextParseError(f"{shorten(text.split()[-1], 40)} ends a heading")
    if _DIGIT.search(text):
        if _LIST_MARKER.search(text):
            raise TextParseError("a numbered list, not one number")
        return _only_number_in_digits(text, rules)
    return _only_number_in_words(text, rules)


def _only_number_in_digits(text: str, rules: NumberRules) -> TextReading[Decimal]:
    text = separate_runs(_SPACE_OF_MONEY.sub(r"\1", _LABEL_WITHOUT_SPACE.sub(r"\1 ", text.strip())))
    sentences = _SENTENCE_END.split(text)
    words: list[str] = []
    sentence_of: list[int] = []  # the number of the sentence of each word
    for number, sentence in enumerate(sentences):
        in_sentence = sentence.split()
        words += in_sentence
        sentence_of += [number] * len(in_sentence)
    positions = [position for position, word in enumerate(words) if _DIGIT.search(word)]
    if len(positions) > _MAX_MENTIONS:
        raise TextParseError(f"{len(positions)} numbers")
    rules = _with_style_of_language(text, words[positions[0]], rules)
    readings = [_number_at(words, position, rules) for position in positions]
    value = _only_value([reading.value for reading in readings])
    if len({sentence_of[position] for position in positions}) < len(positions):
        numbers = _list_some(words[position] for position in positions)
        raise TextParseError(f"several numbers in a sentence: {numbers}")
    for position in positions:
        after = words[position + 1 :]
        if after and _power_of(bare_word(after[0])) is not None:
            after = after[1:]
        _refuse_unclear(words[:position], after, rules, value)
        if _ENDS_CLAUSE.search(words[position]) or sentence_of[position] < max(
            sentence_of[position : position + 2]
        ):
            _refuse_relation(after)
    return TextReading(value, join_rules(readings[0].rule, "number in a sentence"))


def _with_style_of_language(text: str, word: str, rules: NumberRules) -> NumberRules:
    """Return the rules with a decimal comma for "21,5" in a German sentence."""
    is_comma = rules.style is None and _ONE_DECIMAL_COMMA.fullmatch(word) and has_decimal_comma(text)
    return rules._replace(style=NumberStyle.COMMA) if is_comma else rules


_ONE_DECIMAL_COMMA = lazy_regex(r"[*_(]*[+-]?[0-9]+,[0-9]{1,2}[%.!)*_]*")


def _number_at(words: list[str], position: int, rules: NumberRules) -> TextReading[Decimal]:
    """Parse the number at ``position`` in a list of words, including a scale word such as "million"."""
    bare = words[position].rstrip(",;:").lstrip("~≈≅")
    stop = "." if bare.endswith(".") else ""
    bare = bare.removesuffix(".").strip("*") + stop  # in "**42 people**" each word has half of the stars
    bare = bare.rstrip("!") if len(words) > 1 else bare  # "5!" alone may be a factorial
    if bare.startswith("(") != bare.endswith(")"):
        bare = bare.strip("()")
    bare = re.sub(r"(?<=[0-9])°[CFK]?\.?\Z", "", bare)
    scale = bare_word(words[position + 1]) if position + 1 < len(words) else ""
    try:
        return _read_inside(f"{bare} {scale}" if _power_of(scale) is not None else bare, rules)
    except TextParseError as error:
        if str(error) != "expected a number":
            raise
        raise TextParseError(f"{shorten(words[position], 40)!r} is not clearly a number") from None


def _only_number_in_words(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    words = text.split()
    runs = _number_word_runs(words)
    if not runs:
        return None
    if len(runs) > 1:
        numbers = _list_some(bare_word(" ".join(words[start:end])) for start, end in runs)
        raise TextParseError(f"several numbers: {numbers}")
    start, end = runs[0]
    number = " ".join(words[start:end])
    if bare_word(number) == "one":
        raise TextParseError('"one" may be a number or refer to something')
    reading = read_words(number.strip(".,;:!?()\"'*_`"))
    _refuse_unclear(words[:start], words[end:], rules, reading.value)
    return reading._replace(rule="number in words, number in a sentence")


def _objection_around(before: list[str], after: list[str], rules: NumberRules) -> str | None:
    """Return a word around a number that is not known to be harmless, or None."""
    words_before, words_after = (
        " ".join(word for word in words if not _DIGIT.search(word) and not has_number_word(word))
        for words in ([word for word in before if bare_word(word) not in NEUTRAL], after)
    )
    named = frozenset(word for word in rules.words if takes_back(word) is None)
    known = words_in("measures") | words_in("counted") | words_in("nouns") | named
    rated = _RATED.search(words_before)
    if rated is not None and takes_back(rated["noun"] or "") is None:
        words_before = words_before[: rated.start()]
        verb = _RATING.match(words_after)
        words_after = words_after[verb.end() :] if verb else words_after
    words_before = words_before.replace("I am", "I'm")  # "am" alone is another word in German
    return find_objection(words_before, words_after, known, known_after=words_in("ages"))


# The person who rates and the thing that is rated, before the number: "I give this essay a 7."
_RATERS = r"""
    (?:i['’]d|i would|i will|i['’]ll|i) (?:rate|give|score|grade|estimate|put)
    |ich (?:gebe|bewerte|vergebe|würde)|(?:gebe|bewerte|vergebe|würde) ich|ist das|das ist
    |je (?:(?:lui )?(?:donne(?:rais)?|note(?:rais)?|mets|mettrais)|dirais)
    |(?:yo )?(?:le )?(?:doy|daría|pongo|pondría)|(?:gli )?(?:do(?= )|darei|assegno|assegnerei)
    |(?:eu )?(?:dou|daria|atribuo|atribuiria)|ik (?:geef|zou)|(?:geef|zou) ik|is dit|dit is
    |jag (?:ger|skulle ge)|(?:ger|skulle) jag|är det|jeg (?:giver?|gir|ville gi(?:ve)?)|(?:giver?|gir|ville) jeg|er det
    |(?:daję|dał(?:a)?bym|oceniam|ocenił(?:a)?bym)|(?:dávám|dal(?:a)? bych|hodnotím)|я (?:бы )?(?:поставила?|ставлю|даю|дала?|оценила?|оцениваю)
"""
_RATED = lazy_regex(
    rf"(?:\A|(?<=[.!,:\n] ))(?:{join_lines(_RATERS)})(?= |\Z)"
    r"(?: (?:this|the|your|dem|der|den|es|diese[mrns]?|das|(?:à )?ce(?:tte)?|au|à la|a (?:este|esta|questo|questa)|al|a la|alla|ao|à|dit|deze|het|det|to|это)"
    r" (?!(?:chapter|page|section|question|room|first|second|next|last)\b)(?P<noun>[^\W\d_]{3,20}))?"
    r"(?: (?:this|es|das|dit|het|det|to|это))?"
    r"(?: (?:an?|with|at|mit|e(?:ine?|en|n|tt?)|une?|una|uma?|na|в|(?:la |une )?note de|una? (?:nota|voto|puntuación) d[ei]|(?:a )?nota))?\Z",
    re.IGNORECASE,
)
# The verb at the end of a sentence with "würde ich" and "zou ik".
_RATING = lazy_regex(r"(?:(?:ver)?geben|bewerten|geven|ge|give|gi)(?!\w)")
_AGO = lazy_regex(r"\b(?:il y a|há|hace|ago)\Z", re.IGNORECASE)
_VARIABLE = lazy_regex(r"[A-Za-z]=")


def _is_other_number(word: str, value: Decimal) -> bool:
    """Return True for a number word, unless it repeats the number in brackets, as in "5 (five)"."""
    if not has_number_word(word) or (not word.isascii() and find_objection(word, "") is None):
        return False
    try:
        return not word.startswith("(") or read_words(bare_word(word)).value != value
    except TextParseError:
        return True


def _refuse_unclear(before: list[str], after: list[str], rules: NumberRules, value: Decimal) -> None:
    """Raise TextParseError unless all words around a number are known to be harmless."""
    other = next((word for word in (*before, *after) if _is_other_number(word, value)), None)
    if other is not None:
        raise TextParseError(f'"{shorten(bare_word(other), 40)}" may be a number too')
    before = _without_variable(before)
    if after and bare_word(after[0]) in UNITS[0] and _AGO.search(" ".join(before)):
        raise TextParseError("the text says how long ago something was")
    if (
        after
        and after[0].count("(") == after[0].count(")")
        and not _is_wrong_unit(after[0].strip(".,;:!()*\"'"), rules)
    ):
        after = after[1:]
    objection = _objection_around(before, after, rules)
    if objection:
        raise TextParseError(f'"{shorten(objection, 40)}" in the text may change the value')
    _refuse_label(" ".join(before), rules, value)


def _refuse_relation(after: list[str]) -> None:
    """Raise TextParseError if words that are set off after a number relate or limit it, as in "42, I think"."""
    relation = find_relation(f", {' '.join(after)}")
    if relation is not None:
        raise TextParseError(f'"{shorten(relation, 40)}" in the text may change the value')


_ENDS_CLAUSE = lazy_regex(r"[,;:.!][*_`\"')]*\Z")


def _without_variable(before: list[str]) -> list[str]:
    """Return the words before a number without the name of a variable, as in "x = 5" and "x=5"."""
    if len(before) > 1 and before[-1] == "=" and len(before[-2]) == 1:
        return before[:-2]
    return before[:-1] if before and _VARIABLE.fullmatch(before[-1]) else before


def _refuse_label(before: str, rules: NumberRules, value: Decimal) -> None:
    """Raise TextParseError if a number has the label of something that is rarely the answer."""
    kind = _KIND_OF_NUMBER.search(before)
    if kind is not None and kind[1].casefold() not in rules.words | words_in("before number"):
        raise TextParseError(f'"{shorten(kind[0], 40)}" is not a count')
    label = _LABEL.search(before)
    if label is None or label[1].casefold() in rules.words:
        return
    if label[1].casefold() != "confidence" or not 0 <= value <= 1:
        raise TextParseError(f'"{shorten(label[1], 40)}" before the value says that it is something else')


def _only_value(values: list[Decimal]) -> Decimal:
    """Return the first of several numbers, after checking that all of them are equal.

    Raises TextParseError if there are different numbers.
    """
    different = [value for value in values if value != values[0]]
    if different:
        numbers = f"{shorten(str(values[0]), 30)} and {shorten(str(different[0]), 30)}"
        raise TextParseError(f"two numbers: {numbers}")
    return values[0]


def _list_some(texts: Iterable[str]) -> str:
    first = list(islice(texts, 4))
    return ", ".join(shorten(text, 30) for text in first[:3]) + (", ..." if len(first) > 3 else "")


# Characters of typography and of other scripts that are read as their ASCII counterparts.
_SEPARATORS = str.maketrans({"’": "'", "\u2009": "\u00a0", "\u202f": "\u00a0"})
_SIGNS = str.maketrans(
    {"−": "-", "－": "-", "＋": "+", "．": ".", "，": ",", "٫": ".", "٬": ",", "％": "%", "٪": "%"}
)

_PLAIN = lazy_regex(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNDERSCORED = lazy_regex(r"[+-]?[0-9]{1,3}(?:_[0-9]{3})+(?:\.[0-9]+(?:_[0-9]+)*)?")

# Numbers with thousands separators that have only one meaning, with their separator and decimal point. A
# plain space may also be between two numbers, so it needs two groups after a short first group. "1.234" is
# missing: here the point is a decimal point.
_GROUPED = tuple(
    (lazy_regex(rf"[+-]?{pattern}"), separator, point)
    for pattern, separator, point in (
        (r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]{0,2}(?:'[0-9]{3})+(?:\.[0-9]+)?", "'", "."),
        (r"[1-9][0-9]{0,2}(?:\u00a0[0-9]{3})+(?:[.,][0-9]+)?", "\u00a0", ","),
        (r"[1-9][0-9]?(?: [0-9]{3})+(?:[.,][0-9]+)?", " ", ","),
        (r"[1-9][0-9]{2}(?: 000)+", " ", ","),
        (r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?", ".", ","),
        (r"[1-9][0-9]{0,2}\.[0-9]{3},[0-9]+", ".", ","),
    )
)
_IP_ADDRESS = lazy_regex(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

_POWER_OF_TEN = lazy_regex(
    r"([+-]?[0-9]+(?:\.[0-9]+)?) ?(?:[×x*·]|\\times) ?10 ?(?:\^|\*\*) ?"
    r"(?:\{([+-]?[0-9]+)\}|\(?([+-]?[0-9]+)\)?)"
)
_MONEY = rf"(?:{CURRENCY_SIGNS}|{CURRENCY_CODES})"
_CURRENCY = lazy_regex(_MONEY, re.IGNORECASE)
_MONEY_FIRST = lazy_regex(rf"([+-]?){_MONEY}[ \u00a0]?(?=[+-]?[.0-9])")
_MONEY_LAST = lazy_regex(
    rf"(?:(?<=[0-9])|(?<=[0-9][MKk])|(?<=Mio)|(?<=Mio\.)|(?<=Mrd)|(?<=Mrd\.)|(?<=illion))[ \u00a0]?{_MONEY}\Z"
)

# Spaces inside of an amount: "1 234,56 €" and "€ 1.234,56".
_SPACE_OF_MONEY = lazy_regex(
    rf"(?<=[0-9])[ \u00a0\u202f](?={_MONEY}(?!\w))|((?<!\w){_MONEY})[ \u00a0\u202f](?=[0-9])"
    r"|(?<=[0-9])[\u00a0\u202f](?=[0-9]{3}(?![0-9]))"
    rf"|(?<![0-9.,])(?<![0-9] )(?<=[0-9]) (?=[0-9]{{3}},[0-9]{{2}}(?![0-9]))|(?<=[0-9]) (?=[0-9]{{3}}(?:,[0-9]{{2}})? ?{_MONEY}(?!\w))"
)
_COMMA = lazy_regex(r"[+-]?[0-9]+,[0-9]+")
_SPACED = lazy_regex(r"[+-]?[0-9]+(?: [0-9]+)+")
_FRACTION = lazy_regex(r"[+-]?[0-9]+ ?/ ?[0-9]+")
_PERCENT = lazy_regex(r"[^%]*[0-9] ?%")


def read_number_token(text: str, rules: NumberRules = _NO_RULES) -> TextReading[Decimal]:
    """Parse text that contains nothing but a number in digits.

    Raises TextParseError for other text.
    """
    ascii_text, script_rule = _to_ascii(text)
    bare, currency = _without_currency(ascii_text, rules)
    currency_rule = None if currency is None else "currency"
    is_money = currency_rule is not None or not rules.words.isdisjoint(_MONEY_WORDS)
    reading = _read_styled(bare, rules) or _read_plain(bare) or _read_grouped(bare)
    if reading is None and currency_rule is not None and _CENTS_AFTER_COMMA.fullmatch(bare):
        reading = TextReading(_to_decimal(bare.replace(",", ".")), "decimal comma")
    reading = reading or _read_power(bare) or _read_scaled(bare, rules, is_money=is_money)
    if reading is None:
        raise TextParseError(_refusal_reason(bare))
    unit = _undeclared(currency, rules) if currency else None
    return TextReading(reading.value, join_rules(script_rule, currency_rule, reading.rule), unit)


_MONEY_WORDS = word_set(
    """
    price cost amount money revenue salary budget fee fees payment income profit turnover dollars dollar euros euro
    usd eur gbp preis betrag kosten umsatz prix montant coût precio importe prezzo preço
    """
)
_CENTS_AFTER_COMMA = lazy_regex(r"[+-]?[0-9]{1,3}(?:\.?[0-9]{3})*,[0-9]{2}")
# The first group of thousands is not zero: 0.125 has a decimal point.
_WITH_COMMA = lazy_regex(r"[+-]?(?:[0-9]+|(?!0+\.)[0-9]{1,3}(?:\.[0-9]{3})+)(?:,[0-9]+)?")
_WITH_POINT = lazy_regex(r"[+-]?(?!0+,)[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")


# One sign before three digits, as in 1.500: there may be thousands or decimals.
UNCLEAR_GROUP = lazy_regex(r"(?<![0-9.,])[1-9][0-9]{0,2}[,.][0-9]{3}(?![0-9]|[.,][0-9])")


def _read_styled(text: str, rules: NumberRules) -> TextReading[Decimal] | None:
    """Parse a number whose comma or point the rules decide; return None for other text.

    Raises TextParseError for a comma that the style does not allow, and for 1.500 if its sign is unclear.
    """
    style = rules.style
    if style is None and UNCLEAR_GROUP.fullmatch(text.lstrip("+-")):
        style = rules.usual_style
        if style is None:
            raise TextParseError(f"{shorten(text, 40)} may have thousands or three decimals")
    if style is NumberStyle.COMMA and _WITH_COMMA.fullmatch(text):
        digits = text.replace(".", "").replace(",", ".")
        rule = "thousands separators" if "." in text else "decimal comma" if "," in text else None
        return TextReading(_to_decimal(digits), rule)
    if style is NumberStyle.POINT and "," in text:
        if not _WITH_POINT.fullmatch(text):
            raise TextParseError(f"{shorten(text, 40)} is not written with a decimal point")
        return TextReading(_to_decimal(text.replace(",", "")), "thousands separators")
    return None


def _to_ascii(text: str) -> tuple[str, str | None]:
    if text.isascii():
        return text, None
    zeros = {ord(character) - int(character) for character in set(text) if character.isdecimal()}
    if len(zeros) > 1:
        raise TextParseError("the number mixes digits of several scripts")
    digits = {zero + digit: str(digit) for zero in zeros for digit in range(10)}
    before = text.translate(_SEPARATORS)
    converted = before.translate(_SIGNS).translate(digits)
    return converted, None if converted == before else "characters of another script"


def _without_currency(text: str, rules: NumberRules) -> tuple[str, str | None]:
    last = _MONEY_LAST.search(text)
    bare = text[: last.start()] if last else text
    first = _MONEY_FIRST.match(bare)
    if first:
        rest = bare[first.end() :]
        if first[1] and rest[0] in "+-":
            raise TextParseError("the number has two signs")
        bare = first[1] + rest
    currencies = [currency[0].strip("+- \u00a0") for currency in (last, first) if currency]
    for currency in currencies:
        if _is_other_unit(currency.casefold(), rules):
            raise TextParseError(f"{currency} is not the currency that is expected")
    return bare, currencies[0] if currencies else None


def _read_plain(text: str) -> TextReading[Decimal] | None:
    if _PLAIN.fullmatch(text):
        padded = re.match(r"[+-]?0[0-9]", text)
        return TextReading(_to_decimal(text), "leading zeros" if padded else None)
    if _UNDERSCORED.fullmatch(text):
        return TextReading(_to_decimal(text.replace("_", "")), "underscores")
    return None


def _read_grouped(text: str) -> TextReading[Decimal] | None:
    for pattern, separator, point in _GROUPED:
        if pattern.fullmatch(text) and not may_be_ip_address(text):
            digits = text.replace(separator, "").replace(point, ".")
            return TextReading(_to_decimal(digits), "thousands separators")
    return None


def may_be_ip_address(text: str) -> bool:
    """Return True for four numbers below 256 with points between them."""
    return bool(_IP_ADDRESS.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))


def _read_power(text: str) -> TextReading[Decimal] | None:
    match = _POWER_OF_TEN.fullmatch(text)
    if match is None:
        return None
    return TextReading(_to_decimal(f"{match[1]}e{match[2] or match[3]}"), "power of ten")


# Letters and words after a number that multiply it. Letters may be units, too: 5m may be five metres.
_SCALE_LETTERS = {"k": 3, "m": 6, "b": 9}
_SCALE = lazy_regex(
    "|".join(f"(?P<p{power}>{SCALES[power].replace(' ', '|')})" for power in (3, 5, 6, 7, 9))
    + "|(?P<q3>bin)|(?P<q4>[万萬만])|(?P<q8>[亿億억])"
)
# Also months, credits, "my" and other words.
_MAY_BE_OTHERS = frozenset("k thou cr md mds mia mill mns rb ek jt hil".split())


def _power_of(word: str) -> int | None:
    """Return the power of ten of a word in lower case, such as "million" and "mrd"; None for other words."""
    match = None if word in _MAY_BE_OTHERS else _SCALE.fullmatch(word)
    return SCALE_WORDS.get(word) if match is None else int(str(match.lastgroup)[1:])


_SCALED = lazy_regex(r"(.*[0-9])[ \u00a0]?([^\W\d_]+)\.?")


def _read_scaled(text: str, rules: NumberRules, *, is_money: bool) -> TextReading[Decimal] | None:
    """Parse a number that is followed by a scale word, such as "1.5 million" or, for a count, "2k"."""
    parts = _SCALED.fullmatch(text)
    if parts is None:
        return None
    word = parts[2].casefold()
    scale = SCALE_WORDS.get(word)
    if scale is None and (rules.is_count or is_money):
        scale = _SCALE_LETTERS.get(word) or _power_of(word)
    if scale is None or (parts[2] == "m" and not is_money):  # 5m may be five metres
        return None
    head = parts[1].rstrip()
    number = _read_styled(head, rules) or _read_plain(head) or _read_grouped(head)
    if number is None or not number.value.is_finite() or "e" in head.casefold():
        return None
    scaled = _to_decimal(f"{number.value}e{scale}")
    # Converted to digits first, so that the value is 1500000 and not 1.5E+6, which has fewer significant
    # digits.
    return TextReading(_to_decimal(f"{scaled:f}"), join_rules(number.rule, "scale word"))


def _to_decimal(digits: str) -> Decimal:
    try:
        value = Decimal(digits)
    except InvalidOperation:
        raise TextParseError("the exponent is out of range") from None
    if not value.is_finite():  # possible if the active decimal context does not trap InvalidOperation
        raise TextParseError("the exponent is out of range")
    return value


def _refusal_reason(text: str) -> str:
    short = shorten(text, 40)
    if _PERCENT.fullmatch(text):
        return f"{short} may mean {short.rstrip(' %')} or a hundredth of it"
    if _COMMA.fullmatch(text):
        return f"{short} may be one number or two, its comma a decimal point or not"
    if _SPACED.fullmatch(text):
        return f"{short} may be one number or several"
    if _FRACTION.fullmatch(text):
        return f"{short} may be a fraction, a score or a date"
    return "expected a number"


_MAX_WORDS_LENGTH = 200  # characters; the longest number that text2num reads is shorter
_SIGNED = lazy_regex(rf"(?:(minus|negative)\s+)?(?:a\s+(?={'|'.join(SCALE_WORDS)}))?(.+)", re.DOTALL)
_DECIMAL_FRACTION = lazy_regex(r"[0-9]+\.[0-9]+")


def read_words(text: str) -> TextReading[Decimal]:
    """Parse a number in words, such as "forty-two" or "three point five".

    Raises TextParseError for other text.
    """
    signed = _SIGNED.fullmatch(text.casefold()) if len(text) <= _MAX_WORDS_LENGTH else None
    if not signed or not _is_number_in_words(signed[2]):
        raise TextParseError("expected a number")
    value = _words_to_decimal(" ".join(signed[2].split()))
    return TextReading(value.copy_negate() if signed[1] else value, "number in words")


def _is_number_in_words(text: str) -> bool:
    words = re.split(r"[\s-]+", text)
    whole, _, digits = text.partition(" point ")
    only_number_words = all(word in ENGLISH_NUMBER_WORDS or word in ("and", "point") for word in words)
    # text2num silently drops a second "and" and leading zeros.
    repeats_and = any(pair == ("and", "and") for pair in pairwise(words))
    has_leading_zero = words[0] == "zero" and len(re.split(r"[\s-]+", whole)) > 1
    incomplete = "point" in digits or words[0] in ("and", "point")
    return only_number_words and not repeats_and and not has_leading_zero and not incomplete


def _words_to_decimal(text: str) -> Decimal:
    try:
        # Not an import statement, because the package is optional and has no type hints.
        text2num = importlib.import_module("text_to_num")
    except ImportError:
        message = 'number words are read only with the package text2num: pip install "aiservices[words]"'
        raise TextParseError(message) from None
    try:
        if " point " not in text:
            return Decimal(text2num.text2num(text, "en"))
        digits = text2num.alpha2digit(text, "en", threshold=0)
    except ValueError:
        raise TextParseError("expected a number: the words are not one number") from None
    if not _DECIMAL_FRACTION.fullmatch(digits):
        raise TextParseError("expected a number: the words are not one number")
    return Decimal(digits)


def has_number_word(word: str) -> bool:
    """Return True if a word contains a number word such as "ten", or a numeric character such as ½ or 四."""
    if not word.isascii() and any(sign.isnumeric() and not sign.isdecimal() for sign in word):
        return True
    return any(part in ENGLISH_NUMBER_WORDS for part in bare_word(word).split("-"))


def _number_word_runs(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the start and end of each sequence of number words in the text, such as "two hundred".

    Punctuation ends a sequence.
    """
    runs: list[tuple[int, int]] = []
    start = None
    for position, word in enumerate(words):
        joins = start is not None and word == "and" and _and_joins(words, position)
        inside = has_number_word(word) or joins
        if inside and start is None:
            start = position
        if start is not None and not inside:
            runs.append((start, position))
            start = None
        if start is not None and word[-1] in ".,;:!?)":
            runs.append((start, position + 1))
            start = None
    return runs if start is None else [*runs, (start, len(words))]


def _and_joins(words: Sequence[str], position: int) -> bool:
    """Return True if the word "and" may be part of a number, as in "one hundred and five"."""
    after_scale = bare_word(words[position - 1]) in SCALE_WORDS
    return after_scale and position + 1 < len(words) and has_number_word(words[position + 1])


_KIND_OF_NUMBER = lazy_regex(r"([^\W\d_]+) (?:number|id|code)\b(?! of\b)", re.IGNORECASE)
# Labels of values that are rarely the answer. The description of a field may name them.
_LABEL = lazy_regex(r"\b(confidence|input|given|status|question)\b[^:=]{0,20}[:=]\W*\Z", re.IGNORECASE)
