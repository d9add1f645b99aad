"""Reads whatever tags a reply holds, without knowing their names beforehand."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import OutputParsingError
from ..json_reader import JsonFault, read_exact
from ..parsing import parser_for
from .frame import misfit, without_reasoning
from .response import DictParser

__all__ = ["TAGGED_CONTENT", "RegexTaggedContentParser"]

# AgentScope's pattern. As a regular expression it takes quadratic time on tags that are never closed, so
# that it is not run: a scanner finds the same.
TAGGED_CONTENT = r"<(?P<name>[^>]+)>(?P<content>.*?)</\1?>"

_OPENING = re.compile(r"<([^<>/][^<>]*+)>")
_CLOSING = re.compile(r"</([^<>]*+)>")
_NAME = re.compile(r"(?!br$|hr$)[A-Za-z][\w-]*+")


@dataclass(frozen=True)
class RegexTaggedContentParser(DictParser):
    """What stands between tags, by the name of the tag, as AgentScope's.

    >>> RegexTaggedContentParser().parse("<thought>Easy.</thought><number>42</number>")
    {'thought': 'Easy.', 'number': 42}

    ``tagged_content_pattern`` has the groups ``name`` and ``content``; the default finds ``<x>…</x>`` and
    ``<x>…</>`` in linear time, another takes what it takes. ``try_parse_json``: content that is exact JSON is
    its value, any other is the text as it stands. Refused are a reply without tags, a missing tag of
    ``required_keys``, a tag that is never closed, one inside its like, and one that stands twice with
    different contents. A ``<think>`` section before the answer is passed over, unless it is a required key.

    Raises ValueError when the pattern is broken or lacks a group.
    """

    tagged_content_pattern: str = TAGGED_CONTENT
    format_instruction: str = ""
    try_parse_json: bool = True
    required_keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "required_keys", tuple(self.required_keys))
        for group in ("name", "content"):
            if group not in self._compiled.groupindex:
                raise ValueError(f"the pattern {self.tagged_content_pattern!r} has no group named {group!r}")

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        try:
            return re.compile(self.tagged_content_pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"the pattern {self.tagged_content_pattern!r} is broken: {error}") from error

    def format_instructions(self) -> str:
        """What the user gave; without that, the required tags, if the pattern is the default."""
        if self.format_instruction or not self.required_keys or not self._default:
            return self.format_instruction
        lines = "\n".join(f"<{key}>your {key}</{key}>" for key in self.required_keys)
        return f"Reply with these tags:\n{lines}"

    @property
    def _default(self) -> bool:
        return self.tagged_content_pattern == TAGGED_CONTENT

    def _read(self, text: str) -> dict[str, Any]:
        wanted = " ".join(f"<{key}>" for key in self.required_keys)
        rest = without_reasoning(text, wanted if self._default else wanted + self.tagged_content_pattern)
        contents = _once(_tagged(rest) if self._default else self._matched(rest))
        missing = [f"<{key}>" for key in self.required_keys if key not in contents]
        if missing:
            present = ", ".join(f"<{name}>" for name in list(contents)[:20]) or "none"
            raise misfit(f"these tags are missing: {', '.join(missing)}; there are: {present}")
        if not contents:
            raise misfit("expected tagged content, such as <name>content</name>; there is none")
        return {key: _value(said) for key, said in contents.items()} if self.try_parse_json else contents

    def _matched(self, text: str) -> Iterator[tuple[str, str]]:
        for found in self._compiled.finditer(text):
            if found["name"] is not None and found["content"] is not None:
                yield found["name"], found["content"]


def _tagged(text: str) -> Iterator[tuple[str, str]]:
    """The names and contents of tags from left to right; tags in a content are part of it."""
    closings: dict[str, list[int]] = {"": []}
    for closing in _CLOSING.finditer(text):
        closings.setdefault(closing[1], []).append(closing.start())
    position = 0
    while opening := _OPENING.search(text, position):
        name, position = opening[1], opening.end()
        ends = [
            (starts[index], len(closed))
            for closed, starts in ((name, closings.get(name, [])), ("", closings[""]))
            if (index := bisect_left(starts, position)) < len(starts)
        ]
        if ends:
            end, length = min(ends)
            content = text[position:end]
            if opening[0] in content:
                raise misfit(f"{opening[0]} stands inside {opening[0]}")
            yield name, content
            position = end + length + len("</>")
        elif _NAME.fullmatch(name):
            raise misfit(f"the tag </{name}> is missing after {opening[0]}")


def _once(tagged: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The contents by name. Raises Misfit when a name has two that differ."""
    contents: dict[str, str] = {}
    for name, content in tagged:
        if contents.setdefault(name, content).strip() != content.strip():
            raise misfit(f"<{name}> stands twice with different contents")
    return contents


def _value(content: str) -> Any:
    """The value of exact JSON; any other text is itself."""
    try:
        read_exact(content)
        return parser_for(Any).parse(content)
    except (JsonFault, OutputParsingError):
        return content
