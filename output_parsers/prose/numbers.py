"""Parse numbers in prose: text that is only a number, or a sentence with only one number.

Text that two people may understand differently is rejected, never guessed:

* ``1,234`` is 1234 and ``1.234`` has three decimals, as in English and JSON. ``1,5``, ``12,34`` and ``0,123``
  are rejected; ``1.234,56`` is read, because it has only one meaning.
* ``50%`` (50 or 0.5), ``1/2`` (a half, one of two, or a date) and ``(5)`` (in accounts: minus five) are
  rejected.
* ``- 5`` is rejected, because it may be an item of a list. ``~5`` is read, because it has only one meaning.
* English number words are read if the package text2num is installed. "one" in a sentence is not a number.

All functions take time linear in the length of the text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise

from ..lazy_regex import lazy_regex
from ..result.errors import shorten
from . import (
    NUMBER_WORDS,
    SCALE_WORDS,
    TextParseError,
    TextReading,
    bare_word,
    find_hedging,
    join_rules,
    strip_wrapping,
    word_set,
)

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
# A starting price, or the price of a part, is a number but not the answer.
_START_BEFORE = lazy_regex(
    r"(?:\bfrom|\b(?:start|begin)(?:s|ing)?(?: off)? at|\bas (?:low|high|few|little|much) as) \Z"
)
_SHARES = frozenset({"off", "each", "apiece", "discount"})
# In "Answer:42", "答案：42" and "x=42" the number is a separate word.
_LABEL_WITHOUT_SPACE = lazy_regex(r"(?<=[^\W\d_])([:=：])(?=\S)")


def read_number(text: str) -> TextReading[Decimal]:
    """Parse text that contains nothing but a number, in digits or words.

    Raises TextParseError for other text.
    """
    bare, wrapping = strip_wrapping(text)
    reading = _read_bare(bare)
    return reading._replace(rule=join_rules(wrapping, reading.rule))


def find_number(text: str) -> TextReading[Decimal]:
    """Parse the only number in the text, or the number after words such as "the answer is".

    A stated answer is ``\\boxed{42}``, or a last sentence that is only "The answer is 42", "Result: 42",
    "= 42" or the like. Several such statements must give the same number. Raises only TextParseError.
    """
    try:
        return read_number(text)
    except TextParseError as error:
        reading = _stated_answer(text) or _only_number(text)
        if reading is None:
            raise error
        return reading


def _read_bare(text: str) -> TextReading[Decimal]:
    return read_number_token(text) if _DIGIT.search(text) else read_words(text)


def _read_inside(text: str) -> TextReading[Decimal]:
    """Parse a number in a sentence, ignoring quotes around the number."""
    return _read_bare(strip_wrapping(text)[0])


def _stated_answer(text: str) -> TextReading[Decimal] | None:
    boxed = _BOXED.findall(text)
    if len(boxed) > _MAX_MENTIONS:
        raise TextParseError(f"{len(boxed)} answers")
    if boxed:
        return TextReading(_only_value([_read_inside(inner).value for inner in boxed]), "boxed answer")
    sentences = [sentence.strip() for sentence in _SENTENCE_END.split(text.strip())]
    if not _ANSWER.fullmatch(sentences[-1]):
        return None
    stated = [match[1] for sentence in sentences if (match := _ANSWER.fullmatch(sentence))]
    if len(stated) > _MAX_MENTIONS:
        raise TextParseError(f"{len(stated)} answers")
    try:
        readings = [_read_inside(inner.strip(" *_")) for inner in stated]
        value = _only_value([reading.value for reading in readings])
        return TextReading(value, join_rules(readings[0].rule, "stated answer"))
    except TextParseError:
        return None  # "Answer: 42 apples" may still contain only one number


def _only_number(text: str) -> TextReading[Decimal] | None:
    if _DIGIT.search(text):
        if _LIST_MARKER.search(text):
            raise TextParseError("a numbered list, not one number")
        return _only_number_in_digits(text)
    return _only_number_in_words(text)


def _only_number_in_digits(text: str) -> TextReading[Decimal]:
    sentences = _SENTENCE_END.split(_LABEL_WITHOUT_SPACE.sub(r"\1 ", text.strip()))
    words: list[str] = []
    sentence_of: list[int] = []  # the number of the sentence of each word
    for number, sentence in enumerate(sentences):
        in_sentence = sentence.split()
        words += in_sentence
        sentence_of += [number] * len(in_sentence)
    positions = [position for position, word in enumerate(words) if _DIGIT.search(word)]
    if len(positions) > _MAX_MENTIONS:
        raise TextParseError(f"{len(positions)} numbers")
    readings = [_number_at(words, position) for position in positions]
    value = _only_value([reading.value for reading in readings])
    if len({sentence_of[position] for position in positions}) < len(positions):
        numbers = _list_some(words[position] for position in positions)
        raise TextParseError(f"several numbers in a sentence: {numbers}")
    for position in positions:
        after = words[position + 1 :]
        if after and bare_word(after[0]) in SCALE_WORDS:
            after = after[1:]
        _refuse_hedged(words[:position], after)
    return TextReading(value, join_rules(readings[0].rule, "number in a sentence"))


def _number_at(words: list[str], position: int) -> TextReading[Decimal]:
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
        return _read_inside(f"{bare} {scale}" if scale in SCALE_WORDS else bare)
    except TextParseError as error:
        if str(error) != "expected a number":
            raise
        raise TextParseError(f"{shorten(words[position], 40)!r} is not clearly a number") from None


def _only_number_in_words(text: str) -> TextReading[Decimal] | None:
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
    _refuse_hedged(words[:start], words[end:])
    reading = read_words(number.strip(".,;:!?()\"'*_`"))
    return reading._replace(rule="number in words, number in a sentence")


def _refuse_hedged(before: list[str], after: list[str]) -> None:
    """Raise TextParseError if words near a number make it uncertain, as in "more than 5" or "5 or 6"."""
    reason = find_hedging(before, after) or find_limit(before, after)
    if reason:
        raise TextParseError(reason)
    start = _START_BEFORE.search(" ".join((*before[-4:], "")).casefold())
    if start:
        raise TextParseError(f'"{start[0].strip()}" before the value makes it uncertain')
    if after and bare_word(after[0]) in _SHARES:
        raise TextParseError(f'"{after[0]}" after the value makes it uncertain')
    other = next((word for word in (*before, *after) if has_number_word(word)), None)
    if other:
        raise TextParseError(f'"{shorten(bare_word(other), 40)}" may be a number too')


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
_UNDERSCORED = lazy_regex(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?")

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
        (r"[1-9][0-9]?(?: [0-9]{3}){2,}(?:[.,][0-9]+)?", " ", ","),
        (r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?", ".", ","),
        (r"[1-9][0-9]{0,2}\.[0-9]{3},[0-9]+", ".", ","),
    )
)
_IP_ADDRESS = lazy_regex(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

_POWER_OF_TEN = lazy_regex(
    r"([+-]?[0-9]+(?:\.[0-9]+)?) ?(?:[×x*·]|\\times) ?10 ?(?:\^|\*\*) ?"
    r"(?:\{([+-]?[0-9]+)\}|\(?([+-]?[0-9]+)\)?)"
)
_MONEY = r"(?:(?:US|CA|AU)?[$€£¥₹]|USD|EUR|GBP|JPY|CNY|CHF|INR|CAD|AUD)"
_MONEY_FIRST = lazy_regex(rf"([+-]?){_MONEY}[ \u00a0]?(?=[+-]?[.0-9])")
_MONEY_LAST = lazy_regex(rf"(?<=[0-9])[ \u00a0]?{_MONEY}\Z")

_COMMA = lazy_regex(r"[+-]?[0-9]+,[0-9]+")
_SPACED = lazy_regex(r"[+-]?[0-9]+(?: [0-9]+)+")
_FRACTION = lazy_regex(r"[+-]?[0-9]+ ?/ ?[0-9]+")
_PERCENT = lazy_regex(r"[^%]*[0-9] ?%")


def read_number_token(text: str) -> TextReading[Decimal]:
    """Parse text that contains nothing but a number in digits.

    Raises TextParseError for other text.
    """
    ascii_text, script_rule = _to_ascii(text)
    bare, currency_rule = _without_currency(ascii_text)
    for read in (_read_plain, _read_grouped, _read_power, _read_scaled):
        reading = read(bare)
        if reading:
            return TextReading(reading.value, join_rules(script_rule, currency_rule, reading.rule))
    raise TextParseError(_refusal_reason(bare))


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


def _without_currency(text: str) -> tuple[str, str | None]:
    bare = _MONEY_LAST.sub("", text)
    first = _MONEY_FIRST.match(bare)
    if first:
        rest = bare[first.end() :]
        if first[1] and rest[0] in "+-":
            raise TextParseError("the number has two signs")
        bare = first[1] + rest
    return bare, None if bare == text else "currency"


def _read_plain(text: str) -> TextReading[Decimal] | None:
    if _PLAIN.fullmatch(text):
        padded = re.match(r"[+-]?0[0-9]", text)
        return TextReading(_to_decimal(text), "leading zeros" if padded else None)
    if _UNDERSCORED.fullmatch(text):
        return TextReading(_to_decimal(text.replace("_", "")), "underscores")
    return None


def _read_grouped(text: str) -> TextReading[Decimal] | None:
    for pattern, separator, point in _GROUPED:
        if pattern.fullmatch(text) and not _may_be_ip_address(text):
            digits = text.replace(separator, "").replace(point, ".")
            return TextReading(_to_decimal(digits), "thousands separators")
    return None


def _may_be_ip_address(text: str) -> bool:
    return bool(_IP_ADDRESS.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))


def _read_power(text: str) -> TextReading[Decimal] | None:
    match = _POWER_OF_TEN.fullmatch(text)
    if match is None:
        return None
    return TextReading(_to_decimal(f"{match[1]}e{match[2] or match[3]}"), "power of ten")


def _read_scaled(text: str) -> TextReading[Decimal] | None:
    """Parse a number that is followed by a scale word, such as "1.5 million"."""
    head, space, word = text.rpartition(" ")
    scale = SCALE_WORDS.get(word.casefold())
    if not space or scale is None:
        return None
    number = _read_plain(head) or _read_grouped(head)
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
_SIGNED = lazy_regex(r"(?:(minus|negative)\s+)?(?:a\s+(?=hundred|thousand|million|billion))?(.+)", re.DOTALL)
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
    only_number_words = all(word in NUMBER_WORDS or word in ("and", "point") for word in words)
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
        message = (
            "number words are read only with the package text2num: install the extra words of aiservices"
        )
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
    return any(part in NUMBER_WORDS for part in bare_word(word).split("-"))


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
    after_scale = bare_word(words[position - 1]) in ("hundred", "thousand", "million", "billion")
    return after_scale and position + 1 < len(words) and has_number_word(words[position + 1])


# Right before a value, these words make it a limit or the end of a span: "more", "less", "before", "after",
# "until", "almost". Many languages are covered, because returning a limit as the value is a silent error.
_LIMITS_BEFORE = word_set(
    """
    minimum maximum upwards north south shy excess short til
    mehr weniger mindestens wenigstens höchstens maximal minimal über unter vor nach seit ab bis spätestens
    frühestens knapp fast beinahe kaum
    plus moins avant après apres depuis jusqu'à jusqu’à jusqu'au jusqu’au jusque dès presque près sous
    más mas menos antes después despues desde hasta casi mínimo máximo bajo sobre
    più meno prima dopo fino oltre quasi almeno massimo minimo entro
    mais depois até quase acima abaixo
    meer minder voor na tot sinds bijna minstens hoogstens ruim
    mer mindre före efter innan nästan minst högst
    ponad mniej więcej przed po do od prawie
    более больше менее меньше свыше до после перед от почти минимум максимум минус не
    أكثر أقل قبل بعد حتى منذ
    至少 最少 最多 至多 超过 超過 不到 不足 少于 少於 多于 多於
    大于 大於 小于 小於 低于 低於 高于 高於
    近 负 負 少なくとも 최소 최대 약간
    """
)
# Words that may be between such a word and the value: "plus de 5", "weniger als 5", "vor dem 2024-03-15".
_LIMIT_JOINTS = word_set(
    """
    of to als dem den der die das zu de le la les du des d' que l' el los las del al di il lo gli dan än than
    a o às من
    """
)
_LIMITS_AFTER = word_set(
    """
    fold plus upwards onwards mindestens höchstens 이상 이하 미만 초과 以上 以下 以内 未満 未满
    以前 以后 以後 之前 之后 之後 まで から より
    """
)
_LIMITS_AFTER_AND = word_set("up above over upwards below under beyond later earlier")
# Scale words that are not supported. The number without its scale would be wrong by a factor of thousands.
_OTHER_SCALES = word_set("mil mill mille mila mio mrd tsd tys mln mld тыс млн млрд bin mn bn hundreds")
_OTHER_SCALE_STEMS = tuple(
    """
    million milliard millier millon millón milion miliard miljo miljard milyon milhõ milhã bilh billion billon
    trillion trilh thousand tausend hundert duizend tusen tysi crore lakh миллион миллиард тысяч
    """.split()
)


def find_limit(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Explain why a number is not exact, as in "more than 5"; return None for an exact number."""
    for word in reversed(before):
        bare = bare_word(word)
        if bare in _LIMITS_BEFORE:
            return f'"{shorten(bare, 40)}" before the value makes it uncertain'
        if bare not in _LIMIT_JOINTS:
            break
    following = [bare_word(word) for word in after[:2]]
    scaled = bool(following) and (
        following[0] in _OTHER_SCALES or following[0].startswith(_OTHER_SCALE_STEMS)
    )
    if following and (scaled or following[0] in _LIMITS_AFTER):
        return f'"{shorten(following[0], 40)}" after the value makes it uncertain'
    if len(following) == 2 and following[0] == "and" and following[1] in _LIMITS_AFTER_AND:
        return f'"and {following[1]}" after the value makes it uncertain'
    return None
