"""Reads the quoted strings of one text, whatever quotes they stand in."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import NamedTuple

from ..result.lazy_regex import lazy_regex
from ..result.reading import Json
from .result import (
    NON_FINITE_RULE,
    JsonSyntaxError,
    RepairLog,
    parse_non_finite,
    surrogate_error,
    truncation_error,
)

_CLOSERS = {'"': '"', "'": "'", "`": "`", "“": "”", "”": "”", "‘": "’", "’": "’", "„": "“”"}
OPENING_QUOTES = frozenset(_CLOSERS)
_MOST_INNER_QUOTES = 1000

_QUOTED_KEY = r"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"\s*+[:=]|"?\s*+\Z|\\\Z)
    |'[^'\\]*+(?:\\.[^'\\]*+)*+'\s*+[:=] | `[^`\\]*+(?:\\.[^`\\]*+)*+`\s*+: | [“”][^”\n]{0,200}”\s*+:)"""
_BARE_KEY = r"[\w$][\w$.-]*+(?:[ ][\w$-]++){0,3}\s*+(?::(?!//)|=)"
_COMMENT = r"(?:/\*|//|\#\s)"
_SCALAR = r"(?:-?[0-9][0-9.eE+-]*+|true|false|null|True|False|None|-?\Z)"


def _after(surely: str, evenly: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    flags = re.VERBOSE | re.DOTALL
    always = rf"\s*+/\*|\s++{_COMMENT}|\s*+\+\s*+[\"'`]"
    return lazy_regex(rf"\s*+(?:\Z|{surely})", flags), re.compile(rf"{always}|{evenly}", flags)


def _after_in_list(closer: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    value = rf"[\"'“‘„`{{\[(]|{_SCALAR}\s*+(?:[,\{closer}]|\Z)"
    return _after(
        rf"\{closer}|,\s*+(?:\Z|\{closer}|{_COMMENT}|{value})",
        rf"\s*+,[^\"'`\n{{}}\[\],]*+(?:[,\{closer}\n]|\Z)|\s++[\"'“„`{{\[]",
    )


# What may follow a string, by the bracket that closes its container: surely, and only after an even number
# of quotes inside.
_AFTER = {
    "}": _after(
        rf"}}|,[\s,]*+(?:\Z|}}|{_COMMENT}|{_QUOTED_KEY})",
        rf"\s*+,[\s,]*+{_BARE_KEY}|\s*+{_QUOTED_KEY}|[ \t]*+[\r\n]\s*+{_BARE_KEY}",
    ),
    "]": _after_in_list("]"),
    ")": _after_in_list(")"),
}
# A closing bracket, even of the wrong kind, with structure behind it: the container judges it.
_ANY_CLOSER = lazy_regex(r"\s*+[}\])]\s*+(?:[,}\])]|\Z)")
_COLON = lazy_regex(r"\s*+:")
_CODE_BEFORE = lazy_regex(r"[{\[]\s*\Z")
_ONLY_SEPARATOR = lazy_regex(r"[\s}\]]*+[,:][\s{\[]*+")
_SEPARATOR_BEFORE = lazy_regex(r"[,\n]\s*\Z")
_WINDOW = 80  # how far back a quote looks: enough for a key, and it keeps the whole linear


class StringSpan(NamedTuple):
    """The end of a string's body, how many quotes it has inside, apostrophes apart, and the first of all."""

    end: int
    inner: int
    first: int


@cache
def _run(opening: str) -> re.Pattern[str]:
    closers = _CLOSERS[opening]
    return lazy_regex(rf"[^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+(?=[{closers}])", re.DOTALL)


@cache
def _floating(opening: str) -> re.Pattern[str]:
    return lazy_regex(rf"[\s.,;:!?)]|[^\w\s]{{0,2}}[{_CLOSERS[opening]}]")


def ambiguous_quotes_error(position: int) -> JsonSyntaxError:
    """The fault of a string, which begins at ``position``, whose end cannot be told from a quote inside."""
    return JsonSyntaxError("the quotes inside a string can be read in two ways", position)


def find_string_end(text: str, start: int, closer: str) -> StringSpan:
    """Where the string ends whose opening quote stands at start - 1.

    ``closer`` is the bracket that closes its container, or "" for a key or a string outside of all, which
    end at their first quote. Raises JsonSyntaxError where the string is cut off or can end in two ways.
    """
    return _Search(text, start, closer).run()


class _Search:
    """One string's quotes, from the first on, until one of them ends it."""

    def __init__(self, text: str, start: int, closer: str) -> None:
        self.text, self.start, self.closer = text, start, closer
        self.opening = text[start - 1]
        self.inner = 0
        self.first = -1
        self.depth = 0  # of brackets opened right before an inner quote: JSON or code inside the string
        self.held_code = False
        self.last = -1
        self.last_follows_separator = False

    def run(self) -> StringSpan:
        run, text, position = _run(self.opening), self.text, self.start
        while True:
            found = run.match(text, position)
            if found is None:
                raise truncation_error("string", self.start - 1)
            at = found.end()
            if self.depth:
                self._count_brackets(position, at)
            if self._is_apostrophe(at):
                pass
            elif self._ends(at):
                return StringSpan(at, self.inner, self.first)
            elif not self._closes_low_quote(position, at):
                self._skip(at)
            if self.first < 0:
                self.first = at
            position = at + 1

    def _count_brackets(self, position: int, end: int) -> None:
        count = self.text.count
        opened = count("{", position, end) + count("[", position, end)
        closed = count("}", position, end) + count("]", position, end)
        self.depth = max(0, self.depth + opened - closed)

    def _is_apostrophe(self, at: int) -> bool:
        inside = self.opening in "'‘’" and at > self.start
        return inside and self.text[at - 1].isalnum() and self.text[at + 1 : at + 2].isalnum()

    def _closes_low_quote(self, position: int, at: int) -> bool:
        """Whether the quote is the second one of „this", as some write in German, Polish or Romanian."""
        low = self.text.rfind("„", position, at)
        return low >= 0 and max(self.text.rfind(high, low, at) for high in "“”") < 0

    def _ends(self, at: int) -> bool:
        if not self.closer:
            return True
        if self.depth:
            return False
        surely, evenly = _AFTER[self.closer]
        odd = self.inner % 2
        if not odd and _ANY_CLOSER.match(self.text, at + 1):
            return True
        if not surely.match(self.text, at + 1) and (odd or not evenly.match(self.text, at + 1)):
            return False
        # A lone quote after a comma begins the next string as well, if the quote before the comma is missing.
        if odd and (self.held_code or self.last_follows_separator or self._looks_opening(self.last)):
            raise ambiguous_quotes_error(self.start - 1)
        return True

    def _looks_opening(self, at: int) -> bool:
        if at == self.start:
            return True
        before, after = self.text[at - 1], self.text[at + 1 : at + 2]
        return (before.isspace() or before in "([{") and not (after.isspace() or after in ".,;:!?)]}")

    def _skip(self, at: int) -> None:
        """Take the quote at ``child`` for text, unless that is doubtful."""
        if not self.depth:
            self._check(at)
            before = self.text[max(self.start, at - _WINDOW) : at]
            if self.inner % 2 == 0 and _CODE_BEFORE.search(before):
                self._check_code(at, before.rstrip()[-1])
                self.depth, self.held_code = 1, True
        self.last = at
        self.inner += 1
        if self.inner > _MOST_INNER_QUOTES:
            raise ambiguous_quotes_error(self.start - 1)

    def _check_code(self, at: int, bracket: str) -> None:
        """Raise JsonSyntaxError where the code before a first quote closes what it did not open.

        In ``[{"a": "x}, {"b": "y"}]`` the quote after x is missing. ``bracket``: the last one before ``child``.
        """
        if self.inner:
            return
        for opening, closing in ("{}", "[]"):
            opened = self.text.count(opening, self.start, at) - (opening == bracket)
            if self.text.count(closing, self.start, at) > opened:
                raise ambiguous_quotes_error(self.start - 1)

    def _check(self, at: int) -> None:
        """Raise JsonSyntaxError where the quote at ``child`` may be the end of this string or part of a next field."""
        text = self.text
        before = text[max(self.start, at - _WINDOW) : at]
        between = self.inner == 0 and _ONLY_SEPARATOR.fullmatch(before)
        if between or (self.last_follows_separator and _COLON.match(text, at + 1)):
            raise ambiguous_quotes_error(self.start - 1)
        self.last_follows_separator = _SEPARATOR_BEFORE.search(before) is not None
        if self.inner % 2:
            doubtful = self._looks_opening(at)
        else:
            inches = before[-1:].isdigit() and text[at + 1 : at + 2] == " "
            doubtful = not inches and _floating(self.opening).match(text, at + 1) is not None
        if doubtful:
            raise ambiguous_quotes_error(self.start - 1)


_ODD = lazy_regex(r"[\\\x00-\x1f\ud800-\udfff]")
_CONTROL = lazy_regex(r"[\x00-\x1f]")
_ESCAPE = lazy_regex(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SURROGATE = lazy_regex(r"[\ud800-\udfff]")
_HEX = lazy_regex(r"x([0-9a-fA-F]{2})")
_MEANS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_QUOTES = frozenset("'`“”„‘’")


def decode_string(body: str, position: int, repairs: RepairLog, *, python: bool = False) -> str:
    """The text that ``body``, which begins at ``position``, means; what is not JSON in it is noted.

    ``python``: the string stood in single quotes, where ``\\x41`` is an escape. A backslash that begins no
    escape is text. Raises JsonSyntaxError for a NUL, half a surrogate pair, and backslashes with two readings.
    """
    if not _ODD.search(body):
        return body
    control = _CONTROL.search(body)
    if control:
        if "\0" in body:
            raise JsonSyntaxError("a NUL character stands in a string", position + body.index("\0"))
        repairs.note("control character in a string", position + control.start())
    text = _unescape(body, position, repairs, python=python) if "\\" in body else body
    if _SURROGATE.search(text):
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise surrogate_error(position) from None
    return text


def _unescape(body: str, position: int, repairs: RepairLog, *, python: bool) -> str:
    """Replace the escapes, which two writers may have meant differently.

    Who writes ``\\d`` or ``\\alpha`` does not escape backslashes: then ``\\b`` and ``\\f`` begin words too,
    and ``\\n`` or ``\\t`` before a letter may be a line's end or ``\\nu`` and ``\\table``: refused.
    """
    escapes = list(_ESCAPE.finditer(body))
    unknown = [escape for escape in escapes if escape[2] and escape[2] not in _MEANS]
    plain = any(char[2].isalpha() and not (python and _HEX.match(body, char.start(2))) for char in unknown)
    if unknown:
        repairs.note("invalid escape", position + unknown[0].start())
    parts: list[str] = []
    done = 0
    for escape in escapes:
        parts.append(body[done : escape.start()])
        done = escape.end()
        code, char = escape.groups()
        if code:
            parts.append(chr(int(code, 16)))
        elif python and (digits := _HEX.match(body, escape.start(2))):
            parts.append(chr(int(digits[1], 16)))
            done = digits.end()
        elif char in _QUOTES:
            parts.append(char)
        elif char not in _MEANS or (plain and char in "bf"):
            parts.append(escape[0])
        elif plain and char in "nrt" and "a" <= body[done : done + 1] <= "z":
            raise JsonSyntaxError("the backslashes in a string can be read in two ways", position + escape.start())
        else:
            parts.append(_MEANS[char])
    parts.append(body[done:])
    return "".join(parts)


_RULES = {'"': "", "'": "single-quoted string", "`": "backtick string"}
_PLUS = lazy_regex(r"\s*+\+\s*+(?=[\"'`])")
_MORE_QUOTES = lazy_regex(r'[^"`]*+"')


class StringReader:
    """The strings of one text; it keeps count of quotes inside them that have no partner."""

    def __init__(self, text: str, repairs: RepairLog) -> None:
        self.text = text
        self.repairs = repairs
        self._unpaired = -1  # the start of the string with an odd number of quotes inside

    def read(self, position: int, closer: str) -> tuple[str, int]:
        """Read the string that begins at position, and those added to it with ``+``; its text and its end.

        ``closer`` is the bracket that closes its container, or "" outside of all.
        """
        value, end = self.read_one(position, closer)
        plus = _PLUS.match(self.text, end)
        if plus is None:
            return value, end
        self.repairs.note("joined strings", position)
        parts = [value]
        while plus:
            value, end = self.read_one(plus.end(), closer)
            parts.append(value)
            plus = _PLUS.match(self.text, end)
        return "".join(parts), end

    def read_one(self, position: int, closer: str) -> tuple[str, int]:
        """Read the string whose opening quote stands at position, and nothing after it."""
        text, quote = self.text, self.text[position]
        start, width = position + 1, 1
        triple = quote * 3
        if triple == "```" and text.startswith(triple, position):
            raise JsonSyntaxError("a code fence is not a value", position)
        if quote in "\"'" and text.startswith(triple, position):
            self.repairs.note("triple-quoted string", position)
            start, width = position + 3, 3
            end = text.find(triple, start)
            if end < 0:
                raise truncation_error("string", position)
        else:
            end = self._end_of_string(start, closer)
        body = decode_string(text[start:end], start, self.repairs, python=quote == "'")
        return body, end + width

    def _end_of_string(self, start: int, closer: str) -> int:
        span = find_string_end(self.text, start, closer)
        rule = _RULES.get(self.text[start - 1], "curly quotes")
        if rule:
            self.repairs.note(rule, start - 1)
        if span.first >= 0:
            self.repairs.note("unescaped quote", span.first)
        if span.inner % 2:
            # Where one string is cut too short, another one takes the other half of its pair of quotes.
            if self._unpaired >= 0:
                raise ambiguous_quotes_error(self._unpaired)
            self._unpaired = start - 1
        return span.end

    def check_end(self, position: int) -> None:
        """Raise JsonSyntaxError where the value that ends at position has quotes that may mean something else.

        A comma missing between strings, and a quote inside one of them, look the same.
        """
        inner = self.repairs.first("unescaped quote")
        if inner >= 0 and self.repairs.first("missing comma") >= 0:
            raise ambiguous_quotes_error(inner)
        if self._unpaired >= 0 and _MORE_QUOTES.match(self.text, position):
            raise ambiguous_quotes_error(self._unpaired)


UNQUOTED = "unquoted string"

# A number or literal as JSON writes it, if nothing after it on its line makes it the start of a longer word.
_TOKEN = r"(?:(true|false|null)|(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?))"
_EXACT = lazy_regex(_TOKEN + r'(?=[ \t]*+(?:[,}\])\r\n"]|//|/\*|\Z)|[ \t]++#\s)')
_EXACT_ALONE = lazy_regex(_TOKEN + r"(?=[\s,;)\]}]|\Z)")
# In an object a comma must be followed by a key, so that "1,000" has one reading; in an array it has two.
_THOUSANDS = lazy_regex(
    r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?(?=[ \t]*+(?:[}\r\n]|,(?![0-9])|//|/\*|\Z))"
)
_LOOKS_LIKE_THOUSANDS = lazy_regex(r",0[0-9]{2}(?![0-9])")

_RUN = {closer: lazy_regex(rf'[^,{{}}\[\]"\r\n{"" if closer != ")" else ")"}]*+') for closer in "}])"}
_BARE_COMMENT = lazy_regex(r"[ \t](?://|/\*|#\s|#\Z)")
_EXACT_LITERALS = {"true": True, "false": False, "null": None}
_LITERALS = {
    **{"True": True, "TRUE": True, "False": False, "FALSE": False},
    **dict.fromkeys(("None", "Null", "NULL")),
}
_NUMBER = lazy_regex(
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
    """A value that stood without quotes, the index after it, and the tolerance it took ("" for none)."""

    value: Json
    end: int
    rule: str


def exact_int(digits: str, position: int) -> int:
    """The integer. Raises JsonSyntaxError beyond the digits that Python converts."""
    try:
        return int(digits)
    except ValueError:
        raise JsonSyntaxError(f"a number of {len(digits)} digits is too long", position) from None


def exact_decimal(digits: str, position: int) -> Decimal:
    """The number, never through a double. Raises JsonSyntaxError for an exponent beyond those of Decimal."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise JsonSyntaxError("the exponent of a number is too large", position) from None


def read_bare_value(text: str, position: int, closer: str) -> BareValue:
    """Read the unquoted value at position, inside a container that ``closer`` ends ("" outside of all).

    NaN and Infinity are decimals that are not finite: a type that does not ask for them refuses them.
    """
    exact = (_EXACT if closer else _EXACT_ALONE).match(text, position)
    if exact is None:
        return _read_run(text, position, closer)
    literal, whole, rest = exact.groups()
    end = exact.end()
    if literal:
        return BareValue(_EXACT_LITERALS[literal], end, "")
    if text.startswith(",", end) and text[end + 1 : end + 2].isdigit():
        grouped = _THOUSANDS.match(text, position) if closer == "}" else None
        if grouped:
            return BareValue(_number(grouped[0].replace(",", ""), position), grouped.end(), "thousands separators")
        if _LOOKS_LIKE_THOUSANDS.match(text, end):
            raise JsonSyntaxError("a comma in or between numbers can be read in two ways", end)
    return BareValue(exact_decimal(whole + rest, position) if rest else exact_int(whole, position), end, "")


def _number(digits: str, position: int) -> int | Decimal:
    whole = digits.lstrip("+-").isdigit()
    return exact_int(digits, position) if whole else exact_decimal(digits, position)


def _read_run(text: str, position: int, closer: str) -> BareValue:
    """Read the words up to what ends a value here: a comma, a bracket, a line's end, a comment."""
    if not closer:
        raise JsonSyntaxError("no JSON value begins here", position)
    run = _RUN[closer].match(text, position)
    end = run.end() if run else position
    comment = _BARE_COMMENT.search(text, position, end)
    word = text[position : comment.start() if comment else end].rstrip()
    if not word:
        raise JsonSyntaxError("a value is missing", position)
    after = position + len(word)
    _refuse_if_doubtful(text, word, position, after if comment else end)
    if word in _LITERALS:
        return BareValue(_LITERALS[word], after, "literal spelling")
    non_finite = parse_non_finite(word)
    if non_finite is not None:
        return BareValue(non_finite, after, NON_FINITE_RULE)
    form = _NUMBER.fullmatch(word)
    if form and (form["hex"] or form["part"] not in (None, ".") or form["whole"]):
        return BareValue(_unusual_number(form, position), after, "number form")
    return BareValue(word, after, UNQUOTED)


def _unusual_number(form: re.Match[str], position: int) -> int | Decimal:
    sign = form["sign"].strip("+")
    if form["hex"]:
        return int(sign + form["hex"], 16)
    digits = sign + (form["whole"] or "0") + (form["part"] or "") + (form["power"] or "")
    return _number(digits.replace("_", ""), position)


def _refuse_if_doubtful(text: str, word: str, position: int, end: int) -> None:
    """Raise JsonSyntaxError for words without quotes that are something else, or that could end elsewhere."""
    following = text[end : end + 1]
    spaced = end > position + len(word)
    if word == "undefined":
        raise JsonSyntaxError("undefined is not a value", position)
    if not word.strip(".…"):
        raise JsonSyntaxError(f"{word} stands for something left out", position)
    if _CALL.match(word):
        raise JsonSyntaxError("a call is not a value", position)
    if _NUMBERS.fullmatch(word):
        raise JsonSyntaxError("numbers stand side by side without a comma", position)
    if (following and following in '{["') and not (following == '"' and spaced and " " not in word):
        raise JsonSyntaxError(f"a string without quotes runs into {following}", end)
    if _STRAY_COLON.search(_ADDRESS.sub("", word)) or _STRAY_QUOTE.search(word):
        raise JsonSyntaxError("a string without quotes can end in two ways", position)
    if "\0" in word:
        raise JsonSyntaxError("a NUL character stands in a string", position)
    if _SURROGATE.search(word):
        raise surrogate_error(position)
