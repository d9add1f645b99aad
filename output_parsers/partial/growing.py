"""Scans a growing JSON text once: chunks of text → the open containers with their closed members."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from ..json_text import JsonFault
from ..reading import Json
from .growing_roots import RootSeeker
from .growing_spine import Container, Member, Moment
from .growing_strings import GrowingString, Quote, judge_quote
from .growing_tokens import (
    CLEAN_RUN,
    CUT_MEMBER,
    NEXT,
    OPENING,
    Unread,
    end_of_blank,
    find_comment,
    read_growing_key,
    read_growing_word,
)

__all__ = ["Growing"]

# A token that a chunk cuts is looked at again with the next one: a clean member only while it is short, for
# then its string is taken in piece by piece; a key, a word or a gap that is longer than this is given up.
_SHORT = 512
_LONGEST = 4096
_DEEPEST = 100  # what shows and compares views goes down into them
_COMMENT_END = {"//": re.compile(r"[\r\n]"), "#": re.compile(r"[\r\n]"), "/*": re.compile(r"\*/")}


class _Due(Enum):
    """What is to come next in the innermost open container."""

    MEMBER = "a key or an item"
    VALUE = "the value of a key"
    NEXT = "a comma or a closing bracket"


class Growing:
    """Takes a text chunk by chunk; ``spine`` holds the containers that are open, the outermost first.

    ``closed`` is called with each outermost container that is closed, and says whether to look for another
    one. What cannot be told for sure is left to the reading of the whole text: then ``lost`` is true, and
    nothing changes any more.
    """

    def __init__(self, seeker: RootSeeker, closed: Callable[[Container], bool]) -> None:
        self.spine: list[Container] = []
        self.lost = False
        self._seeker = seeker
        self._closed = closed
        self._over = False
        self._string: GrowingString | None = None
        self._comment = ""  # what opened the comment that is open
        self._key = ""  # of the member that is being written
        self._due = _Due.MEMBER
        self._text = ""  # from the first character that is not done with
        self._base = 0  # its index in the whole text
        self._waits = False
        self._cut_member: re.Match[str] | None = None

    def feed(self, chunk: str) -> None:
        """Look at the next part of the text."""
        if self._over:
            return
        self._text = self._text + chunk if self._text else chunk
        self._waits = False
        self._cut_member = None
        position = 0
        while not self._waits:
            position = self._step(position)
        if self._over and not self.lost:
            self._text = ""
        elif position:
            self._base += position
            self._text = self._text[position:]
        if len(self._text) > _LONGEST and self.spine:
            self._lose(0)

    def moment(self) -> Moment:
        """How the text stands now; later chunks do not change it."""
        spine = [(container, len(container.parts)) for container in self.spine]
        if self._string is not None:
            return Moment(spine, self._key, self._string.shown.so_far())
        return Moment(spine, cut=self._cut_member)

    def _wait(self, at: int) -> int:
        self._waits = True
        return at

    def _lose(self, at: int) -> int:
        self.lost = self._over = True
        return self._wait(at)

    def _step(self, at: int) -> int:
        if self._string is not None:
            return self._in_string(self._string, at)
        if self._comment:
            return self._in_comment(at)
        if not self.spine:
            return self._seek(at)
        at = self._clean_run(self._text, at)
        if not self.spine or self._cut(at):
            return self._wait(at) if self.spine else at
        at = end_of_blank(self._text, at)
        if at == len(self._text):
            return self._wait(at)
        comment = find_comment(self._text, at)
        if comment is None:
            return self._wait(at)
        if comment:
            self._comment = comment
            return at + len(comment)
        return self._odd_step(self.spine[-1], self._text[at], at)

    def _seek(self, at: int) -> int:
        opening = self._seeker.seek(self._text, at)
        if not opening.found:
            return self._wait(opening.position)
        return self._open(self._text[opening.position], opening.position)

    def _clean_run(self, text: str, at: int) -> int:
        """Take what has nothing odd in it as far as it goes; the index where it ends."""
        spine = self.spine
        while spine and self._due is not _Due.VALUE and not self._waits:
            top = spine[-1]
            if self._due is _Due.NEXT:
                found = NEXT.match(text, at)
                if found is None or found[1] not in (None, top.closer):
                    return at
                at = found.end()
                if found[1] is None:
                    self._due = _Due.MEMBER
                else:
                    self._close(at)
                continue
            run = CLEAN_RUN[top.bracket].match(text, at)
            if run is not None and run.end() > at:
                top.parts.append(run[0])
                at = run.end()
            found = OPENING[top.bracket].match(text, at)
            if found is None or found[3] not in (None, top.closer):
                return at
            at = found.end()
            if found[3] is None:
                self._key = found[1]
                self._open(found[2], at - 1)
            else:
                self._close(found.end(3))
                if found[4] is None:
                    continue
                if not spine:
                    return found.end(3)
                self._due = _Due.MEMBER
        return at

    def _cut(self, at: int) -> bool:
        """Whether the chunk cuts a clean and short member here, so that there is nothing more to do."""
        if at == len(self._text):
            return True
        if self._due is not _Due.MEMBER or len(self._text) - at > _SHORT:
            return False
        self._cut_member = CUT_MEMBER[self.spine[-1].bracket].match(self._text, at)
        return self._cut_member is not None

    def _odd_step(self, top: Container, mark: str, at: int) -> int:
        """Go on where something stands that no clean run takes."""
        if mark == top.closer and self._due is not _Due.VALUE:
            self._close(at + 1)
            return at + 1
        if self._due is _Due.NEXT:
            if mark in "}])":
                return self._lose(at)
            self._due = _Due.MEMBER  # without a comma, where the whole reading may see one
            return at + 1 if mark == "," else at
        if self._due is _Due.MEMBER and top.bracket == "{":
            return at + 1 if mark == "," else self._read_key(at)
        return self._value(top, mark, at)

    def _read_key(self, at: int) -> int:
        try:
            found = read_growing_key(self._text, at)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        self._key = found.value
        self._due = _Due.VALUE
        return found.end

    def _value(self, top: Container, mark: str, at: int) -> int:
        if mark in "{[":
            return self._open(mark, at)
        if mark in "\"'":
            self._string = GrowingString(mark)
            return at + 1
        try:
            found = read_growing_word(self._text, at, top.closer)
        except Unread as unread:
            return self._wait(at) if unread.cut else self._lose(at)
        return self._took(found.value, found.end)

    def _took(self, found: Json, end: int, *, unfit: bool = False) -> int:
        self.spine[-1].parts.append(Member(self._key, found, unfit))
        self._due = _Due.NEXT
        return end

    def _in_string(self, string: GrowingString, at: int) -> int:
        text, closer = self._text, self.spine[-1].closer
        at = string.advance(text, at)
        if text[at : at + 1] != string.quote:
            return self._wait(at)
        quote = judge_quote(text, at, closer, string)
        if quote is Quote.UNSEEN:
            return self._wait(at)
        if quote is Quote.DOUBTFUL:
            return self._lose(at)
        if quote is Quote.INSIDE:
            string.take_quote(text[at + 1])
            return at + 1
        self._string = None
        try:
            return self._took(string.value(), at + 1)
        except JsonFault:
            return self._took(string.shown.so_far().join(), at + 1, unfit=True)

    def _in_comment(self, at: int) -> int:
        end = _COMMENT_END[self._comment].search(self._text, at)
        if end is None:
            star = self._comment == "/*" and self._text.endswith("*", at)
            return self._wait(len(self._text) - star)
        self._comment = ""
        return end.end()

    def _open(self, bracket: str, at: int) -> int:
        if len(self.spine) >= _DEEPEST:
            return self._lose(at)
        self.spine.append(Container(bracket, self._key, self._base + at))
        self._due = _Due.MEMBER
        return at + 1

    def _close(self, end: int) -> None:
        container = self.spine.pop()
        container.end = self._base + end
        self._due = _Due.NEXT
        if self.spine:
            self.spine[-1].parts.append(container)
            return
        self._seeker.restart()
        if not self._closed(container):
            self._over = self._waits = True
