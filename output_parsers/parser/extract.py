"""Finds in a reply what may be the answer: its JSON, free of reasoning, fences, tags and prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..json.reader import read_exact, read_tolerant
from ..json.result import JsonSyntaxError, ParsedJson
from ..result.errors import Problem
from ..result.lazy_regex import lazy_regex
from ..result.reading import Cursor, Json, ValidationFailure

_REASONING = lazy_regex(
    r"\s*<(think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)>", re.IGNORECASE
)
_END_OF_REASONING = lazy_regex(r"</(?:think|thinking|reasoning)>", re.IGNORECASE)
# A parenthesis opens JSON (a Python tuple) only where an answer begins: in prose it is prose.
_OPENING = lazy_regex(r"[{\[]|(?:\A|(?<!`)`{3,}+\w{0,20}\n|(?<!~)~{3,}+\w{0,20}\n)\s*\(")
_JSON_START = lazy_regex(
    r"""\{\s*(?:["'`“”‘’}{]|\\["']|[\w$-]+\s*:|//|/\*|\#|\Z)"""
    r"""|\[\s*(?:["'`“”‘’\[\]{(+-]|\\["']|\d|//|/\*|\#|[A-Za-z]|\Z)|\(\s*["'`“”‘’\[{(\d+-]"""
)
_BRACKETS = lazy_regex(r"""[\[\]{}]|\\.|"(?:[^"\\\n]++|\\.)*+\"""")
_TAG = lazy_regex(r"<([A-Za-z][\w-]{0,40})>")
_FENCE = lazy_regex(r"(`{3,}|~{3,})[^\n`~]{0,40}\n")
_FENCE_MARK = lazy_regex(r"`{3,}|~{3,}")
_FIELD_AFTER = lazy_regex(r'[\s,]*+(?:"[^"\n]{0,80}"|[\w$-]{1,80}")\s*+:')
_CLOSER_AFTER = lazy_regex(r"[\s,]*+\]")
_MOST_CANDIDATES = 1000  # one by one; more are JSON Lines or no answer
_MOST_FAULTS = 300  # values that cannot be read: each costs a look at what follows, and more are no answer
# Right beside JSON these say that it is not the answer.
_DENIED_BEFORE = lazy_regex(
    r"\b(?:not|never|wrong|incorrect|invalid|instead of|rather than)\b[ \t:`]{0,4}\Z", re.IGNORECASE
)
_DENIED_AFTER = lazy_regex(
    r"[ \t`.,]{0,4}(?:is|was|would be)(?:\s(?:not|never|wrong|incorrect|invalid)\b|n['’]t\b)", re.IGNORECASE
)
TEXT_AROUND_JSON = "text around the JSON left out"
_INVISIBLE = "\ufeff\u200b\u2060\0"
_BETWEEN = lazy_regex(r"[\s,;]*(?:(?:[-*]|\d{1,4}[.)])\s+)?")


class Candidate(NamedTuple):
    """A JSON value in a reply, the steps that finding it took, and whether it stands in a fence."""

    value: Json
    steps: tuple[str, ...] = ()
    fenced: bool = False


class ReplyText(NamedTuple):
    """A reply without its reasoning; ``steps`` says what was taken off."""

    text: str
    steps: tuple[str, ...] = ()

    @property
    def looks_like_json(self) -> bool:
        """Whether it begins as JSON does, so that reading it as prose would read around its structure."""
        return _JSON_START.match(self.text.lstrip(" \t\r\n`~").removeprefix("json").lstrip()) is not None

    def whole(self) -> Candidate | None:
        """The JSON that the whole reply is; None when it is none.

        Raises Misfit for JSON that holds a key twice, or a character that is none.
        """
        if not self.text or self.text[0] not in '{["-0123456789tfn':
            return None
        try:
            return Candidate(read_exact(self.text), self.steps)
        except JsonSyntaxError as fault:
            if "twice" in fault.message or "surrogate" in fault.message:
                raise ValidationFailure(Problem("$", fault.message)) from fault
            return None

    def fault(self) -> str:
        """What is wrong with the JSON that the reply begins with."""
        opening = _OPENING.search(self.text)
        try:
            read_tolerant(self.text, opening.end() - 1 if opening else 0)
        except JsonSyntaxError as fault:
            return f"the JSON is broken: {fault.message}"
        return "the JSON is broken"

    def _steps_around(self, start: int, end: int) -> tuple[str, ...]:
        around = start > 0 or end < len(self.text)  # there is no white space at either end
        return (*self.steps, TEXT_AROUND_JSON) if around else self.steps

    def _means_otherwise(self, start: int, read: ParsedJson) -> bool:
        """Whether brackets are those of a Markdown link, or those that accounts put around what is less."""
        if self.text[start] == "(":
            return not isinstance(read.value, (list, dict))
        return self.text[start] == "[" and self.text.startswith("(", read.end)

    def candidates(self) -> list[Candidate]:
        """The JSON values in the reply, outermost ones only, and the list of all if they are JSON Lines.

        Raises Misfit when one of them is cut off, and when there are more than an answer is given in.
        """
        regions = list(self._regions())
        if len(regions) > 1 and _CLOSER_AFTER.match(self.text, regions[-1][1]):
            raise ValidationFailure(
                Problem("$", "the JSON is broken: an array is closed that was not opened")
            )
        found = [candidate for _, _, candidate in regions]
        if len(regions) > 1 and self._adjoin([(start, end) for start, end, _ in regions]):
            joined = [candidate.value for candidate in found]
            lines = Candidate(joined, (*self.steps, "JSON Lines"))
            if len(found) > _MOST_CANDIDATES:
                return [lines]
            found.append(lines)
        elif len(found) > _MOST_CANDIDATES:
            raise ValidationFailure(Problem("$", f"the reply holds {len(found)} JSON values"))
        return found

    def _regions(self) -> Iterator[tuple[int, int, Candidate]]:
        position = seen = faults = 0
        fenced = False
        text = self.text
        while opening := _OPENING.search(text, position):
            start = opening.end() - 1
            position = start + 1
            if not _JSON_START.match(text, start):
                continue
            try:
                read = read_tolerant(text, start)
            except JsonSyntaxError as fault:
                faults += 1
                end = position if text[start] == "(" else _closing(text, start)
                if end is None or faults > _MOST_FAULTS:
                    state = "cut off" if fault.truncated else "broken"
                    raise ValidationFailure(Problem("$", f"the JSON is {state}: {fault.message}")) from fault
                position = end
                continue
            position = read.end
            if _denied(text, start, read.end) or self._means_otherwise(start, read):
                continue
            steps = [*self._steps_around(start, read.end), *(repair.rule for repair in read.repairs)]
            for _ in _FENCE_MARK.finditer(text, seen, start):
                fenced = not fenced
            seen = read.end
            yield start, read.end, Candidate(read.value, tuple(steps), fenced)

    def _adjoin(self, spans: list[tuple[int, int]]) -> bool:
        ends = [0, *(end for _, end in spans)]
        starts = [*(start for start, _ in spans), len(self.text)]
        gaps = zip(ends[1:-1], starts[1:-1], strict=True)
        return all(_BETWEEN.fullmatch(self.text, end, start) for end, start in gaps)

    def prose(self) -> ReplyText:
        """The reply without a fence or a tag around the whole of it."""
        text, steps = self.text, self.steps
        for _ in range(3):
            inner = _inside(text)
            if inner is None:
                break
            text, steps = inner, (*steps, "fence or tag taken off")
        return ReplyText(text, steps)


def find_single_json(text: str) -> str:
    """What stands from the first bracket of a reply to its last one, if only words and a fence are around it.

    "" when nothing is around it, when it may hold more than one JSON value, and when the words deny it.
    """
    start = text.find("{")
    array = text.find("[", 0, start)
    if array >= 0:
        start = array
    end = text.rfind("}") + 1
    end = text.rfind("]", end) + 1 or end
    if start < 0 or end <= start or text.find("{", end) >= 0 or text.find("[", end) >= 0:
        return ""
    # in a fence of its own nothing stands right beside it, so what follows is looked at for all others
    if text[start - 1 : start] != "\n" or not text.startswith("\n```", end):
        if text[start - 1 : start] == '"' or text[end : end + 1] == '"' or _denied(text, start, end):
            return ""
        if not (_stripped(text[:start]) or _stripped(text[end:])):
            return ""
    return text[start:end]


def strip_reasoning(text: str, at: Cursor) -> ReplyText:
    """A reply without white space around it and without reasoning before it.

    Raises Misfit when nothing but reasoning is there.
    """
    steps: tuple[str, ...] = ()
    rest = _stripped(text)
    if "<" not in rest:
        return ReplyText(rest)
    end = 0
    while opening := _REASONING.match(rest, end):
        closing = lazy_regex(f"</{opening[1]}>", re.IGNORECASE).search(rest, opening.end())
        if closing is None:
            raise at.failure("the reply ends inside its reasoning", text)
        end = closing.end()
        steps = ("reasoning set aside",)
    rest = rest[end:].strip()
    stray = None if rest[:1] in ("{", "[", '"') else _END_OF_REASONING.search(rest)
    if stray is not None and not _is_content(rest, stray):
        rest = rest[stray.end() :].strip()
        steps = ("reasoning set aside",)
    return ReplyText(rest, steps)


def _denied(text: str, start: int, end: int) -> bool:
    """Whether what stands beside some JSON says that it is not the answer, or not all of it."""
    before = _DENIED_BEFORE.search(text, max(0, start - 20), start)
    after = _DENIED_AFTER.match(text, end) or _FIELD_AFTER.match(text, end)
    return before is not None or after is not None


def _is_content(text: str, closing: re.Match[str]) -> bool:
    """Whether a tag that ends reasoning is of the answer: its like opens before it, or it is in a fence."""
    opened = "<" + closing[0][2:].lower() in text[: closing.start()].lower()
    return opened or len(_FENCE_MARK.findall(text, 0, closing.start())) % 2 == 1


def _inside(text: str) -> str | None:
    """What stands between a fence or a tag that begins the text and its like that ends it."""
    fence, tag = _FENCE.match(text), _TAG.match(text)
    opening = fence or tag
    if opening is None:
        return None
    end = fence[1] if fence else f"</{opening[1]}>"
    whole = len(text) >= opening.end() + len(end) and text.endswith(end)
    return _stripped(text[opening.end() : -len(end)]) if whole else None


def _stripped(text: str) -> str:
    return text.strip().strip(_INVISIBLE).strip()


def _closing(text: str, start: int) -> int | None:
    """Where the bracket that opens at start is closed, strings aside; None when it never is."""
    depth = 0
    for token in _BRACKETS.finditer(text, start):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return None
