"""Reads the number that a text is, or the only number in a sentence.

What two readers may understand differently is refused, never guessed:

* ``1,234`` is 1234 and ``1.234`` has three decimals, as in English and JSON; ``1,5``, ``12,34`` and ``0,123``
  are refused, ``1.234,56`` is not, for nothing else explains it;
* ``50%`` (50 or 0.5), ``1/2`` (a half, one of two, a date) and ``(5)`` (in accounts: minus five) are refused;
* ``- 5`` may be an item of a list, ``~5`` only says how sure the writer is;
* words of English are read where the package text2num is installed; alone in a sentence, "one" is no number.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise

from ..result.errors import shorten
from ..result.lazy_regex import lazy_regex
from .result import (
    NUMBER_WORDS,
    SCALE_WORDS,
    TextParseError,
    TextReading,
    bare_word,
    find_hedging,
    join_rules,
    strip_wrapping,
)

_LONGEST = 200  # characters; the longest number that text2num reads is shorter
_SIGNED = lazy_regex(r"(?:(minus|negative)\s+)?(?:a\s+(?=hundred|thousand|million|billion))?(.+)", re.DOTALL)
_SPELLED = lazy_regex(r"[0-9]+\.[0-9]+")


def read_words(text: str) -> TextReading[Decimal]:
    """The number that the text spells: "forty-two", "minus three", "three point five". Raises TextParseError."""
    signed = _SIGNED.fullmatch(text.casefold()) if len(text) <= _LONGEST else None
    if not signed or not _only_number_words(signed[2]):
        raise TextParseError("expected a number")
    value = _library_value(" ".join(signed[2].split()))
    return TextReading(value.copy_negate() if signed[1] else value, "number in words")


def _only_number_words(text: str) -> bool:
    words = re.split(r"[\s-]+", text)
    whole, _, digits = text.partition(" point ")
    joined = all(word in NUMBER_WORDS or word in ("and", "point") for word in words)
    # the library drops a doubled "and" and leading zeros in silence
    doubled = any(pair == ("and", "and") for pair in pairwise(words))
    padded = words[0] == "zero" and len(re.split(r"[\s-]+", whole)) > 1
    return (
        joined and not doubled and not padded and "point" not in digits and words[0] not in ("and", "point")
    )


def _library_value(text: str) -> Decimal:
    try:
        # not a plain import: the package is optional and has no type hints
        library = importlib.import_module("text_to_num")
    except ImportError:
        said = 'number words are read only with the package text2num: pip install "aiservices[words]"'
        raise TextParseError(said) from None
    try:
        if " point " not in text:
            return Decimal(library.text2num(text, "en"))
        spelled = library.alpha2digit(text, "en", threshold=0)
    except ValueError:
        raise TextParseError("expected a number: the words are not one number") from None
    if not _SPELLED.fullmatch(spelled):
        raise TextParseError("expected a number: the words are not one number")
    return Decimal(spelled)


def has_number_word(word: str) -> bool:
    """Whether a word is, or contains after a hyphen, a number word, or has a sign such as ½, ² or 四."""
    if not word.isascii() and any(sign.isnumeric() and not sign.isdecimal() for sign in word):
        return True
    return any(part in NUMBER_WORDS for part in bare_word(word).split("-"))


def number_runs(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where number words stand in a row, as pairs of start and end; punctuation ends a row."""
    runs: list[tuple[int, int]] = []
    start = None
    for position, word in enumerate(words):
        inside = has_number_word(word) or (start is not None and word == "and" and _goes_on(words, position))
        if inside and start is None:
            start = position
        if start is not None and not inside:
            runs.append((start, position))
            start = None
        if start is not None and word[-1] in ".,;:!?)":
            runs.append((start, position + 1))
            start = None
    return runs if start is None else [*runs, (start, len(words))]


def _goes_on(words: Sequence[str], position: int) -> bool:
    """Whether "and" may be inside a number: after hundred or a scale, before another number word."""
    joins = bare_word(words[position - 1]) in ("hundred", "thousand", "million", "billion")
    return joins and position + 1 < len(words) and has_number_word(words[position + 1])


# What is written inside a number beside the plain space and apostrophe, and the signs of other scripts.
_SEPARATORS = str.maketrans({"’": "'", "\u2009": "\u00a0", "\u202f": "\u00a0"})
_SIGNS = str.maketrans(
    {"−": "-", "－": "-", "＋": "+", "．": ".", "，": ",", "٫": ".", "٬": ",", "％": "%", "٪": "%"}
)

_PLAIN = lazy_regex(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNDERSCORED = lazy_regex(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?")

# A group of thousands that only one reading explains. A plain space also stands between numbers, so it counts
# only from two groups on, after a short first group. "1.234" is missing: to us it is a decimal point.
_GROUPED = tuple(
    (lazy_regex(rf"[+-]?{pattern}"), group, point)
    for pattern, group, point in (
        (r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?", ",", "."),
        (r"[1-9][0-9]{0,2}(?:'[0-9]{3})+(?:\.[0-9]+)?", "'", "."),
        (r"[1-9][0-9]{0,2}(?:\u00a0[0-9]{3})+(?:[.,][0-9]+)?", "\u00a0", ","),
        (r"[1-9][0-9]?(?: [0-9]{3}){2,}(?:[.,][0-9]+)?", " ", ","),
        (r"[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?", ".", ","),
        (r"[1-9][0-9]{0,2}\.[0-9]{3},[0-9]+", ".", ","),
    )
)
_ADDRESS = lazy_regex(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

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
    """The number that the text is, from its first character to its last. Raises TextParseError. Linear time."""
    ascii_text, foreign = _in_ascii(text)
    bare, currency = _without_currency(ascii_text)
    for read in (_read_plain, _read_grouped, _read_power, _read_scaled):
        found = read(bare)
        if found:
            return TextReading(found.value, join_rules(foreign, currency, found.rule))
    raise TextParseError(_refusal(bare))


def _in_ascii(text: str) -> tuple[str, str | None]:
    if text.isascii():
        return text, None
    zeros = {ord(character) - int(character) for character in set(text) if character.isdecimal()}
    if len(zeros) > 1:
        raise TextParseError("digits of several scripts")
    digits = {zero + digit: str(digit) for zero in zeros for digit in range(10)}
    before = text.translate(_SEPARATORS)
    same = before.translate(_SIGNS).translate(digits)
    return same, None if same == before else "characters of another script"


def _without_currency(text: str) -> tuple[str, str | None]:
    bare = _MONEY_LAST.sub("", text)
    first = _MONEY_FIRST.match(bare)
    if first:
        rest = bare[first.end() :]
        if first[1] and rest[0] in "+-":
            raise TextParseError("two signs")
        bare = first[1] + rest
    return bare, None if bare == text else "currency"


def _read_plain(text: str) -> TextReading[Decimal] | None:
    if _PLAIN.fullmatch(text):
        padded = re.match(r"[+-]?0[0-9]", text)
        return TextReading(_decimal(text), "leading zeros" if padded else None)
    if _UNDERSCORED.fullmatch(text):
        return TextReading(_decimal(text.replace("_", "")), "underscores")
    return None


def _read_grouped(text: str) -> TextReading[Decimal] | None:
    for pattern, group, point in _GROUPED:
        if pattern.fullmatch(text) and not _may_be_address(text):
            return TextReading(_decimal(text.replace(group, "").replace(point, ".")), "thousands separators")
    return None


def _may_be_address(text: str) -> bool:
    # only a text this short is looked at, for int() of its parts
    return bool(_ADDRESS.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))


def _read_power(text: str) -> TextReading[Decimal] | None:
    match = _POWER_OF_TEN.fullmatch(text)
    return TextReading(_decimal(f"{match[1]}e{match[2] or match[3]}"), "power of ten") if match else None


def _read_scaled(text: str) -> TextReading[Decimal] | None:
    """A number and a word for its scale: "1.5 million"."""
    head, space, word = text.rpartition(" ")
    scale = SCALE_WORDS.get(word.casefold())
    if not space or scale is None:
        return None
    number = _read_plain(head) or _read_grouped(head)
    if number is None or not number.value.is_finite() or "e" in head.casefold():
        return None
    scaled = _decimal(f"{number.value}e{scale}")
    return TextReading(_decimal(f"{scaled:f}"), join_rules(number.rule, "scale word"))


def _decimal(lexeme: str) -> Decimal:
    try:
        value = Decimal(lexeme)
    except InvalidOperation:
        raise TextParseError("the exponent is out of range") from None
    if not value.is_finite():  # what a context without traps gives instead
        raise TextParseError("the exponent is out of range")
    return value


def _refusal(text: str) -> str:
    shown = shorten(text, 40)
    if _PERCENT.fullmatch(text):
        return f"{shown} may mean {shown.rstrip(' %')} or a hundredth of it"
    if _COMMA.fullmatch(text):
        return f"{shown} may be one number or two, its comma a decimal point or not"
    if _SPACED.fullmatch(text):
        return f"{shown} may be one number or several"
    if _FRACTION.fullmatch(text):
        return f"{shown} may be a fraction, a score or a date"
    return "expected a number"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Right before a value these make it a limit, or the end of a span: "more", "less", "before", "after",
# "until", "almost". A limit that is returned as the value is wrong, and nobody sees it: hence many languages.
_BEFORE = _words(
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
# What may stand between such a word and the value: "plus de 5", "weniger als 5", "vor dem 2024-03-15".
_JOINTS = _words(
    """
    of to als dem den der die das zu de le la les du des d' que l' el los las del al di il lo gli dan än than
    a o às من
    """
)
_AFTER = _words(
    """
    fold plus upwards onwards mindestens höchstens 이상 이하 미만 초과 以上 以下 以内 未満 未满
    以前 以后 以後 之前 之后 之後 まで から より
    """
)
_UP = _words("up above over upwards below under beyond later earlier")
# A word for a scale that is not read: the number alone would be wrong by thousands.
_SCALES = _words("mil mill mille mila mio mrd tsd tys mln mld тыс млн млрд bin mn bn hundreds")
_SCALE_STEMS = tuple(
    """
    million milliard millier millon millón milion miliard miljo miljard milyon milhõ milhã bilh billion billon
    trillion trilh thousand tausend hundert duizend tusen tysi crore lakh миллион миллиард тысяч
    """.split()
)


def find_limit(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Why a value between these words is not the value as it stands, or None."""
    for word in reversed(before):
        bare = bare_word(word)
        if bare in _BEFORE:
            return f'"{shorten(bare, 40)}" before it leaves the answer open'
        if bare not in _JOINTS:
            break
    following = [bare_word(word) for word in after[:2]]
    scaled = bool(following) and (following[0] in _SCALES or following[0].startswith(_SCALE_STEMS))
    if following and (scaled or following[0] in _AFTER):
        return f'"{shorten(following[0], 40)}" after it leaves the answer open'
    if len(following) == 2 and following[0] == "and" and following[1] in _UP:
        return f'"and {following[1]}" after it leaves the answer open'
    return None


_MOST_MENTIONS = 20  # of one number; more are no answer, and each costs a look at the whole text
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
# What a price starts from, or a part has, is a number and not the answer.
_START_BEFORE = lazy_regex(
    r"(?:\bfrom|\b(?:start|begin)(?:s|ing)?(?: off)? at|\bas (?:low|high|few|little|much) as) \Z"
)
_SHARES = frozenset({"off", "each", "apiece", "discount"})
# In "Answer:42", "答案：42" and "x=42" the number is a word of its own.
_GLUED_LABEL = lazy_regex(r"(?<=[^\W\d_])([:=：])(?=\S)")


def read_number(text: str) -> TextReading[Decimal]:
    """The number that the whole text is. Raises TextParseError, and nothing else. Linear time."""
    bare, wrapping = strip_wrapping(text)
    found = _read_bare(bare)
    return found._replace(rule=join_rules(wrapping, found.rule))


def find_number(text: str) -> TextReading[Decimal]:
    """The number that the text is, or states as its answer, or alone contains. Raises TextParseError.

    A stated answer is ``\\boxed{42}``, or a last sentence that is only "The answer is 42", "Result: 42",
    "= 42" or the like; every such statement in the text must give the same number.
    """
    try:
        return read_number(text)
    except TextParseError as error:
        found = _stated_answer(text) or _only_number(text)
        if found is None:
            raise error
        return found


def _read_bare(text: str) -> TextReading[Decimal]:
    return read_number_token(text) if _DIGIT.search(text) else read_words(text)


def _read_inside(text: str) -> TextReading[Decimal]:
    """A number inside a text: quotes, markup and the full stop around it are the text's."""
    return _read_bare(strip_wrapping(text)[0])


def _stated_answer(text: str) -> TextReading[Decimal] | None:
    boxed = _BOXED.findall(text)
    if len(boxed) > _MOST_MENTIONS:
        raise TextParseError(f"{len(boxed)} answers")
    if boxed:
        return TextReading(_same([_read_inside(inner).value for inner in boxed]), "boxed answer")
    sentences = [sentence.strip() for sentence in _SENTENCE_END.split(text.strip())]
    if not _ANSWER.fullmatch(sentences[-1]):
        return None
    stated = [match[1] for sentence in sentences if (match := _ANSWER.fullmatch(sentence))]
    if len(stated) > _MOST_MENTIONS:
        raise TextParseError(f"{len(stated)} answers")
    try:
        readings = [_read_inside(inner.strip(" *_")) for inner in stated]
        return TextReading(
            _same([found.value for found in readings]), join_rules(readings[0].rule, "stated answer")
        )
    except TextParseError:
        return None  # "Answer: 42 apples" may still hold one number


def _only_number(text: str) -> TextReading[Decimal] | None:
    if _DIGIT.search(text):
        if _LIST_MARKER.search(text):
            raise TextParseError("a numbered list, not one number")
        return _only_digits(text)
    return _only_words(text)


def _only_digits(text: str) -> TextReading[Decimal]:
    sentences = _SENTENCE_END.split(_GLUED_LABEL.sub(r"\1 ", text.strip()))
    words = [(word, place) for place, sentence in enumerate(sentences) for word in sentence.split()]
    spelled = [word for word, _ in words]
    hits = [at for at, word in enumerate(spelled) if _DIGIT.search(word)]
    if len(hits) > _MOST_MENTIONS:
        raise TextParseError(f"{len(hits)} numbers")
    readings = [_number_at(spelled, at) for at in hits]
    value = _same([found.value for found in readings])
    if len({words[at][1] for at in hits}) < len(hits):
        raise TextParseError(f"several numbers in a sentence: {_list(spelled[at] for at in hits)}")
    for at in hits:
        after = spelled[at + 1 :]
        if after and bare_word(after[0]) in SCALE_WORDS:
            after = after[1:]
        _refuse_doubt(spelled[:at], after)
    return TextReading(value, join_rules(readings[0].rule, "number in a sentence"))


def _number_at(words: list[str], at: int) -> TextReading[Decimal]:
    """The number in a word, with the word for its scale if one follows."""
    bare = words[at].rstrip(",;:").lstrip("~≈≅")
    stop = "." if bare.endswith(".") else ""
    bare = bare.removesuffix(".").strip("*") + stop  # "**42" and "people**" share their stars
    bare = bare.rstrip("!") if len(words) > 1 else bare
    if bare.startswith("(") != bare.endswith(")"):
        bare = bare.strip("()")
    bare = re.sub(r"(?<=[0-9])°[CFK]?\.?\Z", "", bare)
    scale = bare_word(words[at + 1]) if at + 1 < len(words) else ""
    try:
        return _read_inside(f"{bare} {scale}" if scale in SCALE_WORDS else bare)
    except TextParseError as error:
        if str(error) != "expected a number":
            raise
        raise TextParseError(f"{shorten(words[at], 40)!r} is not plainly a number") from None


def _only_words(text: str) -> TextReading[Decimal] | None:
    words = text.split()
    runs = number_runs(words)
    if not runs:
        return None
    if len(runs) > 1:
        raise TextParseError(
            f"several numbers: {_list(bare_word(' '.join(words[start:end])) for start, end in runs)}"
        )
    start, end = runs[0]
    spelled = " ".join(words[start:end])
    if bare_word(spelled) == "one":
        raise TextParseError('"one" may be a number or stand for something')
    _refuse_doubt(words[:start], words[end:])
    return read_words(spelled.strip(".,;:!?()\"'*_`"))._replace(rule="number in words, number in a sentence")


def _refuse_doubt(before: list[str], after: list[str]) -> None:
    reason = find_hedging(before, after) or find_limit(before, after)
    if reason:
        raise TextParseError(reason)
    start = _START_BEFORE.search(" ".join((*before[-4:], "")).casefold())
    if start:
        raise TextParseError(f'"{start[0].strip()}" before it leaves the answer open')
    if after and bare_word(after[0]) in _SHARES:
        raise TextParseError(f'"{after[0]}" after it leaves the answer open')
    other = next((word for word in (*before, *after) if has_number_word(word)), None)
    if other:
        raise TextParseError(f'"{shorten(bare_word(other), 40)}" may be a number too')


def _same(values: list[Decimal]) -> Decimal:
    """The one value; numbers that differ are a refusal."""
    different = [value for value in values if value != values[0]]
    if different:
        raise TextParseError(f"two numbers: {shorten(str(values[0]), 30)} and {shorten(str(different[0]), 30)}")
    return values[0]


def _list(texts: Iterable[str]) -> str:
    shown = list(islice(texts, 4))
    return ", ".join(shorten(text, 30) for text in shown[:3]) + (", ..." if len(shown) > 3 else "")
