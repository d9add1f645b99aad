"""Scans a growing JSON text once: chunks of text → the containers that are open, told member by member."""

from __future__ import annotations

import re
from enum import Enum

from .growing_roots import RootSeeker
from .growing_strings import GrowingString, Quote, judge_quote
from .growing_tokens import (
    CLEAN_FIELD,
    CLEAN_ITEM,
    CLEAN_NEXT,
    Unread,
    clean_scalar,
    end_of_blank,
    find_comment,
    read_growing_key,
    read_growing_word,
)
from .json_text import DEPTH, JsonFault
from .partial_frames import Frame
from .reading import Json

__all__ = ["Growing"]

_LONGEST = 4096  # of a key, a word or a gap that a chunk cuts, for it is looked at again with the next one
_COMMENT_END = {"//": re.compile(r"[\r\n]"), "#": re.compile(r"[\r\n]"), "/*": re.compile(r"\*/")}


class _Due(Enum):
    """What is to come next in the innermost open container."""

    MEMBER = "a key or an item"
    VALUE = "the value of a key"
    NEXT = "a comma or a closing bracket"


class Growing:
    """Reads a text chunk by chunk and tells ``frames`` what it holds; the first of them is the reply itself.

    Each character is looked at once, but for a key, a word or a gap that a chunk cuts. What cannot be told
    for sure is left to the reading of the whole text: then ``lost`` is true, and nothing more is told.
    ``ended`` is true when the answer is closed.
    """

    def __init__(self, root: Frame, seeker: RootSeeker) -> None:
        self.frames = [root]
        self.lost = False
        self.ended = False
        self._seeker = seeker
        self._string: GrowingString | None = None
        self._comment = ""  # what opened the comment that is open
        self._due = _Due.MEMBER
        self._text = ""  # from the first character that is not done with
        self._base = 0  # its index in the whole text
        self._waits = False

    def feed(self, chunk: str) -> None:
        """Look at the next part of the text."""
        if self.lost or self.ended:
            return
        self._text = self._text + chunk if self._text else chunk
        self._waits = False
        position = 0
        while not self._waits:
            position = self._step(position)
        self._base += position
        self._text = self._text[position:]
        if len(self._text) > _LONGEST and len(self.frames) > 1:
            self._lose(0)

    def _wait(self, at: int) -> int:
        self._waits = True
        return at

    def _lose(self, at: int) -> int:
        self.lost = True
        return self._wait(at)

    def _step(self, at: int) -> int:
        if self._string is not None:
            return self._in_string(self._string, at)
        if self._comment:
            return self._in_comment(at)
        if len(self.frames) == 1:
            return self._seek(at)
        at = self._clean_run(at)
        if len(self.frames) == 1:
            return at
        at = end_of_blank(self._text, at)
        if at == len(self._text):
            return self._wait(at)
        comment = find_comment(self._text, at)
        if comment is None:
            return self._wait(at)
        if comment:
            self._comment = comment
            return at + len(comment)
        return self._odd_step(self.frames[-1], self._text[at], at)

    def _seek(self, at: int) -> int:
        opening = self._seeker.seek(self._text, at)
        if not opening.found:
            return self._wait(opening.position)
        return self._open(self._text[opening.position], opening.position)

    def _clean_run(self, at: int) -> int:
        """Take members without anything odd as long as they come; the index where the run ends."""
        text = self._text
        while len(self.frames) > 1:
            frame = self.frames[-1]
            if self._due is _Due.MEMBER and not frame.spanned:
                after = self._clean_field(frame, at) if frame.closer == "}" else self._clean_item(frame, at)
                if after < 0:
                    return at
                at = after
            elif self._due is _Due.NEXT:
                found = CLEAN_NEXT.match(text, at)
                if found is None or found[1] not in (None, frame.closer):
                    return at
                at = found.end()
                if found[1] is None:
                    self._due = _Due.MEMBER
                else:
                    self._close(at)
            else:
                return at
        return at

    def _clean_field(self, frame: Frame, at: int) -> int:
        found = CLEAN_FIELD.match(self._text, at)
        if found is None:
            return -1
        key, string, whole, rest, literal, comma, bracket = found.groups()
        frame.key(key)
        if bracket is not None:
            return self._open(bracket, found.start(7))
        self._take_clean(frame, string, whole, rest, literal)
        self._due = _Due.NEXT if comma is None else _Due.MEMBER
        return found.end()

    def _clean_item(self, frame: Frame, at: int) -> int:
        found = CLEAN_ITEM.match(self._text, at)
        if found is None:
            return -1
        string, comma, whole, rest, literal, other_comma, bracket = found.groups()
        if bracket is not None:
            return self._open(bracket, found.start(7))
        self._take_clean(frame, string, whole, rest, literal)
        self._due = _Due.NEXT if comma is None and other_comma is None else _Due.MEMBER
        return found.end()

    def _take_clean(
        self, frame: Frame, string: str | None, whole: str | None, rest: str | None, literal: str | None
    ) -> None:
        if string is not None:
            frame.take(string)
            return
        try:
            found = clean_scalar(whole, rest, literal)
        except JsonFault:
            frame.fail()
        else:
            frame.take(found)

    def _odd_step(self, frame: Frame, mark: str, at: int) -> int:
        """Go on where something stands that no clean run takes, or that the chunk cuts."""
        if mark == frame.closer and self._due is not _Due.VALUE:
            self._close(at + 1)
            return at + 1
        if self._due is _Due.NEXT:
            if mark in "}])":
                return self._lose(at)
            self._due = _Due.MEMBER  # without a comma, where the whole reading may see one
            return at + 1 if mark == "," else at
        if self._due is _Due.MEMBER and frame.closer == "}":
            return at + 1 if mark == "," else self._key(frame, at)
        return self._value(frame, mark, at)

    def _key(self, frame: Frame, at: int) -> int:
        try:
            found = read_growing_key(self._text, at)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        frame.key(found.value)
        self._due = _Due.VALUE
        return found.end

    def _value(self, frame: Frame, mark: str, at: int) -> int:
        if mark in "{[":
            return self._open(mark, at)
        if frame.spanned:
            frame.began(self._base + at)
        if mark in "\"'":
            self._string = GrowingString(mark)
            frame.grow(self._string)
            return at + 1
        try:
            found = read_growing_word(self._text, at, frame.closer)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        return self._took(frame, found.value, found.end)

    def _took(self, frame: Frame, found: Json, end: int) -> int:
        frame.take(found)
        if frame.spanned:
            frame.ended(self._base + end)
        self._due = _Due.NEXT
        return end

    def _in_string(self, string: GrowingString, at: int) -> int:
        frame, text = self.frames[-1], self._text
        at = string.advance(text, at)
        if text[at : at + 1] != string.quote:
            return self._wait(at)
        quote = judge_quote(text, at, frame.closer, string)
        if quote is Quote.UNSEEN:
            return self._wait(at)
        if quote is Quote.DOUBTFUL:
            return self._lose(at)
        if quote is Quote.INSIDE:
            string.take_quote(text[at + 1])
            return at + 1
        self._string = None
        try:
            value = string.value()
        except JsonFault:
            frame.fail()
            self._due = _Due.NEXT
            return at + 1
        return self._took(frame, value, at + 1)

    def _in_comment(self, at: int) -> int:
        end = _COMMENT_END[self._comment].search(self._text, at)
        if end is None:
            star = self._comment == "/*" and self._text.endswith("*", at)
            return self._wait(len(self._text) - star)
        self._comment = ""
        return end.end()

    def _open(self, bracket: str, at: int) -> int:
        if len(self.frames) > DEPTH:
            return self._lose(at)
        frame = self.frames[-1]
        if frame.spanned:
            frame.began(self._base + at)
        self.frames.append(frame.open(bracket))
        self._due = _Due.MEMBER
        return at + 1

    def _close(self, end: int) -> None:
        child = self.frames.pop()
        frame = self.frames[-1]
        frame.adopt(child)
        if frame.spanned:
            frame.ended(self._base + end)
        self._due = _Due.NEXT
        if len(self.frames) == 1:
            self._seeker.restart()
            self.ended = self._waits = not frame.more
