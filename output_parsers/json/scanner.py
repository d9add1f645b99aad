"""Reads one JSON value from broken text: the containers, their separators, and what is tolerated there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..result.errors import shorten
from ..result.lazy_regex import lazy_regex
from ..result.reading import Json
from .result import (
    DEPTH,
    JsonSyntaxError,
    ParsedJson,
    Repair,
    RepairLog,
    add_field,
    nesting_error,
    truncation_error,
)
from .strings import (
    OPENING_QUOTES,
    UNQUOTED,
    StringReader,
    decode_string,
    exact_decimal,
    exact_int,
    read_bare_value,
)

_LITERALS = {"true": True, "false": False, "null": None}
_ANY_SPACE = r"[ \t\r\n]*+"


def _string(quote: str) -> str:
    clean = rf"[^{quote}\\\x00-\x1f\ud800-\udfff]*+"
    return rf"{quote}({clean}(?:\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{{4}}){clean})*+){quote}"


def _field(quote: str) -> re.Pattern[str]:
    key = rf"{_string(quote)}{_ANY_SPACE}:{_ANY_SPACE}"
    next_key = rf"{quote}[^{quote}\\]*+{quote}{_ANY_SPACE}:"
    return lazy_regex(
        rf"{key}(?:{_string(quote)}|{_SCALAR}){_ANY_SPACE}(?:(,){_ANY_SPACE}(?={next_key}|}})|(?=}}))"
    )


def _item(quote: str) -> re.Pattern[str]:
    # A number is not followed by a comma and a zero, for then the comma may be a part of it.
    after_string = rf"(,){_ANY_SPACE}(?=[{quote}{{\[\]])|(?=\])"
    after_scalar = rf"(,)(?!0[0-9]){_ANY_SPACE}(?=[{quote}{{\[\]0-9tfn-])|(?=\])"
    return lazy_regex(rf"{_string(quote)}{_ANY_SPACE}(?:{after_string})|{_SCALAR}{_ANY_SPACE}(?:{after_scalar})")


_SCALAR = r"(?:(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)|(true|false|null))"
_FIELD = {quote: _field(quote) for quote in "\"'"}
_ITEM = {quote: _item(quote) for quote in "\"'"}


def read_plain_fields(text: str, position: int, fields: dict[str, Json]) -> tuple[int, int]:
    """Read fields from the key at position on.

    Returns the index where the run ends and that of the comma before it, or -1 without one.
    """
    comma = -1
    pattern = _FIELD.get(text[position])
    while pattern and (found := pattern.match(text, position)):
        key, body, whole, rest, literal, _ = found.groups()
        value = _scalar(whole, rest, literal, found.start(3)) if body is None else _text(body, found.start(2))
        if "\\" in key:
            key = _text(key, found.start(1))
        if key in fields:
            add_field(fields, key, value, position)
        else:
            fields[key] = value
        position, comma = found.end(), found.start(6)
    return position, comma


def read_plain_items(text: str, position: int, items: list[Json]) -> tuple[int, int]:
    """Read items from position on; returns what plain_fields returns."""
    comma = -1
    pattern = _ITEM["'" if text[position] == "'" else '"']
    while found := pattern.match(text, position):
        body, _, whole, rest, literal, _ = found.groups()
        if body is None:
            items.append(_scalar(whole, rest, literal, found.start(3)))
        else:
            items.append(_text(body, found.start(1)))
        position, comma = found.end(), max(found.start(2), found.start(6))
    return position, comma


def _text(body: str, position: int) -> str:
    return decode_string(body, position, RepairLog()) if "\\" in body else body


def _scalar(whole: str | None, rest: str | None, literal: str | None, position: int) -> Json:
    if whole is None:
        return _LITERALS[literal or "null"]
    return exact_decimal(whole + rest, position) if rest else exact_int(whole, position)


_CLOSER = {"{": "}", "[": "]", "(": ")"}
_NAME = {"}": "object", "]": "array", ")": "tuple"}

_SOLID = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"/", "#"}
_SPACE = lazy_regex(r"[ \t\r\n]*+")
_ODD_SPACE = lazy_regex(r"[\s\ufeff\u200b-\u200d\u2060]++")
_COMMENT = lazy_regex(r"//[^\r\n]*+|#(?=\s|\Z)[^\r\n]*+|/\*.*?\*/", re.DOTALL)
_PLAIN_KEY = lazy_regex(r'"([^"\\\x00-\x1f\ud800-\udfff]*+)"[ \t\r\n]*+:[ \t\r\n]*+(?=[!-"$-.0-~])')
_KEY_WORD = r"""[^\s,:{}\[\]()"'`“”‘’=\\\x00-\x1f\ud800-\udfff]++"""
_BARE_KEY = lazy_regex(rf"{_KEY_WORD}(?:[ \t]++{_KEY_WORD})*+")
_SEPARATOR = lazy_regex(r":|=>|=(?!=)")
_KEY_AHEAD = lazy_regex(r"""["'`“”‘„]|[^\W\d][\w$-]*+\s*+[:=]""")
_FITS_AFTER = {
    "]": lazy_regex(r"\s*+(?:\]|,\s*+[{\[])"),
    "}": lazy_regex(r'\s*+(?:}|,\s*+"[^"\\\n]*+"\s*+:)'),
}


@dataclass(slots=True)
class _Frame:
    """A container that is open, and where its reading stands."""

    closer: str
    start: int
    items: list[Json]  # of an array or a tuple
    fields: dict[str, Json]  # of an object
    key: str = ""
    key_start: int = 0
    empty: bool = True
    comma: bool = False  # since the last value
    comma_at: int = 0

    def add(self, value: Json) -> None:
        self.empty = self.comma = False
        if self.closer == "}":
            add_field(self.fields, self.key, value, self.key_start)
        else:
            self.items.append(value)


def scan(text: str, start: int) -> ParsedJson:
    """Read the value at start, with the tolerances it needs. Raises JsonSyntaxError, and nothing else."""
    return _Scanner(text).run(start)


class _Scanner:
    """Reads values and puts them into the innermost open container, until the outermost is closed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.repairs = RepairLog()
        self.stack: list[_Frame] = []
        self.strings = StringReader(text, self.repairs)
        self.value_end = 0  # of the last value
        self.after_word = False  # the last value was a string without quotes

    def run(self, start: int) -> ParsedJson:
        position = self._blank(start)
        while True:
            char = self.text[position : position + 1]
            if char in _CLOSER:
                self._open(char, position)
                position += 1
            else:
                value, position = self._scalar(char, position)
                if not self.stack:
                    return ParsedJson(value, self.repairs.as_tuple(), position)
                self.stack[-1].add(value)
                self.value_end = position
            value, position = self._advance(position)
            if not self.stack:
                self.strings.check_end(position)
                return ParsedJson(value, self.repairs.as_tuple(), position)

    def _cut_off(self) -> JsonSyntaxError:
        frame = self.stack[-1]
        return truncation_error(_NAME[frame.closer], frame.start)

    def _blank(self, position: int) -> int:
        """The index of the next character that is neither white space nor in a comment."""
        text = self.text
        if text[position : position + 1] in _SOLID:
            return position
        while True:
            position = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing too
            char = text[position : position + 1]
            if char in "/#":
                found = _COMMENT.match(text, position) if char else None
                if found is None and text.startswith("/*", position):
                    raise truncation_error("comment", position)
                rule = "comment"
            else:
                found = None if "!" <= char <= "~" else _ODD_SPACE.match(text, position)
                rule = "white space not in JSON"
            if found is None:
                return position
            self.repairs.note(rule, position)
            position = found.end()

    def _open(self, char: str, position: int) -> None:
        if len(self.stack) >= DEPTH:
            raise nesting_error(position)
        self.stack.append(_Frame(_CLOSER[char], position, [], {}))
        self.after_word = False

    def _advance(self, position: int) -> tuple[Json, int]:
        """Go to where the next value begins, closing what ends before it.

        Returns the container closed last, which is the value when none is open any more, and the index.
        """
        value: Json = None
        while self.stack:
            frame = self.stack[-1]
            position = self._comma(frame, self._blank(position))
            char = self.text[position : position + 1]
            if not char:
                raise self._cut_off()
            if char not in "}])":
                if not (frame.empty or frame.comma):
                    self._missing_comma(frame, position)
                after = self._plain(frame, position)
                if after > position:
                    position = after
                    continue
                return None, self._key(frame, position) if frame.closer == "}" else position
            if char != frame.closer:
                self._missing_bracket(frame, char, position)
            else:
                position += 1
            value = self._close(frame)
            self.value_end = position
            if self.stack:
                self.stack[-1].add(value)
        return value, position

    def _plain(self, frame: _Frame, position: int) -> int:
        """Read what has nothing odd in it as far as it goes; the index after it and the comma behind it."""
        if frame.closer == "}":
            after, comma = read_plain_fields(self.text, position, frame.fields)
        elif frame.closer == "]":
            after, comma = read_plain_items(self.text, position, frame.items)
        else:
            return position
        if after > position:
            if self.text[position] == "'":
                self.repairs.note("single-quoted string", position)
            frame.empty = self.after_word = False
            frame.comma, frame.comma_at = comma >= 0, comma
            self.value_end = after
        return after

    def _comma(self, frame: _Frame, position: int) -> int:
        """Go past the comma after a value; in an object past several, for nothing can be missing there."""
        text = self.text
        while text.startswith(",", position) and not frame.empty:
            if frame.comma:
                if frame.closer != "}":
                    raise JsonSyntaxError("a value is missing between two commas", position)
                self.repairs.note("doubled comma", position)
            frame.comma, frame.comma_at = True, position
            position = self._blank(position + 1)
        return position

    def _close(self, frame: _Frame) -> Json:
        self.stack.pop()
        self.after_word = False
        if frame.closer == ")":
            lone = len(frame.items) == 1 and not frame.comma
            self.repairs.note("parentheses" if lone else "tuple", frame.start)
            return frame.items[0] if lone else frame.items
        if frame.comma:
            self.repairs.note("trailing comma", frame.comma_at)
        return frame.fields if frame.closer == "}" else frame.items

    def _missing_bracket(self, frame: _Frame, char: str, position: int) -> None:
        """Note that a closing bracket is missing before this one, where nothing else can be meant.

        In ``[{"a": [1}, {"a": [2]}]`` ``}`` cannot stand for ``]``: in an object no ``, {`` follows.
        """
        outer = [frame.closer for frame in self.stack[-3:-1]]
        plain = outer in (["]", "}"], ["}", "]"]) and outer[1] == char
        if not plain or not _FITS_AFTER[outer[0]].match(self.text, position + 1):
            raise JsonSyntaxError(f"{char} stands where {frame.closer} is due", position)
        self.repairs.note("missing bracket", position)

    def _missing_comma(self, frame: _Frame, position: int) -> None:
        """Note that a comma is missing, where what follows plainly begins a new key or value."""
        text, before = self.text, self.text[position - 1]
        if frame.closer == "}":
            plain = _KEY_AHEAD.match(text, position) is not None
        elif text[position] in _CLOSER or text[position] in OPENING_QUOTES:
            # Two strings side by side in parentheses are one in Python, hence only in an array.
            plain = (before.isspace() or before in "}])/") and not self.after_word and frame.closer == "]"
        else:
            plain = text.find("\n", self.value_end, position) >= 0 and not self.after_word
        if not plain:
            raise JsonSyntaxError(f"a comma or {frame.closer} is missing", position)
        self.repairs.note("missing comma", position)

    def _key(self, frame: _Frame, position: int) -> int:
        """Read a key and what separates it from its value; the index where the value begins."""
        frame.key_start = position
        plain = _PLAIN_KEY.match(self.text, position)
        if plain:
            frame.key = plain[1]
            return plain.end()
        if self.text[position] in OPENING_QUOTES:
            frame.key, position = self.strings.read_one(position, "")
        else:
            bare = _BARE_KEY.match(self.text, position)
            if bare is None:
                raise JsonSyntaxError("a key is missing", position)
            self.repairs.note("unquoted key", position)
            frame.key, position = bare[0], bare.end()
        position = self._blank(position)
        separator = _SEPARATOR.match(self.text, position)
        if separator is None:
            if position == len(self.text):
                raise self._cut_off()
            raise JsonSyntaxError(f'the key "{shorten(frame.key)}" has no value', frame.key_start)
        if separator[0] != ":":
            self.repairs.note("key separator", position)
        return self._blank(separator.end())

    def _scalar(self, char: str, position: int) -> tuple[Json, int]:
        """Read a string, number, literal or word; the value and the index after it."""
        closer = self.stack[-1].closer if self.stack else ""
        self.after_word = False
        if char in OPENING_QUOTES:
            return self.strings.read(position, closer)
        if not char and self.stack:
            raise self._cut_off()
        word = read_bare_value(self.text, position, closer)
        if word.rule:
            self.repairs.note(word.rule, position)
            self.after_word = word.rule == UNQUOTED
        return word.value, word.end


_ANY_COMMENT = (
    r"(?<=[\s,:{}\[\]])(?://[^\"\r\n]*+(?=[\r\n]|\Z)|\#(?=\s|\Z)[^\"\r\n]*+(?=[\r\n]|\Z)"
    r"|/\*[^\"*]*+(?:\*(?!/)[^\"*]*+)*+\*/)"
)
_GAP = rf"[ \t\r\n]*+(?:{_ANY_COMMENT}[ \t\r\n]*+)*+"
# What needs no mending, as far as it goes, and then what does.
_NEXT = lazy_regex(
    rf"""(?:[^"'`/\#,\[{{]++|"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"|[\[{{](?!{_GAP},)|,(?!{_GAP}[}}\]]))*+"""
    rf"(?:(?P<comma>,)(?={_GAP}[}}\]])|(?P<comment>{_ANY_COMMENT}))"
)
_RULES = {"comma": "trailing comma", "comment": "comment"}


def blank_commas_and_comments(text: str) -> tuple[str, list[Repair]]:
    """The text with blanks for trailing commas and comments, and each of them in the order of the text.

    It is mended up to the first thing that is no JSON in another way.
    """
    parts: list[str] = []
    repairs: list[Repair] = []
    done = 0
    while found := _NEXT.match(text, done):
        kind = found.lastgroup or ""
        start, end = found.span(kind)
        parts += text[done:start], " " * (end - start)
        repairs.append(Repair(_RULES[kind], start))
        done = end
    parts.append(text[done:])
    return "".join(parts), repairs


def repairs_before(end: int, repairs: list[Repair], offset: int) -> tuple[Repair, ...]:
    """The first repair of each rule before an index, with positions that count from ``offset`` earlier."""
    if not repairs:
        return ()
    first: dict[str, int] = {}
    for rule, position in repairs:
        if position < end:
            first.setdefault(rule, position + offset)
    return tuple(Repair(rule, position) for rule, position in first.items())
