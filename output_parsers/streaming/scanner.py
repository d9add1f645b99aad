"""Scan JSON that arrives in chunks of text, in time linear in the length of the text.

``IncrementalScanner`` keeps a stack of the open objects and arrays. It does not parse most values: the
builders do that when the value of a snapshot is accessed::

    text so far: {"name": "Ada", "tags": ["a
    stack: the object with its closed member name, and the list, in which a string is being written

Like ``read_tolerant``, the scanner accepts broken JSON: comments, keys without quotes, single quotes, missing
commas, unescaped quotes. If it would need the complete reply to be certain, it gives up, and the parser of
the complete reply decides. It never reports a value that later text could change.

``RootFinder`` finds where the JSON begins, and ``PartialString`` reads strings that may contain unescaped
quotes, by the rule of the tolerant parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from json import JSONDecoder

from ..backslashes import NEARBY, undecided_escape, with_lost_backslashes
from ..json import grammar
from ..json.strings import QUOTE_WINDOW, QuoteRole, QuoteRule, decode_string
from ..result.reading import Json, JsonSyntaxError, RepairLog
from .builders import Container, Member, ScanState
from .tokens import (
    COMMA_OR_CLOSE,
    EXACT_RUN,
    ITEM_RUN,
    OPEN_OR_CLOSE,
    PARTIAL_MEMBER,
    StringBuffer,
    UnreadableToken,
    comment_opening,
    scan_bare_value,
    scan_key,
    skip_blank,
)

# A member that is cut by the end of a chunk is matched again with the next chunk, but only while it is short:
# a longer string is read piece by piece, so that the time stays linear.
_MAX_PARTIAL_MEMBER = 512
# The scanner gives up on a longer key, value without quotes, or gap.
_MAX_UNREAD = 4096  # characters
_MAX_DEPTH = 100  # open containers, because views are printed and compared recursively
_COMMENT_END = {"//": re.compile(r"[\r\n]"), "#": re.compile(r"[\r\n]"), "/*": re.compile(r"\*/")}


class _Expected(Enum):
    """The kind of JSON token, such as a key or a comma, that must come next in the stream."""

    MEMBER = "a key or an item"
    VALUE = "the value of a key"
    SEPARATOR = "a comma or a closing bracket"


class IncrementalScanner:
    """Scans JSON that arrives in chunks, and keeps a stack of the unclosed objects and arrays.

    Attributes:
        stack: The open containers, the outermost first.
        gave_up: True if only the complete text can be parsed with certainty. Further text is ignored then.
        has_comments: True if there was a comment. Its content is checked in the complete text.
        item_list: The open list whose complete items ``read_items`` reads, several at once.
    """

    def __init__(
        self,
        finder: RootFinder,
        on_root_closed: Callable[[Container], bool],
        on_opened: Callable[[Container], None] | None = None,
        read_items: Callable[[str, int, int], int] | None = None,
    ) -> None:
        """Create a scanner for one JSON text that arrives in chunks.

        Args:
            finder: Finds the bracket that opens the outermost container.
            on_root_closed: Called with each outermost container when it is complete. It returns True to look
                for another one.
            on_opened: Called with each container when it opens; it may set ``item_list``.
            read_items: Called with a text and where several items of it begin and end. It returns where the
                first item begins that it cannot read, which is scanned like other JSON.
        """
        self.stack: list[Container] = []
        self.item_list: Container | None = None
        self._on_opened = on_opened
        self._read_items = read_items
        self._scanned_until = 0  # the items before this position in the whole text are scanned
        self.gave_up = self.has_comments = False
        self._finder = finder
        self._on_root_closed = on_root_closed
        self._finished = False
        self._string: PartialString | None = None
        self._comment = ""  # the characters that opened the comment that is open
        self._key = ""  # the key of the member that is being written
        self._expected = _Expected.MEMBER
        self._text = ""  # the text that is not scanned yet
        self._offset = 0  # the index of its first character in the whole text
        self._needs_more = False
        self._partial_member: re.Match[str] | None = None
        self._chunks: list[str] = []  # the text that ``cut`` can return; joined only when a part is cut out
        self._chunks_start = 0  # the index of its first character in the whole text

    def feed(self, chunk: str) -> None:
        """Scan the next chunk of streamed JSON text."""
        if self._finished:
            return
        self._chunks.append(chunk)
        # Usually nothing is left of the last chunk, so the text is not copied.
        self._text = self._text + chunk if self._text else chunk
        self._needs_more = False
        self._partial_member = None
        position = 0
        while not self._needs_more:
            position = self._step(position)
        if self._finished and not self.gave_up:
            self._text = ""
        elif position:
            self._offset += position
            self._text = self._text[position:]
        # Unscanned text is scanned again with each chunk, which would take quadratic time.
        if len(self._text) > _MAX_UNREAD and self.stack:
            self._give_up(0)

    def cut(self, start: int, end: int) -> str:
        """Return the streamed text between two positions."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0][start - self._chunks_start : end - self._chunks_start]

    def drop_before(self, start: int) -> None:
        """Discard the streamed text before a position; ``cut`` can no longer return it."""
        if start > self._chunks_start:
            self._chunks = ["".join(self._chunks)[start - self._chunks_start :]]
            self._chunks_start = start

    def state(self) -> ScanState:
        """Return a snapshot of the scanner's state; later chunks of JSON do not change the snapshot."""
        # Parts are only added, so their current number identifies the current content.
        stack = [(container, len(container.parts)) for container in self.stack]
        if self._string is not None:
            return ScanState(stack, self._key, self._string.buffer.prefix())
        return ScanState(stack, partial_member=self._partial_member)

    def _wait(self, position: int) -> int:
        """Record that more text is needed, and return the position at which scanning will continue."""
        self._needs_more = True
        return position

    def _give_up(self, position: int) -> int:
        """Stop scanning JSON permanently, and return ``position`` unchanged."""
        self.gave_up = self._finished = self._needs_more = True
        return position

    def _step(self, position: int) -> int:
        """Scan the next JSON token, or several valid ones at once; return the position after them."""
        if self._string is not None:
            return self._scan_string(self._string, position)
        if self._comment:
            return self._scan_comment(position)
        text = self._text
        if not self.stack:
            position, is_root = self._finder.find(text, position)
            if is_root:
                return self._open(text[position], position)
            self._needs_more = True
            return position
        position = self._scan_exact(text, position)
        if not self.stack:
            return position
        if self._expected is _Expected.MEMBER and 0 < len(text) - position <= _MAX_PARTIAL_MEMBER:
            self._partial_member = PARTIAL_MEMBER[self.stack[-1].bracket].match(text, position)
        if position == len(text) or self._partial_member is not None:
            self._needs_more = True
            return position
        return self._scan_inexact(text, position)

    def _scan_exact(self, text: str, position: int) -> int:
        """Scan valid JSON up to the first mistake or the end of the text; return that position."""
        stack = self.stack
        while stack and self._expected is not _Expected.VALUE and not self._needs_more:
            top = stack[-1]
            if self._expected is _Expected.SEPARATOR:
                match = COMMA_OR_CLOSE.match(text, position)
                if match is None or match[1] not in (None, top.closer):
                    return position
                position = match.end()
                if match[1] is None:
                    self._expected = _Expected.MEMBER
                else:
                    self._close(position)
                continue
            if top is self.item_list:
                position = self._read_item_run(text, position)
            # One part for a whole run of members, because handling each member in Python is much slower.
            run = EXACT_RUN[top.bracket].match(text, position)
            if run is not None and run.end() > position:
                top.parts.append(run[0])
                position = run.end()
            match = OPEN_OR_CLOSE[top.bracket].match(text, position)
            if match is None or match[3] not in (None, top.closer):
                return position
            position = match.end()
            if match[3] is None:  # a container opens
                self._key = match[1]
                self._open(match[2], position - 1)
            else:
                self._close(match.end(3))
                if match[4] is None:
                    continue
                if not stack:
                    return match.end(3)
                self._expected = _Expected.MEMBER
        return position

    def _read_item_run(self, text: str, position: int) -> int:
        """Have the complete items of ``item_list`` read; return the position of the first one that is not."""
        if self._read_items is None or self._offset + position < self._scanned_until:
            return position
        run = ITEM_RUN.match(text, position)
        if run is None or run.end() == position:
            return position
        end = self._read_items(text, position, run.end())
        if end < run.end():  # they are not tried again, because that could take quadratic time
            self._scanned_until = self._offset + run.end()
        return end

    def _scan_inexact(self, text: str, position: int) -> int:
        """Scan one JSON token that is invalid or incomplete."""
        position = skip_blank(text, position)
        if position == len(text):
            return self._wait(position)
        comment = comment_opening(text, position)
        if comment is None:
            return self._wait(position)
        if comment:
            self._comment, self.has_comments = comment, True
            return position + len(comment)
        top, mark = self.stack[-1], text[position]
        if mark == top.closer and self._expected is not _Expected.VALUE:
            self._close(position + 1)
            return position + 1
        if self._expected is _Expected.SEPARATOR:
            if mark in "}])":  # a bracket of another kind
                return self._give_up(position)
            # The comma may be missing, because ``read_tolerant`` accepts that too.
            self._expected = _Expected.MEMBER
            return position + 1 if mark == "," else position
        if self._expected is _Expected.MEMBER and top.bracket == "{":
            return position + 1 if mark == "," else self._scan_key(position)
        return self._scan_value(top, mark, position)

    def _scan_key(self, position: int) -> int:
        """Scan one key of a JSON object and the colon after it."""
        try:
            token = scan_key(self._text, position)
        except UnreadableToken as unreadable:
            return self._wait(position) if unreadable.needs_more else self._give_up(position)
        self._key = token.value
        self._expected = _Expected.VALUE
        return token.end

    def _scan_value(self, top: Container, mark: str, position: int) -> int:
        """Scan one JSON value, or its beginning if the rest has not arrived."""
        if mark in "{[":
            return self._open(mark, position)
        if mark in "\"'":
            self._string = PartialString(mark, top.closer)
            return position + 1
        try:
            token = scan_bare_value(self._text, position, top.closer)
        except UnreadableToken as unreadable:
            return self._wait(position) if unreadable.needs_more else self._give_up(position)
        return self._add_member(token.value, token.end)

    def _add_member(self, value: Json, end: int, *, is_unreadable: bool = False) -> int:
        self.stack[-1].parts.append(Member(self._key, value, is_unreadable))
        self._expected = _Expected.SEPARATOR
        return end

    def _scan_string(self, string: PartialString, position: int) -> int:
        """Continue scanning an unfinished JSON string, up to its closing quote or the end of the text."""
        text = self._text
        position = string.advance(text, position)
        if text[position : position + 1] != string.quote:
            return self._wait(position)
        role = string.role_of_quote(text, position)
        if role is QuoteRole.UNDECIDED:
            return self._wait(position)
        if role is QuoteRole.DOUBTFUL:
            return self._give_up(position)
        if role is QuoteRole.INSIDE:
            return position + 1
        self._string = None
        try:
            return self._add_member(string.value(), position + 1)
        except JsonSyntaxError:
            # Snapshots may have shown the beginning of the string, so that part stays visible.
            return self._add_member(string.buffer.prefix().join(), position + 1, is_unreadable=True)

    def _scan_comment(self, position: int) -> int:
        """Skip the rest of a comment in JSON, up to its end or the end of the text."""
        end = _COMMENT_END[self._comment].search(self._text, position)
        if end is None:
            # A star at the end is not skipped, because the slash that closes the comment may follow.
            star = self._comment == "/*" and self._text.endswith("*", position)
            return self._wait(len(self._text) - star)
        self._comment = ""
        return end.end()

    def _open(self, bracket: str, position: int) -> int:
        """Push a new JSON object or array onto the stack, and return the position after its bracket."""
        if len(self.stack) >= _MAX_DEPTH:
            return self._give_up(position)
        self.stack.append(Container(bracket, self._key, self._offset + position))
        self._expected = _Expected.MEMBER
        if self._on_opened is not None:
            self._on_opened(self.stack[-1])
        return position + 1

    def _close(self, end: int) -> None:
        """Pop the innermost JSON object or array from the stack, and add it to its parent."""
        container = self.stack.pop()
        container.end = self._offset + end
        self._expected = _Expected.SEPARATOR
        if self.stack:
            self.stack[-1].parts.append(container)
        elif not self._on_root_closed(container):
            self._finished = self._needs_more = True


# --- Skipping the text before the JSON ---

_BRACKET = re.compile(r"[{\[]")
# An escape outside of a string opens none, or each of many would be read up to the end.
_BRACKET_OR_STRING = re.compile(r'[\[\]{}]|\\.|"(?:[^"\\\n]|\\.)*+"|"')
_JSON_START = re.compile(
    r"""\{\s*+(?:["'`“”‘’}{]|[\w$-]++\s*+:|//|/\*|\#)|\[\s*+(?:["'`“”‘’\[\]{(+-]|\d|//|/\*|\#|[A-Za-z])"""
)
_CUT_JSON_START = re.compile(r"\{\s*+(?:[\w$-]++\s*+|/)?\Z|\[\s*+/?\Z")
_ONLY_A_FENCE = re.compile(r"[\s\ufeff]*+(?:(?i:json)\s*+)?(?:[`~]{3,}\s*+(?:\w{1,20}\s*+)?)?\Z")
_LOOK_BACK = 80
_LOOK_AHEAD = 4096


class RootFinder:
    """Finds the opening bracket of the JSON in a streamed reply, skipping the text before it.

    It skips prose, and JSON whose bracket the type does not accept.
    """

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        """Create a finder for the first opening bracket for which ``accepts(bracket)`` is true."""
        self._accepts = accepts
        self._depth = 0  # the number of open brackets in JSON that is being skipped
        self._skipped = ""  # the beginning of the text before the answer

    def find(self, text: str, position: int) -> tuple[int, bool]:
        """Return the position at which the JSON begins, and whether its opening bracket has arrived.

        If the bracket has not arrived yet, the position is the first character that is still needed, and the
        second value is False.
        """
        while True:
            if self._depth:
                position = self._skip_json(text, position)
                if self._depth:
                    return position, False
            bracket = _BRACKET.search(text, position)
            end = bracket.start() if bracket else len(text)
            self._skip(text[position:end])
            position = end
            if bracket is None:
                return position, False
            accepted = self._accepts(text[position])
            # If only a code fence comes before it, a bracket opens the answer, whatever text follows it.
            if accepted and _ONLY_A_FENCE.match(self._skipped):
                self._skipped = ""
                return position, True
            # After prose, a bracket opens JSON only if JSON follows it. "{name}" in a sentence is not JSON.
            if _CUT_JSON_START.match(text, position) and len(text) - position < _LOOK_AHEAD:
                return position, False
            if not _JSON_START.match(text, position):
                self._skip(text[position])
            elif accepted:
                self._skipped = ""
                return position, True
            else:
                self._depth = 1
            position += 1

    def _skip(self, text: str) -> None:
        """Keep the beginning of the skipped text, which may be the start of a code fence."""
        if len(self._skipped) < _LOOK_BACK:
            self._skipped += text[:_LOOK_BACK]

    def _skip_json(self, text: str, position: int) -> int:
        """Skip JSON that is not the answer; return the position at which scanning must continue."""
        while token := _BRACKET_OR_STRING.search(text, position):
            mark = token[0]
            # A string without a closing quote may end in the next chunk.
            if mark == '"' and len(text) - token.end() < _LOOK_AHEAD and text.find("\n", token.end()) < 0:
                return token.start()
            if mark in ("{", "["):
                self._depth += 1
            elif mark in ("}", "]"):
                self._depth -= 1
            position = token.end()
            if not self._depth:
                self._skip("}")
                return position
        return len(text)


# --- Strings ---

# Text whose meaning does not depend on what follows.
_ESCAPE = rf"(?:{grammar.CERTAIN_ESCAPE}|\\')"
_CERTAIN = {q: re.compile(rf"(?:[^{q}\\\x00\ud800-\udfff]++|{_ESCAPE})*+") for q in "\"'"}
_UP_TO_QUOTE = {q: re.compile(rf"[^{q}\\]*+(?:\\.[^{q}\\]*+)*+", re.DOTALL) for q in "\"'"}
_DECODER = JSONDecoder(strict=False)
_CUT_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)


class PartialString:
    """A JSON string that is being streamed; only a part of it may have arrived.

    The text in ``buffer`` is always a prefix of the complete decoded string. After an escape of uncertain
    meaning, nothing is added until the string is closed.

    Attributes:
        quote: The quote that opened the string.
        buffer: The decoded text that snapshots may show.
    """

    __slots__ = ("_before", "_is_doubtful", "_raw", "_rule", "_since", "buffer", "quote")

    def __init__(self, quote: str, closer: str) -> None:
        self.quote = quote
        self.buffer = StringBuffer()
        self._rule = QuoteRule(quote, closer)
        self._raw: list[str] = []
        self._before = ""  # the end of the text before the last inner quote, with this quote
        self._since = 0  # the number of pieces in ``_raw`` up to this quote
        self._is_doubtful = False

    def advance(self, text: str, position: int) -> int:
        """Read a streamed JSON string up to the next quote or incomplete escape; return that position."""
        if not self._is_doubtful:
            match = _CERTAIN[self.quote].match(text, position)
            end = match.end() if match else position
            certain, needs_more = self._certain_part(text, position, end)
            if certain > position:
                self._add(text[position:certain])
            # An incomplete escape is not doubtful yet.
            if needs_more or (
                certain == end
                and (end == len(text) or text[end] == self.quote or _CUT_ESCAPE.match(text, end))
            ):
                return certain
            self._is_doubtful = True
            position = certain
        match = _UP_TO_QUOTE[self.quote].match(text, position)
        end = match.end() if match else position
        if end > position:
            self._raw.append(text[position:end])
        return end

    def _certain_part(self, text: str, position: int, end: int) -> tuple[int, bool]:
        """Return where text with possibly lost backslashes begins, and True if more text decides."""
        if "\\" not in text[position:end]:
            return end, False
        before = f"{self.quote}{''.join(self._raw[-NEARBY:])}"[-NEARBY:]
        shift = len(before) - position
        undecided, needs_more = undecided_escape(before + text[position:], len(before), end + shift)
        return undecided - shift, needs_more

    def _add(self, piece: str) -> None:
        """Add text without ambiguous quotes or escapes to the JSON string that is being streamed."""
        self._raw.append(piece)
        if "\\" not in piece:
            self.buffer.pieces.append(piece)
        elif self.quote == '"' and "\\'" not in piece:
            # The text is valid JSON except for control characters, and the standard library is faster.
            self.buffer.pieces.append(_DECODER.raw_decode(f'"{piece}"')[0])
        else:
            self.buffer.pieces.append(decode_string(piece, 0, RepairLog(), python=self.quote == "'"))

    def role_of_quote(self, text: str, position: int) -> QuoteRole:
        """Decide whether a quote ends the string, and add it to the string if it is a part of the text.

        If only the parser of the complete text can decide, the quote is doubtful.
        """
        if self._rule.needs_more(text, position):
            return QuoteRole.UNDECIDED
        after = skip_blank(text, position + 1)
        following = text[after : after + 1]
        is_item = following in ("{", "[") and self._rule.closer == "]"  # after a missing comma
        is_triple = not self._raw and text[position + 1] == self.quote
        if following == "+" or is_item or is_triple:  # strings may be joined with +
            return QuoteRole.DOUBTFUL
        before = self._before + "".join(self._raw[self._since :])
        role = self._rule.classify(text, position, before, len(self._before))
        if role is QuoteRole.INSIDE:
            self._raw.append(self.quote)
            self._before, self._since = (before + self.quote)[-QUOTE_WINDOW:], len(self._raw)
            if not self._is_doubtful:
                self.buffer.pieces.append(self.quote)
        return role

    def value(self) -> str:
        """Return the decoded text of a complete JSON string, or raise JsonSyntaxError if it is invalid."""
        if self._is_doubtful:
            raw = with_lost_backslashes("".join(self._raw))
            return decode_string(raw, 0, RepairLog(), python=self.quote == "'")
        return self.buffer.prefix().join()
