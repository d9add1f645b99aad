"""Reads numbers written in English words, with the optional package text2num."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from .doubt import CARDINALS, bare_word
from .found import Found, Unreadable
from .late_pattern import late

__all__ = ["has_cardinal", "number_runs", "read_words"]

_LONGEST = 200  # characters; the longest number that text2num reads is shorter
_SIGNED = late(r"(?:(minus|negative)\s+)?(?:a\s+(?=hundred|thousand|million|billion))?(.+)", re.DOTALL)
_SPELLED = late(r"[0-9]+\.[0-9]+")


def read_words(text: str) -> Found[Decimal]:
    """The number that the text spells: "forty-two", "minus three", "three point five". Raises Unreadable."""
    signed = _SIGNED.fullmatch(text.casefold()) if len(text) <= _LONGEST else None
    if not signed or not _only_number_words(signed[2]):
        raise Unreadable("expected a number")
    value = _library_value(" ".join(signed[2].split()))
    return Found(value.copy_negate() if signed[1] else value, "number in words")


def _only_number_words(text: str) -> bool:
    words = re.split(r"[\s-]+", text)
    whole, _, digits = text.partition(" point ")
    joined = all(word in CARDINALS or word in ("and", "point") for word in words)
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
        raise Unreadable(said) from None
    try:
        if " point " not in text:
            return Decimal(library.text2num(text, "en"))
        spelled = library.alpha2digit(text, "en", threshold=0)
    except ValueError:
        raise Unreadable("expected a number: the words are not one number") from None
    if not _SPELLED.fullmatch(spelled):
        raise Unreadable("expected a number: the words are not one number")
    return Decimal(spelled)


def has_cardinal(word: str) -> bool:
    """Whether a word is, or contains after a hyphen, a number word, or has a sign such as ½, ² or 四."""
    if not word.isascii() and any(sign.isnumeric() and not sign.isdecimal() for sign in word):
        return True
    return any(part in CARDINALS for part in bare_word(word).split("-"))


def number_runs(words: Sequence[str]) -> list[tuple[int, int]]:
    """Where number words stand in a row, as pairs of start and end; punctuation ends a row."""
    runs: list[tuple[int, int]] = []
    start = None
    for position, word in enumerate(words):
        inside = has_cardinal(word) or (start is not None and word == "and" and _goes_on(words, position))
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
    return joins and position + 1 < len(words) and has_cardinal(words[position + 1])
