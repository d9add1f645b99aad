"""Reads what a reply holds between given pairs of tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import OutputParsingError, Problem
from ..parsing import parser_for
from ..reading import Misfit, Place
from .frame import without_reasoning
from .response import DictParser, Keys

__all__ = ["MultiTaggedContentParser", "TaggedContent"]


@dataclass(frozen=True, slots=True)
class TaggedContent:
    """One pair of tags: the key it is read as, what to write between them, and whether that is JSON."""

    name: str
    tag_begin: str
    content_hint: str
    tag_end: str
    parse_json: bool = False

    def __str__(self) -> str:
        return f"{self.tag_begin}{self.content_hint}{self.tag_end}"


@dataclass(frozen=True, init=False)
class MultiTaggedContentParser(DictParser):
    """What stands between given pairs of tags, by name, as AgentScope's.

    >>> speak = TaggedContent("speak", "[SPEAK]", "what you say", "[/SPEAK]")
    >>> done = TaggedContent("done", "[DONE]", "true or false", "[/DONE]", parse_json=True)
    >>> MultiTaggedContentParser(speak, done).parse("[SPEAK]Hi![/SPEAK] [DONE]true[/DONE]")
    {'speak': 'Hi!', 'done': True}

    Content is the text as it stands; with ``parse_json`` it is JSON, read with the usual leniency. Tags
    inside a content are part of it. Refused are missing tags (save those of ``keys_allow_missing``), a tag
    that is never closed, content that should be JSON and is none, and a pair that stands twice with different
    contents. A ``<think>`` section before the answer is passed over, unless one of the tags is its own.

    Raises ValueError when there are no tags, or two with the same name or beginning.
    """

    tagged_contents: tuple[TaggedContent, ...]
    keys_allow_missing: Sequence[str]

    def __init__(
        self,
        *tagged_contents: TaggedContent,
        keys_to_memory: Keys = True,
        keys_to_content: Keys = True,
        keys_to_metadata: Keys = False,
        keys_allow_missing: Sequence[str] = (),
    ) -> None:
        super().__init__(
            keys_to_memory=keys_to_memory, keys_to_content=keys_to_content, keys_to_metadata=keys_to_metadata
        )
        object.__setattr__(self, "tagged_contents", tagged_contents)
        object.__setattr__(self, "keys_allow_missing", tuple(keys_allow_missing))
        _check(tagged_contents, self.keys_allow_missing)

    def format_instructions(self) -> str:
        lines = "\n".join(map(str, self.tagged_contents))
        pairs = [f"{tag.tag_begin} and {tag.tag_end}" for tag in self.tagged_contents if tag.parse_json]
        json_wanted = f"; what stands between {', '.join(pairs)} must be JSON" if pairs else ""
        return f"Reply with these tags{json_wanted}:\n{lines}"

    @cached_property
    def _beginnings(self) -> re.Pattern[str]:
        longest_first = sorted((tag.tag_begin for tag in self.tagged_contents), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    def _read(self, text: str) -> dict[str, Any]:
        wanted = " ".join(tag.tag_begin for tag in self.tagged_contents)
        contents, unclosed = self._contents(without_reasoning(text, wanted))
        parsed: dict[str, Any] = {}
        problems: list[Problem] = []
        for tag in self.tagged_contents:
            found = contents.get(tag.name, [])
            try:
                if found or tag.name in unclosed or tag.name not in self.keys_allow_missing:
                    parsed[tag.name] = _value(tag, found, tag.name in unclosed)
            except Misfit as fault:
                problems += fault.problems
        if problems:
            raise Misfit(*problems)
        return parsed

    def _contents(self, text: str) -> tuple[dict[str, list[str]], set[str]]:
        """The contents by name, from left to right, and the names of tags that begin and never end."""
        by_beginning = {tag.tag_begin: tag for tag in self.tagged_contents}
        contents: dict[str, list[str]] = {}
        unclosed: set[str] = set()
        position = 0
        while beginning := self._beginnings.search(text, position):
            tag, position = by_beginning[beginning[0]], beginning.end()
            end = -1 if tag.name in unclosed else text.find(tag.tag_end, position)
            if end < 0:
                unclosed.add(tag.name)
            else:
                contents.setdefault(tag.name, []).append(text[position:end])
                position = end + len(tag.tag_end)
        return contents, unclosed


def _check(tags: Sequence[TaggedContent], allowed: Sequence[str]) -> None:
    if not tags:
        raise ValueError("MultiTaggedContentParser needs at least one TaggedContent")
    names = [tag.name for tag in tags]
    for kind, values in (("name", names), ("tag_begin", [tag.tag_begin for tag in tags])):
        twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
        if twice:
            raise ValueError(f"two TaggedContents have the same {kind}: {', '.join(twice)}")
    empty = [tag.name for tag in tags if not tag.tag_begin or not tag.tag_end]
    if empty:
        raise ValueError(f"these TaggedContents have an empty tag: {', '.join(empty)}")
    unknown = [key for key in allowed if key not in names]
    if unknown:
        raise ValueError(f"keys_allow_missing names {', '.join(unknown)}; the names are: {', '.join(names)}")


def _value(tag: TaggedContent, contents: list[str], unclosed: bool) -> Any:
    at = Place().at(tag.name)
    if unclosed:
        raise Misfit(Problem(at.path, f"the tag {tag.tag_end} is missing after {tag.tag_begin}"))
    if not contents:
        raise Misfit(Problem(at.path, f"the tags {tag.tag_begin} and {tag.tag_end} are missing"))
    if any(other.strip() != contents[0].strip() for other in contents):
        raise Misfit(Problem(at.path, f"{tag.tag_begin} stands twice with different contents"))
    if not tag.parse_json:
        return contents[0]
    try:
        return parser_for(Any).parse(contents[0])
    except OutputParsingError as error:
        where = f"what stands between {tag.tag_begin} and {tag.tag_end} must be JSON"
        raise Misfit(
            *(Problem(at.path + p.path[1:], f"{where}: {p.message}", p.found) for p in error.problems)
        ) from error
