"""Parse JSON: valid JSON with ``read_exact``, broken JSON with ``read_tolerant``.

This module parses objects, arrays and the separators between their values. The module ``strings`` parses
strings and values without quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import starmap
from typing import NoReturn, TypeAlias

from ..lazy_regex import lazy_regex
from ..result.errors import shorten
from ..result.reading import (
    DEPTH,
    Cursor,
    Json,
    JsonSyntaxError,
    ParsedJson,
    Repair,
    RepairLog,
    add_field,
    nesting_error,
    surrogate_error,
    truncation_error,
)
from . import grammar
from .strings import (
    OPENING_QUOTES,
    UNQUOTED_RULE,
    StringReader,
    decode_string,
    parse_number,
    read_bare_value,
)

_COMMA_IN_STRING = lazy_regex(r',(?:\n.?)?"\Z')
_COMMA_BEFORE_QUOTE = lazy_regex(r',.{0,3}"\Z', re.DOTALL)
_COMMA_IN_KEY = lazy_regex(r'"[^"\n,]{0,80},[^"\n]{0,80}"[ \t]*:')
_EMPTY_BEFORE = ("[]", "{}")
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_CONTAINER_NAMES = {"}": "object", "]": "array", ")": "tuple"}

# ASCII characters that begin neither white space nor a comment.
_SOLID = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"/", "#"}
_SPACE = lazy_regex(grammar.SPACE)
_ODD_SPACE = lazy_regex(f"{grammar.ANY_SPACE}++")
_COMMENT = lazy_regex(r"//[^\r\n]*+|#(?=\s|\Z)[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_EXACT_KEY = lazy_regex(r'"([^"\\\x00-\x1f\ud800-\udfff]*+)"[ \t\r\n]*+:[ \t\r\n]*+(?=[!-"$-.0-~])')
_SEPARATOR = lazy_regex(r":|=>|=(?!=)")
_KEY_AHEAD = lazy_regex(r"""["'`“”‘„]|[^\W\d][\w$-]*+\s*+[:=]""")
# By bracket: the text that must follow if the missing bracket is added.
_FITS_AFTER = {
    "]": lazy_regex(r"\s*+(?:\]|,\s*+[{\[])"),
    "}": lazy_regex(r'\s*+(?:}|,\s*+"[^"\\\n]*+"\s*+:)'),
}


@dataclass(slots=True)
class _Frame:
    """An open JSON object, array or Python tuple, whose closing bracket has not been parsed yet.

    Attributes:
        closer: The closing bracket.
        start: The index of the opening bracket.
        items: The items so far of an array or a tuple.
        fields: The fields so far of an object.
        key: The last key of an object that was read.
        key_start: The index of that key.
        is_empty: True as long as the container has no value.
        after_comma: True if a comma was read since the last value.
        comma_start: The index of that comma.
        is_comma_free: True if items on lines of their own were read without a comma between them.
    """

    closer: str
    start: int
    items: list[Json]
    fields: dict[str, Json]
    key: str = ""
    key_start: int = 0
    is_empty: bool = True
    after_comma: bool = False
    comma_start: int = 0
    is_comma_free: bool = False

    def add(self, value: Json) -> None:
        self.is_empty = self.after_comma = False
        if self.closer == "}":
            add_field(self.fields, self.key, value, self.key_start)
        else:
            self.items.append(value)


class Scanner:
    """Parses one broken JSON value, keeping a stack of its open objects and arrays."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.repairs: RepairLog = {}
        self.stack: list[_Frame] = []
        self.strings = StringReader(text, self.repairs)
        self.value_end = 0  # the index after the last value
        self.after_word = False  # the last value was a string without quotes
        self.has_words = False  # a string without quotes that is certainly not a misspelt literal was read
        self.misspelling: JsonSyntaxError | None = None  # the error for the first one that may be

    def read(self, start: int) -> ParsedJson:
        """Parse the broken JSON value at index ``start``, repairing its mistakes.

        Raises JsonSyntaxError if it cannot be repaired.
        """
        position = self._skip_blank(start)
        while True:
            char = self.text[position : position + 1]
            if char in _CLOSERS:
                if len(self.stack) >= DEPTH:
                    raise nesting_error(position)
                self.stack.append(_Frame(_CLOSERS[char], position, [], {}))
                self.after_word = False
                position += 1
            else:
                value, position = self._read_scalar(char, position)
                if not self.stack:  # a scalar that is not in a container is the whole value
                    break
                self.stack[-1].add(value)
                self.value_end = position
            value, position = self._advance(position)
            if not self.stack:
                self.strings.check_end(position)
                break
        # Among strings without quotes, as in [Mon, Tue], a word that is like a literal is a string too.
        if self.misspelling is not None and not self.has_words:
            raise self.misspelling
        return ParsedJson(value, tuple(starmap(Repair, self.repairs.items())), position)

    def _advance(self, position: int) -> tuple[Json, int]:
        """Parse JSON up to the next nested or broken value, or to the end of the outermost object or array.

        Return the container that was closed last, and the new position. The container is the whole value if
        no other container is open.
        """
        value: Json = None
        while self.stack:
            frame = self.stack[-1]
            position = self._skip_commas(frame, self._skip_blank(position))
            char = self.text[position : position + 1]
            if not char:
                raise self._truncated()
            if char not in "}])":
                if not (frame.is_empty or frame.after_comma):
                    self._repair_missing_comma(frame, position)
                after = self._read_plain_run(frame, position)
                if after > position:
                    position = after
                    continue
                return None, self._read_key(frame, position) if frame.closer == "}" else position
            # A wrong bracket is accepted only if it is certain which bracket is missing before it.
            if char != frame.closer:
                self._repair_missing_bracket(frame, char, position)
            else:
                position += 1
            value = self._close(frame)
            self.value_end = position
            if self.stack:
                self.stack[-1].add(value)
        return value, position

    def _read_plain_run(self, frame: _Frame, position: int) -> int:
        """Parse the valid JSON fields or items at ``position``; return the index after the last one."""
        if frame.closer == "}":
            after, comma = read_plain_fields(self.text, position, frame.fields)
        elif frame.closer == "]" and not frame.is_comma_free:  # then a comma is a mistake
            after, comma = read_plain_items(self.text, position, frame.items)
        else:
            return position
        if after > position:
            if self.text[position] == "'":
                self.repairs.setdefault("single-quoted string", position)
            frame.is_empty = self.after_word = False
            frame.after_comma, frame.comma_start = comma >= 0, comma
            self.value_end = after
        return after

    def _skip_blank(self, position: int) -> int:
        """Skip white space and comments in broken JSON, and return the index of the next character."""
        text = self.text
        # The common case comes first, because this method runs before every token.
        if text[position : position + 1] in _SOLID:
            return position
        while True:
            position = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it also matches ""
            char = text[position : position + 1]
            if char in "/#":
                match = _COMMENT.match(text, position) if char else None
                if match is None and text.startswith("/*", position):
                    raise truncation_error("comment", position)
                rule = "comment"
            else:
                match = None if "!" <= char <= "~" else _ODD_SPACE.match(text, position)
                rule = "white space not in JSON"
            if match is None:
                return position
            self.repairs.setdefault(rule, position)
            position = match.end()

    def _skip_commas(self, frame: _Frame, position: int) -> int:
        """Skip the comma after a JSON value; inside an object, also skip repeated commas.

        In an array, repeated commas are an error, because a value may be missing between them.
        """
        text = self.text
        while text.startswith(",", position) and not frame.is_empty:
            if frame.is_comma_free:
                raise JsonSyntaxError("commas are missing between some of the items", position)
            if frame.after_comma:
                if frame.closer != "}":
                    raise JsonSyntaxError("a value is missing between two commas", position)
                self.repairs.setdefault("doubled comma", position)
            frame.after_comma, frame.comma_start = True, position
            position = self._skip_blank(position + 1)
        return position

    def _close(self, frame: _Frame) -> Json:
        self.stack.pop()
        self.after_word = False
        if frame.closer == ")":
            # As in Python, (1) is a value in parentheses, and (1,) is a tuple.
            parenthesized = len(frame.items) == 1 and not frame.after_comma
            self.repairs.setdefault("parentheses" if parenthesized else "tuple", frame.start)
            return frame.items[0] if parenthesized else frame.items
        if frame.after_comma:
            self.repairs.setdefault("trailing comma", frame.comma_start)
        return frame.fields if frame.closer == "}" else frame.items

    def _repair_missing_bracket(self, frame: _Frame, char: str, position: int) -> None:
        """Insert a missing closing bracket before ``char``.

        Raises JsonSyntaxError if its place is not certain.

        In ``[{"a": [1}, {"a": [2]}]`` the ``]`` before the first ``}`` is missing. The ``}`` is not a wrong
        bracket instead of ``]``, because ``, {`` cannot follow in an object.
        """
        outer = [frame.closer for frame in self.stack[-3:-1]]
        alternates = outer in (["]", "}"], ["}", "]"]) and outer[1] == char
        # In ["F}"]} the bracket is not missing; it has slipped into the string.
        in_string = self.text.endswith((f'{frame.closer}"', f"{frame.closer}'"), 0, self.value_end)
        if in_string or not alternates or not _FITS_AFTER[outer[0]].match(self.text, position + 1):
            raise JsonSyntaxError(f"expected {frame.closer} instead of {char}", position)
        self.repairs.setdefault("missing bracket", position)

    def _is_comma_likely(self, frame: _Frame, position: int) -> bool:
        """Return True if a value can end before a position, and the next begin there."""
        text, before = self.text, self.text[position - 1]
        if frame.closer == "}":
            return _KEY_AHEAD.match(text, position) is not None
        if text[position] in _CLOSERS or text[position] in OPENING_QUOTES:
            # Only in an array, because two adjacent strings in parentheses are one string in Python.
            return (before.isspace() or before in "}])/") and not self.after_word and frame.closer == "]"
        return text.find("\n", self.value_end, position) >= 0 and not self.after_word

    def _repair_missing_comma(self, frame: _Frame, position: int) -> None:
        """Insert a missing comma between JSON values.

        Raises JsonSyntaxError if its place is not certain.
        """
        text, certain = self.text, self._is_comma_likely(frame, position)
        if frame.closer == "]" and (text[position] not in '"[{' or text[self.value_end - 1] not in '"]}'):
            # "1\n0" may be one number, unless all items are on lines of their own, without any comma
            certain = certain and frame.comma_start <= 0 and self._is_one_item_per_line(position)
            frame.is_comma_free = True
        if position == self.value_end and text[position - 2 : position] in _EMPTY_BEFORE:
            certain = False  # a bracket may be doubled, or a comma in the next key
        in_string = _COMMA_BEFORE_QUOTE if position == self.value_end else _COMMA_IN_STRING
        if in_string.search(text, max(0, self.value_end - 5), self.value_end):
            certain = False  # the comma may have slipped into the string
        if frame.closer == "}" and _COMMA_IN_KEY.match(text, position):
            certain = False  # or into the key
        if not certain:
            raise JsonSyntaxError(f"a comma or {frame.closer} is missing", position)
        self.repairs.setdefault("missing comma", position)

    def _is_one_item_per_line(self, position: int) -> bool:
        """Return True if an array item is on its own line, indented like the previous line.

        The previous line must not contain a comma.
        """
        before, _, indent = self.text[max(0, position - 200) : position].rpartition("\n")
        line = before.rpartition("\n")[2]
        has_indent = line.startswith(indent) and not indent.strip() and not line[len(indent) :][:1].isspace()
        return has_indent and "," not in line

    def _read_key(self, frame: _Frame, position: int) -> int:
        """Parse a key and its colon in broken JSON; return the index where the value begins."""
        frame.key_start = position
        exact = _EXACT_KEY.match(self.text, position)
        if exact:
            frame.key = exact[1]
            return exact.end()
        if self.text[position] in OPENING_QUOTES:
            frame.key, position = self.strings.read_one(position, "")
        else:
            bare = grammar.BARE_KEY.match(self.text, position)
            if bare is None:
                raise JsonSyntaxError("a key is missing", position)
            self.repairs.setdefault("unquoted key", position)
            frame.key, position = bare[0], bare.end()
        position = self._skip_blank(position)
        separator = _SEPARATOR.match(self.text, position)
        if separator is None:
            if position == len(self.text):
                raise self._truncated()
            raise JsonSyntaxError(f'the key "{shorten(frame.key)}" has no value', frame.key_start)
        if separator[0] != ":":
            self.repairs.setdefault("key separator", position)
        return self._skip_blank(separator.end())

    def _read_scalar(self, char: str, position: int) -> tuple[Json, int]:
        """Parse a string, number, boolean or null in broken JSON; return the value and the index after it."""
        closer = self.stack[-1].closer if self.stack else ""
        self.after_word = False
        if char in OPENING_QUOTES:
            return self.strings.read(position, closer)
        if not char and self.stack:
            raise self._truncated()
        bare = read_bare_value(self.text, position, closer)
        if bare.rule:
            self.repairs.setdefault(bare.rule, position)
            self.after_word = bare.rule == UNQUOTED_RULE
            if bare.is_doubtful:
                message = f"{bare.value} may be a misspelt number, true, false or null"
                self.misspelling = self.misspelling or JsonSyntaxError(message, position)
            elif self.after_word:
                self.has_words = True
        return bare.value, bare.end

    def _truncated(self) -> JsonSyntaxError:
        frame = self.stack[-1]
        return truncation_error(_CONTAINER_NAMES[frame.closer], frame.start)


# Most fields and items of a broken reply are exact JSON. One regular expression matches a whole field or
# item, which is faster than reading it step by step. Each match must end before a comma and the next key or
# value, or before a closing bracket, so that a string cannot end at a quote inside it.
_ANY_SPACE = grammar.SPACE
_SCALAR = rf"(?:({grammar.NUMBER})|({grammar.LITERAL}))"


def _string_pattern(quote: str) -> str:
    plain = grammar.plain_text(quote)
    return rf"{quote}({plain}(?:\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{{4}}){plain})*+){quote}"


def _field_pattern(quote: str) -> re.Pattern[str]:
    string = _string_pattern(quote)
    next_key = rf"{quote}[^{quote}\\]*+{quote}{_ANY_SPACE}:"
    end = rf"{_ANY_SPACE}(?:(,){_ANY_SPACE}(?={next_key}|}})|(?=}}))"
    return lazy_regex(rf"{string}{_ANY_SPACE}:{_ANY_SPACE}(?:{string}|{_SCALAR}){end}")


def _item_pattern(quote: str) -> re.Pattern[str]:
    after_string = rf"(,){_ANY_SPACE}(?=[{quote}{{\[\]])|(?=\])"
    # A comma and a zero after a number may be a part of it, as in 1,000.
    after_scalar = rf"(,)(?!0[0-9]){_ANY_SPACE}(?=[{quote}{{\[\]0-9tfn-])|(?=\])"
    return lazy_regex(
        rf"{_string_pattern(quote)}{_ANY_SPACE}(?:{after_string})|{_SCALAR}{_ANY_SPACE}(?:{after_scalar})"
    )


_FIELD = {quote: _field_pattern(quote) for quote in "\"'"}
_ITEM = {quote: _item_pattern(quote) for quote in "\"'"}


def read_plain_fields(text: str, position: int, fields: dict[str, Json]) -> tuple[int, int]:
    """Parse the fields of a JSON object up to the first syntax mistake; store them in ``fields``.

    Return the index after them, and the index of the comma after the last field, or -1 if no comma follows.
    """
    comma = -1
    pattern = _FIELD.get(text[position])
    while pattern and (match := pattern.match(text, position)):
        key, string, number, literal, _ = match.groups()
        value: Json
        if string is not None:
            value = decode_string(string, match.start(2), {}) if "\\" in string else string
        elif number is not None:
            value = parse_number(number, match.start(3))
        else:
            value = grammar.LITERALS[literal]
        if "\\" in key:
            key = decode_string(key, match.start(1), {})
        if key in fields:
            add_field(fields, key, value, position)
        else:
            fields[key] = value
        position, comma = match.end(), match.start(5)
    return position, comma


def read_plain_items(text: str, position: int, items: list[Json]) -> tuple[int, int]:
    """Parse the items of a JSON array up to the first syntax mistake; append them to ``items``.

    Return the index after them, and the index of the comma after the last item, or -1 if no comma follows.
    """
    comma = -1
    pattern = _ITEM["'" if text[position] == "'" else '"']
    while match := pattern.match(text, position):
        string, _, number, literal, _ = match.groups()
        if string is not None:
            items.append(decode_string(string, match.start(1), {}) if "\\" in string else string)
        elif number is not None:
            items.append(parse_number(number, match.start(3)))
        else:
            items.append(grammar.LITERALS[literal])
        position, comma = match.end(), max(match.start(2), match.start(5))
    return position, comma


# --- Exact JSON first, then repairs ---

Spans: TypeAlias = dict[tuple[str | int, ...], tuple[int, int]]
_EXACT_TOKEN = lazy_regex(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++')

_FIRST_PIECE, _GROWTH = 64, 8  # characters of the first piece, and the factor for the next one
_LONGEST_WORD = len("-Infinity")
_UNTERMINATED = "Unterminated string"  # in the message of json.JSONDecodeError
_STRING_END_AHEAD = lazy_regex(r'"|[^"\n{\[]*+"[ \t]*+[,}\]]')
_SURROGATE = lazy_regex(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = lazy_regex(r"\\u[dD][89a-fA-F]")
# Group 1 is an escaped surrogate without its other half.
_ESCAPE = lazy_regex(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def read_exact(text: str) -> Json:
    """Parse text that is exactly one valid JSON value.

    Integers become int, other numbers Decimal.

    Raises only JsonSyntaxError, also for a key that appears twice with different values, NaN and Infinity,
    half a surrogate pair, a number that is too long to convert, and nesting deeper than 500 levels.
    """
    value, end = _decode(text, _skip_space(text, 0))
    end = _skip_space(text, end)
    if end != len(text):
        raise JsonSyntaxError("there is more text after the JSON value", end)
    return value


def read_with_spans(text: str, start: int) -> tuple[Json, int, Spans]:
    """Parse the exact JSON value at index ``start``, as ``read_exact`` does.

    Return the value, the index after it, and where each of its scalars begins and ends: by the keys and
    indexes that lead to the scalar. Raises JsonSyntaxError, also if they lead to two scalars.
    """
    value, end = _decode(text, start)
    spans: Spans = {}
    path: list[str | int] = []
    is_key = False
    for token in _EXACT_TOKEN.finditer(text, start, end):
        mark = token[0]
        if mark in "{[":
            path.append("" if mark == "{" else 0)
            is_key = mark == "{"
        elif mark in "}]":
            path.pop()
        elif mark == ",":
            is_key = isinstance(path[-1], str)
            path[-1] = "" if is_key else int(path[-1]) + 1
        elif mark == ":":
            is_key = False
        elif is_key:
            path[-1] = _decode(text, token.start())[0]
        elif tuple(path) in spans:
            raise JsonSyntaxError("a key appears twice", token.start())
        else:
            spans[tuple(path)] = token.span()
    return value, end, spans


def read_tolerant(text: str, start: int = 0) -> ParsedJson:
    """Parse the JSON value that begins at index ``start``, repairing common syntax mistakes.

    Parsing stops at the end of the value. Raises only JsonSyntaxError: for truncated text (``truncated`` is
    true), for text that is too far from JSON, and for ambiguous text.
    """
    begins = text[start : start + 1] in ("{", "[")
    first = start if begins else _skip_space(text, start)
    near_exact = begins or text[first : first + 1] in ("{", "[")
    parsed = (_read_near_exact(text, first) if near_exact else None) or Scanner(text).read(start)
    # If a string seems to end behind the value, the bracket that ended the value was text in that string.
    # The exception is a value in quotes, because its closing quote follows.
    if _STRING_END_AHEAD.match(text, parsed.end) and not (first > 0 and text[first - 1] == '"'):
        message = "there is more text after what looks like the end of the value"
        raise JsonSyntaxError(message, parsed.end)
    return parsed


def _read_near_exact(text: str, first: int) -> ParsedJson | None:
    """Parse JSON whose only mistakes are comments and trailing commas, which are replaced by spaces.

    ``first`` is the index where the value begins. Return None if the JSON has other mistakes, which
    only the slower scanner can repair.
    """
    # An error of the standard library costs as much as all text before it, because it counts lines. A reply
    # may hold many values, so each is read from a piece that grows until it holds the whole value.
    size, blanked = _FIRST_PIECE, False
    repairs: list[Repair] = []
    while True:
        piece = text[first : first + size]
        if blanked:
            piece, repairs = _blank_commas_and_comments(piece)
            if not repairs:
                return None
        try:
            value, end = _decode(piece, 0)
        except JsonSyntaxError as error:
            # More text may help if the error is near the end of the piece, or is reported at the beginning
            # of something that is cut.
            may_be_cut = error.position > len(piece) - _LONGEST_WORD or _UNTERMINATED in error.message
            if may_be_cut and first + size < len(text):
                size *= _GROWTH
            elif blanked:
                return None
            else:
                blanked = True
        else:
            return ParsedJson(value, _first_repairs(repairs, end, first), first + end)


def comments_in(text: str, start: int, end: int) -> Iterator[str]:
    """Yield the comments in the JSON between two indexes, with their marks."""
    for match in _STRING_OR_COMMENT.finditer(text, start, end):
        if match["comment"]:
            yield match["comment"]


def parse_json_string(data: str, opening: str, cursor: Cursor) -> Json:
    """Parse a string that contains JSON; return any other string unchanged.

    ``opening`` is the bracket that the JSON must begin with.

    Models sometimes write a nested object or array as a string. The conversion is recorded.
    """
    if not data.lstrip().startswith(opening):
        return data
    try:
        inside = read_exact(data.strip())
    except JsonSyntaxError:
        return data
    cursor.record("JSON inside a string", data, inside)
    return inside


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _collect_fields(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        fields = {}
        for key, value in pairs:
            add_field(fields, key, value, 0)
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise JsonSyntaxError(f"{name} is not a JSON number", 0)


_DECODER = json.JSONDecoder(
    parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_collect_fields
)


def _decode(text: str, start: int) -> tuple[Json, int]:
    """Parse the valid JSON value at index ``start``; return the value and the index after it."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(f"this is not exact JSON: {error.msg}", error.pos) from None
    except JsonSyntaxError:
        raise
    except ValueError:
        raise JsonSyntaxError("a number has too many digits", start) from None
    except InvalidOperation:
        raise JsonSyntaxError("the exponent of a number is too large", start) from None
    except RecursionError:
        raise nesting_error(start) from None
    if text.count("[", start, end) + text.count("{", start, end) > DEPTH:
        _check_depth(value, start)
    raw = None if text.isascii() else _SURROGATE.search(text, start, end)
    if raw:
        raise surrogate_error(raw.start())
    if _SURROGATE_ESCAPE.search(text, start, end):
        for escape in _ESCAPE.finditer(text, start, end):
            if escape[1]:
                raise surrogate_error(escape.start())
    return value, end


# The nesting that json.loads accepts depends on the version of Python, so this limit is checked separately.
def _check_depth(value: Json, position: int) -> None:
    """Raise JsonSyntaxError if a JSON value is nested deeper than the parser allows."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise nesting_error(position)
        level = [
            child
            for outer in level
            for child in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(child, (dict, list))
        ]


_COMMENT_BETWEEN_TOKENS = (
    r"(?<=[\s,:{}\[\]])(?://[^\"\r\n]*+(?=[\r\n]|\Z)|\#(?=\s|\Z)[^\"\r\n]*+(?=[\r\n]|\Z)"
    r"|/\*[^\"*]*+(?:\*(?!/)[^\"*]*+)*+\*/)"
)
_STRING_OR_COMMENT = lazy_regex(
    r"\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|(?<=[\s,:{}\[\]\"'\w])(?P<comment>//[^\r\n]*+|\#(?=\s)[^\r\n]*+|/\*.{0,2000}?\*/)",
    re.DOTALL,
)
_GAP = rf"[ \t\r\n]*+(?:{_COMMENT_BETWEEN_TOKENS}[ \t\r\n]*+)*+"
# Matches exact JSON up to the first trailing comma or comment, inclusive.
_EXACT_THEN_REPAIR = lazy_regex(
    rf"""(?:[^"'`/\#,\[{{]++|"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"|[\[{{](?!{_GAP},)|,(?!{_GAP}[}}\]]))*+"""
    rf"(?:(?P<comma>,)(?={_GAP}[}}\]])|(?P<comment>{_COMMENT_BETWEEN_TOKENS}))"
)
_REPAIR_RULES = {"comma": "trailing comma", "comment": "comment"}


def _blank_commas_and_comments(text: str) -> tuple[str, list[Repair]]:
    """Replace trailing commas and comments in JSON with spaces; return the new text and the repairs.

    Replacing stops at the first other syntax mistake.
    """
    parts: list[str] = []
    repairs: list[Repair] = []
    done = 0
    while match := _EXACT_THEN_REPAIR.match(text, done):
        kind = match.lastgroup or ""
        start, end = match.span(kind)
        parts += text[done:start], " " * (end - start)
        repairs.append(Repair(_REPAIR_RULES[kind], start))
        done = end
    parts.append(text[done:])
    return "".join(parts), repairs


def _first_repairs(repairs: list[Repair], end: int, offset: int) -> tuple[Repair, ...]:
    """Return a Repair for each kind of mistake that was corrected before index ``end``."""
    if not repairs:
        return ()
    first: RepairLog = {}
    for rule, position in repairs:
        if position < end:
            first.setdefault(rule, position + offset)
    return tuple(starmap(Repair, first.items()))
