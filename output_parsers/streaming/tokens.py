r"""Read single tokens of JSON that is still being written.

Tokens are read before the text is complete, so each function has three possible outcomes: a token,
unreadable text, or text that needs more input. ``scan_bare_value("12", 0, "]")`` needs more input,
because the next chunk may begin with another digit; ``scan_bare_value("12, ", 0, "]")`` returns 12.

``StringBuffer`` collects the text of a string that grows.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..backslashes import undecided_escape, with_lost_backslashes
from ..json import grammar
from ..json.strings import decode_string, read_bare_value
from ..lazy_regex import lazy_regex
from ..result.reading import Json, JsonSyntaxError, RepairLog


class StringBuffer:
    """Collects the pieces of a JSON string while it is streamed, and joins them on demand.

    Attributes:
        pieces: The pieces so far. Pieces are only added.
    """

    __slots__ = ("_joined", "_joined_count", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._joined = ""
        self._joined_count = 0  # the number of pieces in ``_joined``

    def join(self, count: int) -> str:
        """Return the text of the first ``count`` pieces of a streamed string."""
        if count < self._joined_count:
            return "".join(self.pieces[:count])
        if count > self._joined_count:
            # Only the new pieces are added. Joining all pieces for each snapshot takes quadratic time.
            self._joined = "".join((self._joined, *self.pieces[self._joined_count : count]))
            self._joined_count = count
        return self._joined

    def prefix(self) -> StringPrefix:
        """Return the part of a streamed string that has arrived; its pieces are joined when needed."""
        return StringPrefix(self, len(self.pieces))


class StringPrefix:
    """An immutable snapshot of the part of a streamed JSON string that has arrived."""

    __slots__ = ("_buffer", "_count")

    def __init__(self, buffer: StringBuffer, count: int) -> None:
        self._buffer = buffer
        self._count = count

    def join(self) -> str:
        """Join the pieces of a streamed string into a str."""
        return self._buffer.join(self._count)


_SPACE = grammar.SPACE
_PLAIN = grammar.plain_text('"')
_STRING = f"{_PLAIN}(?:{grammar.CERTAIN_ESCAPE}{_PLAIN})*+"
_CUT_ESCAPE = r"(?:\\(?:u[0-9a-fA-F]{0,4}(?:\\u?[0-9a-fA-F]{0,3})?)?)?"
# The numbers of digits are limited, so that a longer number is left to the slower functions below.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,400}+)(?:\.[0-9]{1,400}+)?(?:[eE][+-]?[0-9]{1,4}+)?"
_SCALAR = rf"(?:{_NUMBER}|{grammar.LITERAL})"
_CUT_SCALAR = r"[-+.0-9a-zA-Z]*+"

# Matches all complete members of exact JSON, up to the beginning of the next member. Most of a reply is read
# by this one expression. A string counts as closed only if a key or an item follows, because models forget
# to escape quotes. The key is the opening bracket of the container.
EXACT_RUN = {
    "{": re.compile(
        rf'(?:{_SPACE}"{_PLAIN}"{_SPACE}:{_SPACE}(?:"{_STRING}"|{_SCALAR}){_SPACE}(?:,{_SPACE}(?=")|(?=}})))*+'
    ),
    "[": re.compile(
        rf'(?:{_SPACE}(?:"{_STRING}"{_SPACE}(?:,{_SPACE}(?=["{{\[])|(?=\]))|{_SCALAR}{_SPACE}(?:,|(?=\]))))*+'
    ),
}
# Complete items of a list, up to the next one. The content of nested containers is not checked, only their
# brackets; deeper ones are scanned bracket by bracket. The text of an item is a group of ITEM.
_NESTED = r'[^"{}\[\]]*+'
for _ in range(8):
    _NESTED = rf'(?:[^"{{}}\[\]]++|"{_STRING}"|[{{\[]{_NESTED}[}}\]])*+'
_AFTER_STRING = rf'{_SPACE}(?:,{_SPACE}(?:["{{\[]|{_SCALAR}{_SPACE}[,\]])|\])'
_ITEM = rf'"{_STRING}"(?={_AFTER_STRING})|{_SCALAR}|[{{\[]{_NESTED}[}}\]]'
_END_OF_ITEM = rf"{_SPACE}(?:,|(?=\]))"
ITEM = lazy_regex(f"{_SPACE}({_ITEM}){_END_OF_ITEM}")
ITEM_RUN = lazy_regex(f"(?:{_SPACE}(?:{_ITEM}){_END_OF_ITEM})*+")
# Groups: the key and the bracket of a nested container, or the closing bracket and the comma after it.
OPEN_OR_CLOSE = {
    "{": re.compile(rf'{_SPACE}(?:"({_PLAIN})"{_SPACE}:{_SPACE}([{{\[])|([}}\]])(?:{_SPACE}(,))?)'),
    "[": re.compile(rf"{_SPACE}(?:()([{{\[])|([}}\]])(?:{_SPACE}(,))?)"),
}
COMMA_OR_CLOSE = re.compile(rf"{_SPACE}(?:([}}\]])|,)")
# An incomplete member at the end of the text. Groups: its key, and its string as far as it has arrived.
_CUT_STRING = rf'"({_STRING})(?:{_CUT_ESCAPE}|"{_SPACE}(?:,{_SPACE})?)'
PARTIAL_MEMBER = {
    "{": re.compile(
        rf'{_SPACE}(?:"{_PLAIN}|"({_PLAIN})"{_SPACE}(?::{_SPACE}(?:{_CUT_STRING}|{_CUT_SCALAR})?)?)?\Z'
    ),
    "[": re.compile(rf"{_SPACE}()(?:{_CUT_STRING}|{_CUT_SCALAR})?\Z"),
}

_BLANK = re.compile(f"{grammar.ANY_SPACE}*+")
_QUOTED = re.compile(r""""((?:[^"\\]++|\\.)*+)"|'((?:[^'\\]++|\\.)*+)'""", re.DOTALL)
_BARE_VALUE = re.compile(r'[^,{}\[\]"\r\n]*+')
_COMMENT_AFTER_SPACE = re.compile(rf"[ \t]{grammar.COMMENT_START}")
_SCALAR_BEFORE_COMMENT = re.compile(rf"{_SCALAR}(?=//|/\*)")
_SCALAR_AND_SPACE = re.compile(rf"{_SCALAR}[ \t]++")
_MAYBE_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}")


class ScannedToken(NamedTuple):
    """A key or value read from JSON, and the position after it.

    Attributes:
        value: The key or the value.
        end: The index after the value, or after the colon of a key.
    """

    value: Json
    end: int


class UnreadableToken(Exception):
    """Raised if the next token of streamed JSON is incomplete or ambiguous.

    Attributes:
        needs_more: True if more text may help. False if only a parser of the complete text can decide.
    """

    def __init__(self, *, needs_more: bool) -> None:
        super().__init__("incomplete token" if needs_more else "ambiguous token")
        self.needs_more = needs_more


def partial_string(member: re.Match[str]) -> tuple[str, str | None]:
    """Return the key and the partial text of the string field that is being streamed.

    ``member`` is a match of PARTIAL_MEMBER. The text is None if no string has begun.
    """
    key, body = member.groups()
    if body is None:
        return "", None
    if "\\" not in body:
        return key, body
    start = member.start(2)
    end, _ = undecided_escape(member.string, start, member.end(2))
    return key, decode_string(member.string[start:end], 0, RepairLog())


def skip_blank(text: str, position: int) -> int:
    """Skip white space in JSON, and return the index of the next character that is not white space."""
    match = _BLANK.match(text, position)
    return match.end() if match else position


def comment_opening(text: str, position: int) -> str | None:
    """Return the marker that begins a JSON comment at the given position, such as ``//`` or ``#``.

    Returns "" if no comment begins there, and None if more text is needed to decide.
    """
    mark = text[position]
    if mark not in "/#":
        return ""
    if position + 1 == len(text):
        return None
    if mark == "#":
        return "#" if text[position + 1].isspace() else ""
    return text[position : position + 2] if text[position + 1] in "/*" else ""


def scan_key(text: str, position: int) -> ScannedToken:
    """Read a JSON key and its colon.

    Raises UnreadableToken if they are incomplete or ambiguous.
    """
    if text[position] in "\"'":
        match = _QUOTED.match(text, position)
        if match is None:
            raise UnreadableToken(needs_more=True)
        try:
            body = with_lost_backslashes(match[0])[1:-1]
            key = decode_string(body, position + 1, RepairLog(), python=text[position] == "'")
        except JsonSyntaxError:
            raise UnreadableToken(needs_more=False) from None
    else:
        match = grammar.BARE_KEY.match(text, position)
        if match is None:
            raise UnreadableToken(needs_more=False)
        key = match[0]
    end = skip_blank(text, match.end())
    if end == len(text):
        raise UnreadableToken(needs_more=True)
    if text[end] != ":":
        raise UnreadableToken(needs_more=False)
    return ScannedToken(key, end + 1)


def scan_bare_value(text: str, position: int, closer: str) -> ScannedToken:
    """Read a JSON value without quotes: a number, true, false, null or words.

    The value ends at a comma, a bracket, a comment, or a line's end that is followed by more text.
    ``closer`` is the bracket that closes the container. Raises UnreadableToken.
    """
    # A tuple, or a string in unusual quotes, is decided only by the parser of the complete text.
    if text[position] in "(`“”„‘’":
        raise UnreadableToken(needs_more=False)
    before_comment = _SCALAR_BEFORE_COMMENT.match(text, position)
    match = _BARE_VALUE.match(text, position)
    end = match.end() if match else position
    comment = _COMMENT_AFTER_SPACE.search(text, position, end)
    if before_comment:
        word = before_comment[0]
    elif comment:
        word = text[position : comment.start()].rstrip()
    else:
        word = text[position:end].rstrip()
        _check_end(text, position, end, word, closer)
    try:
        bare = read_bare_value(word, 0, closer)
    except JsonSyntaxError:
        raise UnreadableToken(needs_more=False) from None
    if bare.end != len(word):
        raise UnreadableToken(needs_more=False)
    return ScannedToken(bare.value, position + len(word))


def _check_end(text: str, position: int, end: int, word: str, closer: str) -> None:
    """Raise UnreadableToken if a JSON value without quotes may continue after index ``end``."""
    if end == len(text):
        raise UnreadableToken(needs_more=True)
    mark = text[end]
    if mark == "," and closer == "}" and _MAYBE_GROUPED.fullmatch(word):
        if end + 1 == len(text):
            raise UnreadableToken(needs_more=True)
        if text[end + 1].isdigit():  # 1,000 may be one number or two
            raise UnreadableToken(needs_more=False)
    elif mark in "\r\n":
        if skip_blank(text, end) == len(text):
            raise UnreadableToken(needs_more=True)
    elif mark in "{[" or (mark == '"' and not _SCALAR_AND_SPACE.fullmatch(text, position, end)):
        raise UnreadableToken(needs_more=False)
