"""Finds in a growing reply where its answer begins: behind reasoning, prose and fences."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["KeptText", "Opening", "ReplyHead", "RootSeeker"]

_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis")
_REASONING = re.compile(f"<({'|'.join(_NAMES)})>", re.IGNORECASE)
_SPACE = re.compile(r"\s*+")
_BLANK = re.compile(r"[\s\ufeff\u200b\u2060\0]*+")


class ReplyHead:
    """The beginning of a reply: sets sections of reasoning aside and hands on what follows them."""

    def __init__(self) -> None:
        self.reasoned = False  # some reasoning was set aside
        self._open = False  # the answer has begun
        self._blank: list[str] = []
        self._word = ""  # from the first character that is not blank
        self._closing: re.Pattern[str] | None = None
        self._longest = 0

    def feed(self, chunk: str) -> str:
        """What of the answer came with this chunk; white space before it only where no reasoning was."""
        if self._open:
            return chunk
        while chunk:
            if self._closing is not None:
                chunk = self._skip_reasoning(self._closing, chunk)
                continue
            if not self._word:
                found = (_SPACE if self.reasoned else _BLANK).match(chunk)
                end = found.end() if found else 0
                self._blank.append(chunk[:end])
                chunk = chunk[end:]
            self._word += chunk
            opening = _REASONING.match(self._word)
            if opening is None:
                return "" if self._may_become_reasoning() else self._begin()
            self._closing = re.compile(f"</{opening[1]}>", re.IGNORECASE)
            self._longest = len(opening[1]) + 3
            self.reasoned = True
            chunk, self._word = self._word[opening.end() :], ""
        return ""

    def _skip_reasoning(self, closing: re.Pattern[str], chunk: str) -> str:
        text = self._word + chunk
        end = closing.search(text)
        if end is None:
            self._word = text[-(self._longest - 1) :]
            return ""
        self._closing, self._word = None, ""
        self._blank.clear()
        return text[end.end() :]

    def _may_become_reasoning(self) -> bool:
        word = self._word.lower()
        return not word or any(f"<{name}>".startswith(word) for name in _NAMES)

    def _begin(self) -> str:
        self._open = True
        return self._word if self.reasoned else "".join(self._blank) + self._word


_BRACKET = re.compile(r"[{\[]")
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\\n]|\\.)*+"|"')
_JSON_START = re.compile(
    r"""\{\s*+(?:["'`“”‘’}{]|[\w$-]++\s*+:|//|/\*|\#)|\[\s*+(?:["'`“”‘’\[\]{(+-]|\d|//|/\*|\#|[A-Za-z])"""
)
_CUT_START = re.compile(r"\{\s*+(?:[\w$-]++\s*+|/)?\Z|\[\s*+/?\Z")
_ONLY_A_FENCE = re.compile(r"[\s\ufeff]*+(?:(?i:json)\s*+)?(?:[`~]{3,}\s*+(?:\w{1,20}\s*+)?)?\Z")
_LOOK_BACK = 80
_LOOK_AHEAD = 4096


class Opening:
    """Where the search for a root stands: at ``position``, and whether a root begins there."""

    __slots__ = ("found", "position")

    def __init__(self, position: int, *, found: bool) -> None:
        self.position = position
        self.found = found


class RootSeeker:
    """Looks for the bracket that opens the answer, passing over what is no JSON or not of the right kind."""

    def __init__(self, suits: Callable[[str], bool]) -> None:
        self._suits = suits
        self._depth = 0  # of brackets in JSON that does not suit
        self.before = ""  # what was passed over, as far as it is short

    def seek(self, text: str, at: int) -> Opening:
        """The opening of the root, or how far the text is of no more use."""
        while True:
            if self._depth:
                at = self._skip(text, at)
                if self._depth:
                    return Opening(at, found=False)
            bracket = _BRACKET.search(text, at)
            end = bracket.start() if bracket else len(text)
            self._pass(text[at:end])
            at = end
            if bracket is None:
                return Opening(at, found=False)
            if self._suits(text[at]) and _ONLY_A_FENCE.match(self.before):
                return Opening(at, found=True)
            if _CUT_START.match(text, at) and len(text) - at < _LOOK_AHEAD:
                return Opening(at, found=False)
            if not _JSON_START.match(text, at):
                self._pass(text[at])
                at += 1
            elif self._suits(text[at]):
                return Opening(at, found=True)
            else:
                self._depth = 1
                at += 1

    def restart(self) -> None:
        """Look for another root, after one has ended."""
        self.before = ""

    def _pass(self, text: str) -> None:
        if len(self.before) < _LOOK_BACK:
            self.before += text[:_LOOK_BACK]

    def _skip(self, text: str, at: int) -> int:
        while token := _TOKEN.search(text, at):
            mark = token[0]
            if mark == '"' and len(text) - token.end() < _LOOK_AHEAD and text.find("\n", token.end()) < 0:
                return token.start()
            if mark in ("{", "["):
                self._depth += 1
            elif mark in ("}", "]"):
                self._depth -= 1
            at = token.end()
            if not self._depth:
                self._pass("}")
                return at
        return len(text)


class KeptText:
    """The end of a growing text, from where it is still of use; indexes are those of the whole text."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._base = 0

    def add(self, chunk: str) -> None:
        """Take the next part of the text."""
        self._chunks.append(chunk)

    def cut(self, start: int, end: int) -> str:
        """A part of the text, from what is still kept."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0][start - self._base : end - self._base]

    def drop(self, end: int) -> None:
        """Keep no more than what stands from ``end`` on."""
        if end > self._base:
            self._chunks = ["".join(self._chunks)[end - self._base :]]
            self._base = end
