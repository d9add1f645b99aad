"""Parse strings and unquoted values in broken JSON.

The main difficulty is a string with inner quotes that should have been escaped. A quote ends the string if
the text after the quote can only follow a string. A string with two possible ends is rejected.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
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
            end, inner_quotes, first_inner = _StringEndFinder(text, start, closer).find()
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
_COMMENT = r"(?:/\*|//|\#\s)"
_SCALAR = r"(?:-?[0-9][0-9.eE+-]*+|true|false|null|True|False|None|-?\Z)"


def _after_string(always: str, if_paired: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.VERBOSE | re.DOTALL
    comment_or_plus = rf"\s*+/\*|\s++{_COMMENT}|\s*+\+\s*+[\"'`]"
    return lazy_regex(rf"\s*+(?:\Z|{always})", flags), lazy_regex(rf"{comment_or_plus}|{if_paired}", flags)


def _after_string_in_list(closer: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    value = rf"[\"'“‘„`{{\[(]|{_SCALAR}\s*+(?:[,\{closer}]|\Z)"
    return _after_string(
        rf"\{closer}|,\s*+(?:\Z|\{closer}|{_COMMENT}|{value})",
        rf"\s*+,[^\"'`\n{{}}\[\],]*+(?:[,\{closer}\n]|\Z)|\s++[\"'“„`{{\[]",
    )


# Patterns for the text after the closing quote of a string, by the bracket that closes its container. The
# first pattern always marks the end. The second one does so only if the string contains an even number of
# quotes.
_AFTER_STRING = {
    "}": _after_string(
        rf"}}|,[\s,]*+(?:\Z|}}|{_COMMENT}|{_QUOTED_KEY})",
        rf"\s*+,[\s,]*+{_BARE_KEY}|\s*+{_QUOTED_KEY}|[ \t]*+[\r\n]\s*+{_BARE_KEY}",
    ),
    "]": _after_string_in_list("]"),
    ")": _after_string_in_list(")"),
}
# A closing bracket followed by more structure. It may be a wrong bracket, which the scanner detects later.
_ANY_CLOSER = lazy_regex(r"\s*+[}\])]\s*+(?:[,}\])]|\Z)")
_COLON = lazy_regex(r"\s*+:")
_CODE_BEFORE = lazy_regex(r"[{\[]\s*\Z")
_ONLY_SEPARATOR = lazy_regex(r"[\s}\]]*+[,:][\s{\[]*+")
_SEPARATOR_BEFORE = lazy_regex(r"[,\n]\s*\Z")
_WINDOW = 80  # characters searched before a quote; enough for a key, and the time stays linear
_MAX_INNER_QUOTES = 1000  # limited because each of them needs a search before and after it


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


class _StringEnd(NamedTuple):
    """The end of a JSON string, and the number of unescaped quotes inside the string.

    Attributes:
        position: The index of the closing quote.
        inner_quotes: The number of inner quotes that are not escaped. Apostrophes are not counted.
        first_inner: The index of the first inner quote or apostrophe; -1 if there is none.
    """

    position: int
    inner_quotes: int
    first_inner: int


class _StringEndFinder:
    """Finds the closing quote of a JSON string that may contain unescaped quotes.

    ``closer`` is the bracket that closes the container of the string. It is "" for keys and for strings that
    are not in a container. These strings end at their first quote.
    """

    def __init__(self, text: str, start: int, closer: str) -> None:
        self.text, self.start, self.closer = text, start, closer
        self.opening = text[start - 1]
        self.inner_quotes = 0
        self.first_inner = -1
        self.depth = 0  # the number of open brackets of JSON or code inside the string
        self.contains_code = False
        self.last_inner = -1
        self.last_follows_separator = False

    def find(self) -> _StringEnd:
        """Find the closing quote of a JSON string.

        Raises JsonSyntaxError if it is missing or ambiguous.
        """
        pattern, text, position = _text_up_to_quote(self.opening), self.text, self.start
        while True:
            match = pattern.match(text, position)
            if match is None:
                raise truncation_error("string", self.start - 1)
            quote = match.end()
            if self.depth:
                self._count_brackets(position, quote)
            # Apostrophes and the closing quote of „low quotes" never end a string and are not paired.
            in_word = text[quote - 1].isalnum() and text[quote + 1 : quote + 2].isalnum()
            if in_word and quote > self.start and self.opening in "'‘’":
                pass
            elif self._ends_string(quote):
                return _StringEnd(quote, self.inner_quotes, self.first_inner)
            elif not self._closes_low_quote(position, quote):
                self._accept_as_text(quote)
            if self.first_inner < 0:
                self.first_inner = quote
            position = quote + 1

    def _count_brackets(self, start: int, end: int) -> None:
        count = self.text.count
        opened = count("{", start, end) + count("[", start, end)
        closed = count("}", start, end) + count("]", start, end)
        self.depth = max(0, self.depth + opened - closed)

    def _closes_low_quote(self, start: int, quote: int) -> bool:
        """Return True if a quote closes a quotation that began with a low quote („), as in German."""
        low = self.text.rfind("„", start, quote)
        return low >= 0 and max(self.text.rfind(high, low, quote) for high in "“”") < 0

    def _ends_string(self, quote: int) -> bool:
        if not self.closer:
            return True
        if self.depth:  # the quote belongs to JSON or code inside the string
            return False
        always, if_paired = _AFTER_STRING[self.closer]
        odd = self.inner_quotes % 2
        if not odd and _ANY_CLOSER.match(self.text, quote + 1):
            return True
        if not always.match(self.text, quote + 1) and (odd or not if_paired.match(self.text, quote + 1)):
            return False
        # A lone quote after a comma also begins the next string if the quote before the comma is missing.
        if odd and (
            self.contains_code or self.last_follows_separator or self._looks_opening(self.last_inner)
        ):
            raise _ambiguous_quotes(self.start - 1)
        return True

    def _looks_opening(self, quote: int) -> bool:
        if quote == self.start:
            return True
        before, after = self.text[quote - 1], self.text[quote + 1 : quote + 2]
        return (before.isspace() or before in "([{") and not (after.isspace() or after in ".,;:!?)]}")

    def _accept_as_text(self, quote: int) -> None:
        """Keep an unescaped quote as part of the JSON string.

        Raises JsonSyntaxError if the quote may end the string.
        """
        if not self.depth:
            self._check_is_text(quote)
            before = self.text[max(self.start, quote - _WINDOW) : quote]
            if self.inner_quotes % 2 == 0 and _CODE_BEFORE.search(before):
                self._check_code(quote, before.rstrip()[-1])
                self.depth, self.contains_code = 1, True
        self.last_inner = quote
        self.inner_quotes += 1
        if self.inner_quotes > _MAX_INNER_QUOTES:
            raise _ambiguous_quotes(self.start - 1)

    def _check_code(self, quote: int, bracket: str) -> None:
        """Raise JsonSyntaxError if JSON inside a string suggests that the string's closing quote is missing.

        In ``[{"a": "x}, {"b": "y"}]`` the quote after x is missing. ``bracket`` is the last bracket before
        the inner quote.
        """
        if self.inner_quotes:
            return
        for opening, closing in ("{}", "[]"):
            opened = self.text.count(opening, self.start, quote) - (opening == bracket)
            if self.text.count(closing, self.start, quote) > opened:
                raise _ambiguous_quotes(self.start - 1)

    def _check_is_text(self, quote: int) -> None:
        """Raise JsonSyntaxError if an unescaped quote in a JSON string may end the string."""
        text = self.text
        before = text[max(self.start, quote - _WINDOW) : quote]
        # With only a separator before it, the quote may be the opening quote of the next string.
        between = self.inner_quotes == 0 and _ONLY_SEPARATOR.fullmatch(before)
        if between or (self.last_follows_separator and _COLON.match(text, quote + 1)):
            raise _ambiguous_quotes(self.start - 1)
        self.last_follows_separator = _SEPARATOR_BEFORE.search(before) is not None
        if self.inner_quotes % 2:
            doubtful = self._looks_opening(quote)
        else:
            # In "a 27" screen" the inner quote means inches.
            is_inch_mark = before[-1:].isdigit() and text[quote + 1 : quote + 2] == " "
            detached = _detached(self.opening).match(text, quote + 1)
            doubtful = not is_inch_mark and detached is not None
        if doubtful:
            raise _ambiguous_quotes(self.start - 1)


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
    invalid = [escape for escape in escapes if escape[2] and escape[2] not in _ESCAPED]
    unescaped = any(
        escape[2].isalpha() and not (python and _HEX_ESCAPE.match(body, escape.start(2)))
        for escape in invalid
    )
    if invalid:
        repairs.setdefault("invalid escape", position + invalid[0].start())
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


UNQUOTED_RULE = "unquoted string"

# A number or literal as JSON writes it, unless what follows on its line makes it the start of a longer word.
_TOKEN = r"(?:(true|false|null)|(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?))"
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
_EXACT_LITERALS = {"true": True, "false": False, "null": None}
_LETTERS_OF_LITERALS = [sorted(literal) for literal in _EXACT_LITERALS]
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
    literal, integer, rest = exact.groups()
    end = exact.end()
    if literal:
        return BareValue(_EXACT_LITERALS[literal], end, "")
    if text.startswith(",", end) and text[end + 1 : end + 2].isdigit():
        grouped = _THOUSANDS.match(text, position) if closer == "}" else None
        if grouped:
            number = parse_number(grouped[0].replace(",", ""), position)
            return BareValue(number, grouped.end(), "thousands separators")
        if _LOOKS_LIKE_THOUSANDS.match(text, end):
            raise JsonSyntaxError("a comma in or between numbers can be read in two ways", end)
    return BareValue(parse_number(integer + rest, position), end, "")


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
    after = position + len(words)
    _check_unquoted(text, words, position, after if comment else end)
    if words in _OTHER_LITERALS:
        return BareValue(_OTHER_LITERALS[words], after, "literal spelling")
    non_finite = parse_non_finite(words)
    if non_finite is not None:
        return BareValue(non_finite, after, NON_FINITE_RULE)
    number = _UNUSUAL_NUMBER.fullmatch(words)
    if number and (number["hex"] or number["part"] not in (None, ".") or number["whole"]):
        return BareValue(_parse_unusual_number(number, position), after, "number form")
    is_cut_off = after == len(text)  # then a misspelt literal may be a part of a right one
    if not is_cut_off and sorted(words.casefold()) in _LETTERS_OF_LITERALS:
        raise JsonSyntaxError(f"{words} may be a misspelt number, true, false or null", position)
    return BareValue(words, after, UNQUOTED_RULE, not is_cut_off and _is_broken_literal(words))


def _is_broken_literal(words: str) -> bool:
    """Return True if an unquoted word in JSON looks like a misspelt literal, such as ``ture``."""
    if _BROKEN_NUMBER.fullmatch(words):
        return True
    letters = "".join(filter(str.isalnum, words.casefold()))
    return len(letters) > 1 and any(_is_similar(letters, literal) for literal in _EXACT_LITERALS)


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
