"""Parse strings and unquoted values in broken JSON.

The main difficulty is a string with inner quotes that should have been escaped. A quote ends the string if
the text after the quote can only follow a string. A string with two possible ends is rejected.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import cache
from typing import NamedTuple

from ..lazy_regex import lazy_regex
from ..result.reading import (
    NON_FINITE_RULE,
    Json,
    JsonSyntaxError,
    RepairLog,
    parse_non_finite,
    surrogate_error,
    truncation_error,
)
from . import grammar

_CLOSING_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "”": "”", "‘": "’", "’": "’", "„": "“”"}
OPENING_QUOTES = frozenset(_CLOSING_QUOTES)
_QUOTE_RULES = {'"': "", "'": "single-quoted string", "`": "backtick string"}
_PLUS = lazy_regex(r"\s*+\+\s*+(?=[\"'`])")
_QUOTE_AHEAD = lazy_regex(r'[^"`]*+"')


class StringReader:
    """Parses strings in broken JSON, and detects unescaped quotes inside them."""

    def __init__(self, text: str, repairs: RepairLog) -> None:
        self.text = text
        self.repairs = repairs
        self._unpaired = -1  # the start of the string with an odd number of quotes inside, or -1

    def read(self, position: int, closer: str) -> tuple[str, int]:
        """Parse a JSON string and any strings joined to it with ``+``; return the text and the end index.

        ``closer`` is the bracket that closes the container of the string, or "" if there is no container.
        """
        value, end = self.read_one(position, closer)
        plus = _PLUS.match(self.text, end)
        if plus is None:
            return value, end
        self.repairs.setdefault("joined strings", position)
        parts = [value]
        while plus:
            value, end = self.read_one(plus.end(), closer)
            parts.append(value)
            plus = _PLUS.match(self.text, end)
        return "".join(parts), end

    def read_one(self, position: int, closer: str) -> tuple[str, int]:
        """Parse the JSON string whose opening quote is at ``position``; return the text and the end index."""
        text, quote = self.text, self.text[position]
        triple = quote * 3
        if triple == "```" and text.startswith(triple, position):
            raise JsonSyntaxError("a code fence is not a value", position)
        # With the triple quotes of Python, a single quote inside does not end the string.
        if quote in "\"'" and text.startswith(triple, position):
            self.repairs.setdefault("triple-quoted string", position)
            start, width = position + 3, 3
            end = text.find(triple, start)
            if end < 0:
                raise truncation_error("string", position)
        else:
            start, width = position + 1, 1
            end, inner_quotes, first_inner = self._find_end(start, closer)
            rule = _QUOTE_RULES.get(quote, "curly quotes")
            if rule:
                self.repairs.setdefault(rule, position)
            if first_inner >= 0:
                self.repairs.setdefault("unescaped quote", first_inner)
            if inner_quotes % 2:
                # If one string ends too early, another one gets the other half of its pair of quotes.
                if self._unpaired >= 0:
                    raise _ambiguous_quotes(self._unpaired)
                self._unpaired = position
        return decode_string(text[start:end], start, self.repairs, python=quote == "'"), end + width

    def _find_end(self, start: int, closer: str) -> tuple[int, int, int]:
        """Find the closing quote of a string that may contain unescaped quotes.

        Return its index, the number of quotes inside, and the index of the first one; -1 if there is none.
        Raises JsonSyntaxError if it is missing or ambiguous.
        """
        text, rule = self.text, QuoteRule(self.text[start - 1], closer)
        pattern, position, first_inner = _text_up_to_quote(rule.opening), start, -1
        while match := pattern.match(text, position):
            quote = match.end()
            window = max(start, min(position, quote - QUOTE_WINDOW))
            role = rule.classify(text, quote, text[window:quote], position - window)
            if role is QuoteRole.CLOSES:
                return quote, rule.inner_quotes, first_inner
            if role is QuoteRole.DOUBTFUL:
                raise _ambiguous_quotes(start - 1)
            if first_inner < 0:
                first_inner = quote
            position = quote + 1
        raise truncation_error("string", start - 1)

    def check_end(self, position: int) -> None:
        """Raise JsonSyntaxError if unescaped quotes make it unclear where a JSON string ends."""
        # A comma missing between strings and a quote inside a string look the same.
        inner = self.repairs.get("unescaped quote", -1)
        if inner >= 0 and "missing comma" in self.repairs:
            raise _ambiguous_quotes(inner)
        if self._unpaired >= 0 and _QUOTE_AHEAD.match(self.text, position):
            raise _ambiguous_quotes(self._unpaired)


_QUOTED_KEY = r"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"\s*+[:=]|"?\s*+\Z|\\\Z)
    |'[^'\\]*+(?:\\.[^'\\]*+)*+'\s*+[:=] | `[^`\\]*+(?:\\.[^`\\]*+)*+`\s*+: | [“”][^”\n]{0,200}”\s*+:)"""
_BARE_KEY = r"[\w$][\w$.-]*+(?:[ ][\w$-]++){0,3}\s*+(?::(?!//)|=)"
_SCALAR = r"(?:-?[0-9][0-9.eE+-]*+|true|false|null|True|False|None|-?\Z)"


def _after_string(always: str, if_paired: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.VERBOSE | re.DOTALL
    comment_or_plus = rf"\s*+/\*|\s++{grammar.COMMENT_START}|\s*+\+\s*+[\"'`]"
    patterns = (rf"\s*+(?:\Z|{always})", f"{comment_or_plus}|{if_paired}")
    first, second = (lazy_regex(grammar.with_any_space(pattern), flags) for pattern in patterns)
    return first, second


def _after_string_in_list(closer: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    value = rf"[\"'“‘„`{{\[(]|{_SCALAR}\s*+(?:[,\{closer}]|\Z)"
    return _after_string(
        rf"\{closer}|,\s*+(?:\Z|\{closer}|{grammar.COMMENT_START}|{value})",
        rf"\s*+,[^\"'`\n{{}}\[\],]*+(?:[,\{closer}\n]|\Z)|\s++[\"'“„`{{\[]",
    )


# Patterns for the text after the closing quote of a string, by the bracket that closes its container. The
# first pattern always marks the end. The second one does so only if the string contains an even number of
# quotes.
_AFTER_STRING = {
    "}": _after_string(
        rf"}}|,[\s,]*+(?:\Z|}}|{grammar.COMMENT_START}|{_QUOTED_KEY})",
        rf"\s*+,[\s,]*+{_BARE_KEY}|\s*+{_QUOTED_KEY}|[ \t]*+[\r\n]\s*+{_BARE_KEY}",
    ),
    "]": _after_string_in_list("]"),
    ")": _after_string_in_list(")"),
}
# A closing bracket followed by more structure. It may be a wrong bracket, which the scanner detects later.
_ANY_CLOSER = lazy_regex(grammar.with_any_space(r"\s*+[}\])]\s*+(?:[,}\])]|\Z)"))
_COLON = lazy_regex(grammar.with_any_space(r"\s*+:"))
_CODE_BEFORE = lazy_regex(r"[{\[]\s*\Z")
_ONLY_SEPARATOR = lazy_regex(r"[\s}\]]*+[,:][\s{\[]*+")
_SEPARATOR_BEFORE = lazy_regex(r"[,\n]\s*\Z")
QUOTE_WINDOW = 80  # characters searched before a quote; enough for a key, and the time stays linear
_MAX_INNER_QUOTES = 1000  # limited because each of them needs a search before and after it


def _cut_after_string(closer: str, after_gap: str) -> re.Pattern[str]:
    """Return the pattern of text after a quote that is cut, so that more text may decide about the quote."""
    gap = r"\s*+(?:[}\])]\s*+|\+\s*+|[/\#])?+"
    detached = r"[}\]][^\w\s,}\])]?|[^\w\s.,;:!?)}\]][^\w\s]?"
    pattern = rf"(?!\s*+\{closer})(?:{gap}|{detached}|{after_gap})\Z"
    return lazy_regex(grammar.with_any_space(pattern), re.VERBOSE | re.DOTALL)


_CUT_QUOTED_KEY = r"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:\\|"\s*+)?|'[^'\\]*+(?:\\.[^'\\]*+)*+(?:\\|'\s*+)?)"""
_CUT_BARE_KEY = r"[\w$][\w$.-]*+(?:[ ][\w$-]*+){0,4}\s*+(?::/?)?"
# Text after a quote whose continuation may decide about the quote. Strings in tuples are read only when
# complete.
_CUT_AFTER_STRING = {
    "}": _cut_after_string(
        "}",
        rf"(?:\s*+,[\s,]*+|[ \t]*+[\r\n]\s*+)(?:{_CUT_BARE_KEY}|[/\#])?|\s*+(?:,[\s,]*+)?{_CUT_QUOTED_KEY}",
    ),
    "]": _cut_after_string("]", r"\s*+,\s*+(?:[/\#]|[^\"'`\n{}\[\],]*+)"),
}


@cache
def _text_up_to_quote(opening: str) -> re.Pattern[str]:
    closing = _CLOSING_QUOTES[opening]
    return lazy_regex(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*+(?=[{closing}])", re.DOTALL)


@cache
def _detached(opening: str) -> re.Pattern[str]:
    return lazy_regex(rf"[\s.,;:!?)]|[^\w\s]{{0,2}}[{_CLOSING_QUOTES[opening]}]")


def _ambiguous_quotes(position: int) -> JsonSyntaxError:
    """Return the error for an unescaped quote that may or may not end a JSON string."""
    return JsonSyntaxError("the quotes inside a string can be read in two ways", position)


class QuoteRole(Enum):
    """The role of a quotation mark in JSON: it ends the string, or it is part of the text."""

    CLOSES = "it ends the string"
    INSIDE = "it is a part of the string that should have been escaped"
    UNDECIDED = "it depends on text that has not arrived yet"
    DOUBTFUL = "it can be read in two ways"


class QuoteRule:
    """Decides for each quote in a JSON string whether it ends the string or should have been escaped.

    In ``{"a": "x "y" z", "b": 1}`` the quotes around y are inside the string, because no comma or bracket
    follows them.

    ``closer`` is the bracket that closes the container of the string. It is "" for keys and for strings that
    are not in a container. These strings end at their first quote.

    Attributes:
        opening: The quote that opened the string.
        inner_quotes: The number of inner quotes that are not escaped. Apostrophes are not counted.
    """

    def __init__(self, opening: str, closer: str) -> None:
        self.opening, self.closer = opening, closer
        self.inner_quotes = 0
        self._unopened = {"{}": 0, "[]": 0}  # the number of brackets that closed more than was opened
        self._depth = 0  # the number of open brackets of JSON or code inside the string
        self._contains_code = False
        self._last_looks_opening = False
        self._last_follows_separator = False

    def needs_more(self, text: str, quote: int) -> bool:
        """Return True if text that has not arrived yet may decide about the quote at index ``quote``."""
        return _CUT_AFTER_STRING[self.closer].match(text, quote + 1) is not None

    def classify(self, text: str, quote: int, before: str, since: int) -> QuoteRole:
        """Return the role of the quote at index ``quote``; call this once for each quote, in their order.

        ``before`` is the content of the string before the quote: at least the last QUOTE_WINDOW characters,
        and the text since the last quote, which begins at the index ``since`` in it.
        """
        piece = before[since:]
        if self._depth:
            opened, closed = (sum(map(piece.count, brackets)) for brackets in ("{[", "}]"))
            self._depth = max(0, self._depth + opened - closed)
        # Apostrophes and the closing quote of „low quotes" are not paired.
        in_word = before[-1:].isalnum() and text[quote + 1 : quote + 2].isalnum()
        is_skipped = in_word and self.opening in "'‘’"
        if not is_skipped:
            role = self._role_by_end(text, quote)
            if role is not QuoteRole.INSIDE:
                return role
            low = piece.rfind("„")
            is_skipped = low >= 0 and {"“", "”"}.isdisjoint(piece[low:])
        if not is_skipped:
            return self._role_inside(text, quote, before, piece)
        self._unopened = self._unopened_after(piece)
        return QuoteRole.INSIDE

    def _role_by_end(self, text: str, quote: int) -> QuoteRole:
        """Return INSIDE if the text after the quote does not follow the end of a string."""
        if not self.closer:
            return QuoteRole.CLOSES
        if self._depth:  # the quote belongs to JSON or code inside the string
            return QuoteRole.INSIDE
        always, if_paired = _AFTER_STRING[self.closer]
        odd = self.inner_quotes % 2
        if not odd and _ANY_CLOSER.match(text, quote + 1):
            return QuoteRole.CLOSES
        if not always.match(text, quote + 1) and (odd or not if_paired.match(text, quote + 1)):
            return QuoteRole.INSIDE
        # A lone quote after a comma also begins the next string if the quote before the comma is missing.
        doubtful = self._contains_code or self._last_follows_separator or self._last_looks_opening
        return QuoteRole.DOUBTFUL if odd and doubtful else QuoteRole.CLOSES

    def _unopened_after(self, piece: str) -> dict[str, int]:
        count = piece.count
        return {pair: number + count(pair[1]) - count(pair[0]) for pair, number in self._unopened.items()}

    def _role_inside(self, text: str, quote: int, before: str, piece: str) -> QuoteRole:
        """Keep an unescaped quote as part of the JSON string, unless it may end the string."""
        after, window = text[quote + 1 : quote + 2], before[-QUOTE_WINDOW:]
        opens = (before[-1:] in " ([{" or before[-1:].isspace()) and not (
            after.isspace() or after in ".,;:!?)]}"
        )
        looks_opening = opens or not before
        if not self._depth:
            if self._may_end(text, quote, window, looks_opening=looks_opening):
                return QuoteRole.DOUBTFUL
            if self.inner_quotes % 2 == 0 and _CODE_BEFORE.search(window):
                # In [{"a": "x}, {"b": "y"}] the quote after x is missing.
                if self.inner_quotes == 0 and max(self._unopened_after(piece.rstrip()[:-1]).values()) > 0:
                    return QuoteRole.DOUBTFUL
                self._depth, self._contains_code = 1, True
        self._last_looks_opening = looks_opening
        self.inner_quotes += 1
        return QuoteRole.DOUBTFUL if self.inner_quotes > _MAX_INNER_QUOTES else QuoteRole.INSIDE

    def _may_end(self, text: str, quote: int, window: str, *, looks_opening: bool) -> bool:
        """Return True if an unescaped quote in a JSON string may end the string."""
        # With only a separator before it, the quote may be the opening quote of the next string.
        between = self.inner_quotes == 0 and _ONLY_SEPARATOR.fullmatch(window)
        if between or (self._last_follows_separator and _COLON.match(text, quote + 1)):
            return True
        self._last_follows_separator = _SEPARATOR_BEFORE.search(window) is not None
        if self.inner_quotes % 2:
            return looks_opening
        # In "a 27" screen" the inner quote means inches.
        is_inch_mark = window[-1:].isdigit() and text[quote + 1 : quote + 2] == " "
        return not is_inch_mark and _detached(self.opening).match(text, quote + 1) is not None


_ODD_CHARACTER = lazy_regex(r"[\\\x00-\x1f\ud800-\udfff]")
_CONTROL = lazy_regex(r"[\x00-\x1f]")
_ESCAPE = lazy_regex(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SURROGATE = lazy_regex(r"[\ud800-\udfff]")
_HEX_ESCAPE = lazy_regex(r"x([0-9a-fA-F]{2})")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_QUOTES = frozenset("'`“”„‘’")


def decode_string(body: str, position: int, repairs: RepairLog, *, python: bool = False) -> str:
    """Decode the escapes in a JSON string, and record each corrected mistake in ``repairs``.

    ``body`` is the text between the quotes, and ``position`` its index in the reply. ``python`` is True for a
    string in single quotes, where ``\\x41`` is an escape. A backslash that does not begin an escape remains
    in the text. Raises JsonSyntaxError for NUL, half a surrogate pair, and ambiguous backslashes.
    """
    if not _ODD_CHARACTER.search(body):
        return body
    control = _CONTROL.search(body)
    if control:
        if "\0" in body:
            raise JsonSyntaxError("a string contains a NUL character", position + body.index("\0"))
        repairs.setdefault("control character in a string", position + control.start())
    text = _unescape(body, position, repairs, python=python) if "\\" in body else body
    if _SURROGATE.search(text):
        # Two escapes of one character gave two surrogates, which a round trip through UTF-16 joins.
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise surrogate_error(position) from None
    return text


def _unescape(body: str, position: int, repairs: RepairLog, *, python: bool) -> str:
    """Replace the escapes of a JSON string, such as ``\\n``, with the characters that they represent.

    An author who writes ``\\d`` or ``\\alpha`` does not escape backslashes. Then ``\\b`` and ``\\f`` begin
    words too. ``\\n`` or ``\\t`` before a letter is rejected, because it may be a line break or the beginning
    of ``\\nu`` or ``\\table``.
    """
    escapes = list(_ESCAPE.finditer(body))
    unescaped = _has_unescaped_backslash(body, escapes, position, repairs, python=python)
    parts: list[str] = []
    done = 0
    for escape in escapes:
        parts.append(body[done : escape.start()])
        done = escape.end()
        code, char = escape.groups()
        if code:
            parts.append(chr(int(code, 16)))
        elif python and (digits := _HEX_ESCAPE.match(body, escape.start(2))):
            parts.append(chr(int(digits[1], 16)))
            done = digits.end()
        elif char in _QUOTES:  # not an escape in JSON, but it can only mean the quote
            parts.append(char)
        elif char not in _ESCAPED or (unescaped and char in "bf"):
            parts.append(escape[0])
        elif unescaped and char in "nrt" and "a" <= body[done : done + 1] <= "z":
            start = position + escape.start()
            raise JsonSyntaxError("the backslashes in a string can be read in two ways", start)
        else:
            parts.append(_ESCAPED[char])
    parts.append(body[done:])
    return "".join(parts)


def _has_unescaped_backslash(
    body: str, escapes: list[re.Match[str]], position: int, repairs: RepairLog, *, python: bool
) -> bool:
    """Return True if a string has a backslash before a word, as in ``\\alpha``; record an invalid escape."""
    invalid = [escape for escape in escapes if escape[2] and escape[2] not in _ESCAPED]
    if invalid:
        repairs.setdefault("invalid escape", position + invalid[0].start())
    return any(
        escape[2].isalpha() and not (python and _HEX_ESCAPE.match(body, escape.start(2)))
        for escape in invalid
    )


UNQUOTED_RULE = "unquoted string"

# A number or literal as JSON writes it, unless what follows on its line makes it the start of a longer word.
_TOKEN = rf"(?:({grammar.LITERAL})|({grammar.NUMBER}))"
_EXACT = lazy_regex(_TOKEN + r'(?=[ \t]*+(?:[,}\])\r\n"]|//|/\*|\Z)|[ \t]++#\s)')
_EXACT_ALONE = lazy_regex(_TOKEN + r"(?=[\s,;)\]}]|\Z)")
# In an object a comma must be followed by a key, so "1,000" is one number; in an array it may be two.
_THOUSANDS = lazy_regex(
    r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?(?=[ \t]*+(?:[}\r\n]|,(?![0-9])|//|/\*|\Z))"
)
_LOOKS_LIKE_THOUSANDS = lazy_regex(r",0[0-9]{2}(?![0-9])")

_UNQUOTED_RUN = {
    closer: lazy_regex(rf'[^,{{}}\[\]"\r\n{"" if closer != ")" else ")"}]*+') for closer in "}])"
}
_BARE_COMMENT = lazy_regex(r"[ \t](?://|/\*|#\s|#\Z)")
_BROKEN_NUMBER = lazy_regex(
    r"[+-]?0[0-9]+(?:\.[0-9]*)?|[+-]?[0-9.]+['`\"\\xe ][0-9]*|[xe]\s*[0-9]+"
    r"|[0-9.]+(?:[/\\]|\s[xe]|:[0-9]?)|[/\\]\s*[0-9.]+|[0-9]*\.\.[0-9]*|[^\w\s]+"
)
_LETTERS_OF_LITERALS = [sorted(literal) for literal in grammar.LITERALS]
_OTHER_LITERALS = {
    **{"True": True, "TRUE": True, "False": False, "FALSE": False},
    **dict.fromkeys(("None", "Null", "NULL")),
}
_UNUSUAL_NUMBER = lazy_regex(
    r"(?P<sign>[+-]?)(?:(?P<hex>0[xX][0-9a-fA-F]++)"
    r"|(?P<whole>0|[1-9][0-9]*+(?:_[0-9]++)*+)?(?P<part>\.(?:[0-9]++(?:_[0-9]++)*+)?)?(?P<power>[eE][+-]?[0-9]++)?)"
)
_NUMBERS = lazy_regex(r"[-+]?[0-9.]++(?:[ \t]++[-+]?[0-9.]++)++")
_CALL = lazy_regex(r"[\w.]++\(|new\s")
# A colon belongs to a word in a time (12:30) and in an address (https://); elsewhere it follows a key.
_STRAY_COLON = lazy_regex(r"(?<![0-9]):|:(?![0-9])|(?<=\s[0-9]):(?![0-9]{2})")
_ADDRESS = lazy_regex(r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]*+://\S*+")
_STRAY_QUOTE = lazy_regex(r"(?<!\w)'|'(?!\w)|[`\\]")


class BareValue(NamedTuple):
    """A JSON value written without quotes: a number, ``true``, ``false``, ``null`` or words.

    Attributes:
        value: The value.
        end: The index after the value.
        rule: The name of the repair that was necessary, or "" for exact JSON.
        is_doubtful: True for words that may be a misspelt number, true, false or null.
    """

    value: Json
    end: int
    rule: str
    is_doubtful: bool = False


def read_bare_value(text: str, position: int, closer: str) -> BareValue:
    """Parse an unquoted JSON value: a number, ``true``, ``false``, ``null`` or words.

    ``closer`` is the bracket that closes its container, or "" if there is no container. NaN and Infinity
    become Decimal values that are not finite. Types that do not allow them reject them later.
    """
    exact = (_EXACT if closer else _EXACT_ALONE).match(text, position)
    if exact is None:
        return _read_unquoted(text, position, closer)
    literal, number = exact.groups()
    end = exact.end()
    if literal:
        return BareValue(grammar.LITERALS[literal], end, "")
    if text.startswith(",", end) and text[end + 1 : end + 2].isdigit():
        grouped = _THOUSANDS.match(text, position) if closer == "}" else None
        if grouped:
            value = parse_number(grouped[0].replace(",", ""), position)
            return BareValue(value, grouped.end(), "thousands separators")
        if _LOOKS_LIKE_THOUSANDS.match(text, end):
            raise JsonSyntaxError("a comma in or between numbers can be read in two ways", end)
    return BareValue(parse_number(number, position), end, "")


def parse_number(digits: str, position: int) -> int | Decimal:
    """Convert a JSON number to an int, or to an exact Decimal if it has a fraction or an exponent.

    Raises JsonSyntaxError if there are too many digits for Python, or if the exponent is too large.
    """
    try:
        return int(digits) if digits.lstrip("+-").isdigit() else Decimal(digits)
    except ValueError:  # Python limits the number of digits, because the time is quadratic in their number
        raise JsonSyntaxError(f"a number of {len(digits)} digits is too long", position) from None
    except InvalidOperation:
        raise JsonSyntaxError("the exponent of a number is too large", position) from None


def _read_unquoted(text: str, position: int, closer: str) -> BareValue:
    """Read unquoted words in JSON as a string, up to a comma, bracket, comment or the end of the line."""
    if not closer:  # words that are not in a container are prose
        raise JsonSyntaxError("no JSON value begins here", position)
    run = _UNQUOTED_RUN[closer].match(text, position)
    end = run.end() if run else position
    comment = _BARE_COMMENT.search(text, position, end)
    words = text[position : comment.start() if comment else end].rstrip()
    if not words:
        raise JsonSyntaxError("a value is missing", position)
    if words.startswith(("<escape>", "<|", "«", "「", "『")):
        raise JsonSyntaxError("a mark or a quote of another kind is not a part of a value", position)
    if invisible := grammar.SPACE_AT_END.search(words):
        inner = read_bare_value(words[: invisible.start()] + closer, 0, closer)
        return inner._replace(end=position + inner.end)
    after = position + len(words)
    _check_unquoted(text, words, position, after if comment else end)
    known = _known_word(words, position, after)
    if known is not None:
        return known
    is_cut_off = after == len(text)  # then a misspelt literal may be a part of a right one
    if not is_cut_off and sorted(words.casefold()) in _LETTERS_OF_LITERALS:
        raise JsonSyntaxError(f"{words} may be a misspelt number, true, false or null", position)
    return BareValue(words, after, UNQUOTED_RULE, not is_cut_off and _is_broken_literal(words))


def _known_word(words: str, position: int, end: int) -> BareValue | None:
    """Return the value of a literal or number in any spelling; None for other words."""
    if words in grammar.LITERALS:  # before other white space
        return BareValue(grammar.LITERALS[words], end, "")
    if words in _OTHER_LITERALS:
        return BareValue(_OTHER_LITERALS[words], end, "literal spelling")
    non_finite = parse_non_finite(words)
    if non_finite is not None:
        return BareValue(non_finite, end, NON_FINITE_RULE)
    number = _UNUSUAL_NUMBER.fullmatch(words)
    if number and (number["hex"] or number["part"] not in (None, ".") or number["whole"]):
        return BareValue(_parse_unusual_number(number, position), end, "number form")
    return None


def _is_broken_literal(words: str) -> bool:
    """Return True if an unquoted word in JSON looks like a misspelt literal, such as ``ture``."""
    if _BROKEN_NUMBER.fullmatch(words):
        return True
    letters = "".join(filter(str.isalnum, words.casefold()))
    return len(letters) > 1 and any(_is_similar(letters, literal) for literal in grammar.LITERALS)


def _is_similar(word: str, literal: str) -> bool:
    """Return True if a word looks like a misspelt ``literal``: a few letters swapped, added or missing."""
    short, long = sorted((word, literal), key=len)
    if len(long) > len(short) + 2:
        return False
    rest = iter(long)
    return sorted(word) == sorted(literal) or (len(short) < len(long) and all(char in rest for char in short))


def _parse_unusual_number(match: re.Match[str], position: int) -> int | Decimal:
    sign = match["sign"].strip("+")
    if match["hex"]:
        return int(sign + match["hex"], 16)
    digits = sign + (match["whole"] or "0") + (match["part"] or "") + (match["power"] or "")
    return parse_number(digits.replace("_", ""), position)


def _check_unquoted(text: str, words: str, position: int, end: int) -> None:
    """Raise JsonSyntaxError if unquoted text in JSON is not clearly a string that ends at ``end``."""
    following = text[end : end + 1]
    spaced = end > position + len(words)
    if words == "undefined":
        raise JsonSyntaxError("undefined is not a value", position)
    if not words.strip(".…"):
        raise JsonSyntaxError(f"{words} marks an omission and is not a value", position)
    if _CALL.match(words):
        raise JsonSyntaxError("a function call is not a value", position)
    if _NUMBERS.fullmatch(words):
        raise JsonSyntaxError("a comma is missing between numbers", position)
    if (following and following in '{["') and not (following == '"' and spaced and " " not in words):
        raise JsonSyntaxError(f"a string without quotes runs into {following}", end)
    if _STRAY_COLON.search(_ADDRESS.sub("", words)) or _STRAY_QUOTE.search(words):
        raise JsonSyntaxError("a string without quotes can end in two ways", position)
    if "\0" in words:
        raise JsonSyntaxError("a string contains a NUL character", position)
    if _SURROGATE.search(words):
        raise surrogate_error(position)
