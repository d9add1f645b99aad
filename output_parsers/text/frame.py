"""What the parsers of plain text share: their faults become OutputParsingError, reasoning is set aside."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..errors import OutputParsingError, Problem
from ..reading import Misfit

__all__ = ["TextParser", "misfit", "without_reasoning"]

T_co = TypeVar("T_co", covariant=True)

_REASONING = re.compile(r"\s*+<(think|thinking)>", re.IGNORECASE)
_ENDS = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in ("think", "thinking")}
_STRAY_END = re.compile(r"</(think|thinking)>", re.IGNORECASE)


class TextParser(ABC, Generic[T_co]):
    """An OutputParser of a reply that is no JSON, so that it has no schema."""

    @property
    def schema(self) -> None:
        """None: plain text is wanted."""
        return

    @abstractmethod
    def format_instructions(self) -> str:
        """What a prompt must say so that a model writes this form; "" when anything goes."""

    def parse(self, text: str) -> T_co:
        """The value. Raises OutputParsingError, and nothing else, when the text is unfit."""
        try:
            return self._read(text)
        except Misfit as error:
            raise OutputParsingError(text, error.problems) from error

    @abstractmethod
    def _read(self, text: str) -> T_co:
        """The value of a text. Raises Misfit or OutputParsingError."""


def misfit(message: str, *, path: str = "$", found: str = "") -> Misfit:
    """The fault of a text: where, what is wrong, what was found."""
    return Misfit(Problem(path, message, found))


def without_reasoning(text: str, wanted: str = "") -> str:
    """A reply without the ``<think>`` section before it, as reasoning models write one.

    ``wanted`` is what the caller looks for: where it mentions the tag, the section is content and stays.
    Raises Misfit when the reply ends inside the section: what it holds is no answer.
    """
    if "<think" in wanted.lower():
        return text
    start = 0
    while opening := _REASONING.match(text, start):
        closing = _ENDS[opening[1].lower()].search(text, opening.end())
        if closing is None:
            raise misfit("the reply ends inside its reasoning")
        start = closing.end()
    stray = _STRAY_END.search(text, start)  # the template of the chat may hold the opening tag
    if stray is not None and f"<{stray[1]}>".lower() not in text[start : stray.start()].lower():
        start = stray.end()
    return text[start:]
