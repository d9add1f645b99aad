"""What a room that reads plain text hands back, and the wrapping around a value that means nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from ..result.errors import shorten
from ..result.lazy_regex import lazy_regex

T = TypeVar("T")


class TextReading(NamedTuple, Generic[T]):
    """A value read from text. ``rule`` names the steps that it took, None when the text was the value."""

    value: T
    rule: str | None = None


class TextParseError(ValueError):  # it says what the text is, beside Found
    """A text does not plainly hold the value; the message says why in a few words."""


# Longest first, so that "**42**" does not lose one star of each pair.
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
_LAYERS = 6  # deeper wrapping is no reply, and each layer copies the text


def strip_wrapping(text: str) -> tuple[str, str | None]:
    """The text without white space, quotes, markup and full stop; the rule, unless only white space went."""
    bare = text.strip().strip("\ufeff").strip()
    before = bare
    for _ in range(_LAYERS):
        inner = _without_layer(bare)
        if inner == bare:
            break
        bare = inner
    return bare, None if bare == before else "quotes, markup or full stop"


def _without_layer(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    for opening, closing in _PAIRS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def join_rules(*rules: str | None) -> str | None:
    """The names of the steps that were taken, each once, in their order."""
    return ", ".join(dict.fromkeys(rule for rule in rules if rule)) or None


SCALE_WORDS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBER_WORDS = _words(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
    million billion trillion
    """
)

# Wherever it stands, such a word may deny the value, or set another one beside it. A few of the commonest
# of other languages are here because a denied value that is returned is the worst that can happen.
_ANYWHERE = _words(
    """
    if not no none never neither nor or either between unless except without wrong incorrect instead
    cannot unknown unsure than versus vs ago half halves thirds quarter quarters dozen dozens couple
    several twice double triple factorial nicht kein keine nein nie oder zwischen statt ne pas non ni ou
    jamais entre aucun nunca não nem не нет или ни
    """
)
_MARKUP = lazy_regex(r"[{\[]|<[/\w]")
_PHRASE = lazy_regex(r"\b(?:at (?:least|most)|up to|as many as|close to|prior to|square (?:of|root))\b")

# Beside a number these make it a day of the month.
_MONTHS = _words(
    """
    january february march april may june july august september october november december jan feb mar apr
    jun jul aug sep sept oct nov dec
    """
)
_BEFORE = _MONTHS | _words(
    """
    room phone tel telephone call top over under above below nearly almost within every per by times plus
    minus negative before after since until till through past max min maximum minimum exceeds exceeding
    step version chapter section page figure table question problem exercise example option item phase
    part
    """
)
_AFTER = _MONTHS | _words(
    """
    percent per pct percentage points more less fewer times plus minus squared cubed point out am pm a.m
    p.m o'clock o’clock below above max min maximum minimum tops bn mn mil k m b lakh crore
    """
)
# These say how sure the writer is and leave the value as it stands, so what stands before them counts.
_TRANSPARENT = _words("about around approximately approx roughly circa some only just exactly the a an")
_OPERATORS = _words("+ - − – * ** / ÷ × x ^ % ‰ < > ≤ ≥ <= >= == != ≠ ± # &")


def bare_word(word: str) -> str:
    """A word in lower case without the punctuation and markup at its ends."""
    return word.strip(".,;:!?…()[]{}\"'“”‘’«»*_`").casefold()


def find_hedging(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Why a value between these words is not plainly the answer, or None. Linear in the words."""
    for word in (*before, *after):
        if _MARKUP.search(word):
            return "JSON, markup or a reference stands beside it"
        bare = bare_word(word)
        if bare in _ANYWHERE or bare.endswith(("n't", "n’t")):
            return f'"{shorten(bare, 40)}" leaves the answer open'
    phrase = _PHRASE.search(" ".join(before).casefold())
    if phrase:
        return f'"{phrase[0]}" leaves the answer open'
    return _neighbour_doubt(before, after)


def _neighbour_doubt(before: Sequence[str], after: Sequence[str]) -> str | None:
    for word in reversed(before):
        if bare_word(word) in _TRANSPARENT:
            continue
        if word in _OPERATORS or bare_word(word) in _BEFORE:
            return f'"{shorten(word, 40)}" before it leaves the answer open'
        break
    if after and (after[0] in _OPERATORS or after[0] == "=" or bare_word(after[0]) in _AFTER):
        return f'"{shorten(after[0], 40)}" after it leaves the answer open'
    return None
