"""Separate the reasoning of a model from its answer, in whole replies and in streams.

Models mark their reasoning in different ways, which servers do not always remove. The table of marks is here,
for parsing, for streams and for plain text.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import NamedTuple

from ..lazy_regex import lazy_regex

_TAGS = """
    think thinking thought thoughts reasoning reason reflection scratchpad analysis longcat_think seed:think
    internal_thought thought_process thinking_process reasoning_process chain_of_thought cot rationale
    monologue inner_monologue internal_monologue self_reflection antthinking plan critique
    seed:cot_budget_reflect
""".split()
_FINAL_CHANNEL = "<|channel|>final<|message|>"
# How reasoning begins and ends, in lower case.
_MARKS = {
    **{f"<{tag}>": f"</{tag}>" for tag in _TAGS},
    "[think]": "[/think]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|start_thinking|>": "<|end_thinking|>",  # Command A
    "<unused94>": "<unused95>",  # MedGemma
    "<|inner_prefix|>": "<|inner_suffix|>",  # Apertus
    "<|channel>thought": "<channel|>",
    **{  # gpt-oss
        f"{start}<|channel|>{channel}": _FINAL_CHANNEL
        for start in ("", "<|start|>assistant")
        for channel in ("analysis", "commentary")
    },
}
# The marks at the beginning of an answer, with or without reasoning before it, and at its end.
_ANSWER_MARKS = (
    "<|begin_of_solution|>",
    "[tool_calls]",  # Mistral
    "<|start_response|>",
    "<|im_start|>assistant",  # the turn of the assistant in chat templates
    "<|start_header_id|>assistant<|end_header_id|>",
    "<start_of_turn>model",
    "<|assistant|>",
    _FINAL_CHANNEL,
    f"<|start|>assistant{_FINAL_CHANNEL}",
)
_TOKENS = "end_of_solution end_response return end im_end eot_id eom_id endoftext end_of_text inner_suffix"
_END_MARKS = (*(f"<|{name}|>" for name in _TOKENS.split()), "<end_of_turn>", "</s>")
_END_MARK = lazy_regex(rf"(?:{'|'.join(map(re.escape, _END_MARKS))})\Z", re.IGNORECASE)
_LONGEST_END_MARK = max(map(len, _END_MARKS))
# gpt-oss without its special tokens: "analysisWe need…assistantfinal…"
_BARE_FINAL = "assistantfinal"
_OPENINGS = sorted((*_MARKS, *_ANSWER_MARKS), key=len, reverse=True)
_OPENING = lazy_regex(rf"(?i:{'|'.join(map(re.escape, _OPENINGS))})|analysis(?=[A-Z])")
_PREFIXES = frozenset(mark[:end] for mark in _OPENINGS for end in range(1, len(mark)))
_PREFIXES |= {"analysis"[:end] for end in range(1, 9)}
# A closing mark without the opening one, which some chat templates put into the prompt.
_STRAY_CLOSINGS = (
    *(f"</{tag}>" for tag in ("think", "thinking", "reasoning", "longcat_think", "seed:think")),
    *(_MARKS[mark] for mark in _MARKS if not mark.startswith("<") or mark.startswith(("<|", "<u"))),
    _BARE_FINAL,
)
_STRAY_CLOSING = lazy_regex(
    "|".join(map(re.escape, sorted({*_STRAY_CLOSINGS}, key=len)[::-1])), re.IGNORECASE
)
_SIGNS = ("<", "◁", "[/", "[T", "[th", "[to", "assistantfinal", "analysis", "[[ ## ")
# The headings of DSPy: [[ ## answer ## ]]
_HEADING = lazy_regex(r"(?:\A|\n)[ \t]*\[\[ ## (\w{1,60}) ## \]\][ \t]*(?=\n|\Z)")
_REASONING_HEADINGS = frozenset({*_TAGS, "completed"})
FENCE_MARK = lazy_regex(r"`{3,}|~{3,}")
_ANY_SPACE = lazy_regex(r"\s*+")
_BLANK = lazy_regex(r"[\s\ufeff\u200b\u2060\0]*+")
_DECODER = json.JSONDecoder()
_LONGEST_END = 40  # characters that may be the beginning of a mark at the end of an answer


class Answer(NamedTuple):
    """The answer of a reply, without the reasoning before it.

    Attributes:
        text: The answer.
        has_reasoning: True if reasoning, or a mark of it, was removed.
        is_cut_off: True if the reply ends inside its reasoning.
    """

    text: str
    has_reasoning: bool
    is_cut_off: bool = False


def may_have_reasoning(text: str) -> bool:
    """Return False if a reply certainly contains no marks of reasoning. It is fast."""
    return any(sign in text for sign in _SIGNS)


def _without_end_marks(text: str) -> str:
    """Return a text without the marks at its end, and the white space around them."""
    kept, end = len(text), _end_of_words(text, len(text))
    # A pattern for all marks at once would be tried at each space of a long text.
    while mark := _END_MARK.search(text, max(0, end - _LONGEST_END_MARK), end):
        kept = end = _end_of_words(text, mark.start())
    return text[:kept]


def _end_of_words(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def find_answer(text: str) -> Answer:
    """Separate the reasoning of a whole reply from its answer."""
    if not may_have_reasoning(text):
        return Answer(text, has_reasoning=False)
    text = _under_only_heading(_without_end_marks(text))
    reasoning = ReasoningFilter()
    answer = reasoning.feed(text) + reasoning.finish()
    if reasoning.is_open:
        return Answer("", has_reasoning=True, is_cut_off=True)
    stray = _STRAY_CLOSING.search(answer)
    if stray is not None and answer.lstrip()[:1] in ("{", "[", '"'):
        try:  # a mark in a JSON string is a part of the answer
            end = _DECODER.raw_decode(answer, len(answer) - len(answer.lstrip()))[1]
        except ValueError:
            end = len(answer)
        stray = stray if end <= stray.start() else None
    if stray is not None and not _belongs_to_answer(answer, stray):
        following = ReasoningFilter()  # a mark of the answer may follow
        rest = following.feed(answer[stray.end() :]) + following.finish()
        return Answer(rest, has_reasoning=True, is_cut_off=following.is_open)
    return Answer(answer, reasoning.has_reasoning)


def _under_only_heading(text: str) -> str:
    """Return the text under the only DSPy heading that is not for reasoning, or the whole text."""
    start, *parts = _HEADING.split(text)
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    answers = [content for name, content in fields.items() if name not in _REASONING_HEADINGS]
    is_only = len(answers) == 1 and len(fields) * 2 == len(parts) and not start.strip()
    return answers[0].strip() if is_only else text


def _belongs_to_answer(text: str, closing: re.Match[str]) -> bool:
    """Return True if a ``</think>`` tag is a part of the answer, not the end of the reasoning.

    It does if its opening tag comes before it in the text, or if it is in a Markdown fence.
    """
    before = text[: closing.start()]
    opening = next((mark for mark, end in _MARKS.items() if end == closing[0].lower()), closing[0])
    return opening in before.lower() or len(FENCE_MARK.findall(before)) % 2 == 1


class ReasoningFilter:
    """Removes the reasoning from the beginning of a reply that arrives in chunks.

    ``<think>Let me see.</think>{"age": 3}`` becomes ``{"age": 3}``, however it is split.

    Attributes:
        has_reasoning: True if a section of reasoning, or a mark, was removed.
    """

    def __init__(self) -> None:
        self.has_reasoning = False
        self._answer_began = False
        self._blank = ""
        self._pending = ""  # text that may be a part of a mark
        self._closing: re.Pattern[str] | None = None  # the mark that ends the reasoning

    @property
    def is_open(self) -> bool:
        """True if the reasoning has begun and has not ended."""
        return self._closing is not None

    def feed(self, chunk: str) -> str:
        """Return the part of a chunk that belongs to the answer, not the reasoning.

        White space before the answer is removed if there was reasoning.
        """
        if self._answer_began:
            return self._answer(chunk) if self.has_reasoning else chunk
        text, position = self._pending + chunk, 0
        self._pending = ""
        while position < len(text):  # by position, because copies of the rest would take quadratic time
            if self._closing is not None:
                end = self._closing.search(text, position)
                if end is None:  # the last characters may be the beginning of the mark
                    self._pending = text[max(position, len(text) - _LONGEST_END) :]
                    return ""
                position, self._closing = end.end(), None
                continue
            start = self._after_blanks(text, position)
            opening = _OPENING.match(text, start)
            if opening is None:
                rest = text[start : start + _LONGEST_END]
                if rest.lower() in _PREFIXES or not rest:
                    self._blank += text[position:start]
                    self._pending = text[start:]
                    return ""
                return self._begin_answer(
                    text[start:] if self.has_reasoning else self._blank + text[position:]
                )
            self._closing = _closing_of(opening[0])
            self.has_reasoning = True
            position = opening.end()
        return ""

    def finish(self) -> str:
        """Return the rest of the answer at the end of the reply."""
        text, self._pending = self._pending, ""
        if self._closing is not None:
            return ""
        if self.has_reasoning:
            return _without_end_marks(text)
        return text if self._answer_began else self._blank + text

    def _after_blanks(self, text: str, position: int) -> int:
        match = (_ANY_SPACE if self.has_reasoning else _BLANK).match(text, position)
        return match.end() if match else position

    def _begin_answer(self, text: str) -> str:
        self._answer_began = True
        return self._answer(text) if self.has_reasoning else text

    def _answer(self, chunk: str) -> str:
        """Hold back the end of an answer that may be a mark such as ``<|return|>``."""
        text = self._pending + chunk
        start = text.find("<", max(0, len(text) - _LONGEST_END))
        tail = text[start:].lower()
        is_mark = start >= 0 and any(mark.startswith(tail) or tail.startswith(mark) for mark in _END_MARKS)
        end = len(text[:start].rstrip()) if is_mark else len(text)
        self._pending = text[end:]
        return text[:end]


@cache
def _closing_of(opening: str) -> re.Pattern[str] | None:
    """Return the mark that ends the reasoning after an opening mark; None for a mark of the answer."""
    mark = _BARE_FINAL if opening == "analysis" else _MARKS.get(opening.lower(), "")
    return re.compile(re.escape(mark), re.IGNORECASE) if mark else None
