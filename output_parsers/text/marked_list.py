"""Reads lists in which a number or a bullet marks each item."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..extract import open_reply
from ..reading import Place
from .frame import TextParser, misfit

__all__ = ["MarkdownListOutputParser", "NumberedListOutputParser"]

_NUMBER = re.compile(r"[ \t]*+(\d{1,9})[.)](?:[ \t]++(.*))?$")
_BULLET = re.compile(r"[ \t]*+([-*+•])(?:[ \t]++(.*))?$")
_RULE = re.compile(r"[ \t]*+([-*])(?:[ \t]*+\1){2,}+[ \t]*+$")
_FIRST = re.compile(r"(?<!\S)1[.)][ \t]++(\S.*)$")
_NOTHING = re.compile(
    r"\W*+(?:none|nothing|n/a|empty(?: list)?|the list is empty|"
    r"(?:there are )?no (?:items?|results?|entries|elements|matches)(?: (?:in|on) the list| found)?)\W*+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberedListOutputParser(TextParser[list[str]]):
    """The items of a list such as ``1. foo``, ``2. bar``, a line each, as LangChain's.

    >>> NumberedListOutputParser().parse("Items:\\n1. foo\\n2) bar")
    ['foo', 'bar']

    A number counts at the beginning of a line; a first item may stand after the words that announce it.
    Indented lines go on with the item above them. Other lines are prose around the list. A text that says
    that there are no items is the empty list; any other text without items is refused.
    """

    def format_instructions(self) -> str:
        return "Reply with a numbered list, each item on a line of its own, such as:\n1. foo\n2. bar\n3. baz"

    def _read(self, text: str) -> list[str]:
        return _items(text, _NUMBER, "a numbered list")


@dataclass(frozen=True)
class MarkdownListOutputParser(TextParser[list[str]]):
    """The items of a list such as ``- foo``, ``* bar``, a line each, as LangChain's; nested ones too.

    >>> MarkdownListOutputParser().parse("Items:\\n- foo\\n  - bar")
    ['foo', 'bar']

    Indented lines go on with the item above them. Other lines are prose around the list. A text that says
    that there are no items is the empty list; any other text without items is refused.
    """

    def format_instructions(self) -> str:
        return "Reply with a markdown list, each item on a line of its own, such as:\n- foo\n- bar\n- baz"

    def _read(self, text: str) -> list[str]:
        return _items(text, _BULLET, "a markdown list")


def _items(text: str, marker: re.Pattern[str], kind: str) -> list[str]:
    rest = open_reply(text, Place()).text
    items = _marked(rest, marker)
    if not items and not _NOTHING.fullmatch(rest):
        raise misfit(f"expected {kind}; the reply holds no item of one")
    for index, item in enumerate(items):
        if not item:
            raise misfit("this item is empty", path=f"$[{index}]")
    return ["\n".join(item) for item in items]


def _marked(text: str, marker: re.Pattern[str]) -> list[list[str]]:
    """The items, each as its lines."""
    items: list[list[str]] = []
    announced: str | None = None
    within = False
    for line in text.replace("\r\n", "\n").split("\n"):
        found = None if _RULE.match(line) else marker.match(line)
        said = line.strip()
        if found:
            if not items and announced and found[1] == "2":
                items.append([announced])
            items.append([found[2].strip()] if found[2] and found[2].strip() else [])
            within = True
        elif within and said and (line[0] in " \t" or not items[-1]):
            items[-1].append(said)
        else:
            within = False
            first = _FIRST.search(line)
            announced = first[1].strip() if first else announced if not said else None
    return items
