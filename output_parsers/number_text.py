"""Reads the number that a text is, or the only number in a sentence.

What two readers may understand differently is refused, never guessed:

* ``1,234`` is 1234 and ``1.234`` has three decimals, as in English and JSON; ``1,5``, ``12,34`` and ``0,123``
  are refused, ``1.234,56`` is not, for nothing else explains it;
* ``50%`` (50 or 0.5), ``1/2`` (a half, one of two, a date) and ``(5)`` (in accounts: minus five) are refused;
* ``- 5`` may be an item of a list, ``~5`` only says how sure the writer is;
* words of English are read where the package text2num is installed; alone in a sentence, "one" is no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice

from .doubt import SCALES, bare_word, doubt
from .errors import shorten
from .found import Found, Unreadable, join_rules, unwrap
from .late_pattern import late
from .number_bounds import bound
from .number_lexeme import read_lexeme
from .number_words import has_cardinal, number_runs, read_words

__all__ = ["Found", "Unreadable", "find_number", "read_number"]

_MOST_MENTIONS = 20  # of one number; more are no answer, and each costs a look at the whole text
_DIGIT = late(r"\d")
_SENTENCE_END = late(r"(?<=[.!?])\s+|\n+")
_LIST_MARKER = late(r"^[ \t]*[0-9]{1,9}[.)][ \t]+\S", re.MULTILINE)
_BOXED = late(r"\\boxed\{([^{}]{1,80})\}")
_ANSWER = late(
    r"(?:(?:so|therefore|thus|hence),? )?(?:[*_]{1,2})?"
    r"(?:(?:the )?(?:final |correct )?(?:answer|result|solution)(?: is:?|:|:?[*_]{1,2}:?| =)|=)"
    r"\s{0,9}(.{1,80})",
    re.IGNORECASE,
)
# What a price starts from, or a part has, is a number and not the answer.
_START_BEFORE = late(
    r"(?:\bfrom|\b(?:start|begin)(?:s|ing)?(?: off)? at|\bas (?:low|high|few|little|much) as) \Z"
)
_SHARES = frozenset({"off", "each", "apiece", "discount"})
# In "Answer:42", "答案：42" and "x=42" the number is a word of its own.
_GLUED_LABEL = late(r"(?<=[^\W\d_])([:=：])(?=\S)")


def read_number(text: str) -> Found[Decimal]:
    """The number that the whole text is. Raises Unreadable, and nothing else. Linear time."""
    bare, wrapping = unwrap(text)
    found = _read_bare(bare)
    return found._replace(rule=join_rules(wrapping, found.rule))


def find_number(text: str) -> Found[Decimal]:
    """The number that the text is, or states as its answer, or alone contains. Raises Unreadable.

    A stated answer is ``\\boxed{42}``, or a last sentence that is only "The answer is 42", "Result: 42",
    "= 42" or the like; every such statement in the text must give the same number.
    """
    try:
        return read_number(text)
    except Unreadable as error:
        found = _stated_answer(text) or _only_number(text)
        if found is None:
            raise error
        return found


def _read_bare(text: str) -> Found[Decimal]:
    return read_lexeme(text) if _DIGIT.search(text) else read_words(text)


def _read_inside(text: str) -> Found[Decimal]:
    """A number inside a text: quotes, markup and the full stop around it are the text's."""
    return _read_bare(unwrap(text)[0])


def _stated_answer(text: str) -> Found[Decimal] | None:
    boxed = _BOXED.findall(text)
    if len(boxed) > _MOST_MENTIONS:
        raise Unreadable(f"{len(boxed)} answers")
    if boxed:
        return Found(_same([_read_inside(inner).value for inner in boxed]), "boxed answer")
    sentences = [sentence.strip() for sentence in _SENTENCE_END.split(text.strip())]
    if not _ANSWER.fullmatch(sentences[-1]):
        return None
    stated = [match[1] for sentence in sentences if (match := _ANSWER.fullmatch(sentence))]
    if len(stated) > _MOST_MENTIONS:
        raise Unreadable(f"{len(stated)} answers")
    try:
        readings = [_read_inside(inner.strip(" *_")) for inner in stated]
        return Found(
            _same([found.value for found in readings]), join_rules(readings[0].rule, "stated answer")
        )
    except Unreadable:
        return None  # "Answer: 42 apples" may still hold one number


def _only_number(text: str) -> Found[Decimal] | None:
    if _DIGIT.search(text):
        if _LIST_MARKER.search(text):
            raise Unreadable("a numbered list, not one number")
        return _only_digits(text)
    return _only_words(text)


def _only_digits(text: str) -> Found[Decimal]:
    sentences = _SENTENCE_END.split(_GLUED_LABEL.sub(r"\1 ", text.strip()))
    words = [(word, place) for place, sentence in enumerate(sentences) for word in sentence.split()]
    spelled = [word for word, _ in words]
    hits = [at for at, word in enumerate(spelled) if _DIGIT.search(word)]
    if len(hits) > _MOST_MENTIONS:
        raise Unreadable(f"{len(hits)} numbers")
    readings = [_number_at(spelled, at) for at in hits]
    value = _same([found.value for found in readings])
    if len({words[at][1] for at in hits}) < len(hits):
        raise Unreadable(f"several numbers in a sentence: {_list(spelled[at] for at in hits)}")
    for at in hits:
        after = spelled[at + 1 :]
        if after and bare_word(after[0]) in SCALES:
            after = after[1:]
        _refuse_doubt(spelled[:at], after)
    return Found(value, join_rules(readings[0].rule, "number in a sentence"))


def _number_at(words: list[str], at: int) -> Found[Decimal]:
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
        return _read_inside(f"{bare} {scale}" if scale in SCALES else bare)
    except Unreadable as error:
        if str(error) != "expected a number":
            raise
        raise Unreadable(f"{shorten(words[at], 40)!r} is not plainly a number") from None


def _only_words(text: str) -> Found[Decimal] | None:
    words = text.split()
    runs = number_runs(words)
    if not runs:
        return None
    if len(runs) > 1:
        raise Unreadable(
            f"several numbers: {_list(bare_word(' '.join(words[start:end])) for start, end in runs)}"
        )
    start, end = runs[0]
    spelled = " ".join(words[start:end])
    if bare_word(spelled) == "one":
        raise Unreadable('"one" may be a number or stand for something')
    _refuse_doubt(words[:start], words[end:])
    return read_words(spelled.strip(".,;:!?()\"'*_`"))._replace(rule="number in words, number in a sentence")


def _refuse_doubt(before: list[str], after: list[str]) -> None:
    reason = doubt(before, after) or bound(before, after)
    if reason:
        raise Unreadable(reason)
    start = _START_BEFORE.search(" ".join((*before[-4:], "")).casefold())
    if start:
        raise Unreadable(f'"{start[0].strip()}" before it leaves the answer open')
    if after and bare_word(after[0]) in _SHARES:
        raise Unreadable(f'"{after[0]}" after it leaves the answer open')
    other = next((word for word in (*before, *after) if has_cardinal(word)), None)
    if other:
        raise Unreadable(f'"{shorten(bare_word(other), 40)}" may be a number too')


def _same(values: list[Decimal]) -> Decimal:
    """The one value; numbers that differ are a refusal."""
    different = [value for value in values if value != values[0]]
    if different:
        raise Unreadable(f"two numbers: {shorten(str(values[0]), 30)} and {shorten(str(different[0]), 30)}")
    return values[0]


def _list(texts: Iterable[str]) -> str:
    shown = list(islice(texts, 4))
    return ", ".join(shorten(text, 30) for text in shown[:3]) + (", ..." if len(shown) > 3 else "")
