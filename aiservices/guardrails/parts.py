"""Split a streamed text into parts, such as sentences, and check each part before it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..engine.effects import Flow
from ..models.messages import AiMessage, ChatReply, ReplyDelta

# Gets the text that has arrived, and returns the length of its first complete part, or 0. More text after it
# must not change the length, so that the parts do not depend on how a reply arrives.
Chunks: TypeAlias = Callable[[str], int]

_WINDOW = 256  # characters that are searched for the end of a part at least

# The end of a sentence is decided by the character after it, so that more text cannot change it.
_SENTENCE_END = re.compile(
    r"""\n
    | (?<=[.!?…]) ["'”’»)\]*_]{0,3} \s
    | (?<=[。！？]) [」』”’）]{0,3} (?=[^」』”’）])""",
    re.VERBOSE,
)
_PARAGRAPH_END = re.compile(r"\n[ \t\r]*\n")
_VISIBLE = re.compile(r"\S")


def sentences() -> Chunks:
    """Return a function that splits streamed text into sentences, for ``OutputGuardrails(chunks=...)``.

    A sentence ends after ``.``, ``!``, ``?`` or ``…`` with white space behind it, after ``。``, ``！`` or
    ``？``, and at the end of a line. An abbreviation such as "Dr. " is a part of its own.
    """
    return _first_part(_SENTENCE_END)


def paragraphs() -> Chunks:
    """Return a function that splits streamed text into paragraphs, for ``OutputGuardrails(chunks=...)``.

    A paragraph ends at an empty line.
    """
    return _first_part(_PARAGRAPH_END)


def _first_part(end: re.Pattern[str]) -> Chunks:
    def length(text: str) -> int:
        visible = _VISIBLE.search(text)  # a part has more than white space
        part_end = None if visible is None else end.search(text, visible.end())
        return 0 if part_end is None else part_end.end()

    return length


class TextParts:
    """Splits text that arrives in pieces into complete parts, such as sentences.

    It takes time in proportion to the length of the text: a long incomplete part is searched again only when
    it has grown by a quarter.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._text = ""
        self._start = 0  # the start of the first incomplete part
        self._searched = 0  # the number of characters from there that contain no end of a part
        self._pieces: list[str] = []
        self._length = 0  # the total length of the pieces
        self._is_first = True

    def add(self, text: str) -> None:
        """Add the next piece of the text."""
        self._pieces.append(text)
        self._length += len(text)

    def complete(self, *, is_last: bool) -> Iterator[tuple[str, bool]]:
        """Yield the parts, such as sentences, that are now complete; at the end also the rest.

        The second item is False for white space at the end of the text, which is not checked.
        """
        left = len(self._text) - self._start + self._length
        if not is_last and self._searched >= _WINDOW and left < self._searched * 5 // 4:
            return
        self._text = "".join((self._text[self._start :], *self._pieces))
        self._start = self._length = 0
        self._pieces.clear()
        while length := self._next_length():
            part = self._text[self._start : self._start + length]
            self._start += length
            self._is_first = False
            yield part, True
        if is_last:
            rest = self._text[self._start :]
            if rest or self._is_first:
                yield rest, self._is_first or not rest.isspace()

    def _next_length(self) -> int:
        """Return the length of the next complete part; 0 if no part is complete yet."""
        left = len(self._text) - self._start
        while self._searched < left:
            window = min(left, max(_WINDOW, 2 * self._searched))
            length = self._chunks(self._text[self._start : self._start + window])
            if type(length) is not int or not 0 <= length <= window:
                raise ValueError(
                    f"it returned {length!r} for a text of {window} characters; it must return the length of "
                    "the first complete part, or 0"
                )
            self._searched = 0 if length else window
            if length:
                return length
        return 0


class PartCheck:
    """Checks the parts of one streamed reply with guards, and collects the text that may be shown.

    Attributes:
        original: The reply as the model wrote it, so far.
        visible: The parts after the guards changed them.
        is_rejected: True after a guard rejected a part. Then nothing more is shown.
        is_complete: True after the end of the reply.
    """

    def __init__(self, chunks: Chunks, check: Callable[[str], Flow[str | None]]) -> None:
        """Create a check for streamed text.

        ``check`` returns the text to show, possibly rewritten, or None to reject it.
        """
        self._parts = TextParts(chunks)
        self._check = check
        self.original: list[str] = []
        self.visible: list[str] = []
        self.is_rejected = False
        self.is_complete = False

    def filter(self, delta: ReplyDelta) -> Iterator[Flow[ReplyDelta | None]]:
        """Yield a flow for each part that is now complete; the flow returns the text to show."""
        self.original.append(delta.text)
        self.is_complete = delta.reply is not None
        if self.is_rejected:
            return
        others = delta._replace(text="", reply=None, raw=None)  # the event has the text, too
        if others != ReplyDelta():
            yield _unchecked(others)
        self._parts.add(delta.text)
        for part, is_checked in self._parts.complete(is_last=self.is_complete):
            yield self._show(part, is_checked=is_checked)
            if self.is_rejected:
                return
        if delta.reply is not None:
            yield _unchecked(ReplyDelta(reply=self._reply_with_streamed_text(delta.reply)))

    def _reply_with_streamed_text(self, reply: ChatReply) -> ChatReply:
        """Return a copy of a reply with only the shown text, because other fields may quote the original."""
        message = AiMessage("".join(self.visible), reply.message.tool_calls)
        return ChatReply(message, reply.finish_reason, reply.usage, reply.model, reply.id)

    def _show(self, part: str, *, is_checked: bool) -> Flow[ReplyDelta | None]:
        text = (yield from self._check(part)) if is_checked else part
        if text is None:
            self.is_rejected = True
            return None
        self.visible.append(text)
        return ReplyDelta(text) if text else None


def _unchecked(delta: ReplyDelta) -> Flow[ReplyDelta]:
    yield from ()
    return delta
