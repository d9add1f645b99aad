"""Reads values that are separated by commas."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import OutputParsingError
from ..extract import open_reply
from ..json_reader import JsonFault, read_tolerant
from ..parsing import parser_for
from ..reading import Misfit, Place
from .frame import TextParser, misfit

__all__ = ["CommaSeparatedListOutputParser"]

_SPACE = re.compile(r"[ \t]*+")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"[ \t]*+')
_PLAIN = re.compile(r"[^,\r\n]*+")
_ENDS = (",", "\r", "\n", "")


@dataclass(frozen=True)
class CommaSeparatedListOutputParser(TextParser[list[str]]):
    """The items of a text such as ``foo, "bar, baz", qux``, as LangChain's: CSV, over all lines.

    >>> CommaSeparatedListOutputParser().parse('foo, "bar, baz", qux')
    ['foo', 'bar, baz', 'qux']

    Space around an item is not part of it, nor is a comma at the end of a line an item; ``a,,b`` has an
    empty item in the middle, ``""`` is one anywhere. A fence, a first line that ends in a colon and
    reasoning are passed over, and a JSON array is read as what it is. Refused are an empty
    reply, a quote that is never closed, and commas between quotes that do not enclose a whole item.
    """

    def format_instructions(self) -> str:
        return "Reply with values separated by commas and nothing else, such as: foo, bar, baz"

    def _read(self, text: str) -> list[str]:
        rest = _without_heading(open_reply(text, Place()).prose().text)
        items = _json_items(rest)
        if items is None:
            items = _csv_items(rest)
        if not items:
            raise misfit("expected values separated by commas; the reply holds none")
        return items


def _without_heading(text: str) -> str:
    heading, _, rest = text.partition("\n")
    return rest if heading.rstrip().endswith(":") and rest.strip() else text


def _json_items(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        if read_tolerant(text).end < len(text):
            return None
    except JsonFault:
        return None
    try:
        return parser_for(list[str]).parse(text)
    except OutputParsingError as error:
        raise Misfit(*error.problems) from error


def _csv_items(text: str) -> list[str]:
    items: list[str] = []
    position, said = 0, False
    while position <= len(text):
        item, quoted, position = _item(text, position, len(items))
        separator = text[position : position + 1]
        position += 1
        if item or quoted or separator == ",":
            items.append(item)
            said = said or quoted or bool(item)
    return items if said else []


def _item(text: str, position: int, index: int) -> tuple[str, bool, int]:
    """The item that begins here, whether it is quoted, and the index after it."""
    start = _end(_SPACE, text, position)
    if text.startswith('"', start):
        quoted = _QUOTED.match(text, start)
        if quoted is None:
            raise misfit("the quote that opens this item is never closed", path=f"$[{index}]")
        if text[quoted.end() : quoted.end() + 1] in _ENDS:
            return quoted[1].replace('""', '"'), True, quoted.end()
        if re.search(r"[,\r\n]", quoted[1]):
            raise misfit("there is text after the closing quote of this item", path=f"$[{index}]")
    end = _end(_PLAIN, text, start)
    return text[start:end].rstrip(), False, end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
