"""Split documents into parts that each fit in one request."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..models.arguments import check_settings, checks_arguments, is_at_least
from ..models.messages import CHARACTERS_PER_TOKEN
from .document import Document
from .pages import Box


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for four ASCII characters, and one for each other character."""
    ascii_only = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return len(text) - ascii_only + -(-ascii_only // CHARACTERS_PER_TOKEN)


@checks_arguments
@dataclass(frozen=True, slots=True)
class Split:
    """Settings for reading a document that is too long for one request, in parts whose answers are merged.

    Parts end before a heading or a page, between paragraphs, between sentences or between words, in this
    order of preference.

    Args:
        tokens: The largest size of a part.
        overlap: The number of tokens that two consecutive parts share, so that facts at the border are
            complete in one of them.
        carry: The fields whose values so far are shown in the prompts of later parts. The parts are then read
            one after the other.
        max_concurrency: The maximum number of parts that are read at the same time; by default as many as the
            model allows, and 8 at most.
        count_tokens: Returns the number of tokens of a text, by default an estimate.
    """

    tokens: int = 6_000
    overlap: int = 300
    carry: str | Sequence[str] = ()
    max_concurrency: int | None = None
    count_tokens: Callable[[str], int] = count_tokens

    def __post_init__(self) -> None:
        is_one = isinstance(self.carry, str) or not isinstance(self.carry, Iterable)
        carry = (self.carry,) if is_one else tuple(self.carry)
        object.__setattr__(self, "carry", carry)
        concurrency = self.max_concurrency
        has_tokens = is_at_least(self.tokens, 1)
        most = self.tokens if has_tokens else math.inf
        advice = "it must be a whole number of at least 0, and at most half of tokens"
        names = all(isinstance(name, str) for name in carry)
        check_settings(
            "Split",
            ("tokens", self.tokens, has_tokens, "it must be a whole number of at least 1"),
            (
                "overlap",
                self.overlap,
                is_at_least(self.overlap, 0) and self.overlap * 2 <= most,
                advice,
            ),
            (
                "max_concurrency",
                concurrency,
                concurrency is None or is_at_least(concurrency, 1),
                "it must be a whole number of at least 1",
            ),
            ("carry", self.carry, names, "pass names of fields"),
            ("count_tokens", self.count_tokens, callable(self.count_tokens), "pass a function of a text"),
        )

    def parts(self, document: Document) -> list[DocumentPart]:
        """Return the parts of a document in their order; a short document is one part."""
        text, start = document.text, 0
        borders = _borders(document)
        ranges: list[tuple[int, int]] = []
        while True:
            end = self._fitting(text, start, self.tokens, forwards=True)
            if end >= len(text):
                ranges.append((start, len(text)))
                break
            end = _best_border(text, borders, start, end)
            ranges.append((start, end))
            earliest = max(self._fitting(text, end, self.overlap, forwards=False), start + 1)
            start = _overlap_start(text, earliest, end) if self.overlap else end
        return [
            DocumentPart(document, start, end, number, len(ranges))
            for number, (start, end) in enumerate(ranges, 1)
        ]

    def _fitting(self, text: str, position: int, tokens: int, *, forwards: bool) -> int:
        """Return the index up to which a text fits in a number of tokens, forwards or backwards."""
        if tokens == 0:
            return position
        longest = len(text) - position if forwards else position
        fits, too_long = 0, min(tokens * CHARACTERS_PER_TOKEN, longest) + 1
        while too_long <= longest and self._counts(text, position, too_long, forwards) <= tokens:
            fits, too_long = too_long, min(2 * too_long, longest + 1)
        while fits < too_long - 1:
            size = too_long - 1 if fits == 0 else (fits + too_long) // 2  # mostly the longest fits
            if self._counts(text, position, size, forwards) <= tokens:
                fits = size
            else:
                too_long = size
                fits = max(fits, 1)
        return position + max(fits, 1) if forwards else position - fits

    def _counts(self, text: str, position: int, size: int, forwards: bool) -> int:
        return self.count_tokens(
            text[position : position + size] if forwards else text[position - size : position]
        )


class DocumentPart(Document):
    """A part of a document. Its indices are those in its own text.

    Attributes:
        whole: The document.
        number: Its number, counted from 1.
        count: The number of parts.
    """

    __slots__ = ("_offset", "count", "number", "whole")

    whole: Document
    _offset: int
    number: int
    count: int

    def __init__(self, whole: Document, start: int, end: int, number: int, count: int) -> None:
        super().__init__(whole.text[start:end], whole.name)
        for name, value in (("whole", whole), ("_offset", start), ("number", number), ("count", count)):
            object.__setattr__(self, name, value)

    @property
    def offset(self) -> int:
        """The index of its first character in the text of the document."""
        return self._offset

    def page_at(self, index: int) -> int | None:
        """Return the number of the page of the document with a character."""
        return self.whole.page_at(self.offset + index)

    def boxes(self, start: int, end: int) -> tuple[Box, ...]:
        """Return where a text is on the pages of the document."""
        return self.whole.boxes(self.offset + start, self.offset + end)

    def overlaps(self, other: DocumentPart) -> bool:
        """Return True if two parts share some text of the document."""
        first, second = sorted((self, other), key=lambda part: part.offset)
        return self.whole is other.whole and second.offset < first.offset + len(first.text)

    @property
    def heading(self) -> str:
        """The heading with which the part begins, or the last one before it; "" without headings."""
        first_line = self.offset + len(self.text) - len(self.text.lstrip())
        end = self.whole.text.find("\n", first_line)
        before = self.whole.text[max(self.offset - _FURTHEST_HEADING, 0) : end if end >= 0 else None]
        headings = list(_HEADING.finditer(before))
        return headings[-1][0].strip().strip("#*").strip() if headings else ""

    @property
    def context(self) -> str:
        """A sentence for the prompt: which part of which document this is."""
        name = f" of {self.name}" if self.name else ""
        first = self.page_at(0)
        last = self.page_at(max(len(self.text.rstrip()) - 1, 0))
        pages = "" if first is None else f", page {first}" if first == last else f", pages {first} to {last}"
        section = f", in the section {self.heading!r}" if self.heading else ""
        return f"Part {self.number} of {self.count}{name}{pages}{section}."

    def __reduce__(self) -> tuple[Any, ...]:
        return DocumentPart, (
            self.whole,
            self.offset,
            self.offset + len(self.text),
            self.number,
            self.count,
        )


_FURTHEST_HEADING = 100_000  # characters before a part
# A heading of Markdown, a numbered one such as "3.2 Payment", or one such as "ARTICLE V".
_HEADING = re.compile(
    r"^(?:#{1,6} \S.{0,200}"
    r"|(?:\d{1,3}\.){0,4}\d{0,3}\.?[ \t]+[^\W\d_a-z][^.!?;\n]{1,80}"
    r"|(?:ARTICLE|Article|SECTION|Section|CHAPTER|Chapter|§) ?[\dIVXLC]+\b[^\n]{0,80})$",
    re.MULTILINE,
)
_HEADING_START = re.compile(
    r"\n(?=#{1,6} \S)|\n(?=(?:ARTICLE|Article|SECTION|Section|CHAPTER|Chapter) [\dIVXLC]+\b)"
)
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|[。！？]\s*|\n")
_SPACE = re.compile(r"\s+")


def _borders(document: Document) -> tuple[list[int], ...]:
    """Return where parts may begin: at headings, pages and paragraphs."""
    text = document.text
    return (
        [match.end() for match in _HEADING_START.finditer(text)],
        [page.start for page in document.pages],
        [match.end() for match in _PARAGRAPH_END.finditer(text)],
    )


def _best_border(text: str, borders: tuple[list[int], ...], start: int, end: int) -> int:
    """Return where to end a part that may reach up to ``end``: at the best border in its second half."""
    middle = start + max((end - start) // 2, 1)
    for kind in borders:
        position = kind[bisect_right(kind, end) - 1] if kind else 0
        if position >= middle and bisect_right(kind, end):
            return position
    for pattern in (_SENTENCE_END, _SPACE):
        last = None
        for match in pattern.finditer(text, middle, end):
            last = match.end()
        if last is not None:
            return last
    return end


def _overlap_start(text: str, earliest: int, end: int) -> int:
    """Return where the next part begins: at the first sentence or word from an index on."""
    for pattern in (_SENTENCE_END, _SPACE):
        match = pattern.search(text, max(earliest - 1, 0), end)
        if match is not None and match.end() < end:
            return match.end()
    return earliest
