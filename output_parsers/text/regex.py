"""Reads named parts of a reply by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .frame import TextParser, misfit, without_reasoning

__all__ = ["RegexOutputParser"]


@dataclass(frozen=True)
class RegexOutputParser(TextParser[dict[str, str | None]]):
    """The groups of a pattern under the names ``output_keys``, in order, as LangChain's RegexParser.

    >>> parser = RegexOutputParser(r"Grade: (\\w)\\nWhy: (.*)", ["grade", "why"])
    >>> parser.parse("Grade: A\\nWhy: It is clear.")
    {'grade': 'A', 'why': 'It is clear.'}

    The first match anywhere in the reply counts; a group that took no part in it is None. Where nothing
    matches, the whole reply is the value of ``default_output_key`` and the other values are "", or without
    such a key the reply is refused. A ``<think>`` section before the answer is passed over, unless the
    pattern mentions it. How long a search takes is up to the pattern: keep it free of nested repetition.

    Raises ValueError when the pattern is broken or has fewer groups than there are keys.
    """

    pattern: str | re.Pattern[str]
    output_keys: Sequence[str]
    default_output_key: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_keys", tuple(self.output_keys))
        if not self.output_keys:
            raise ValueError("RegexOutputParser needs at least one output key")
        if self._compiled.groups < len(self.output_keys):
            raise ValueError(
                f"the pattern {self._compiled.pattern!r} has {self._compiled.groups} groups for the "
                f"{len(self.output_keys)} output keys {', '.join(self.output_keys)}"
            )
        if self.default_output_key is not None and self.default_output_key not in self.output_keys:
            raise ValueError(
                f"the default output key {self.default_output_key!r} is none of the output keys "
                f"{', '.join(self.output_keys)}"
            )

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"the pattern {self.pattern!r} is broken: {error}") from error

    def format_instructions(self) -> str:
        return f"Reply with text that this regular expression matches: {self._compiled.pattern}"

    def _read(self, text: str) -> dict[str, str | None]:
        found = self._compiled.search(without_reasoning(text, self._compiled.pattern))
        if found is not None:
            return {key: found[index] for index, key in enumerate(self.output_keys, start=1)}
        if self.default_output_key is None:
            keys = ", ".join(self.output_keys)
            raise misfit(f"expected text that matches {self._compiled.pattern!r}, which gives {keys}")
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}
