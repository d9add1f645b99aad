"""Parse numbers, dates, times, choices and lists that are written in prose.

This module contains the results and errors of parsing prose, and checks of the words around a parsed value,
which the functions for numbers, dates and times share. The checks remove quotes and markup around a value,
and find words next to the value that deny it or make it uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ..lazy_regex import lazy_regex
from ..result.errors import shorten

T = TypeVar("T")


class TextReading(NamedTuple, Generic[T]):
    """A value parsed from prose, with the names of the rules that were used to interpret the text.

    Attributes:
        value: The value.
        rule: The names of the rules that were applied; None if the text is just the value.
    """

    value: T
    rule: str | None = None


class TextParseError(ValueError):
    """Raised if text does not clearly contain the expected value."""


def join_rules(*rules: str | None) -> str | None:
    """Join the names of parsing rules with commas, leaving out duplicates; None if there are no names."""
    return ", ".join(dict.fromkeys(rule for rule in rules if rule)) or None


# Longer pairs first, so that "**42**" does not lose one star of each pair.
_PAIRS = (
    ("\\boxed{", "}"),
    ("```", "```"),
    ("**", "**"),
    ("__", "__"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("«", "»"),
    ("`", "`"),
    ("*", "*"),
    ("_", "_"),
    ("$", "$"),
)
# Characters without width, which some models write at the ends of a reply.
_INVISIBLE = "\ufeff\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\u00ad"
_MAX_LAYERS = 6  # realistic replies have fewer, and removing a layer copies the text


def strip_wrapping(text: str) -> tuple[str, str | None]:
    """Remove white space, quotes, markup and a final full stop from the ends of the text.

    Return the rest, and the name of the rule if more than white space was removed.
    """
    stripped = text.strip().strip(_INVISIBLE).strip()
    bare = stripped
    for _ in range(_MAX_LAYERS):
        inner = _without_layer(bare)
        if inner == bare:
            break
        bare = inner
    return bare, None if bare == stripped else "quotes, markup or full stop"


def _without_layer(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    for opening, closing in _PAIRS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def word_set(text: str) -> frozenset[str]:
    """Return the set of words in the text."""
    return frozenset(text.split())


def bare_word(word: str) -> str:
    """Return a word in lower case, without the punctuation and markup at its ends."""
    return word.strip(".,;:!?…()[]{}\"'“”‘’«»*_`").casefold()


SCALE_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}  # powers of ten

NUMBER_WORDS = word_set(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
    million billion trillion
    """
)

# Anywhere in a sentence, such a word may deny the value or offer another one. The commonest words of other
# languages are included, because returning a value that the model denied is the worst mistake.
_HEDGES = word_set(
    """
    if not no none never neither nor or either between unless except without wrong incorrect instead
    cannot unknown unsure than versus vs ago half halves thirds quarter quarters dozen dozens couple
    several twice double triple factorial nicht kein keine nein nie oder zwischen statt ne pas non ni ou
    jamais entre aucun nunca não nem не нет или ни
    """
)
_MARKUP = lazy_regex(r"[{\[]|<[/\w]")
_HEDGING_PHRASE = lazy_regex(
    r"\b(?:at (?:least|most)|up to|as many as|close to|prior to|square (?:of|root))\b"
)

# A number next to the name of a month is a day.
_MONTHS = word_set(
    """
    january february march april may june july august september october november december jan feb mar apr
    jun jul aug sep sept oct nov dec
    """
)
_HEDGES_BEFORE = _MONTHS | word_set(
    """
    room phone tel telephone call top over under above below nearly almost within every per by times plus
    minus negative before after since until till through past max min maximum minimum exceeds exceeding
    step version chapter section page figure table question problem exercise example option item phase
    part status ticket order invoice id error code input row line item
    """
)
_HEDGES_AFTER = _MONTHS | word_set(
    """
    percent per pct percentage points more less fewer times plus minus squared cubed point out am pm a.m
    p.m o'clock o’clock below above max min maximum minimum tops bn mn mil k m b lakh crore
    """
)
# These words do not change the value, so the word before them counts as the neighbour of the value.
NEUTRAL = word_set(
    "yes confidence about around approximately approx roughly circa some only just exactly the a an"
)
_OPERATORS = word_set("+ - − – * ** / ÷ × x ^ % ‰ < > ≤ ≥ <= >= == != ≠ ± # &")


def find_hedging(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Explain which words around a value make it uncertain, as in "not 5"; return None if it is certain."""
    for word in (*before, *after):
        if _MARKUP.search(word):
            return "JSON, markup or a reference is next to the value"
        bare = bare_word(word)
        if bare in _HEDGES or bare.endswith(("n't", "n’t")):
            return f'"{shorten(bare, 40)}" makes the value uncertain'
    phrase = _HEDGING_PHRASE.search(" ".join(before).casefold())
    if phrase:
        return f'"{phrase[0]}" makes the value uncertain'
    for word in reversed(before):
        if bare_word(word) in NEUTRAL:
            continue
        if word in _OPERATORS or bare_word(word) in _HEDGES_BEFORE:
            return f'"{shorten(word, 40)}" before the value makes it uncertain'
        break
    if after and (after[0] in _OPERATORS or after[0] == "=" or bare_word(after[0]) in _HEDGES_AFTER):
        return f'"{shorten(after[0], 40)}" after the value makes it uncertain'
    return None
