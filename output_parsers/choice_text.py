"""Finds which of several choices a text names, and refuses when it names none, or several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from .late_pattern import late

__all__ = ["Choice", "Choices", "NoChoice"]

T = TypeVar("T")

# Words that may turn what a sentence says about a choice into its opposite.
_TURNING = late(
    r"(?<!\w)(?:not|no|never|none|neither|nor|without|cannot|unlikely|hardly|barely|if|unless|except|"
    r"instead|rather|unlike|opposite|versus|vs|but|wrong|incorrect|false|exclude[sd]?|excluding|rule[sd]?|"
    r"could|might|may|maybe|perhaps|possibly|either|doubt|unsure|uncertain)(?!\w)|n['’]t(?!\w)|\?"
)
_EDGES = " \t\r\n\"'`*_“”‘’«».,;:!?()[]{}<>|#~@$%^&=+"
_SEPARATORS = late(r"[\s_\-‐‑–]+")
_LEADING_END = late(r"[\"'`*”’)\]]*\s*(?:[.,;:!\n]|[-–—]\s|\\n|$)")


class NoChoice(ValueError):  # says what it is
    """A text names no choice, or more than one."""


class Choice(NamedTuple, Generic[T]):
    """One thing that may be chosen: the label that prompts show, its value, and other texts that mean it."""

    label: str
    value: T
    others: tuple[str, ...] = ()
    description: str | None = None


class Choices(Generic[T]):
    """The choices of one type, prepared for finding."""

    def __init__(self, choices: Sequence[Choice[T]]) -> None:
        self.choices = tuple(choices)
        self._exact = {choice.label: choice for choice in reversed(self.choices)}
        self._plain: dict[str, Choice[T] | None] = {}
        for choice in self.choices:
            self._enter(plain(choice.label), choice)
        labels = dict(self._plain)
        for choice in self.choices:
            for other in choice.others:
                if plain(other) not in labels:  # what one is called wins over what another is also called
                    self._enter(plain(other), choice)

    def _enter(self, key: str, choice: Choice[T]) -> None:
        known = self._plain.get(key, choice)
        self._plain[key] = choice if known is choice else None  # None: the text means two of them

    def find(self, text: str) -> tuple[Choice[T], str | None]:
        """The choice that a text names, and the rule that found it (None for the label itself).

        Raises NoChoice.
        """
        exact = self._exact.get(text)
        if exact is not None:
            return exact, None
        if len(text) < 400:
            key = plain(text.strip(_EDGES))
            if key in self._plain:
                return self._only(key), "case or punctuation"
        return self._mentioned(text), "named in a sentence"

    def _only(self, key: str) -> Choice[T]:
        choice = self._plain[key]
        if choice is None:
            raise NoChoice(f"“{key}” means more than one")
        return choice

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        keys = sorted((key for key in self._plain if len(key) > 1 or key.isdigit()), key=len, reverse=True)
        options = "|".join(re.escape(key) for key in keys) or r"(?!)"
        return late(rf"(?<![\w.])(?<!\d,)(?:{options})(?!\w)(?![.,]\d)")

    def _mentioned(self, text: str) -> Choice[T]:
        said = plain(text)
        named: dict[int, Choice[T]] = {}
        rest: list[str] = []
        end = 0
        first_end = None
        for mention in self._mention.finditer(said):
            choice = self._only(mention[0])
            named[id(choice)] = choice
            if len(named) > 1:
                raise NoChoice(f"it names {' and '.join(c.label for c in named.values())}")
            rest.append(said[end : mention.start()])
            end = mention.end()
            first_end = end if first_end is None else first_end
        if not named:
            raise NoChoice("it names none of them")
        leads = not rest[0].strip(_EDGES) and _LEADING_END.match(said, first_end or 0)
        if not leads and _TURNING.search(" ".join((*rest, said[end:]))):
            raise NoChoice("it says more than one thing about them")
        return next(iter(named.values()))


def plain(text: str) -> str:
    """A text without case, width and the difference between space, hyphen and underscore."""
    return _SEPARATORS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
