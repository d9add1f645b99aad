"""Parse numbers, dates, times, choices and lists that are written in prose.

This module contains the results and errors of parsing prose, and removes quotes and markup around a value,
which the functions for numbers, dates and times share.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class TextReading(NamedTuple, Generic[T]):
    """A value parsed from prose, with the names of the rules that were used to interpret the text.

    Attributes:
        value: The value.
        rule: The names of the rules that were applied; None if the text is just the value.
        unit: The unit of a number, if the declaration does not say which one is meant.
    """

    value: T
    rule: str | None = None
    unit: str | None = None


class TextParseError(ValueError):
    """Raised if text does not clearly contain the expected value."""


def join_rules(*rules: str | None) -> str | None:
    """Join the names of parsing rules with commas, leaving out duplicates; None if there are no names."""
    return ", ".join(dict.fromkeys(rule for rule in rules if rule)) or None


# Longer pairs first, so that "**42**" does not lose one star of each pair.
_PAIRS = (
    ("\\boxed{", "}"),
    ("```", "```"),
    ("$$", "$$"),
    ("**", "**"),
    ("__", "__"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("[[", "]]"),
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


@cache
def words_in(section: str) -> frozenset[str]:
    """Return the words of a section of ``words.txt``; no words if it is missing."""
    return _sections().get(section, frozenset())


@cache
def _sections() -> dict[str, frozenset[str]]:
    """Return the words of each section of ``words.txt``, which is read at the first sentence.

    They are folded like the texts that they are compared with: "außer" is "ausser" there.
    """
    lines = (pkgutil.get_data(__name__, "words.txt") or b"").decode().casefold().splitlines()
    parts = "\n".join(line for line in lines if not line.startswith("#")).split("[")[1:]
    return {name: word_set(words) for name, _, words in (part.partition("]") for part in parts)}


def bare_word(word: str) -> str:
    """Return a word in lower case, without the punctuation and markup at its ends."""
    return word.strip(".,;:!?…()[]{}\"'“”‘’«»*_`").casefold()


SCALE_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}  # powers of ten

ENGLISH_NUMBER_WORDS = word_set(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    """
) | frozenset(SCALE_WORDS)

# These words do not change a number or a duration.
NEUTRAL = word_set(
    """
    yes confidence about around approximately approx roughly circa only just exactly ca etwa rund ungefähr environ
    approximativement aproximadamente unos unas circa ongeveer około mniej-więcej примерно приблизительно около ungefär omkring cirka
    """
)
