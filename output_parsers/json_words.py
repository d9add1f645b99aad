"""Reads what stands in JSON without quotes: numbers, literals, and words that lack their quotes."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from .json_text import JsonFault, lone_surrogate
from .late_pattern import late
from .non_finite import NOT_JSON, named
from .reading import Json

__all__ = ["Word", "exact_decimal", "exact_int", "read_word"]

UNQUOTED = "unquoted string"

# A number or literal as JSON writes it, if nothing after it on its line makes it the start of a longer word.
_TOKEN = r"(?:(true|false|null)|(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?))"
_EXACT = late(_TOKEN + r'(?=[ \t]*+(?:[,}\])\r\n"]|//|/\*|\Z)|[ \t]++#\s)')
_EXACT_ALONE = late(_TOKEN + r"(?=[\s,;)\]}]|\Z)")
# In an object a comma must be followed by a key, so that "1,000" has one reading; in an array it has two.
_THOUSANDS = late(
    r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?(?=[ \t]*+(?:[}\r\n]|,(?![0-9])|//|/\*|\Z))"
)
_LOOKS_LIKE_THOUSANDS = late(r",0[0-9]{2}(?![0-9])")

_RUN = {closer: late(rf'[^,{{}}\[\]"\r\n{"" if closer != ")" else ")"}]*+') for closer in "}])"}
_COMMENT = late(r"[ \t](?://|/\*|#\s|#\Z)")
_EXACT_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS = {
    **{"True": True, "TRUE": True, "False": False, "FALSE": False},
    **dict.fromkeys(("None", "Null", "NULL")),
}
_NUMBER = late(
    r"(?P<sign>[+-]?)(?:(?P<hex>0[xX][0-9a-fA-F]++)"
    r"|(?P<whole>0|[1-9][0-9]*+(?:_[0-9]++)*+)?(?P<part>\.(?:[0-9]++(?:_[0-9]++)*+)?)?(?P<power>[eE][+-]?[0-9]++)?)"
)
_NUMBERS = late(r"[-+]?[0-9.]++(?:[ \t]++[-+]?[0-9.]++)++")
_CALL = late(r"[\w.]++\(|new\s")
# A colon belongs to a word in a time (12:30) and in an address (https://); elsewhere it follows a key.
_STRAY_COLON = late(r"(?<![0-9]):|:(?![0-9])|(?<=\s[0-9]):(?![0-9]{2})")
_ADDRESS = late(r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]*+://\S*+")
_STRAY_QUOTE = late(r"(?<!\w)'|'(?!\w)|[`\\]")
_SURROGATE = late(r"[\ud800-\udfff]")


class Word(NamedTuple):
    """A value that stood without quotes, the index after it, and the tolerance it took ("" for none)."""

    value: Json
    end: int
    rule: str


def exact_int(digits: str, position: int) -> int:
    """The integer. Raises JsonFault beyond the digits that Python converts."""
    try:
        return int(digits)
    except ValueError:
        raise JsonFault(f"a number of {len(digits)} digits is too long", position) from None


def exact_decimal(digits: str, position: int) -> Decimal:
    """The number, never through a double. Raises JsonFault for an exponent beyond those of Decimal."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise JsonFault("the exponent of a number is too large", position) from None


def read_word(text: str, position: int, closer: str) -> Word:
    """Read the unquoted value at position, inside a container that ``closer`` ends ("" outside of all).

    NaN and Infinity are decimals that are not finite: a type that does not ask for them refuses them.
    """
    exact = (_EXACT if closer else _EXACT_ALONE).match(text, position)
    if exact is None:
        return _read_run(text, position, closer)
    literal, whole, rest = exact.groups()
    end = exact.end()
    if literal:
        return Word(_EXACT_LITERALS[literal], end, "")
    if text.startswith(",", end) and text[end + 1 : end + 2].isdigit():
        grouped = _THOUSANDS.match(text, position) if closer == "}" else None
        if grouped:
            return Word(_number(grouped[0].replace(",", ""), position), grouped.end(), "thousands separators")
        if _LOOKS_LIKE_THOUSANDS.match(text, end):
            raise JsonFault("a comma in or between numbers can be read in two ways", end)
    return Word(exact_decimal(whole + rest, position) if rest else exact_int(whole, position), end, "")


def _number(digits: str, position: int) -> int | Decimal:
    whole = digits.lstrip("+-").isdigit()
    return exact_int(digits, position) if whole else exact_decimal(digits, position)


def _read_run(text: str, position: int, closer: str) -> Word:
    """Read the words up to what ends a value here: a comma, a bracket, a line's end, a comment."""
    if not closer:
        raise JsonFault("no JSON value begins here", position)
    run = _RUN[closer].match(text, position)
    end = run.end() if run else position
    comment = _COMMENT.search(text, position, end)
    word = text[position : comment.start() if comment else end].rstrip()
    if not word:
        raise JsonFault("a value is missing", position)
    after = position + len(word)
    _refuse_if_doubtful(text, word, position, after if comment else end)
    if word in _LITERALS:
        return Word(_LITERALS[word], after, "literal spelling")
    non_finite = named(word)
    if non_finite is not None:
        return Word(non_finite, after, NOT_JSON)
    form = _NUMBER.fullmatch(word)
    if form and (form["hex"] or form["part"] not in (None, ".") or form["whole"]):
        return Word(_unusual_number(form, position), after, "number form")
    return Word(word, after, UNQUOTED)


def _unusual_number(form: re.Match[str], position: int) -> int | Decimal:
    sign = form["sign"].strip("+")
    if form["hex"]:
        return int(sign + form["hex"], 16)
    digits = sign + (form["whole"] or "0") + (form["part"] or "") + (form["power"] or "")
    return _number(digits.replace("_", ""), position)


def _refuse_if_doubtful(text: str, word: str, position: int, end: int) -> None:
    """Raise JsonFault for words without quotes that are something else, or that could end elsewhere."""
    following = text[end : end + 1]
    spaced = end > position + len(word)
    if word == "undefined":
        raise JsonFault("undefined is not a value", position)
    if not word.strip(".…"):
        raise JsonFault(f"{word} stands for something left out", position)
    if _CALL.match(word):
        raise JsonFault("a call is not a value", position)
    if _NUMBERS.fullmatch(word):
        raise JsonFault("numbers stand side by side without a comma", position)
    if (following and following in '{["') and not (following == '"' and spaced and " " not in word):
        raise JsonFault(f"a string without quotes runs into {following}", end)
    if _STRAY_COLON.search(_ADDRESS.sub("", word)) or _STRAY_QUOTE.search(word):
        raise JsonFault("a string without quotes can end in two ways", position)
    if "\0" in word:
        raise JsonFault("a NUL character stands in a string", position)
    if _SURROGATE.search(word):
        raise lone_surrogate(position)
